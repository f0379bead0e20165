package floodmark

import (
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/internal/packed"
	"floodmark/workload"
)

//go:embed settings_readers.txt.gz
var readersText []byte

// readerLine is a line of settings_readers.txt: who reads a setting, and what becomes of it
// elsewhere.
type readerLine struct {
	name    string // as a file calls it
	fate    string // elsewhere: refused, open, less or said
	readers []string
}

// readerLines are the lines of settings_readers.txt by the paths of their settings.
func readerLines() map[string]readerLine {
	all := map[string]readerLine{}
	text, err := packed.Text(readersText)
	if err != nil {
		return all
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		path, name, named := strings.Cut(words[0], "=")
		if !named {
			name = path
		}
		all[path] = readerLine{name, words[1], words[2:]}
	}
	return all
}

// readerLineOf is the line that speaks for a setting: its own, or of what it is in.
func readerLineOf(all map[string]readerLine, path string) (readerLine, bool) {
	for {
		if r, known := all[path]; known {
			return r, true
		}
		dot := strings.LastIndex(path, ".")
		if dot < 0 {
			return readerLine{}, false
		}
		path = path[:dot]
	}
}

// settingPath is the path of a setting; features are settings by their names.
func settingPath(path, text string) string {
	if path = strings.TrimPrefix(path, "."); path == "features" {
		return path + "." + text
	}
	return path
}

// read refuses settings that contradict what reads the workload, and names all others
// that it does not read: none is ignored in silence. Over those that may bear bytes
// nothing is known to fit, over those that may leave less nothing is known not to.
func (r Request) read(e estimate.Engine) (Request, error) {
	all, words, program := readerLines(), readersOf(e, &r.Workload), programOf(e, &r.Workload)
	var contradictions []error
	open, lowering, warnings := slices.Clone(r.Workload.Open), slices.Clone(r.Workload.Lowering), slices.Clone(r.Warnings)
	done := map[string]bool{}
	stated("", reflect.ValueOf(r.Workload), func(path, text string) {
		path = settingPath(path, text)
		line, known := readerLineOf(all, path)
		if !known || done[line.name] || text == "none" || text == "1" && strings.HasPrefix(path, "mesh.") || r.holds(path) ||
			slices.ContainsFunc(line.readers, func(w string) bool { return w == "*" || slices.Contains(words, w) }) {
			return
		}
		done[line.name] = true
		why := fmt.Sprintf("%s is set, and %s does not read it: it is of %s", line.name, program, strings.Replace(strings.Join(line.readers, ", "), "shared", "several ranks", 1))
		switch line.fate {
		case "refused":
			contradictions = append(contradictions, errors.New(why))
		case "less":
			lowering = append(lowering, why)
			fallthrough
		case "open":
			open = append(open, why)
			fallthrough
		default:
			warnings = append(warnings, account.Warning{Code: "setting_not_read", Text: why})
		}
	})
	if len(contradictions) > 0 {
		return r, &SettingsError{errors.Join(contradictions...)}
	}
	r.Workload.Open, r.Workload.Lowering, r.Warnings = open, lowering, warnings
	return r, nil
}

// holds reports a setting that says what is so without it: a format of the parameters
// in which the model is stored.
func (r Request) holds(path string) bool {
	return path == "precision.parameters" && storedAs(r.Model, r.Workload.Precision.Parameters)
}

// programOf is what reads a workload, in a message.
func programOf(e estimate.Engine, w *workload.Workload) string {
	text := string(w.Operation) + " under " + e.Name()
	if w.Engine.Name != "" && w.Engine.Name != e.Name() {
		text += " (" + w.Engine.Name + ")"
	}
	if t := w.Training; t != nil && t.Sharding != nil {
		text += " with the sharding " + string(t.Sharding.Kind)
	}
	return text
}

// readersOf is the words of settings_readers.txt for what reads a workload.
func readersOf(e estimate.Engine, w *workload.Workload) []string {
	words := []string{w.Engine.Name}
	switch {
	case w.Operation == workload.Load:
		words = append(words, "load")
	case e.Name() != "eager":
		words = append(words, e.Name())
	case w.Operation == workload.FineTuning:
		words = append(words, string(workload.Training))
	default:
		words = append(words, string(w.Operation))
	}
	for _, p := range w.Phases {
		if p == account.PhaseGenerate || p == account.PhaseEvaluation {
			words = append(words, string(p))
		}
	}
	if t := w.Training; t != nil && t.Sharding != nil {
		words = append(words, string(t.Sharding.Kind))
		if shares(w) {
			words = append(words, "shared")
		}
	}
	return words
}

// shares reports states that ranks divide, or that lie in main memory: one rank alone
// divides nothing.
func shares(w *workload.Workload) bool {
	m := w.Mesh
	return max(1, m.DataParallel)*max(1, m.ContextParallel) > 1 || len(w.Training.Sharding.Offload) > 0
}

// batched refuses a batch of a step that its micro-batches do not make up, where no
// evaluation and no generation beside the steps has it.
func batched(w workload.Workload, in workload.Input) error {
	t, batch, micro := w.Training, in.Dimensions[workload.Batch], in.Dimensions[workload.MicroBatch]
	if t == nil || batch == 0 || micro == 0 || w.Operation != workload.Training && w.Operation != workload.FineTuning ||
		t.Evaluation != nil || slices.Contains(w.Phases, account.PhaseEvaluation) || slices.Contains(w.Phases, account.PhaseGenerate) {
		return nil
	}
	if many := max(1, t.Accumulation); batch%many != 0 || batch/many != micro {
		return fmt.Errorf("the input %s has a batch of %d in a step, and the micro-batch %d with the accumulation %d makes up another: batch is their product", in.Name, batch, micro, many)
	}
	return nil
}

// leaveOpen leaves the verdict open over phases that the workload declares and that
// no account has: nothing is known of them.
func (p *Prediction) leaveOpen() {
	w := &p.Request.Workload
	for _, declared := range w.Phases {
		predicted := func(a account.Account) bool {
			return slices.ContainsFunc(a.Phases, func(ph account.Phase) bool { return ph.ID == declared })
		}
		if !slices.ContainsFunc(p.accounts, predicted) {
			why := fmt.Sprintf("the phase %s is declared, and %s has none that is predicted", declared, programOf(p.Engine, w))
			w.Open = append(slices.Clone(w.Open), why)
			p.Request.Warnings = append(slices.Clone(p.Request.Warnings), account.Warning{Code: "phase_not_predicted", Text: why})
		}
	}
}
