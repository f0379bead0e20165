package recipe

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// around are the files of the tests below.
func around() map[string]string {
	return map[string]string{
		"evals.yaml":   "base_model: m\nmicro_batch_size: 3\nval_set_size: 0.05\nevals_per_epoch: 4\n",
		"data.yaml":    "base_model: m\nval_set_size: 0\ntest_datasets:\n  - path: d\n",
		"never.yaml":   "base_model: m\nval_set_size: 0\neval_steps: 100\nsave_strategy: no\n",
		"gather.json":  `{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}}`,
		"auto.json":    `{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": "auto"}}`,
		"two.json":     `{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}`,
		"sharded.yaml": "distributed_type: FSDP\nfsdp_config: {fsdp_state_dict_type: SHARDED_STATE_DICT}\n",
		"final.yaml":   "base_model: m\nbf16: true\nfsdp: [full_shard]\nfsdp_config: {state_dict_type: SHARDED_STATE_DICT, final_state_dict_type: FULL_STATE_DICT}\n",
		"one.yaml":     "distributed_type: 'NO'\n",
		"factory.yaml": "stage: sft\nfinetuning_type: full\ncutoff_len: 99\nbf16: true\nper_device_train_batch_size: 1\n",
		"full16.yaml":  "base_model: m\nbf16: full\nattn_implementation: flash_attention_2\n",
		"auto16.yaml":  "base_model: m\nbf16: auto\nattn_implementation: flash_attention_2\n",
		"sloth.yaml":   "base_model: m\nattn_implementation: flash_attention_2\ngradient_checkpointing: unsloth\n",
	}
}

// Evaluation is declared by a strategy or a switch, with or without its batch.
func TestEvaluation(t *testing.T) {
	for _, c := range []struct {
		command string
		batch   int64 // 0 for none
	}{
		{"python train.py --do_eval --eval_strategy steps", 8},
		{"python train.py --evaluation_strategy epoch --per_device_eval_batch_size 2", 2},
		{"python train.py --do_eval", 8},
		{"python train.py --per_device_eval_batch_size 4", 4},
		{"python train.py --eval_strategy no --per_device_eval_batch_size 4", 0},
		{"python train.py", 0},
		{"trl dpo --eval_strategy steps --per_device_eval_batch_size 3", 6}, // chosen and rejected
		{"llamafactory-cli train --val_size 0.1 --eval_strategy steps", 8},
		{"llamafactory-cli train --val_size 0.1", 0},
		{"axolotl train evals.yaml", 3},
		{"axolotl train evals.yaml --val_set_size 0", 0},
		{"axolotl train data.yaml", 1},
		{"axolotl train data.yaml --eval_strategy no", 0},
		{"axolotl train never.yaml", 0},
	} {
		r, err := Parse(strings.Fields(c.command+" --num_train_epochs 1"), published(around()))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		batch := int64(0)
		if e := r.Workload.Training.Evaluation; e != nil {
			batch = e.Batch
		}
		if batch != c.batch {
			t.Errorf("%s: a batch of %d, want %d", c.command, batch, c.batch)
		}
	}
}

// A Trainer saves unless its strategy is "no"; what is put together for it as a whole
// follows from who divides the states.
func TestSaves(t *testing.T) {
	parts, every := workload.Save{On: workload.InParts}, workload.Save{Copy: dtype.BF16, On: workload.OnEveryRank, Offload: true}
	first := workload.Save{Copy: dtype.BF16, On: workload.OnRankZero, Offload: true}
	full := workload.Save{Copy: dtype.F32, On: workload.OnRankZero, Offload: true, States: true}
	alone := full
	alone.States = false
	half := alone
	half.Copy = dtype.BF16
	for _, c := range []struct {
		command string
		save    *workload.Save
	}{
		{"python train.py", &workload.Save{}},
		{"python train.py --save_strategy no", nil},
		{"torchrun --nproc_per_node 2 train.py --save_strategy epoch", &workload.Save{}},
		{"deepspeed --num_gpus 2 train.py --deepspeed gather.json", &first},
		{"deepspeed --num_gpus 2 train.py --deepspeed gather.json --save_strategy no", nil},
		{"deepspeed --num_gpus 2 train.py --deepspeed auto.json", &parts},
		{"deepspeed --num_gpus 2 train.py --deepspeed gather.json --use_peft --lora_r 8 --lora_target_modules q_proj", &parts},
		{"deepspeed --num_gpus 2 train.py --deepspeed two.json", &every},
		{"accelerate launch --use_fsdp --num_processes 2 train.py --bf16", &full},
		{"accelerate launch --use_fsdp --num_processes 2 train.py --bf16 --save_only_model", &alone},
		{"accelerate launch --use_fsdp --fsdp_version 2 --num_processes 2 train.py --bf16", &parts},
		{"accelerate launch --config_file sharded.yaml --num_processes 2 train.py --bf16", &parts},
		{"accelerate launch --use_fsdp --num_processes 2 train.py --bf16 --torch_dtype bfloat16 --use_peft --lora_r 8 --lora_target_modules q_proj", &half},
		{"axolotl train final.yaml --num_processes 2", &alone},
		{"axolotl train never.yaml", &workload.Save{}}, // the model at the end
	} {
		r, err := Parse(strings.Fields(c.command), published(around()))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		if got := r.Workload.Training.Save; (got == nil) != (c.save == nil) || got != nil && *got != *c.save {
			t.Errorf("%s: %+v, want %+v", c.command, got, c.save)
		}
	}
	// Of a file of DeepSpeed alone nobody knows the loop: it saves what it gathers for it.
	for file, saves := range map[string]bool{"gather.json": true, "two.json": false} {
		if r, err := Read([]string{file}, published(around())); err != nil || (r.Workload.Training.Save != nil) != saves {
			t.Errorf("%s: %+v, %v", file, r, err)
		}
	}
}

// A process that goes on from a checkpoint reads the states into main memory where it is
// alone, else onto the device; of parts nobody knows it here.
func TestResumes(t *testing.T) {
	for _, c := range []struct {
		command string
		from    workload.ResumeFrom
		open    bool
	}{
		{"python train.py --resume_from_checkpoint out/checkpoint-500", workload.ResumeOnHost, false},
		{"torchrun --nproc_per_node 2 train.py --resume_from_checkpoint true", workload.ResumeOnDevice, false},
		{"deepspeed --num_gpus 2 train.py --deepspeed two.json --resume_from_checkpoint true", workload.ResumeOnHost, true},
		{"python train.py --resume_from_checkpoint False", "", false},
		{"axolotl train full16.yaml --auto_resume_from_checkpoints true", workload.ResumeOnHost, false},
	} {
		r, err := Parse(strings.Fields(c.command), published(around()))
		if err != nil {
			t.Fatal(c.command, err)
		}
		if got, open := r.Workload.Training.Resume, strings.Contains(strings.Join(r.Workload.Open, ";"), "resume_from_checkpoint"); got != c.from || open != c.open {
			t.Errorf("%s: %q, open %v", c.command, got, r.Workload.Open)
		}
	}
}

// A launcher that starts a process for each device says a number only with the devices.
func TestEveryDevice(t *testing.T) {
	for command, assumed := range map[string]bool{
		"accelerate launch --multi_gpu train.py":                      true,
		"accelerate launch train.py":                                  true,
		"accelerate launch --num_processes 1 train.py":                false,
		"accelerate launch --config_file one.yaml train.py":           false,
		"torchrun --nproc_per_node=gpu train.py":                      true,
		"torchrun --nproc_per_node auto train.py":                     true,
		"CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=gpu t.py": false,
		"torchrun train.py":                                           false,
		"python train.py":                                             false,
		"llamafactory-cli train factory.yaml":                         true,
		"NPROC_PER_NODE=2 llamafactory-cli train factory.yaml":        false,
		"CUDA_VISIBLE_DEVICES=0 llamafactory-cli train factory.yaml":  false,
		"axolotl train full16.yaml":                                   true,
		"trl sft --num_processes 2 --torch_dtype bfloat16":            false,
		"deepspeed train.py --deepspeed two.json":                     true,
		"deepspeed --num_gpus 1 train.py --deepspeed two.json":        false,
	} {
		r, err := Parse(strings.Fields(command), published(around()))
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		got := false
		for _, a := range r.Assumed {
			got = got || a.Flag == "data-parallel"
		}
		if got != assumed {
			t.Errorf("%s: assumed %v, want %v", command, got, assumed)
		}
	}
}

// A script that is given LLaMA-Factory's file takes its arguments.
func TestFileOfAnotherSoftware(t *testing.T) {
	for _, command := range []string{"accelerate launch --num_processes 2 src/train.py factory.yaml", "torchrun --nproc_per_node 2 src/train.py factory.yaml --flash_attn sdpa"} {
		r, err := Parse(strings.Fields(command), published(around()))
		if err != nil || r.Software != "llamafactory" || dimension(r, workload.Context) != 99 || len(r.Workload.Open) > 0 {
			t.Errorf("%s: %+v, %v", command, r, err)
		}
	}
}

// axolotl's words for 16 bits and for where checkpoints lie.
func TestAxolotlWords(t *testing.T) {
	for _, c := range []struct {
		file     string
		autocast dtype.Format
		open     string
	}{
		{"full16.yaml", dtype.Unknown, ""},
		{"auto16.yaml", dtype.BF16, ""},
		{"sloth.yaml", dtype.BF16, "sloth.yaml: gradient_checkpointing: checkpoints move to main memory"},
	} {
		r, err := Read([]string{c.file}, published(around()))
		if err != nil {
			t.Fatal(c.file, err)
		}
		if got := strings.Join(r.Workload.Open, ";"); got != c.open || r.Workload.Training.Autocast != c.autocast || formats(r) != "bf16 bf16 none bf16" {
			t.Errorf("%s: %s %v %q", c.file, formats(r), r.Workload.Training.Autocast, got)
		}
	}
}

// Where nobody names an adapter's modules, PEFT has some for types of models.
func TestTargetsOf(t *testing.T) {
	for _, c := range []struct{ command, modelType, targets string }{
		{"trl sft --use_peft", "qwen2", "q_proj v_proj"},
		{"trl sft --use_peft", "gpt2", "c_attn"},
		{"trl sft --use_peft", "phi3", ""},
		{"trl sft --use_peft --lora_target_modules o_proj", "phi3", "o_proj"},
	} {
		r, err := Parse(strings.Fields(c.command), published(nil))
		if err != nil {
			t.Fatal(c.command, err)
		}
		err = r.TargetsOf(&r.Workload, c.modelType)
		tuning := r.Workload.Training.Tuning
		if got := strings.Join(tuning.Targets, " "); got != c.targets || (err != nil) != (c.targets == "") || tuning.Rank != 16 {
			t.Errorf("%s, %s: %q of rank %d, %v", c.command, c.modelType, got, tuning.Rank, err)
		}
	}
}

// Validation by a loop of the software's own is no more than a step where it has no more
// positions, and named otherwise; what writes checkpoints unseen is said.
func TestValidates(t *testing.T) {
	const tune = "model: {_component_: torchtune.models.llama3_2.llama3_2_1b}\ntokenizer: {max_seq_len: 512}\noptimizer: {_component_: torch.optim.AdamW}\nbatch_size: 2\n"
	const titan = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nseq_len = 2048\n"
	const megatron = "python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 2 --vocab-size 512 --bf16"
	files := published(map[string]string{
		"tune.yaml": tune, "same.yaml": tune + "run_val_every_n_steps: 10\n", "more.yaml": tune + "run_val_every_n_steps: 10\nbatch_size_val: 4\n", "off.yaml": tune + "run_val_every_n_steps: null\n",
		"titan.toml": titan, "valid.toml": titan + "[validation]\nenable = true\n[checkpoint]\nenable = true\n",
		"long.toml": titan + "[validation]\nenable = true\nseq_len = 4096\n",
	})
	for _, c := range []struct {
		files, command  string
		said, open, not bool // that it is no more than a step; that it is more; that saving is not estimated
	}{
		{files: "tune.yaml", not: true},
		{files: "same.yaml", said: true, not: true},
		{files: "more.yaml", open: true, not: true},
		{files: "off.yaml", not: true},
		{files: "titan.toml"},
		{files: "valid.toml", said: true, not: true},
		{files: "long.toml", open: true},
		{command: megatron, said: true},
		{command: megatron + " --eval-iters 0"},
		{command: megatron + " --eval-interval 100 --eval-iters 10 --save out", said: true, not: true},
		{command: megatron + " --eval-micro-batch-size 4", open: true},
	} {
		read := func() (*Recipe, error) {
			if c.command != "" {
				return Parse(strings.Fields(c.command), files)
			}
			return Read([]string{c.files}, files)
		}
		r, err := read()
		if err != nil {
			t.Errorf("%s%s: %v", c.files, c.command, err)
			continue
		}
		said := slices.ContainsFunc(r.Declared, func(d workload.Declaration) bool { return d.Field == "evaluation" })
		open := slices.ContainsFunc(r.Workload.Open, func(s string) bool { return strings.Contains(s, "more than a step has") })
		not := slices.ContainsFunc(r.Warnings, func(w account.Warning) bool { return w.Code == "saving_not_estimated" })
		if said != c.said || open != c.open || not != c.not {
			t.Errorf("%s%s: said %t, open %t, not estimated %t: %v", c.files, c.command, said, open, not, r.Workload.Open)
		}
	}
}

// A file alone says no number of processes: what starts it does, one for each device, so
// that nothing is decided over one. A Trainer's file is no exception.
func TestFilesAlone(t *testing.T) {
	files := published(around())
	for _, c := range []struct {
		files string
		open  bool
	}{
		{"factory.yaml", true}, {"evals.yaml", true}, {"trl_sft.yaml", true}, {"trl_sft.yaml one.yaml", false},
		{"factory.yaml one.yaml", false}, {"evals.yaml one.yaml", false},
	} {
		r, err := Read(strings.Fields(c.files), files)
		if err != nil {
			t.Errorf("%s: %v", c.files, err)
			continue
		}
		if open := slices.ContainsFunc(r.Assumed, func(a Assumption) bool { return a.Flag == "data-parallel" }); open != c.open {
			t.Errorf("%s: assumed %v, want one of processes: %t", c.files, r.Assumed, c.open)
		}
	}
}
