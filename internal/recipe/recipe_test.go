package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/workload"
)

// published reads the public configurations of testdata/recipes, and those that a
// test writes over them.
func published(written map[string]string) Files {
	return func(name string) ([]byte, error) {
		if text, is := written[name]; is {
			return []byte(text), nil
		}
		return os.ReadFile(filepath.Join("../../testdata/recipes", name))
	}
}

// formats is the format of parameters, gradients, master copy and moments.
func formats(r *Recipe) string {
	p := r.Workload.Precision
	return workload.FormatName(p.Parameters) + " " + p.Gradients.String() + " " + p.MasterCopy.String() + " " + p.FirstMoment.String()
}

func dimension(r *Recipe, d workload.Dimension) int64 {
	n, _ := r.Workload.Dimension(d)
	return n
}

// One public file of each software, and what it declares.
func TestPublishedFiles(t *testing.T) {
	for _, c := range []struct {
		files    []string
		software string
		model    string // the first that is named
		want     func(*Recipe, *workload.Train) bool
	}{
		{[]string{"axolotl_fft_8b.yaml"}, "axolotl", "NousResearch/Meta-Llama-3.1-8B", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "bf16 bf16 none 8bit" && t.Autocast == dtype.BF16 && t.Optimizer.Bits == 8 && t.Optimizer.Paged && t.Accumulation == 8 &&
				t.Checkpointing.Kind == workload.FullCheckpointing && dimension(r, workload.Context) == 8192 && dimension(r, workload.MicroBatch) == 1 &&
				slices.Contains(r.Workload.Features, workload.FlashAttention) && t.Sharding == nil
		}},
		{[]string{"axolotl_qlora_70b.yaml"}, "axolotl", "casperhansen/llama-3-70b-fp16", func(r *Recipe, t *workload.Train) bool {
			return t.Tuning != nil && t.Tuning.Base == "nf4-double" && t.Tuning.Rank == 8 && slices.Equal(t.Tuning.Targets, []string{"all-linear"}) && t.Tuning.Dropout &&
				t.Sharding.Kind == workload.FSDP1 && len(t.Sharding.Offload) == 2
		}},
		{[]string{"llamafactory_full.yaml"}, "llamafactory", "Qwen/Qwen3-4B-Instruct-2507", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "bf16 bf16 fp32 fp32" && t.Autocast == dtype.Unknown && t.Sharding.Kind == workload.ZeRO3 && t.Sharding.MostLive == 1e9 &&
				t.Sharding.Overlap != nil && !*t.Sharding.Overlap && t.Accumulation == 2 && dimension(r, workload.Context) == 2048 && r.Hidden != nil
		}},
		{[]string{"torchtune_8b_full.yaml"}, "torchtune", "meta-llama/Llama-3.1-8B-Instruct", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "bf16 bf16 none bf16" && t.Optimizer.Implementation == workload.Fused && t.Sharding.Kind == workload.FSDP2 &&
				r.Workload.Engine.Name == "torchtune" && t.Loss == workload.ChunkedLoss && !t.Packed && dimension(r, workload.MicroBatch) == 2 && dimension(r, workload.Context) == 0
		}},
		{[]string{"torchtune_8b_qlora.yaml"}, "torchtune", "meta-llama/Llama-3.1-8B-Instruct", func(r *Recipe, t *workload.Train) bool {
			return t.Tuning.Base == "nf4-double" && t.Tuning.Format == dtype.BF16 && t.Sharding == nil &&
				slices.Equal(t.Tuning.Targets, []string{"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"})
		}},
		{[]string{"torchtitan_8b.toml"}, "torchtitan", "meta-llama/Llama-3.1-8B-Instruct", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "fp32 fp32 none fp32" && r.Workload.Precision.Compute == dtype.BF16 && t.Sharding.ReduceFormat == dtype.F32 &&
				t.Sharding.Kind == workload.FSDP2 && dimension(r, workload.Context) == 8192 && len(r.Workload.Open) == 0 &&
				t.Checkpointing.Kind == workload.SelectiveCheckpointing
		}},
		{[]string{"trl_sft.yaml"}, "transformers", "Qwen/Qwen2.5-0.5B", func(r *Recipe, t *workload.Train) bool { return formats(r) == "fp32 fp32 none fp32" }},
		{[]string{"deepspeed_zero3_offload.json"}, "transformers", "", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "fp16 fp16 fp32 fp32" && slices.Equal(t.Sharding.Offload, []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters})
		}},
		{[]string{"trl_sft.yaml", "accelerate_fsdp2.yaml"}, "transformers", "Qwen/Qwen2.5-0.5B", func(r *Recipe, t *workload.Train) bool {
			return formats(r) == "fp32 fp32 none fp32" && t.Autocast == dtype.BF16 && t.Sharding.Kind == workload.FSDP2 && t.Sharding.ReduceFormat == dtype.BF16 &&
				r.Workload.Mesh.DataParallel == 8
		}},
	} {
		r, err := Read(c.files, published(nil))
		if err != nil {
			t.Errorf("%s: %v", c.files, err)
			continue
		}
		first := ""
		if len(r.Models) > 0 {
			first = r.Models[0]
		}
		if r.Software != c.software || first != c.model || !c.want(r, r.Workload.Training) {
			t.Errorf("%s: %s %v %s\n%+v\n%+v\n%v", c.files, r.Software, r.Models, formats(r), r.Workload.Training, r.Workload.Training.Sharding, r.Workload.Open)
		}
		for _, w := range r.Warnings {
			if w.Code == "key_not_known" || w.Code == "configurations_contradict" {
				t.Errorf("%s: %s", c.files, w.Text)
			}
		}
	}
}

// Every figure says where it was read: under a key of a file, by a flag, or by a rule.
func TestDeclarations(t *testing.T) {
	r, err := Parse(strings.Fields("accelerate launch --config_file accelerate_fsdp2.yaml --num_processes 4 run_clm.py --model_name_or_path m --bf16 --block_size 1024"), published(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []workload.Declaration{
		{Field: "fsdp_version", Value: "2", File: "accelerate_fsdp2.yaml", Key: "fsdp_config.fsdp_version"},
		{Field: "processes", Value: "4", Key: "--num_processes"},
		{Field: "context", Value: "1024", Key: "--block_size"},
		{Field: "optimizer", Value: "adamw_torch_fused", Rule: "default of transformers with PyTorch 2.8 and later"},
	} {
		if !slices.Contains(r.Declared, want) {
			t.Errorf("%+v is not among %+v", want, r.Declared)
		}
	}
}

// What two places say of one thing: a flag goes over a file, a launcher's flag over its
// file, the Trainer's arguments over the launcher, and two equal ones contradict.
func TestPrecedence(t *testing.T) {
	written := map[string]string{
		"ds.json": `{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto"}`,
		"a.yaml":  "per_device_train_batch_size: 8\nbf16: true\nmax_length: 512\ngradient_accumulation_steps: 3\ndeepspeed: ds.json\n",
		"b.yaml":  "distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp16\n",
	}
	r, err := Parse(strings.Fields("accelerate launch --config_file b.yaml train.py --model_name_or_path m --bf16 --max_seq_length 64 --torch_dtype bfloat16"), published(written))
	if err != nil || r.Workload.Training.Autocast != dtype.BF16 || r.Workload.Mesh.DataParallel != 2 || r.Workload.Training.Sharding.Kind != workload.DDP {
		t.Errorf("the Trainer's arguments: %+v, %v", r, err)
	}
	r, err = Parse(strings.Fields("torchrun --nproc_per_node 2 train.py a.yaml --max_length 64"), published(written))
	if err != nil {
		t.Fatal(err)
	}
	if n := dimension(r, workload.Context); n != 64 {
		t.Errorf("a flag over a file: %d", n)
	}
	if n := r.Workload.Training.Accumulation; n != 3 {
		t.Errorf("auto is what the arguments say: %d", n)
	}
	open := strings.Join(r.Workload.Open, "\n")
	if !strings.Contains(open, "micro_batch is 4 in ds.json: train_micro_batch_size_per_gpu, and 8 in a.yaml: per_device_train_batch_size") {
		t.Errorf("the two files contradict each other: %s", open)
	}
}

// A key that bears on sizes and is not modelled, and one that nobody knows, leave the
// verdict open; one that bears on none says nothing.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		text string
		open string // empty for none
	}{
		{"num_train_epochs: 3\nlearning_rate: 1e-5\nreport_to: wandb\nsave_steps: 10\n", ""},
		{"num_train_epochs: 3\nneftune_noise_alpha: 5\n", "f.yaml: neftune_noise_alpha: noise is added"},
		{"num_train_epochs: 3\nneftune_noise_alpha: null\nuse_liger_kernel: false\n", ""},
		{"num_train_epochs: 3\nuse_liger_kernel: true\n", "kernels of Liger"},
		{"num_train_epochs: 3\nbogus_size: 5\n", "f.yaml: bogus_size: this key is not known here"},
		{"num_train_epochs: 3\noptim: lomo\n", "the states of the optimizer lomo are not known"},
		{"num_train_epochs: 3\nattn_implementation: my_kernels\n", "my_kernels is not modelled"},
		{"base_model: m\nlayer_offloading: true\nattn_implementation: sdpa\n", "layers move to main memory"},
		{"zero_optimization: {stage: 2, zero_quantized_gradients: true}\nbf16: {enabled: true}\n", "what is gathered or reduced is packed"},
		{"model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\noptimizer: {_component_: torchao.optim.CPUOffloadOptimizer}\n", "CPUOffloadOptimizer are not known"},
	} {
		r, err := Read([]string{"f.yaml"}, published(map[string]string{"f.yaml": c.text}))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if open := strings.Join(r.Workload.Open, "\n"); c.open == "" && open != "" || !strings.Contains(open, c.open) {
			t.Errorf("%q: %q, want %q", c.text, open, c.open)
		}
	}
}

// Over what divides, offloads, packs or is not known nothing is known not to fit; over what
// bears on passes alone, only what passes is in doubt; what can only add leaves a lower bound.
func TestLowering(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"num_train_epochs: 3\nparallelism_config_cp_size: 2\n", "anything"},
		{"num_train_epochs: 3\nparallelism_config_cp_size: 1\n", ""},
		{"stage: sft\ntemplate: qwen3\nexpert_model_parallel_size: 2\n", "anything"},
		{"num_train_epochs: 3\nbogus_size: 5\n", "anything"},
		{"num_train_epochs: 3\nadapter: x\n", "anything"},
		{"num_train_epochs: 3\noptim: galore_adamw_layerwise\n", "anything"},
		{"base_model: m\nlayer_offloading: true\n", "anything"},
		{"base_model: m\nplugins: [axolotl.integrations.spectrum.SpectrumPlugin]\n", "anything"},
		{"base_model: m\nplugins: [axolotl.integrations.liger.LigerPlugin]\n", "passes"},
		{"base_model: m\ngradient_checkpointing: true\nactivation_offloading: true\n", "passes"},
		{"zero_optimization: {stage: 2, zero_quantized_gradients: true}\n", "anything"},
		{"zero_optimization: {stage: 2}\npipeline: {stages: 2}\n", "anything"},
		{"num_train_epochs: 3\nuse_liger_kernel: true\n", "passes"},
		{"num_train_epochs: 3\nper_device_train_batch_size: 4\nneftune_noise_alpha: 5\n", ""},
		{"base_model: m\nresize_token_embeddings_to_32x: true\n", ""},
		{"num_train_epochs: 3\noptim: my_optimizer\n", ""},
	} {
		r, err := Read([]string{"f.yaml"}, published(map[string]string{"f.yaml": c.text}))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		w, got := r.Workload, ""
		switch {
		case len(w.Lowering) > 0:
			got = "anything"
		case len(w.LoweringPasses) > 0:
			got = "passes"
		}
		for _, text := range slices.Concat(w.Lowering, w.LoweringPasses) {
			if !slices.Contains(w.Open, text) {
				t.Errorf("%q: %q is not among what is open", c.text, text)
			}
		}
		if got != c.want {
			t.Errorf("%q: may lower %q, want %q: %q", c.text, got, c.want, w.Open)
		}
	}
}

// A mark of the byte order before a text says nothing.
func TestByteOrderMark(t *testing.T) {
	for name, text := range map[string]string{"f.yaml": "num_train_epochs: 3\n", "f.json": `{"num_train_epochs": 3}`, "f.toml": "[training]\nseq_len = 1\n"} {
		if _, err := Read([]string{name}, published(map[string]string{name: "\xef\xbb\xbf" + text})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What cannot be read says which file and key, and what was expected.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"ds.json", `{"zero_optimization": {"stage": -1}}`, "ds.json: zero_optimization.stage: is -1, and DeepSpeed expects 0 to 3"},
		{"ds.json", `{"zero_optimization": {"stage": 3, "reduce_bucket_size": -1}}`, "ds.json: zero_optimization.reduce_bucket_size: is -1, expected 0 or more"},
		{"f.yaml", "num_train_epochs: 3\nper_device_train_batch_size: many\n", "f.yaml: per_device_train_batch_size: is many, expected a whole number"},
		{"f.yaml", "num_train_epochs: 3\nbf16: maybe\n", "expected true or false"},
		{"f.yaml", "num_train_epochs: 3\ndeepspeed: lost.json\n", "f.yaml: deepspeed names it"},
		{"f.yaml", "some: thing\n", "no configuration that is known here"},
		{"f.yaml", "a: [\n", "no YAML"},
		{"f.yaml", "", "is empty"},
		{"f.yaml", strings.Repeat(" ", 80) + "a: 1\n", "levels deep"},
		{"f.yaml", "distributed_type: FSDP\n", "nothing says what is trained"},
		{"f.yaml", "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\nmax_new_tokens: 300\n", "trains nothing"},
		{"f.yaml", "num_train_epochs: 3\n---\nnum_train_epochs: 99\n", "holds a second document after ---"},
		{"f.yaml", "num_train_epochs: 3\nper_device_train_batch_size: \"12\"\n", `is the text "12", expected a whole number without quotes`},
		{"f.yaml", "num_train_epochs: 3\nper_device_train_batch_size: -2\n", "is -2, and transformers expects 1 or more"},
		{"f.yaml", "num_train_epochs: 3\nper_device_train_batch_size: 4611686018427387904\n", "is 4611686018427387904, expected at most 281474976710656"},
		{"f.yaml", "num_train_epochs: 3\nper_device_train_batch_size: [null]\n", "is a list or a table, expected a whole number"},
		{"f.json", `{"train_batch_size": 1`, "no JSON"},
		{"f.json", `{"train_batch_size": 1} x`, "goes on behind"},
		{"f.toml", "[training]\nseq_len = \n", "line 2"},
		{"f.toml", "[[training]]\n", "list of tables"},
		{"f.toml", "[training]\nseq_len = [1, 2\n", "does not end"},
		{"f.toml", "[training]\nseq_len = 1\n'seq_len' = 2\n", `line 3: the key "training.seq_len" is given twice, first in line 2`},
		{"f.toml", "training.seq_len = 1\ntraining.seq_len = 2\n", "is given twice, first in line 1"},
		{"f.toml", "[training]\nsteps = 1\n[model]\n[training]\nseq_len = 2\n", `line 4: the table "training" is given twice, first in line 1`},
		{"f.toml", "[a.b]\nx = 1\n[a]\n[ a . \"b\" ]\n", `line 4: the table "a.b" is given twice, first in line 1`},
		{"f.toml", "[a]\nb.c = 1\n[a.b]\n", `line 3: the table "a.b" is given twice, first in line 2`},
		{"f.toml", "[a]\nb = 1\n[a.b]\n", `"b" is a value already`},
	} {
		_, err := Read([]string{c.name}, published(map[string]string{c.name: c.text}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := Read([]string{"nowhere.yaml"}, published(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lost file: %v", err)
	}
}

// A value of another kind than its key takes is refused, of the keys too that are more than
// one field; what says nothing is not.
func TestValuesOfAnotherKind(t *testing.T) {
	const factory, trainer, axolotl = "finetuning_type: full\nstage: sft\ntemplate: t\nmodel_name_or_path: m\n", "num_train_epochs: 1\n", "base_model: m\n"
	for _, c := range []struct{ file, key, value, want string }{
		{factory, "do_predict", "[]", "is a list, expected true or false"},
		{factory, "do_predict", "{}", "is a table, expected true or false"},
		{factory, "do_predict", "", ""},
		{factory, "do_train", "3", "is 3, expected true or false"},
		{factory, "freeze_vision_tower", "[true]", "is a list, expected true or false"},
		{factory, "disable_gradient_checkpointing", "maybe", "is maybe, expected true or false"},
		{factory, "disable_gradient_checkpointing", "[]", "is a list, expected true or false"},
		{factory, "disable_gradient_checkpointing", "'yes'", ""},
		{strings.Replace(factory, "stage: sft\n", "", 1), "stage", "3", "is 3, expected pt, sft, rm, ppo, dpo, kto"},
		{strings.Replace(factory, "stage: sft\n", "", 1), "stage", "[sft]", "is a list, expected pt, sft"},
		{trainer, "deepspeed", "[ds.json]", "is a list, expected the name of a file"},
		{trainer, "deepspeed", "3", "is 3, expected the name of a file"},
		{trainer, "deepspeed", "", ""},
		{trainer, "fsdp", "{full_shard: 1}", "is a table, expected words such as full_shard"},
		{trainer, "fsdp", "3", "is 3, expected words such as full_shard"},
		{trainer, "fsdp", "''", ""},
		{trainer, "fsdp_config", "[a]", "is a list, expected the name of a file"},
		{trainer, "fsdp_config", "{}", ""},
		{trainer, "gradient_checkpointing_kwargs", "[use_reentrant]", "is a list, expected an object of JSON"},
		{axolotl, "rl", "[dpo]", "is a list, expected the name of a method"},
		{axolotl, "rl", "false", ""},
		{axolotl, "lora_target_linear", "some", "is some, expected true or false"},
		{axolotl, "flash_attention", "{}", "is a table, expected true or false"},
		{axolotl, "gradient_checkpointing", "[]", "is a list, expected true or false"},
	} {
		_, err := Read([]string{"f.yaml"}, published(map[string]string{"f.yaml": c.file + c.key + ": " + c.value + "\n"}))
		want := "f.yaml: " + c.key + ": " + c.want
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %s: %v, want %q", c.key, c.value, err, want)
		}
	}
}

// Every row of every table speaks of a field that there is, and no key stands in two.
func TestTables(t *testing.T) {
	for _, software := range softwareNames() {
		table, err := tableOf(software)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range table.rows {
			if r.field != "" {
				if _, known := kinds()[r.field]; !known {
					t.Errorf("%s: %s speaks of %s, which is no field", software, r.key, r.field)
				}
			}
			if r.key == "" || strings.Contains(r.open, "~") {
				t.Errorf("%s: a row %+v", software, r)
			}
		}
	}
}

// A sabotaged table must be noticed: without its rows, known keys are named.
func TestSabotagedTable(t *testing.T) {
	whole, err := tableOf("deepspeed")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"zero_optimization.stage", "gradient_clipping"} {
		p := newPlan(Reader{})
		less := table{software: whole.software}
		for _, r := range whole.rows {
			if r.key != key {
				less.rows = append(less.rows, r)
			}
		}
		if err := p.apply(&less, setting{key: key, value: int64(2), file: "f"}); err != nil || len(p.workload.Open) != 1 {
			t.Errorf("%s is taken although no row has it: %v", key, err)
		}
	}
}

// A configuration of more keys, or of a longer text, than any has is refused before
// each of them is carried through an answer.
func TestConfigurationIsBounded(t *testing.T) {
	var keys strings.Builder
	for i := range mostKeys + 1 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for text, want := range map[string]string{
		keys.String(): "has 2001 keys, more than the 2000",
		"output_dir: " + strings.Repeat("x", mostText+1): "output_dir: has 32769 bytes, more than the 32768",
	} {
		if _, err := decode("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// A key that is not known is named, in whatever section of whichever software's file, and
// nothing is known to fit over it; one that is switched off is named alone. What JSON has
// for comments is no key.
func TestUnknownKeysOfSections(t *testing.T) {
	const titan = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 512\nbogus = 3\n[parallelism]\nbogus = 3\n[quantize.linear.float8]\nenable = 3\n[metrics]\nbogus = 1\n"
	const old = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 512\nbatch_size = 1\ndata_parallel_degree = -1\ntensor_parallel_degree = 2\nglobal_batch_size = -1\n[optimizer]\nfused = false\n[experimental]\npipeline_parallel_degree = 1\n[compile]\ncomponents = [\"model\", \"loss\"]\n[checkpoint]\nbogus = false\n[activation_checkpoint]\nmode = \"full\"\n"
	for name, c := range map[string]struct {
		text        string
		open, named []string
	}{
		"a.toml": {titan, []string{"parallelism.bogus", "training.bogus", "metrics.bogus", "quantize.linear.float8.enable"}, nil},
		"b.toml": {old, nil, []string{"checkpoint.bogus"}},
		"c.yaml": {"model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\noptimizer: {_component_: torch.optim.AdamW, lr: 1, bogus: 3}\nloss: {_component_: torch.nn.CrossEntropyLoss, bogus: 2}\ncheckpointer: {bogus: 1}\ntokenizer: {max_seq_len: 512}\nbogus: {a: 1}\n",
			[]string{"optimizer.bogus", "loss.bogus", "checkpointer.bogus", "bogus.a"}, nil},
		"d.yaml": {"base_model: m\nsequence_len: 512\nbogus: 3\nfsdp_config: {bogus: 3}\ntrl: {bogus: 3}\n", []string{"bogus", "fsdp_config.bogus", "trl.bogus"}, nil},
		"e.yaml": {"model_name_or_path: m\nfinetuning_type: full\nstage: sft\ndo_train: true\ncutoff_len: 512\nbogus: 3\n", []string{"bogus"}, nil},
		"f.yaml": {"compute_environment: LOCAL_MACHINE\nbogus: 3\nfsdp_config: {bogus: 3}\n", []string{"bogus", "fsdp_config.bogus"}, nil},
		"g.json": {`{"_comment": "a", "_why": {"b": 1}, "zero_optimization": {"stage": 3, "_c": "d", "bogus": 3}, "optimizer": {"type": "AdamW", "params": {"bogus": 1, "amsgrad": false}}, "bogus": 3}`,
			[]string{"bogus", "zero_optimization.bogus", "optimizer.params.bogus"}, nil},
	} {
		p := newPlan(Reader{Files: published(map[string]string{name: c.text})})
		if _, err := p.file(name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var open, named []string
		for _, text := range p.workload.Open {
			open = append(open, strings.TrimSuffix(strings.TrimPrefix(text, name+": "), ": this key is not known here, so nobody can say whether it bears on sizes"))
		}
		for _, w := range p.recipe.Warnings {
			key, _, _ := strings.Cut(strings.TrimPrefix(w.Text, name+": "), " ")
			named = append(named, key)
		}
		slices.Sort(open)
		slices.Sort(named)
		all := append(slices.Clone(c.open), c.named...)
		slices.Sort(c.open)
		slices.Sort(all)
		if !slices.Equal(open, c.open) || !slices.Equal(named, all) {
			t.Errorf("%s leaves open %q and names %q, want %q and %q", name, open, named, c.open, all)
		}
	}
}

// A section of torchtitan is no row: what is misspelt in it would be passed over.
func TestTorchtitanHasNoPlainSections(t *testing.T) {
	table, err := tableOf("torchtitan")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.rows {
		if strings.HasSuffix(r.key, "*") && r.open == "" {
			t.Errorf("%s stands for keys that nobody knows", r.key)
		}
	}
}

// torchtitan checkpoints every second layer where nobody says which, and by operators
// where that is said.
func TestTorchtitanCheckpoints(t *testing.T) {
	for option, want := range map[string]workload.Checkpointing{
		"":                               {Kind: workload.EveryCheckpointing, Every: 2},
		"selective_ac_option = '4'":      {Kind: workload.EveryCheckpointing, Every: 4},
		"selective_ac_option = 'op'":     {Kind: workload.SelectiveCheckpointing},
		"mode = 'full'":                  {Kind: workload.FullCheckpointing, Every: 1},
		"mode = 'none'":                  {},
		"selective_ac_option = 'layers'": {Every: -1}, // refused
	} {
		text := "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nseq_len = 2048\n[activation_checkpoint]\n" + option + "\n"
		r, err := Read([]string{"t.toml"}, published(map[string]string{"t.toml": text}))
		if want.Every < 0 {
			if err == nil || !strings.Contains(err.Error(), "selective_ac_option") {
				t.Errorf("%s: %v", option, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", option, err)
		} else if got := r.Workload.Training.Checkpointing; got != want {
			t.Errorf("%s: %+v, want %+v", option, got, want)
		}
	}
}

// A value that another file's goes over is named with what stands in its place.
func TestGoesOver(t *testing.T) {
	const trainer = "model_name_or_path: m\nbf16: true\noptim: sgd\nper_device_train_batch_size: 1\n"
	for beside, want := range map[string]string{
		"mixed_precision: fp16\nnum_processes: 1\ndistributed_type: MULTI_GPU\n": "t.yaml: bf16 goes over fp16 in b.yaml: mixed_precision",
		"mixed_precision: bf16\nnum_processes: 1\ndistributed_type: MULTI_GPU\n": "",
		`{"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW"}}`:    "b.yaml: optimizer.type goes over sgd in t.yaml: optim",
		`{"zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD"}}`:      "",
	} {
		r, err := Read([]string{"t.yaml", "b.yaml"}, published(map[string]string{"t.yaml": trainer, "b.yaml": beside}))
		if err != nil {
			t.Errorf("%s: %v", beside, err)
			continue
		}
		said := ""
		for _, w := range r.Warnings {
			if strings.Contains(w.Text, " goes over ") {
				said = w.Text
			}
		}
		if said != want {
			t.Errorf("%s: %q, want %q", beside, said, want)
		}
	}
}

// An export without a folder is refused, as LLaMA-Factory does it, and is no training.
func TestExportNeedsAFolder(t *testing.T) {
	files := published(map[string]string{"lf.yaml": "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\ntemplate: llama3\n"})
	if _, err := Parse([]string{"llamafactory-cli", "export", "lf.yaml"}, files); err == nil || !strings.Contains(err.Error(), "export_dir is not said") {
		t.Errorf("%v", err)
	}
}
