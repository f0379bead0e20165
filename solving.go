package floodmark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/fit"
	"floodmark/record"
	"floodmark/solve"
	"floodmark/workload"
)

// SolveRequest asks for the largest value of one dimension.
type SolveRequest struct {
	Request
	Field workload.Dimension // one of SolvableFields or LayoutFields
	// CacheRoom is the bytes for the cache on the limiting rank. Where it is
	// given, the answer is how many whole payloads it holds, and no card is asked.
	CacheRoom int64
}

// Solved is the answer, with the prediction at it.
type Solved struct {
	Field      workload.Dimension
	Prediction *Prediction
	Solution   record.Solution
}

// SolvableFields lists the dimensions that can be solved for.
func SolvableFields() []workload.Dimension {
	return []workload.Dimension{workload.Context, workload.Generated, workload.Sequences}
}

// mostSequences bounds the search for sequences: far more than any engine runs.
const mostSequences = 1 << 20

// mostPositions bounds the search for lengths of a model that declares none.
const mostPositions = 1 << 24

// Solve finds the largest value of a dimension that fits, or the fewest ranks
// ([LayoutFields]), over the same exact
// estimate that [Estimate] makes.
func Solve(ctx context.Context, r SolveRequest) (*Solved, error) {
	r.Workload.Operation = workload.Generation
	if slices.Contains(LayoutFields(), r.Field) && r.CacheRoom == 0 {
		return solveLayout(ctx, r)
	}
	if !slices.Contains(SolvableFields(), r.Field) {
		return nil, unsolvable(r.Field)
	}
	if r.CacheRoom > 0 {
		return solveRoom(ctx, r)
	}
	if r.Card == nil && r.Free == nil {
		return nil, &SettingsError{errors.New("there is no card to fit on: name one with --gpu, or a room for the cache with --cache-room")}
	}
	high, limit := r.highest()
	judge := func(ctx context.Context, value int64) (fit.Verdict, error) {
		p, err := Estimate(ctx, r.with(value))
		if err != nil {
			return fit.Verdict{}, err
		}
		return *p.Verdict, nil
	}
	s, err := solve.Largest(ctx, 1, high, judge)
	if err != nil {
		return nil, err
	}
	p, err := Estimate(ctx, r.with(max(s.Value, 1)))
	if err != nil {
		return nil, err
	}
	out := &Solved{Field: r.Field, Prediction: p, Solution: record.Solution{Field: string(r.Field), LimitReason: limitReason(s, high, limit)}}
	if s.Value >= 0 {
		out.Solution.Value = &s.Value
		out.Solution.RemainderBytes, out.Solution.RemainderLowBytes, out.Solution.RemainderHighBytes = record.Interval(s.At.Headroom)
	}
	if s.Open >= 0 {
		out.Solution.OpenValue = &s.Open
	}
	return out, nil
}

// with is the request with one value of the field.
func (r SolveRequest) with(value int64) Request {
	q := r.Request
	q.Workload = q.Workload.Unadmitted(r.Field)
	inputs := q.Workload.Inputs
	if len(inputs) == 0 {
		inputs = []workload.Input{{Name: "solve"}}
	}
	q.Workload.Inputs = nil
	for _, in := range inputs {
		dimensions := maps.Clone(in.Dimensions)
		if dimensions == nil {
			dimensions = map[workload.Dimension]int64{}
		}
		dimensions[r.Field] = value
		q.Workload.Inputs = append(q.Workload.Inputs, workload.Input{Name: in.Name, Dimensions: dimensions})
	}
	return q
}

// highest is the largest value that is looked at, and why.
func (r SolveRequest) highest() (int64, string) {
	if r.Field == workload.Sequences {
		return mostSequences, fmt.Sprintf("%d sequences is as far as the search goes", mostSequences)
	}
	if r.Model.MaxPosition == 0 {
		return mostPositions, fmt.Sprintf("the model declares no longest context; %d positions is as far as the search goes", mostPositions)
	}
	other := workload.Generated
	if r.Field == workload.Generated {
		other = workload.Context
	}
	taken, _ := r.Workload.Dimension(other)
	return max(1, int64(r.Model.MaxPosition)-taken), fmt.Sprintf("the model declares %d positions", r.Model.MaxPosition)
}

func limitReason(s solve.Solution, high int64, limit string) string {
	if s.Value == high {
		return limit
	}
	if len(s.Limit.Reasons) > 0 {
		return s.Limit.Reasons[0]
	}
	return string(s.Limit.Value)
}

// solveRoom counts the payloads of the limiting rank: the one whose cache of one
// sequence is the largest. For lengths it counts positions instead.
func solveRoom(ctx context.Context, r SolveRequest) (*Solved, error) {
	p, err := Estimate(ctx, r.with(1))
	if err != nil {
		return nil, err
	}
	payload, rank := account.Figure{}, 0
	for _, a := range p.Accounts() {
		f := heldIn(a, account.PhaseDecode)[account.TermKVCache]
		if f.Low() > payload.Low() || payload.Status() == account.StatusUnknown {
			payload, rank = f, a.Ranks[0]
		}
	}
	each, exact := payload.IsExact()
	if !exact {
		return nil, &SettingsError{fmt.Errorf("the cache of one %s is not known to the byte: %s", singular(r.Field), payload.Reason())}
	}
	if r.Field != workload.Sequences {
		return nil, &SettingsError{errors.New("--cache-room counts sequences: solve sequences, with --context and --generated")}
	}
	count, left, err := solve.Payloads(r.CacheRoom, each)
	if err != nil {
		return nil, &SettingsError{err}
	}
	return &Solved{Field: r.Field, Prediction: p, Solution: record.Solution{
		Field: string(r.Field), Value: &count, OpenValue: &count, RemainderBytes: &left, PayloadBytes: &each, RoomBytes: &r.CacheRoom,
		LimitReason: fmt.Sprintf("rank %d holds %s for each sequence, before any rounding to blocks", rank, bytesize.Format(each, bytesize.Suggest(each))),
	}}, nil
}

func singular(d workload.Dimension) string {
	if d == workload.Sequences {
		return "sequence"
	}
	return "position"
}

// Record is the solution with the estimate at it.
func (s *Solved) Record(tool record.Tool) any {
	r := &record.Solve{Estimate: *s.Prediction.Record(tool).(*record.Estimate), Solution: s.Solution}
	r.Kind = record.KindSolve
	return r
}
