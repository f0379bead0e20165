package floodmark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
	Field workload.Dimension // one of SolvableFields of the operation, or of LayoutFields
	// CacheRoom is the bytes for the cache on the limiting rank. Where it is
	// given, the answer is how many whole payloads it holds, and no card is asked.
	CacheRoom int64

	estimate func(context.Context, Request) (*Prediction, error) // nil for Estimate
}

// ask is an estimate, or one that is known already.
func (r SolveRequest) ask(ctx context.Context, q Request) (*Prediction, error) {
	if r.estimate != nil {
		return r.estimate(ctx, q)
	}
	return Estimate(ctx, q)
}

// Solved is the answer, with the prediction at it.
type Solved struct {
	Field      workload.Dimension
	Prediction *Prediction
	Solution   record.Solution
	Cards      []record.CardSolution // one a card, where every card was asked for
}

// SolvableFields lists the dimensions that can be solved for of an operation: an
// evaluation and a training process samples, and what is exported has no size.
func SolvableFields(op workload.Operation) []workload.Dimension {
	switch op {
	case workload.Training, workload.FineTuning:
		return []workload.Dimension{workload.Context, workload.MicroBatch}
	case workload.Evaluation:
		return []workload.Dimension{workload.Context, workload.Batch}
	case workload.Export:
		return nil
	}
	return []workload.Dimension{workload.Context, workload.Generated, workload.Sequences}
}

// running is the request of something that runs: who asks for the most of a model that
// is only loaded asks about its generation.
func (r Request) running() Request {
	if op := r.Workload.Operation; op == "" || op == workload.Load {
		r.Workload.Operation = workload.Generation
	}
	return r
}

// mostSequences bounds the search for sequences: far more than any engine runs.
const mostSequences = 1 << 20

// mostPositions bounds the search for lengths of a model that declares none.
const mostPositions = 1 << 24

// Solve finds the largest value of a dimension that fits, or the fewest ranks
// ([LayoutFields]), over the same exact
// estimate that [Estimate] makes.
func Solve(ctx context.Context, r SolveRequest) (*Solved, error) {
	r.Request = r.running()
	if r.Field == Utilization {
		return solveUtilization(ctx, r)
	}
	if slices.Contains(LayoutFields(), r.Field) && r.CacheRoom == 0 {
		return solveLayout(ctx, r)
	}
	if !slices.Contains(SolvableFields(r.Workload.Operation), r.Field) {
		return nil, unsolvable(r.Workload.Operation, r.Field)
	}
	if r.CacheRoom > 0 {
		return solveRoom(ctx, r)
	}
	if r.Card == nil && r.Free == nil {
		return nil, &SettingsError{errors.New("there is no card to fit on: name one with --gpu, or a room for the cache with --cache-room")}
	}
	r.Workload = r.longestAsked()
	high, limit := r.highest()
	judge := func(ctx context.Context, value int64) (fit.Verdict, error) {
		p, err := r.ask(ctx, r.with(value))
		if err != nil {
			return fit.Verdict{}, err
		}
		return *p.Verdict, nil
	}
	s, err := solve.Largest(ctx, 1, high, judge)
	if err != nil {
		return nil, err
	}
	p, err := r.ask(ctx, r.with(max(s.Value, 1)))
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
		if r.Field != workload.Sequences {
			q.Workload.Serving = lengthened(q.Workload, int64(r.Model.MaxPosition), dimensions)
		}
		q.Workload.Inputs = append(q.Workload.Inputs, workload.Input{Name: in.Name, Dimensions: dimensions})
	}
	return q
}

// longestAsked is the workload of a command that declares no lengths: how many
// sequences an engine with a budget holds is asked of its longest, as it counts
// them itself when it starts. Without a length a sequence would hold nothing, and
// any number of them would fit.
func (r SolveRequest) longestAsked() workload.Workload {
	w := r.Workload
	_, context := w.Dimension(workload.Context)
	_, generated := w.Dimension(workload.Generated)
	if r.Field != workload.Sequences || w.Engine.Name != "vllm" || context || generated {
		return w
	}
	length := int64(r.Model.MaxPosition)
	if w.Serving != nil && w.Serving.MaxLength > 0 {
		length = w.Serving.MaxLength
	}
	if length == 0 {
		return w
	}
	w.Inputs = []workload.Input{{Name: "longest length", Dimensions: map[workload.Dimension]int64{workload.Context: length, workload.Generated: 0}}}
	return w
}

// lengthened lets an engine that fills a budget take the sequences that are asked
// about: its longest length is theirs, as far as the model declares, or the workload
// itself allows.
func lengthened(w workload.Workload, declared int64, dimensions map[workload.Dimension]int64) *workload.Serving {
	if w.Engine.Name != "vllm" {
		return w.Serving
	}
	var s workload.Serving
	if w.Serving != nil {
		s = *w.Serving
	}
	longest := max(declared, s.MaxLength)
	s.MaxLength = math.MaxInt64
	if sum, fits := bytesize.Add(dimensions[workload.Context], dimensions[workload.Generated]); fits {
		s.MaxLength = sum
	}
	if longest > 0 { // beyond it the engine refuses the sequence, whatever it is told
		s.MaxLength = min(s.MaxLength, longest)
	}
	return &s
}

// highest is the largest value that is looked at, and why.
func (r SolveRequest) highest() (int64, string) {
	if r.Field == workload.Sequences || r.Field == workload.MicroBatch || r.Field == workload.Batch {
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
// sequence is the largest, the states of recurrent layers included.
func solveRoom(ctx context.Context, r SolveRequest) (*Solved, error) {
	if r.Field != workload.Sequences {
		return nil, &SettingsError{errors.New("--cache-room counts sequences: solve sequences, with --context and --generated")}
	}
	p, err := r.ask(ctx, r.with(1))
	if err != nil {
		return nil, err
	}
	payload, rank := p.keptOfOne()
	most, known := payload.High()
	switch {
	case !known:
		return nil, &SettingsError{fmt.Errorf("what one sequence keeps is not known: %s", payload.Reason())}
	case most == 0:
		return nil, &SettingsError{errors.New("one sequence keeps nothing on any rank, because no layer caches a position or there is none: a room for it bounds nothing (solve sequences on a --gpu)")}
	}
	s := record.Solution{Field: string(r.Field), RoomBytes: &r.CacheRoom,
		LimitReason: fmt.Sprintf("rank %d holds %s for each sequence, before any rounding to blocks", rank, bytesize.Format(most, bytesize.Suggest(most)))}
	count, left, err := solve.Payloads(r.CacheRoom, most)
	if err != nil {
		return nil, &SettingsError{err}
	}
	p.Request.Warnings = append(p.Request.Warnings, account.Warning{Code: "cache_alone", Text: "a count of caches says nothing of throughput, nor of what else the card holds"})
	open := count
	s.Value, s.OpenValue = &count, &open
	if each, exact := payload.IsExact(); exact {
		s.PayloadBytes, s.RemainderBytes = &each, &left
		return &Solved{Field: r.Field, Prediction: p, Solution: s}, nil
	}
	s.LimitReason = fmt.Sprintf("rank %d holds %s to %s for each sequence, before any rounding to blocks: the format of its recurrent states is the engine's choice",
		rank, bytesize.Format(payload.Low(), bytesize.Suggest(most)), bytesize.Format(most, bytesize.Suggest(most)))
	if open, _, err = solve.Payloads(r.CacheRoom, max(1, payload.Low())); err != nil {
		return nil, &SettingsError{err}
	}
	return &Solved{Field: r.Field, Prediction: p, Solution: s}, nil
}

// keptOfOne is what the limiting rank keeps by the end of decode, and which rank
// that is.
func (p *Prediction) keptOfOne() (account.Figure, int) {
	var most account.Figure
	rank := -1
	for _, a := range p.Accounts() {
		held := heldIn(a, account.PhaseDecode)
		f := account.Sum(account.Provenance{}, held[account.TermKVCache], held[account.TermRecurrentState])
		if rank < 0 || f.Low() > most.Low() {
			most, rank = f, a.Ranks[0]
		}
	}
	return most, rank
}

// Record is the solution with the estimate at it.
func (s *Solved) Record(tool record.Tool) any {
	r := &record.Solve{Estimate: *s.Prediction.Record(tool).(*record.Estimate), Solution: s.Solution, ByCard: s.Cards}
	r.Kind = record.KindSolve
	return r
}
