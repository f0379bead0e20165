package floodmark

import (
	"context"
	"errors"
	"fmt"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/parallel"
	"floodmark/record"
	"floodmark/workload"
)

// The counts of ranks that can be solved for: the fewest that fit.
const (
	TensorParallel   workload.Dimension = "tensor_parallel"
	PipelineParallel workload.Dimension = "pipeline_parallel"
	GPUCount         workload.Dimension = "gpus" // tensor parallel × pipeline parallel
)

// LayoutFields lists the counts of ranks that can be solved for.
func LayoutFields() []workload.Dimension {
	return []workload.Dimension{TensorParallel, PipelineParallel, GPUCount}
}

// mostRanks bounds the search for a layout.
const mostRanks = 64

// layouts lists the divisions that a field stands for, fewer cards first; of as
// many cards the one with the widest tensor parallelism, which talks within one
// layer and has no stages to balance.
func layouts(field workload.Dimension, mesh workload.Mesh) []workload.Mesh {
	var list []workload.Mesh
	for n := 1; n <= mostRanks; n++ {
		m := mesh
		switch field {
		case TensorParallel:
			m.TensorParallel = n
			list = append(list, m)
		case PipelineParallel:
			m.PipelineParallel = n
			list = append(list, m)
		default:
			for tensor := n; tensor >= 1; tensor-- {
				if n%tensor == 0 {
					m.TensorParallel, m.PipelineParallel = tensor, n/tensor
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// value is how much of a field a layout has.
func value(field workload.Dimension, m workload.Mesh) int64 {
	switch field {
	case TensorParallel:
		return int64(m.TensorParallel)
	case PipelineParallel:
		return int64(m.PipelineParallel)
	}
	return int64(max(1, m.TensorParallel)) * int64(max(1, m.PipelineParallel))
}

// solveLayout finds the first layout that fits. One that the software cannot run
// is passed over; what fits need not fit on more cards, so that every layout is
// asked in turn.
func solveLayout(ctx context.Context, r SolveRequest) (*Solved, error) {
	if r.Card == nil && r.Free == nil {
		return nil, &SettingsError{errors.New("there is no card to fit on: name one with --gpu")}
	}
	s := record.Solution{Field: string(r.Field), Smallest: true}
	var shown *Prediction
	for _, mesh := range layouts(r.Field, r.Workload.Mesh) {
		q := r.Request
		q.Workload.Mesh = mesh
		p, err := r.ask(ctx, q)
		var broken *parallel.NotSupportedError
		switch {
		case errors.As(err, &broken):
			continue
		case err != nil:
			return nil, err
		}
		n := value(r.Field, mesh)
		if p.Verdict.Value == fit.Fits {
			s.Value, shown = &n, p
			s.RemainderBytes, s.RemainderLowBytes, s.RemainderHighBytes = record.Interval(p.Verdict.Headroom)
			if s.OpenValue == nil {
				s.OpenValue = &n
			}
			break
		}
		if p.Verdict.Value == fit.CannotTell && s.OpenValue == nil {
			s.OpenValue, shown = &n, p
		}
		if hopeless(p) {
			s.LimitReason = reason(*p.Verdict)
			break
		}
		s.LimitReason = fmt.Sprintf("with tensor_parallel %d and pipeline_parallel %d %s", max(1, mesh.TensorParallel), max(1, mesh.PipelineParallel), reason(*p.Verdict))
		if shown == nil {
			shown = p
		}
	}
	switch {
	case shown == nil:
		return nil, &SettingsError{fmt.Errorf("no layout of 1 to %d ranks divides the model", mostRanks)}
	case s.LimitReason == "":
		s.LimitReason = "one is the fewest"
	}
	return &Solved{Field: r.Field, Prediction: shown, Solution: s}, nil
}

// hopeless reports an answer that more ranks do not change: nobody can tell
// because of a card whose capacity is not known, or of a term that has no high
// whatever the layout. What ranks tell each other depends on the layout.
func hopeless(p *Prediction) bool {
	v := p.Verdict
	budget, _ := p.Budgets.Of(v.Rank)
	capacity := budget.Capacity
	need := processIn(p.Accounts()[bindingAccount(p)], v.Phase)
	return v.Value == fit.CannotTell && (capacity.Low() <= 0 || !need.Known() && v.Term != account.TermCommunication)
}

// reason is why a verdict is what it is.
func reason(v fit.Verdict) string {
	if len(v.Reasons) > 0 {
		return v.Reasons[0]
	}
	return "it is " + string(v.Value)
}
