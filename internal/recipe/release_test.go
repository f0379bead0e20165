package recipe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// What nobody says is what TRL's configurations had in the release that runs
// (tables/trl.txt). The first row is trl issue 3168, whose training ran in 32 bits and
// kept what each layer makes.
func TestDefaultsOfTRLByRelease(t *testing.T) {
	for _, c := range []struct {
		command, release string
		autocast         dtype.Format
		recomputed       bool
		context          int64 // 0 where none is said
		optimizer        string
	}{
		{"trl dpo", "0.16", dtype.Unknown, false, 1024, "foreach"},
		{"trl dpo", "0.18.2", dtype.Unknown, false, 1024, "foreach"},
		{"trl dpo", "0.19.0", dtype.BF16, false, 1024, "foreach"},
		{"trl dpo", "0.21.0", dtype.BF16, false, 1024, "fused"},
		{"trl dpo", "0.22.0", dtype.BF16, true, 1024, "fused"},
		{"trl dpo", "1.16", dtype.BF16, true, 1024, "fused"},
		{"trl dpo", "", dtype.BF16, true, 1024, "fused"},
		{"trl dpo --bf16 --gradient_checkpointing", "0.16", dtype.BF16, true, 1024, "foreach"},
		{"trl sft", "0.14", dtype.Unknown, false, 0, "foreach"},
		{"trl sft", "0.15", dtype.Unknown, false, 1024, "foreach"},
		{"trl grpo", "0.16", dtype.Unknown, false, 512 + 256, "foreach"},
		{"trl grpo", "0.26", dtype.BF16, true, 0, "fused"},
		{"trl rloo", "0.22", dtype.BF16, true, 512 + 256, "fused"},
		{"trl sft --fp16", "0.19", dtype.F16, false, 1024, "foreach"},
	} {
		reader := Reader{Files: published(nil), Engine: workload.Engine{Name: "trl", Version: c.release}}
		r, err := reader.Parse(strings.Fields(c.command + " --model_name_or_path m"))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		w, context := r.Workload, int64(0)
		if len(w.Inputs) > 0 {
			context = w.Inputs[0].Dimensions[workload.Context]
		}
		if got := w.Training; got.Autocast != c.autocast || (got.Checkpointing.Kind != "") != c.recomputed || context != c.context || string(got.Optimizer.Implementation) != c.optimizer {
			t.Errorf("%s with TRL %s: autocast %v, checkpointing %q, context %d, optimizer %v", c.command, c.release, got.Autocast, got.Checkpointing.Kind, context, got.Optimizer)
		}
	}
}

// A reference model stands beside what is trained wherever the release measures against
// one unasked: GRPO before 0.19, RLOO always.
func TestReferenceByRelease(t *testing.T) {
	for _, c := range []struct {
		method, release string
		reference       bool
	}{{"grpo", "0.18", true}, {"grpo", "0.19", false}, {"grpo", "", false}, {"rloo", "0.22", true}, {"rloo", "", true}} {
		reader := Reader{Files: published(nil), Engine: workload.Engine{Name: "trl", Version: c.release}}
		r, err := reader.Parse([]string{"trl", c.method, "--model_name_or_path", "m"})
		if err != nil {
			t.Fatal(err)
		}
		stands := slices.ContainsFunc(r.Workload.Resident, func(m workload.Resident) bool { return m.Name == "reference" })
		if stands != c.reference {
			t.Errorf("%s with TRL %s: a reference model %v, want %v", c.method, c.release, stands, c.reference)
		}
	}
}

// The Trainer's own default optimizer follows the release of transformers.
func TestDefaultOptimizerByRelease(t *testing.T) {
	for version, want := range map[string]string{"4.53.2": "foreach", "4.54.0": "fused", "": "fused"} {
		reader := Reader{Files: published(nil), Engine: workload.Engine{Name: "transformers", Version: version}}
		r, err := reader.Parse(strings.Fields("python train.py --model_name_or_path m --block_size 64"))
		if err != nil || string(r.Workload.Training.Optimizer.Implementation) != want {
			t.Errorf("transformers %s: %v, want %s (%v)", version, r.Workload.Training.Optimizer, want, err)
		}
	}
}

// PEFT's examples/sft switches adapters on by a flag of its own, and loads the weights in
// the format that stores packed ones.
func TestExampleOfPEFT(t *testing.T) {
	for _, c := range []struct {
		flags string
		want  *workload.Tuning // nil where everything is trained
		base  dtype.Format
	}{
		{"--use_peft_lora True --lora_r 8 --lora_target_modules all-linear --use_4bit_quantization False", &workload.Tuning{Kind: "lora", Rank: 8, Targets: []string{"all-linear"}, Format: dtype.F32}, dtype.F32},
		{"--use_peft_lora True --lora_target_modules q_proj,v_proj --use_4bit_quantization True --use_nested_quant True --bnb_4bit_compute_dtype bfloat16 --bnb_4bit_quant_storage_dtype bfloat16",
			&workload.Tuning{Kind: "lora", Rank: 64, Targets: []string{"q_proj", "v_proj"}, Base: "nf4-double", Format: dtype.BF16}, dtype.BF16},
		{"--use_peft_lora False --lora_r 8", nil, dtype.F32},
	} {
		r, err := Parse(strings.Fields("python train.py --model_name_or_path m --max_length 2048 --bf16 True --lora_dropout 0 --splits train,test "+c.flags), published(nil))
		if err != nil {
			t.Fatal(err)
		}
		w := r.Workload
		if len(w.Open) > 0 || w.Precision.Parameters != c.base {
			t.Errorf("%s: base %v, open %q", c.flags, w.Precision.Parameters, w.Open)
		}
		switch got := w.Training.Tuning; {
		case (got == nil) != (c.want == nil):
			t.Errorf("%s: adapter %v, want %v", c.flags, got, c.want)
		case got != nil && (got.Rank != c.want.Rank || !slices.Equal(got.Targets, c.want.Targets) || got.Base != c.want.Base || got.Format != c.want.Format):
			t.Errorf("%s: adapter %+v, want %+v", c.flags, got, c.want)
		}
	}
}

// What is read of an adapter, or of packed weights, counts or is named: over a script that
// nobody knows the verdict stays open, and TRL's own program is known to train none.
func TestSettingsThatDoNotCountAreNamed(t *testing.T) {
	for _, c := range []struct {
		command      string
		open, warned string // a part of what is named
	}{
		{"python sft.py --lora_r 8", "--lora_r", ""},
		{"python sft.py --lora_target_modules all-linear", "--lora_target_modules", ""},
		{"python sft.py --use_peft False --lora_r 8", "", "--lora_r"},
		{"trl sft --lora_r 8", "", "--lora_r"},
		{"python -m trl.scripts.sft --lora_r 8", "", "--lora_r"},
		{"trl sft --load_in_4bit", "--load_in_4bit", ""},
		{"trl sft --use_peft --lora_r 8 --load_in_4bit", "", ""},
	} {
		r, err := Parse(strings.Fields(c.command+" --model_name_or_path m --max_length 64"), published(nil))
		if err != nil {
			t.Fatal(err)
		}
		open := strings.Join(r.Workload.Open, "; ")
		if (open != "") != (c.open != "") || !strings.Contains(open, c.open) || len(r.Workload.Lowering) != len(r.Workload.Open) {
			t.Errorf("%s: open %q, want %q", c.command, open, c.open)
		}
		warned := slices.ContainsFunc(r.Warnings, func(w account.Warning) bool { return w.Code == "not_counted" && strings.Contains(w.Text, c.warned) })
		if warned != (c.warned != "") {
			t.Errorf("%s: warnings %v, want one of %q", c.command, r.Warnings, c.warned)
		}
	}
}

// Without one of its lines, the table of TRL's defaults gives others.
func TestSabotagedDefaultsOfTRL(t *testing.T) {
	text, err := tableText("trl")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"bf16 * 0.19 true", "checkpointing * 0.22 true", "kl rloo 0.22 0.05", "completion_length grpo,rloo 1.10 512"} {
		with, without := trlDefaultsOf(text, "rloo", release{2, 0}, true), trlDefaultsOf(strings.Replace(text, line+"\n", "", 1), "rloo", release{2, 0}, true)
		if slices.Equal(with, without) {
			t.Errorf("nobody notices that %q is missing", line)
		}
	}
}

// What means the same in two forms is no contradiction, and keys that bear on nothing
// leave the verdict as it is.
func TestFormsOfOneThing(t *testing.T) {
	const tune = "output_dir: x\nmodel: {_component_: torchtune.models.llama3_1.llama3_1_8b}\ntokenizer: {max_seq_len: 512}\nbatch_size: 1\ndtype: bf16\noptimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit, lr: 0.1}\n"
	const axolotl = "base_model: m\nadapter: lora\nlora_r: 8\nattn_implementation: flash_attention_2\nsave_strategy: no\n"
	files := published(map[string]string{
		"tune.yaml":   tune + "checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer, checkpoint_files: {filename_format: a, max_filename: \"0030\"}}\n",
		"linear.yaml": tune + "loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}\n",
		"otel.yaml":   axolotl + "use_otel_metrics: true\nlora_target_linear: true\n",
		"seven.yaml":  axolotl + "lora_target_linear: true\nlora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]\n",
		"head.yaml":   axolotl + "lora_target_linear: true\nlora_target_modules: [q_proj, embed_tokens]\n",
		"same.yaml":   axolotl + "lora_target_linear: true\nfsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_reshard_after_forward: true, fsdp_version: 2}\n",
		"other.yaml":  axolotl + "lora_target_linear: true\nfsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_reshard_after_forward: false, fsdp_version: 2}\n",
	})
	for _, c := range []struct{ command, open, lowers string }{
		{"tune run full_finetune_single_device --config tune.yaml", "", ""},
		{"tune run full_finetune_single_device --config tune.yaml optimizer=torch.optim.AdamW", "", ""},
		{"tune run full_finetune_single_device --config linear.yaml", "", "LinearCrossEntropyLoss"},
		{"axolotl train otel.yaml --num_processes 1", "", ""},
		{"axolotl train seven.yaml --num_processes 1", "", ""},
		{"axolotl train head.yaml --num_processes 1", "embed_tokens", ""},
		{"axolotl train same.yaml --num_processes 2", "", ""},
		{"axolotl train other.yaml --num_processes 2", "fsdp_strategy", ""},
		{"torchrun --nproc_per_node 2 train.py --model_name_or_path m --block_size 64 --bf16 --fsdp full_shard --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer", "", ""},
	} {
		r, err := Parse(strings.Fields(c.command), files)
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		open, lowers := strings.Join(r.Workload.Open, "; "), strings.Join(r.Workload.LoweringPasses, "; ")
		if (open == "") != (c.open == "") || !strings.Contains(open, c.open) || (lowers == "") != (c.lowers == "") || !strings.Contains(lowers, c.lowers) {
			t.Errorf("%s: open %q, want %q; lowers %q, want %q", c.command, open, c.open, lowers, c.lowers)
		}
		if tuning := r.Workload.Training.Tuning; tuning != nil && !slices.Equal(tuning.Targets, []string{"all-linear"}) {
			t.Errorf("%s: targets %v", c.command, tuning.Targets)
		}
		if name := r.Workload.Training.Optimizer; strings.Contains(c.command, "optimizer=") && (name.Name != workload.AdamW || name.Bits != 0) {
			t.Errorf("%s: optimizer %v", c.command, name)
		}
	}
}

// A file that is named and not there is told with where it was looked for.
func TestLostFileSaysWhereItWasLookedFor(t *testing.T) {
	files := published(map[string]string{"a/run.yaml": "model_name_or_path: m\nper_device_train_batch_size: 1\ndeepspeed: lost.json\n"})
	for command, want := range map[string]string{
		"python train.py a/run.yaml":                                "beside a/run.yaml",
		"python train.py --model_name_or_path m --deepspeed l.json": "from the folder where floodmark is started",
	} {
		var wrong *Error
		if _, err := Parse(strings.Fields(command), files); !errors.As(err, &wrong) || !strings.Contains(wrong.Hint, want) {
			t.Errorf("%s: %v, want a hint with %q", command, err, want)
		}
	}
}
