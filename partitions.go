package floodmark

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
	"floodmark/workload"
)

// Partitions is the least number of even parts into which what training keeps of
// a model's parameters must be cut, so that each is within a budget. It bounds the
// capacity from below: it is no configuration that runs.
type Partitions struct {
	Parameters int64
	Layout     string
	Budget     int64 // bytes of one part
	Count      int64
	States     []record.StateBytes
	StateBytes int64 // of all parts together

	name *string // of the model
}

// SolvePartitions counts the parts. A layout is named by formats, as training's
// precision is, or by the bytes of each tensor: "2+2+4+4+4". Worked numbers:
// 70,600,000,000 parameters in 2+2+4+4+4 are 1,129,600,000,000 bytes, which with
// 64 GB are 18 parts, and with 64 GiB 17.
func SolvePartitions(parameters int64, name *string, layout string, budget int64) (*Partitions, error) {
	switch {
	case parameters < 1:
		return nil, &SettingsError{fmt.Errorf("a model has at least one parameter, not %d", parameters)}
	case budget < 1:
		return nil, &SettingsError{fmt.Errorf("a part of %d bytes holds nothing", budget)}
	}
	states, err := layoutStates(parameters, layout)
	if err != nil {
		return nil, &SettingsError{fmt.Errorf("the layout %q: %w", layout, err)}
	}
	p := &Partitions{Parameters: parameters, Layout: layout, Budget: budget, States: states, name: name}
	for _, s := range states {
		var fits bool
		if p.StateBytes, fits = bytesize.Add(p.StateBytes, s.Bytes); !fits {
			return nil, &SettingsError{bytesize.ErrOverflow}
		}
	}
	p.Count = bytesize.CeilDiv(p.StateBytes, budget)
	return p, nil
}

// stateNames are what the bytes of a layout stand for, in its order.
func stateNames() []string {
	return []string{"parameters", "gradients", "master copy", "first moment", "second moment"}
}

// layoutStates is the tensors of a layout.
func layoutStates(parameters int64, layout string) ([]record.StateBytes, error) {
	if !strings.ContainsFunc(layout, func(r rune) bool { return r != '+' && (r < '0' || r > '9') }) {
		return statesByBytes(parameters, layout)
	}
	prepared, err := PrepareTraining(parameters, layout, 0, nil, "")
	if err != nil {
		return nil, err
	}
	formats, _, err := workload.ParseLayout(layout)
	if err != nil {
		return nil, err
	}
	states := []record.StateBytes{{Tensor: stateNames()[0], Format: workload.FormatName(formats.Parameters), Bytes: prepared.WeightsBytes}}
	for _, k := range prepared.kept {
		states = append(states, k.StateBytes)
	}
	return states, nil
}

// statesByBytes reads "2+2+4+4+4".
func statesByBytes(parameters int64, layout string) ([]record.StateBytes, error) {
	words := strings.Split(layout, "+")
	if len(words) != len(stateNames()) {
		return nil, fmt.Errorf("has %d numbers, expected the bytes of %s (0 for none)", len(words), strings.Join(stateNames(), ", "))
	}
	var states []record.StateBytes
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 8)
		if err != nil || n > 8 {
			return nil, fmt.Errorf("says %q bytes a parameter for the %s, expected 0 to 8", word, stateNames()[i])
		}
		bytes, fits := bytesize.Mul(parameters, n)
		if !fits {
			return nil, bytesize.ErrOverflow
		}
		if n > 0 {
			states = append(states, record.StateBytes{Tensor: stateNames()[i], Format: word + " bytes", Bytes: bytes})
		}
	}
	return states, nil
}

// Record is the answer as a document.
func (p *Partitions) Record(tool record.Tool) any {
	each := bytesize.CeilDiv(p.StateBytes, p.Count)
	left := p.Budget - each
	r := &record.Solve{Estimate: record.Estimate{
		Head:   record.Head{Envelope: record.NewEnvelope(record.KindSolve, tool, nil)},
		Model:  record.ModelFacts{Name: p.name, Parameters: &p.Parameters},
		Engine: record.Engine{Name: "none"},
	}}
	r.Solution = record.Solution{Field: partitionsField, Smallest: true, Value: &p.Count, RemainderBytes: &left, LimitReason: p.reason()}
	r.Solution.Partitions = &record.Partitions{
		Layout: p.Layout, States: p.States, StateBytes: p.StateBytes, BudgetBytes: p.Budget, EachBytes: each,
		Label: "a capacity lower bound for this budget, not a runnable configuration",
		NotIncluded: []string{"parameters that are gathered while a layer runs", "activations at their peak", "buckets and temporary tensors",
			"the context, libraries and what the allocator holds unused", "whether the software runs with so many ranks"},
	}
	return r
}

// partitionsField is the name of what is solved for.
const partitionsField = "partitions"

func (p *Partitions) reason() string {
	if p.Count == 1 {
		return "one part is all of it"
	}
	return fmt.Sprintf("%d parts would be %s each, over the budget of %s", p.Count-1,
		shownIn(bytesize.CeilDiv(p.StateBytes, p.Count-1), p.Budget), shownIn(p.Budget, p.Budget))
}

// shownIn is bytes in the unit in which the budget is a round number.
func shownIn(bytes, budget int64) string {
	unit := bytesize.GB
	if budget%(1<<30) == 0 {
		unit = bytesize.GiB
	}
	return bytesize.Format(bytes, unit)
}
