package recipe

import (
	"fmt"
	"strings"

	"floodmark/workload"
)

// TargetsOf completes an adapter whose modules nobody named: PEFT has some for models of
// a type (tables/peft.txt).
func (r *Recipe) TargetsOf(w *workload.Workload, modelType string) error {
	if r.Software != "transformers" && r.Software != "axolotl" || w.Training == nil || w.Training.Tuning == nil || len(w.Training.Tuning.Targets) > 0 {
		return nil
	}
	text, err := tableText("peft")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != modelType {
			continue
		}
		train, tuning := *w.Training, *w.Training.Tuning
		tuning.Targets = words[1:]
		train.Tuning, w.Training = &tuning, &train
		r.Declared = append(r.Declared, workload.Declaration{Field: "lora_targets", Value: shown(words[1:]), Rule: "default of PEFT for " + modelType})
		return nil
	}
	return &Error{
		Msg:  fmt.Sprintf("the adapter does not say which modules it targets, and PEFT has no default for models of the type %q that is known here", modelType),
		Hint: "name them: --lora-targets q_proj,v_proj, or all-linear",
	}
}

// peftExample resolves the script of PEFT's examples/sft, which is told by its own switch:
// what it takes where nobody says it, and in which format it loads the weights
// (https://github.com/huggingface/peft/blob/5d602fdbf/examples/sft/train.py and utils.py).
func (p *plan) peftExample() {
	if _, is := p.keys["use_peft_lora"]; !is || p.software != "transformers" {
		return
	}
	const by = "default of PEFT's examples/sft"
	p.method = "sft"
	p.otherwise("use_reentrant", false, by)
	p.otherwise("weights_format", peftLoads(p.text("quantised_storage")), "PEFT's examples/sft loads weights in the format that stores packed ones, or 32 bits")
	if !p.yes("peft") {
		return
	}
	p.otherwise("lora_rank", int64(64), by)
	p.otherwise("adapter_dropout", 0.1, by)
	p.otherwise("lora_targets", []any{"q_proj", "k_proj", "v_proj", "o_proj", "down_proj", "up_proj", "gate_proj"}, by)
}

// peftLoads is the format beside one that stores packed weights: the same where it is of
// floating point.
func peftLoads(storage string) string {
	switch storage {
	case "bfloat16", "float16":
		return storage
	}
	return "float32"
}

// uncounted names settings of an adapter, and of packed weights, where none is trained:
// nothing that is read may go without a word.
func (p *plan) uncounted() {
	for _, f := range []field{"four_bit", "eight_bit"} {
		if p.yes(f) {
			p.lowers(p.where(f), "weights are packed, and no adapter is trained on them: they are counted unpacked")
		}
	}
	for _, f := range []field{"lora_rank", "lora_targets", "modules_to_save", "dora"} {
		switch where := p.where(f); {
		case !p.said(f) || p.facts[f].rule || p.kinds[f] == aSwitch && !p.yes(f):
		case p.software != "transformers" || p.said("peft") || p.ofTRL:
			p.warn("not_counted", where+" is not counted: it is of an adapter, and none is switched on")
		default:
			p.lowers(where, "it is of an adapter, and nothing that is known here switches one on: all weights are counted as trained")
		}
	}
}
