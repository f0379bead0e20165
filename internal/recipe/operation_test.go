package recipe

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// A file that trains nothing is refused, with what to ask in its place.
func TestTrainsNothing(t *testing.T) {
	const lora = "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ntemplate: llama3\ncutoff_len: 64\nbf16: true\n"
	for _, c := range []struct{ file, want, hint string }{ // an empty want: it trains
		{lora + "do_train: true\n", "", ""},
		{lora + "do_train: true\ndo_predict: true\n", "", ""},
		{lora, "", ""},
		{lora + "do_predict: true\npredict_with_generate: true\n", "do_predict without do_train", "--generated"},
		{lora + "do_eval: true\n", "do_eval without do_train", "--operation evaluation"},
		{"model_name_or_path: m\nadapter_name_or_path: a\ntemplate: llama3\nexport_dir: o\nexport_device: cpu\n", "merges and exports", "main memory"},
		{"model_name_or_path: m\noutput_dir: o\nmax_length: 64\ndo_train: false\ndo_eval: true\n", "do_eval without do_train", "--operation evaluation"},
		{"model_name_or_path: m\noutput_dir: o\nmax_length: 64\ndo_eval: true\n", "", ""}, // of a script that trains without being told to
	} {
		_, err := Read([]string{"x.yaml"}, published(map[string]string{"x.yaml": c.file}))
		refused, is := err.(*Error)
		if c.want == "" && err != nil || c.want != "" && (!is || !strings.Contains(refused.Msg, c.want) || !strings.Contains(refused.Hint, c.hint)) {
			t.Errorf("%q: %v, want %q and %q", c.file, err, c.want, c.hint)
		}
	}
	for _, command := range []string{"trl vllm-serve --model m", "trl env", "trl"} {
		if _, err := Parse(strings.Fields(command), published(nil)); err == nil {
			t.Errorf("%q is read as a training", command)
		}
	}
}

// Which recipe of torchtune a file is for is told by its loss: what is no plain
// finetuning leaves the verdict open, and runs pairs where it is of preferences.
func TestTorchtuneLosses(t *testing.T) {
	file := func(builder, loss string) string {
		model := "model: {_component_: torchtune.models.llama3_2." + builder
		if strings.HasPrefix(builder, "lora") {
			model += ", lora_attn_modules: [q_proj], lora_rank: 8"
		}
		return model + "}\noptimizer: {_component_: torch.optim.AdamW, fused: true}\nloss: {_component_: " + loss + "}\nbatch_size: 4\ndtype: bf16\ntokenizer: {max_seq_len: 64}\n"
	}
	for _, c := range []struct {
		builder, loss, open string
		micro               int64
		resident            int
	}{
		{"lora_llama3_2_1b", "torchtune.modules.loss.CEWithChunkedOutputLoss", "", 4, 0},
		{"lora_llama3_2_1b", "torch.nn.CrossEntropyLoss", "", 4, 0},
		{"lora_llama3_2_1b", "torchtune.rlhf.loss.DPOLoss", "a recipe of preferences", 8, 0}, // adapters are switched off for the reference
		{"llama3_2_1b", "torchtune.rlhf.loss.DPOLoss", "a recipe of preferences", 8, 1},
		{"lora_llama3_2_1b", "torchtune.rlhf.loss.SimPOLoss", "a recipe of preferences", 8, 0},
		{"llama3_2_1b", "torchtune.rlhf.loss.PPOLoss", "a recipe of PPO", 4, 0},
		{"llama3_2_1b", "torchtune.dev.grpo.loss.GRPOSimpleLoss", "a recipe of GRPO", 4, 0},
		{"llama3_2_1b", "torchtune.modules.loss.ForwardKLWithChunkedOutputLoss", "a recipe of distillation", 4, 0},
		{"llama3_2_1b", "my.Loss", "is not known here", 4, 0},
	} {
		r, err := Read([]string{"x.yaml"}, published(map[string]string{"x.yaml": file(c.builder, c.loss)}))
		if err != nil {
			t.Fatal(c.loss, err)
		}
		open := strings.Join(r.Workload.Open, "\n")
		if (c.open == "") != (open == "") || !strings.Contains(open, c.open) || dimension(r, workload.MicroBatch) != c.micro || len(r.Workload.Resident) != c.resident {
			t.Errorf("%s of %s: %q, micro-batch %d, %+v", c.loss, c.builder, open, dimension(r, workload.MicroBatch), r.Workload.Resident)
		}
	}
}

// Recipes of torchtune divide what they keep over several ranks, in the way of the
// release.
func TestTorchtuneRanks(t *testing.T) {
	for _, c := range []struct {
		version string
		ranks   int
		said    workload.ShardingKind
		want    workload.ShardingKind
	}{
		{"", 8, "", workload.FSDP2}, {"", 1, "", ""}, {"0.2.1", 8, "", workload.FSDP1}, {"0.3.0", 8, "", workload.FSDP2},
		{"0.1", 8, workload.FSDP2, workload.FSDP1}, {"0.6.1", 8, workload.DDP, workload.DDP},
	} {
		r, err := Read([]string{"torchtune_8b_qlora.yaml"}, published(nil))
		if err != nil {
			t.Fatal(err)
		}
		w := r.Workload
		w.Engine.Version, w.Mesh.DataParallel = c.version, c.ranks
		if c.said != "" {
			w.Training.Sharding = &workload.Sharding{Kind: c.said}
		}
		r.Ranks(&w)
		got := workload.ShardingKind("")
		if w.Training.Sharding != nil {
			got = w.Training.Sharding.Kind
		}
		if got != c.want {
			t.Errorf("torchtune %s, %d ranks, %s said: %s, want %s", c.version, c.ranks, c.said, got, c.want)
		}
	}
}

// Keys of public recipes that bear no bytes leave nothing open.
func TestKeysWithoutBytes(t *testing.T) {
	for software, keys := range map[string][]string{
		"transformers": {"chat_template", "dataset_mixture.datasets", "dataset_mixer.HuggingFaceH4/ultrachat_200k", "dataset_splits"},
		"deepspeed":    {"zero_optimization.round_robin_gradients", "monitor_config.tensorboard.enabled"},
	} {
		table, err := tableOf(software)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(keys, func(k string) bool { r := table.find(k); return r == nil || r.open != "" || r.field != "" }); i >= 0 {
			t.Errorf("%s: %s", software, keys[i])
		}
	}
}

// An export on a card merges the adapter that is named and trains nothing; what is packed,
// and several adapters, are left open.
func TestExportOnACard(t *testing.T) {
	const export = "model_name_or_path: m\ntemplate: llama3\nexport_dir: o\nexport_device: auto\n"
	for _, c := range []struct{ file, adapter, open string }{
		{"", "", ""}, {"adapter_name_or_path: a\n", "a", ""}, {"adapter_name_or_path: a,b\n", "a,b", "several adapters"},
		{"adapter_name_or_path: a\nquantization_bit: 4\n", "a", "weights that are packed"}, {"export_quantization_bit: 4\n", "", "quantised while they are exported"},
	} {
		r, err := Read([]string{"x.yaml"}, published(map[string]string{"x.yaml": export + c.file}))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		w := r.Workload
		if r.Adapter != c.adapter || w.Operation != workload.Export || slices.Contains(w.Phases, account.PhaseMerge) != (c.adapter != "") || len(r.Assumed) > 0 {
			t.Errorf("%q: %s of the adapter %q, phases %v, assumed %v", c.file, w.Operation, r.Adapter, w.Phases, r.Assumed)
		}
		if open := strings.Join(w.Open, "\n"); !strings.Contains(open, c.open) || (c.open == "") != (open == "") {
			t.Errorf("%q: open %q, want %q", c.file, open, c.open)
		}
	}
}

// LLaMA-Factory generates while it trains where predict_with_generate is on and anything
// is evaluated or predicted, in place of a pass with a loss; what it would predict
// otherwise is left open.
func TestGeneratesBesideTraining(t *testing.T) {
	for _, c := range []struct {
		file                 string
		sequences, generated int64 // 0: it does not generate
		open                 string
	}{
		{"do_predict: true\npredict_with_generate: true\n", 8, 1024, ""},
		{"eval_strategy: steps\npredict_with_generate: true\nmax_new_tokens: 128\nper_device_eval_batch_size: 2\n", 2, 128, ""},
		{"predict_with_generate: true\n", 0, 0, ""},
		{"do_predict: true\n", 0, 0, "predictions without predict_with_generate"},
		{"eval_strategy: steps\n", 0, 0, ""},
	} {
		text := "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\ntemplate: llama3\ncutoff_len: 64\nbf16: true\n" + c.file
		r, err := Read([]string{"x.yaml"}, published(map[string]string{"x.yaml": text}))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		w := r.Workload
		sequences, _ := w.Dimension(workload.Sequences)
		generated, _ := w.Dimension(workload.Generated)
		generates := slices.Contains(w.Phases, account.PhaseGenerate)
		if sequences != c.sequences || generated != c.generated || generates != (c.generated > 0) || generates && w.Training.Evaluation != nil {
			t.Errorf("%q: %d sequences, %d generated, phases %v, evaluation %v", c.file, sequences, generated, w.Phases, w.Training.Evaluation)
		}
		if open := strings.Join(w.Open, "\n"); !strings.Contains(open, c.open) || (c.open == "") != (open == "") {
			t.Errorf("%q: open %q, want %q", c.file, open, c.open)
		}
	}
}

// What LLaMA-Factory freezes of a model that sees follows from its switches, their
// defaults and the model's type; of a type whose modules are not known nothing is decided.
func TestFrozenComponents(t *testing.T) {
	const tower, projector, language = "freeze_vision_tower: ", "freeze_multi_modal_projector: ", "freeze_language_model: "
	for _, c := range []struct{ file, model, want, open string }{
		{"finetuning_type: full\n", "qwen2_vl", "vision_tower, projector", ""},
		{"finetuning_type: full\n" + projector + "false\n", "llava", "vision_tower", ""},
		{"finetuning_type: full\n" + projector + "false\n", "qwen3_vl_moe", "vision_tower", "mergers of deeper layers"},
		{"finetuning_type: full\n" + tower + "false\n" + projector + "false\n", "qwen3_vl", "", ""},
		{"finetuning_type: full\n" + tower + "false\n" + projector + "false\n" + language + "true\n", "qwen2_vl", "language_model", ""},
		{"finetuning_type: full\n", "glm4v", "vision_tower, projector", "of a model of the type glm4v"},
		{"finetuning_type: lora\n", "qwen2_5_vl", "vision_tower, projector", ""},
		{"finetuning_type: lora\n" + tower + "false\n", "qwen2_5_vl", "projector", ""},
		{"finetuning_type: lora\n" + projector + "false\n", "qwen2_5_vl", "vision_tower", "which layers of the projector get adapters"},
	} {
		text := "model_name_or_path: m\nstage: sft\ndo_train: true\ntemplate: qwen2_vl\ncutoff_len: 64\nbf16: true\n" + c.file
		r, err := Read([]string{"x.yaml"}, published(map[string]string{"x.yaml": text}))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		w := r.Workload
		r.FreezesOf(&w, c.model)
		got := ""
		if f := w.Training.Frozen; f != nil {
			got = strings.Join(f.Components, ", ")
			if f.Format != dtype.BF16 {
				t.Errorf("%q: kept in %v, want the format that the model is loaded in", c.file, f.Format)
			}
		}
		if open := strings.Join(w.Assumed[len(r.Workload.Assumed):], " "); got != c.want || !strings.Contains(open, c.open) || (open == "") != (c.open == "") {
			t.Errorf("%q of %s: %q, open %q; want %q, %q", c.file, c.model, got, open, c.want, c.open)
		}
	}
}
