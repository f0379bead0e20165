package timeline

import (
	"testing"

	"floodmark/account"
)

// A model of 100 bytes is loaded; then an unknown number of activations comes
// beside 40 bytes of cache, of which 30 are freed before the end.
func loadAndRun() *Timeline {
	requested := account.Provenance{Origin: account.Calculated, Scope: account.Requested}
	process := account.Provenance{Origin: account.Calculated, Scope: account.Process}
	return &Timeline{
		Ranks: []int{0},
		Terms: []account.Term{
			{ID: account.TermWeights, Category: account.CategoryParameter, Provenance: requested},
			{ID: account.TermKVCache, Category: account.CategoryKVCache, Provenance: requested},
			{ID: account.TermActivations, Category: account.CategoryActivation, Provenance: requested},
			{ID: account.TermContext, Category: account.CategoryContext, Provenance: process},
		},
		Allocs: []Alloc{{Requested: 100, Term: 0}, {Requested: 10, Term: 1}, {Requested: 30, Term: 1}},
		Events: []Event{{Born, 0}, {Born, 1}, {Born, 2}, {FreeRequested, 2}, {FreeCompleted, 2}},
		Phases: []Span{{Phase: account.PhaseModelLoad, First: 0, Last: 1}, {Phase: account.PhasePrefill, First: 1, Last: 5}},
		Bounds: []Bound{
			{Term: 2, From: 1, To: 1, Figure: account.Unknown("not modelled", requested)},
			{Term: 3, From: 0, To: 1, Figure: account.Between(5, 7, process)},
		},
	}
}

func TestAccountByPhase(t *testing.T) {
	a := loadAndRun().Account()
	load, prefill := a.Phases[0], a.Phases[1]
	if n, ok := load.Peak(account.Requested).Figure.IsExact(); !ok || n != 100 {
		t.Errorf("loading peaks at %d, %v", n, ok)
	}
	if peak := load.Peak(account.Process).Figure; peak.Low() != 105 || peak.Known() {
		t.Errorf("the process holds at least %d while loading, known %v; want 105 and unknown, because rounding is", peak.Low(), peak.Known())
	}
	requested := prefill.Peak(account.Requested)
	if requested.Figure.Low() != 140 || requested.Figure.Known() || requested.Figure.Reason() != "not modelled" || requested.Moment != 2 {
		t.Errorf("prefill peaks at %+v", requested)
	}
	if end := prefill.End.Requested.Low(); end != 110 {
		t.Errorf("prefill ends at %d, want 110", end)
	}
	var at []int64
	for _, s := range prefill.AtPeak {
		at = append(at, s.Bytes.Low())
	}
	if len(at) != 4 || at[0] != 100 || at[1] != 40 || at[2] != 0 || at[3] != 5 {
		t.Errorf("the peak is made of %v", at)
	}
}

func TestUnattributedHasARow(t *testing.T) {
	a := twoSteps().Account()
	if len(a.Terms) != 1 {
		tl := twoSteps()
		for i := range tl.Allocs {
			tl.Allocs[i].Term = NoTerm
		}
		a = tl.Account()
	}
	phase := a.Phases[0]
	if phase.ID != account.PhaseRecorded || len(phase.AtPeak) != 1 || phase.AtPeak[0].Bytes.Low() != 170 {
		t.Errorf("a trace without terms gives %+v", phase.AtPeak)
	}
}
