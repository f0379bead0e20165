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
