package accuracy

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"floodmark"
	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/workload"
)

//go:embed training.yaml
var trainingYAML []byte

// trainingModels is where the configurations of the measured models lie.
const trainingModels = "testdata/models"

// measuredRun is a published measurement of training on one card, and the
// workload that was measured as far as its source says it.
type measuredRun struct {
	ID    string  `yaml:"id"`
	Field string  `yaml:"field"`
	Value float64 `yaml:"value"`
	Unit  int64   `yaml:"unit"` // bytes of one
	Scope string  `yaml:"scope"`
	Phase string  `yaml:"phase"` // of whose end the level was read; empty for the peak of all
	// Step is the last whose batch is as long as the workload's, where the source's
	// loop begins with the longest and goes on with shorter ones; 0 for all.
	Step int `yaml:"step"`
	// Context is what the source read of the same counter before anything was
	// loaded, in its unit: it stands in place of an interval for the architecture.
	Context  float64 `yaml:"context"`
	Model    string  `yaml:"model"`
	Workload string  `yaml:"workload"` // as a workload file
	// Shortest is the positions of the shortest sequences that the run can have had,
	// where the source does not say how long they were: the workload has the longest.
	Shortest int64 `yaml:"shortest"`
	// Or are other values of what the source leaves open, each for parts of the
	// workload: the run was one of them, and so the prediction reaches over all that
	// the card can have held.
	Or []map[string]any `yaml:"or"`
	// Assumed is what of the workload the source does not say and nothing bounds: of
	// such a row nobody can say the most either.
	Assumed string `yaml:"assumed"`
	Why     string `yaml:"why"`    // nothing is predicted, because
	Listed  string `yaml:"listed"` // it is shown and not counted, because
}

// trainingRuns are the rows that count.
func trainingRuns() ([]measuredRun, error) {
	var runs []measuredRun
	if err := yaml.UnmarshalWithOptions(trainingYAML, &runs, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("training.yaml: %w", err)
	}
	return runs, nil
}

// Training predicts every measured run at its own counter.
func Training() ([]Row, error) {
	runs, err := trainingRuns()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, run := range runs {
		rows = append(rows, run.row())
	}
	return rows, nil
}

// tolerance is how far the middle of a prediction may be from its measurement.
const tolerance = 0.08

// trainingTable is the name of the table.
const trainingTable = "training"

// row is the prediction of a run beside its measurement.
func (r measuredRun) row() Row {
	row := Row{Table: trainingTable, Name: r.ID, Quantity: r.Field + ", " + r.Scope, Want: int64(math.Round(r.Value * float64(r.Unit)))}
	if r.Why != "" {
		row.Why = r.Why
		return row
	}
	return r.judged(row)
}

// judged is a row with the prediction of its run, without the terms that are
// dropped.
func (r measuredRun) judged(row Row, dropped ...account.TermID) Row {
	figure, doubt, err := r.predicted(dropped)
	if err != nil {
		row.Why = err.Error()
		return row
	}
	low := figure.Low()
	high, known := figure.High()
	if !known {
		row.Why = figure.Reason()
		return row
	}
	if r.Assumed != "" {
		doubt = "the source does not say " + r.Assumed
	}
	row.Open, row.Doubt = doubt != "", doubt
	row.Low, row.High, row.Tolerance = &low, &high, int64(tolerance*float64(row.Want))
	return row
}

// predicted is the prediction of what ran, over all that it can have been.
func (r measuredRun) predicted(dropped []account.TermID) (account.Figure, string, error) {
	declared, err := workload.ReadFile(source.Bytes(r.ID, []byte(r.Workload)))
	if err != nil {
		return account.Figure{}, "", err
	}
	f, doubt, err := r.asDeclared(declared, dropped)
	for _, other := range r.Or {
		if err != nil || doubt != "" {
			break
		}
		var or account.Figure
		if or, doubt, err = r.instead(other, dropped); err == nil && held(declared.GPU, or) {
			f = over(f, or)
		}
	}
	return f, doubt, err
}

// held reports whether a card can have held what a run takes.
func held(gpu string, f account.Figure) bool {
	card, err := floodmark.FindCard(gpu)
	if err != nil {
		return true
	}
	most, known := card.DriverTotal().High()
	return !known || f.Low() <= most
}

// over reaches from the least of two figures to the most of them.
func over(f, g account.Figure) account.Figure {
	highest := account.Highest(f.Provenance, f, g)
	if high, known := highest.High(); known {
		return account.Between(min(f.Low(), g.Low()), high, f.Provenance)
	}
	return highest
}

// instead is the prediction with other values of some parts of the workload.
func (r measuredRun) instead(other map[string]any, dropped []account.TermID) (account.Figure, string, error) {
	declared, err := withParts(r.ID, r.Workload, other)
	if err != nil {
		return account.Figure{}, "", err
	}
	return r.asDeclared(declared, dropped)
}

// withParts is a workload with other values of some of its parts.
func withParts(id, text string, other map[string]any) (*workload.File, error) {
	var parts map[string]any
	if err := yaml.Unmarshal([]byte(text), &parts); err != nil {
		return nil, err
	}
	putOver(parts, other)
	whole, err := yaml.Marshal(parts)
	if err != nil {
		return nil, err
	}
	return workload.ReadFile(source.Bytes(id, whole))
}

// putOver puts values over others of the same names, and those of parts into the parts.
func putOver(parts, other map[string]any) {
	for name, value := range other {
		was, nested := parts[name].(map[string]any)
		fields, ok := value.(map[string]any)
		if nested && ok {
			putOver(was, fields)
			continue
		}
		parts[name] = value
	}
}

// asDeclared is the prediction by the modules of the software that a workload names,
// where they have programs. Where they have none the row is compared with those of
// transformers, and judged as one of which nobody can say the most, for that is
// what the program says of it: the doubt is why.
func (r measuredRun) asDeclared(declared *workload.File, dropped []account.TermID) (f account.Figure, doubt string, err error) {
	if f, err = r.predict(declared, dropped); err != nil {
		return f, "", err
	}
	if f.Known() && r.Shortest > 0 {
		declared.Workload.Inputs[0].Dimensions[workload.Context] = r.Shortest
		least, err := r.predict(declared, dropped)
		return over(least, f), "", err
	}
	if f.Known() || declared.Workload.Engine == (workload.Engine{}) {
		return f, "", nil
	}
	doubt = f.Reason()
	declared.Workload.Engine = workload.Engine{}
	f, err = r.predict(declared, dropped)
	return f, doubt, err
}

// loadedLater is the most that libraries and kernels were seen to take on a card
// beside a context that was read before anything was multiplied: 0.46 GiB (the
// rule of outside.Context).
const loadedLater = 46 << 30 / 100

// predict is the peak of the row's counter over all phases, or its level at the
// end of one, without what is taken only because it is free.
func (r measuredRun) predict(f *workload.File, dropped []account.TermID) (account.Figure, error) {
	request := floodmark.Request{ModelPath: filepath.Join(trainingModels, r.Model+".json"), Workload: f.Workload}
	if f.GPU != "" {
		card, err := floodmark.FindCard(f.GPU)
		if err != nil {
			return account.Figure{}, err
		}
		request.Card = &card
	}
	p, err := floodmark.Estimate(context.Background(), request)
	if err != nil {
		return account.Figure{}, err
	}
	scope := account.Scope(r.Scope)
	if r.Context > 0 {
		scope = account.Reserved
	}
	var peaks []account.Figure
	a := p.Accounts()[0]
	for _, phase := range a.Phases {
		switch {
		case r.Step > 0 && phase.Step > r.Step:
		case r.Phase == "":
			peaks = append(peaks, without(a, phase, phase.Peak(scope).Figure, dropped))
		case string(phase.ID) == r.Phase:
			peaks = []account.Figure{levelAfter(phase.End.In(scope))}
		}
	}
	highest := account.Highest(account.Provenance{Scope: scope}, peaks...)
	if r.Context > 0 {
		before := int64(r.Context * float64(r.Unit))
		read := account.Exact(before, account.Provenance{Scope: account.Process})
		if r.Phase == "" {
			read = account.Between(before, before+loadedLater, read.Provenance)
		}
		highest = account.Sum(read.Provenance, highest, read)
	}
	return highest.Needed(), nil
}

// without is a peak less what some terms hold at it.
func without(a account.Account, phase account.Phase, f account.Figure, dropped []account.TermID) account.Figure {
	for _, s := range phase.AtPeak {
		if slices.Contains(dropped, a.Terms[s.Term].ID) {
			f = f.Minus(s.Bytes, f.Provenance)
		}
	}
	return f
}

// levelAfter is a level that was read when a phase was over: what stood beside it
// for a while is gone then. What lies outside the allocator is not.
func levelAfter(f account.Figure) account.Figure {
	if f.Scope == account.Process {
		return f
	}
	return account.Exact(f.Low(), f.Provenance)
}

// errorOf is how far a prediction is from its measurement; false without one.
func (r Row) errorOf() (float64, bool) {
	if r.Low == nil || r.High == nil || r.Want == 0 {
		return 0, false
	}
	middle := *r.Low + (*r.High-*r.Low)/2
	return float64(middle-r.Want) / float64(r.Want), true
}

// shyness is why a row is not said to fit at a multiple of its measurement; empty
// where it is.
func (r Row) shyness(factor float64) string {
	switch {
	case r.High == nil:
		return "no figure: " + r.Why
	case r.Open:
		return "nobody can say the most: " + r.Doubt
	case float64(*r.High) > factor*float64(r.Want):
		return fmt.Sprintf("at most %d of %d", *r.High, int64(factor*float64(r.Want)))
	}
	return ""
}

// figures are the three that count, over the rows of measurements.
type figures struct {
	rows, misses                      int
	median, ninth, bias               float64 // of the rows with a figure
	falseFits, shy, shyer, falseAlarm int
	alarms                            int // at 1.25
}

// scoreOf judges rows: each is decided against fractions of its measured peak,
// which it must not fit, and against more than it.
func scoreOf(rows []Row) figures {
	s := figures{rows: len(rows)}
	var absolute []float64
	sum := 0.0
	for _, r := range rows {
		e, ok := r.errorOf()
		if !ok {
			s.misses++
			s.shy++
			s.shyer++
			continue
		}
		absolute, sum = append(absolute, math.Abs(e)), sum+e
		times := func(n *int64, factor float64) bool { return float64(*n) <= factor*float64(r.Want) }
		if !r.Open && times(r.High, 0.99) {
			s.falseFits++
		}
		if r.shyness(1.10) != "" {
			s.shy++
		}
		if r.shyness(1.25) != "" {
			s.shyer++
		}
		if !times(r.Low, 1.10) {
			s.falseAlarm++
		}
		if !times(r.Low, 1.25) {
			s.alarms++
		}
	}
	if len(absolute) > 0 {
		slices.Sort(absolute)
		s.median, s.ninth = absolute[len(absolute)/2], absolute[min(len(absolute)-1, len(absolute)*9/10)]
		s.bias = sum / float64(len(absolute))
	}
	return s
}

// String is the figures in a sentence.
func (s figures) String() string {
	return fmt.Sprintf("%d rows, %d without a figure; of the others the median error is %.1f %%, nine in ten within %.1f %%, the bias %+.1f %%. "+
		"False fits at 0.99 of the measurement: %d. Not said to fit at 1.10: %d, at 1.25: %d (rows without a figure included). Said not to fit at 1.10: %d, at 1.25: %d.",
		s.rows, s.misses, 100*s.median, 100*s.ninth, 100*s.bias, s.falseFits, s.shy, s.shyer, s.falseAlarm, s.alarms)
}

// published is the scored rows of training on one card, from the list of
// measurements, with why those that do not count do not.
func published(path string) (map[string]string, error) {
	list := map[string]string{}
	err := lines(path, func(data []byte) error {
		var r struct {
			ID     string
			GPUs   json.RawMessage `json:"gpus"`
			Score  bool
			Sanity string `json:"sanity_kind"`
			Other  struct{ Compile bool }
		}
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		if !r.Score || string(r.GPUs) != "1" {
			return nil
		}
		list[r.ID] = notCounted(r.ID, r.Sanity, r.Other.Compile)
		return nil
	})
	return list, err
}

// notCounted is why a row is listed and not counted; empty for one that counts.
func notCounted(id, sanity string, compiled bool) string {
	switch {
	case strings.HasPrefix(sanity, "fitted"), strings.HasPrefix(sanity, "post hoc"):
		return "its arithmetic was made to fit it"
	case compiled || strings.HasSuffix(id, "-compile"):
		return "it ran under torch.compile"
	case strings.HasPrefix(id, "llmc-"):
		return "it is no PyTorch"
	}
	return ""
}
