package accuracy

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"floodmark"
	"floodmark/account"
	"floodmark/model/megatronmodel"
	"floodmark/workload"
)

//go:embed megatron.yaml
var megatronYAML []byte

// megatronTable is the name of the table.
const megatronTable = "megatron"

// megatronRun is a published run of Megatron-LM on several cards.
type megatronRun struct {
	ID       string                  `yaml:"id"`
	Model    megatronmodel.Arguments `yaml:"model"`
	Workload string                  `yaml:"workload"` // as a workload file
	// Or are other values of what the source leaves open, each for parts of the
	// workload: the figure reaches over all that the card can have held.
	Or      []map[string]any `yaml:"or"`
	Why     string           `yaml:"why"` // nothing is predicted, because
	Figures []megatronFigure `yaml:"figures"`
}

// megatronFigure is one reading of it.
type megatronFigure struct {
	Field string `yaml:"field"`
	Rank  string `yaml:"rank"`  // a number, last, or any: the source says the figure of one of them
	Phase string `yaml:"phase"` // of whose end the level was read; empty for the peak of all
	After int    `yaml:"after"` // the step after which the peak was read; 0 for the last
	Bytes int64  `yaml:"bytes"`
	// With is what the run of this figure had otherwise than the workload says.
	With map[string]any `yaml:"with"`
}

// megatronRuns are the runs that count.
func megatronRuns() ([]megatronRun, error) {
	var runs []megatronRun
	if err := yaml.UnmarshalWithOptions(megatronYAML, &runs, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("megatron.yaml: %w", err)
	}
	return runs, nil
}

// steadyTolerance and peakTolerance are how far the figures may be from what was
// measured.
const (
	steadyTolerance = 0.005
	peakTolerance   = 0.02
)

// Megatron predicts every run at its own counter, rank by rank.
func Megatron() ([]Row, error) {
	runs, err := megatronRuns()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, run := range runs {
		rows = append(rows, run.rows()...)
	}
	return rows, nil
}

func (r megatronRun) rows(dropped ...account.TermID) (rows []Row) {
	made := map[string][][]account.Account{} // by what a figure's run had otherwise
	why := r.Why
	for _, f := range r.Figures {
		key := fmt.Sprint(f.With)
		if made[key] == nil && why == "" {
			var err error
			if made[key], err = r.predictions(f.With); err != nil {
				why = err.Error()
			}
		}
		row := Row{Table: megatronTable, Name: r.ID, Quantity: f.quantity(), Want: f.Bytes, Why: why}
		if why == "" {
			f.judge(&row, made[key], dropped)
		}
		rows = append(rows, row)
	}
	return rows
}

func (f megatronFigure) quantity() string {
	said := f.Field
	switch f.Rank {
	case "":
	case anyRank:
		said += " of any rank"
	default:
		said += " of rank " + f.Rank
	}
	if f.After > 0 {
		said += fmt.Sprintf(" after step %d", f.After)
	}
	return said + ", allocated"
}

// anyRank is a figure of which nobody says whose it is.
const anyRank = "any"

// judge puts a prediction beside what was read.
func (f megatronFigure) judge(row *Row, ways [][]account.Account, dropped []account.TermID) {
	figure := f.of(ways[0], dropped)
	for _, accounts := range ways[1:] {
		figure = over(figure, f.of(accounts, dropped))
	}
	low := figure.Low()
	high, known := figure.High()
	if !known {
		row.Why = figure.Reason()
		return
	}
	tolerance := peakTolerance
	if f.Phase != "" {
		tolerance = steadyTolerance
	}
	row.Low, row.High, row.Tolerance = &low, &high, int64(tolerance*float64(f.Bytes))
}

// of is the figure of one rank, or what it is over all of them.
func (f megatronFigure) of(accounts []account.Account, dropped []account.TermID) account.Figure {
	a := accounts[len(accounts)-1]
	if f.Rank == anyRank && len(accounts) > 1 {
		return over(f.of(accounts[:1], dropped), f.of(accounts[1:], dropped))
	}
	for _, other := range accounts {
		for _, rank := range other.Ranks {
			if fmt.Sprint(rank) == f.Rank {
				a = other
			}
		}
	}
	var peaks []account.Figure
	for _, phase := range a.Phases {
		switch {
		case f.After > 0 && phase.Step > f.After:
		case f.Phase == "":
			peaks = append(peaks, without(a, phase, phase.Peak(account.Allocated).Figure, dropped))
		case string(phase.ID) == f.Phase:
			peaks = []account.Figure{levelAfter(phase.End.In(account.Allocated))}
		}
	}
	return account.Highest(account.Provenance{Scope: account.Allocated}, peaks...)
}

// predictions are the accounts of the run of a figure, and of all else that it can have
// been.
func (r megatronRun) predictions(with map[string]any) (ways [][]account.Account, err error) {
	for _, other := range append([]map[string]any{nil}, r.Or...) {
		parts := map[string]any{}
		putOver(parts, with)
		putOver(parts, other)
		f, err := withParts(r.ID, r.Workload, parts)
		if err != nil {
			return nil, err
		}
		p, err := r.predict(f)
		if err != nil {
			return nil, err
		}
		if accounts := p.Accounts(); other == nil || held(f.GPU, (megatronFigure{}).of(accounts, nil)) {
			ways = append(ways, accounts)
		}
	}
	return ways, nil
}

func (r megatronRun) predict(f *workload.File) (*floodmark.Prediction, error) {
	m, err := megatronmodel.New(r.ID, r.Model)
	if err != nil {
		return nil, err
	}
	request := floodmark.Request{Model: m, Workload: f.Workload}
	card, err := floodmark.FindCard(f.GPU)
	if err != nil {
		return nil, err
	}
	request.Card = &card
	return floodmark.Estimate(context.Background(), request)
}

// frameworkOf is the software of a row: its name's first word.
func frameworkOf(r Row) string {
	name, _, _ := strings.Cut(r.Name, "-")
	return map[string]string{"megatron": "Megatron-LM, golden values", "simumax": "Megatron-LM on B200 (SimuMax)", "mbridge": "Megatron-Bridge"}[name]
}

// leastRows is the rows that a framework needs to be scored apart.
const leastRows = 5

// frameworks is the three figures over all rows, and for each framework that has
// rows enough.
func frameworks(rows []Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "All: %s\n\n", scoreOf(rows))
	var names []string
	by := map[string][]Row{}
	for _, r := range rows {
		name := frameworkOf(r)
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], r)
	}
	for _, name := range names {
		if len(by[name]) >= leastRows {
			fmt.Fprintf(&b, "%s: %s\n\n", name, scoreOf(by[name]))
		}
	}
	return b.String()
}
