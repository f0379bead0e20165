package floodmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"floodmark/device"
	"floodmark/internal/sorting"
	"floodmark/record"
)

// SolveOnEveryCard is [Solve] on every card of the catalogue, each under every
// rank. Cards of one architecture share their accounts, so that each value is
// estimated once for all of them; an engine that fills its budget is asked for
// each card.
func SolveOnEveryCard(ctx context.Context, r SolveRequest) (*Solved, error) {
	if r.CacheRoom > 0 {
		return nil, &SettingsError{errors.New("--cache-room asks no card: it is a room on any")}
	}
	cards, err := device.Catalogue()
	if err != nil {
		return nil, err
	}
	groups := map[string][]device.Card{}
	for _, c := range cards {
		groups[architecture(c)] = append(groups[architecture(c)], c)
	}
	answers, err := solveGroups(ctx, r, groups)
	if err != nil {
		return nil, err
	}
	r.Card, r.Free = nil, nil
	q := r.Request
	if slices.Contains(SolvableFields(r.running().Workload.Operation), r.Field) {
		q = r.with(1)
	}
	p, err := Estimate(ctx, q)
	if err != nil {
		return nil, err
	}
	smallest := slices.Contains(LayoutFields(), r.Field)
	sorting.By(answers, func(i, j int) int {
		a, b := answers[i], answers[j]
		return cmp.Or(cmp.Compare(lowOf(a), lowOf(b)), cmp.Compare(a.ID, b.ID))
	})
	return &Solved{Field: r.Field, Prediction: p, Cards: answers, Solution: record.Solution{
		Field: string(r.Field), Smallest: smallest, LimitReason: "each card has a limit of its own"}}, nil
}

// lowOf is the bytes that a card reports at least.
func lowOf(c record.CardSolution) int64 {
	switch {
	case c.ReportedBytes != nil:
		return *c.ReportedBytes
	case c.ReportedLowBytes != nil:
		return *c.ReportedLowBytes
	}
	return 0
}

// solveGroups solves for the cards of each architecture, one after the other,
// and for architectures side by side.
func solveGroups(ctx context.Context, r SolveRequest, groups map[string][]device.Card) ([]record.CardSolution, error) {
	var list [][]device.Card
	for _, cards := range groups {
		list = append(list, cards)
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(len(list[j]), len(list[i])) })
	made, failed := make([][]record.CardSolution, len(list)), make([]error, len(list))
	var workers sync.WaitGroup
	next := atomic.Int64{}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				made[i], failed[i] = solveGroup(ctx, r, list[i])
			}
		})
	}
	workers.Wait()
	return slices.Concat(made...), errors.Join(failed...)
}

// solveGroup solves for cards on which the accounts are equal.
func solveGroup(ctx context.Context, r SolveRequest, cards []device.Card) ([]record.CardSolution, error) {
	known := map[string]*Prediction{}
	r.estimate = func(ctx context.Context, q Request) (*Prediction, error) {
		key := fmt.Sprint(q.Workload.Mesh, q.Workload.Inputs)
		if p, ok := known[key]; ok {
			again := *p
			again.Request = q
			again.decide()
			return &again, nil
		}
		p, err := Estimate(ctx, q)
		if err == nil && p.Capacity == nil {
			known[key] = p
		}
		return p, err
	}
	var list []record.CardSolution
	for _, c := range cards {
		r.Card, r.Free = &c, nil
		s, err := Solve(ctx, r)
		if err != nil {
			return nil, err
		}
		row := record.CardSolution{ID: c.ID, Name: record.Text(c.Name), Value: s.Solution.Value, OpenValue: s.Solution.OpenValue, LimitReason: s.Solution.LimitReason}
		row.ReportedBytes, row.ReportedLowBytes, row.ReportedHighBytes = record.Interval(memory(r.Request, nil).Total)
		list = append(list, row)
	}
	return list, nil
}
