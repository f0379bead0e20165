package fit

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/checklist"
)

const gib = int64(1) << 30

func process(f func(account.Provenance) account.Figure) account.Figure {
	return f(account.Provenance{Origin: account.Calculated, Scope: account.Process})
}

// oneRank is an account whose only phase peaks at that figure.
func oneRank(rank int, peaks ...account.Figure) account.Account {
	a := account.Account{Ranks: []int{rank}, Terms: []account.Term{{ID: account.TermWeights}}}
	phase := account.Phase{ID: account.PhaseDecode, AtPeak: []account.Share{{Term: 0, Bytes: peaks[0]}}}
	for _, p := range peaks {
		phase.Peaks = append(phase.Peaks, account.Peak{Figure: p})
	}
	a.Phases = []account.Phase{phase}
	return a
}

func card(low, high int64) Budget {
	none := account.Zero("nobody else", account.Provenance{Origin: account.Assumed, Scope: account.Device})
	return Budget{Card: "card", Capacity: account.Between(low, high, account.Provenance{Scope: account.Device}), Others: none}
}

func TestDecide(t *testing.T) {
	checklist.Covers(t, 171)
	exact := func(n int64) account.Figure {
		return process(func(p account.Provenance) account.Figure { return account.Exact(n, p) })
	}
	between := func(a, b int64) account.Figure {
		return process(func(p account.Provenance) account.Figure { return account.Between(a, b, p) })
	}
	atLeast := func(n int64) account.Figure {
		return process(func(p account.Provenance) account.Figure { return account.AtLeast(n, "activations unknown", p) })
	}
	yielding := func(n int64) account.Figure {
		return process(func(p account.Provenance) account.Figure { return account.Yielding(1, n, "workspaces", p) })
	}
	others := card(79*gib, 79*gib)
	others.Others = account.Exact(10*gib, account.Provenance{Scope: account.Device})

	for _, c := range []struct {
		name    string
		need    account.Figure
		budget  Budget
		want    Value
		because string
	}{
		{"within the lowest plausible capacity", exact(79 * gib), card(79*gib, 80*gib), Fits, ""},
		{"between lowest and highest nobody can say", exact(79*gib + 1), card(79*gib, 80*gib), CannotTell, "at least 79 GiB"},
		{"above the highest", exact(80*gib + 1), card(79*gib, 80*gib), DoesNotFit, "at most 80 GiB"},
		{"an interval across the capacity", between(70*gib, 90*gib), card(79*gib, 80*gib), CannotTell, "up to 90 GiB"},
		{"a lower bound alone suffices to refuse", atLeast(81 * gib), card(79*gib, 80*gib), DoesNotFit, "at least 81 GiB"},
		{"a lower bound never suffices to accept", atLeast(1), card(79*gib, 80*gib), CannotTell, "activations unknown"},
		{"what is taken only because it is free is not needed", yielding(79 * gib), card(79*gib, 80*gib), Fits, ""},
		{"what of it is needed counts", yielding(79*gib + 1), card(79*gib, 80*gib), CannotTell, "up to 79.00 GiB"},
		{"others on the card count", exact(70 * gib), others, DoesNotFit, "others hold"},
	} {
		got := Decide(Calculated, []account.Account{oneRank(0, c.need)}, map[int]Budget{0: c.budget})
		if got.Value != c.want || (c.because != "" && (len(got.Reasons) == 0 || !strings.Contains(got.Reasons[0], c.because))) {
			t.Errorf("%s: %s %q, want %s because %q", c.name, got.Value, got.Reasons, c.want, c.because)
		}
		if got.Phase != account.PhaseDecode || got.Term != account.TermWeights || got.Rank != 0 {
			t.Errorf("%s: names rank %d, phase %q, term %q", c.name, got.Rank, got.Phase, got.Term)
		}
	}
}

// Two cards are never one pool: the rank that does not fit decides.
func TestWorstRankDecides(t *testing.T) {
	checklist.Covers(t, 85, 156, 157, 164, 224)
	small := process(func(p account.Provenance) account.Figure { return account.Exact(10*gib, p) })
	large := process(func(p account.Provenance) account.Figure { return account.Exact(30*gib, p) })
	budgets := map[int]Budget{0: card(24*gib, 24*gib), 1: card(24*gib, 24*gib)}
	got := Decide(Calculated, []account.Account{oneRank(0, small), oneRank(1, large)}, budgets)
	if got.Value != DoesNotFit || got.Rank != 1 {
		t.Errorf("40 GiB over two cards of 24: %s at rank %d, want does_not_fit at rank 1", got.Value, got.Rank)
	}
	delete(budgets, 1)
	got = Decide(Calculated, []account.Account{oneRank(0, small), oneRank(1, small)}, budgets)
	if got.Value != CannotTell || got.Rank != 1 {
		t.Errorf("a rank without a card: %s at rank %d, want cannot_tell at rank 1", got.Value, got.Rank)
	}
}

// Ranks of one account share its answer, and one with less memory has its own.
func TestRanksOfOneAccount(t *testing.T) {
	need := process(func(p account.Provenance) account.Figure { return account.Exact(10*gib, p) })
	a := oneRank(0, need)
	a.Ranks = []int{0, 1, 2, 3}
	budgets := map[int]Budget{0: card(24*gib, 24*gib), 1: card(24*gib, 24*gib), 2: card(8*gib, 8*gib), 3: card(24*gib, 24*gib)}
	if v := Decide(Calculated, []account.Account{a}, budgets); v.Value != DoesNotFit || v.Rank != 2 {
		t.Errorf("%s on rank %d", v.Value, v.Rank)
	}
	delete(budgets, 2)
	if v := Decide(Calculated, []account.Account{a}, budgets); v.Value != CannotTell || v.Rank != 2 {
		t.Errorf("%s on rank %d where no card is named for rank 2", v.Value, v.Rank)
	}
}

func TestFailedRunIsALowerBound(t *testing.T) {
	checklist.Covers(t, 131)
	a := oneRank(0, process(func(p account.Provenance) account.Figure { return account.Exact(gib, p) }))
	a.Phases[0].Failed = "CUDA out of memory"
	if got := Decide(Measured, []account.Account{a}, map[int]Budget{0: card(24*gib, 24*gib)}); got.Value != CannotTell {
		t.Errorf("a run that died at 1 GiB %s", got.Value)
	}
	// What was calculated without a limit failed for what no card serves.
	asked := account.AtLeast(gib, "the phase did not end", account.Provenance{Origin: account.Calculated, Scope: account.Reserved})
	a.Phases[0].Peaks = append(a.Phases[0].Peaks, account.Peak{Figure: asked})
	if got := Decide(Calculated, []account.Account{a}, map[int]Budget{0: card(24*gib, 24*gib)}); got.Value != NotRunnable {
		t.Errorf("a request that no allocator serves %s", got.Value)
	}
}

// The first step counts as much as the later ones: what only its initialisation
// needs has to be there.
func TestEveryStepCounts(t *testing.T) {
	checklist.Covers(t, 38)
	of := func(n int64) account.Figure {
		return process(func(p account.Provenance) account.Figure { return account.Exact(n*gib, p) })
	}
	for step, peaks := range map[int][]int64{1: {30, 20, 20}, 2: {20, 30, 20}, 3: {20, 20, 30}} {
		a := oneRank(0, of(20))
		phase := a.Phases[0]
		a.Phases = nil
		for i, n := range peaks {
			phase.Step, phase.Peaks = i+1, []account.Peak{{Figure: of(n)}}
			a.Phases = append(a.Phases, phase)
		}
		if got := Decide(Calculated, []account.Account{a}, map[int]Budget{0: card(24*gib, 24*gib)}); got.Value != DoesNotFit || got.Step != step {
			t.Errorf("30 GiB in step %d on 24: %s in step %d", step, got.Value, got.Step)
		}
	}
}

// Behind the peak the allocator keeps what was freed: the phase that is named is the
// one that allocates most, and not the last that needs as much.
func TestPhaseOfThePeakIsNamed(t *testing.T) {
	at := func(scope account.Scope, n int64) account.Peak {
		return account.Peak{Figure: account.Exact(n, account.Provenance{Scope: scope})}
	}
	a := oneRank(0, account.Exact(gib, account.Provenance{Scope: account.Process}))
	a.Phases = nil
	for id, inner := range map[account.PhaseID]int64{account.PhaseBackward: 78 * gib, account.PhaseSave: 40 * gib} {
		a.Phases = append(a.Phases, account.Phase{ID: id, AtPeak: []account.Share{{Bytes: account.Exact(inner, account.Provenance{})}}, Peaks: []account.Peak{at(account.Process, 79*gib), at(account.Allocated, inner)}})
	}
	for _, most := range []int64{78 * gib, 79 * gib} { // nobody can tell, fits
		if v := Decide(Calculated, []account.Account{a}, Budgets{0: card(most, 80*gib)}); v.Phase != account.PhaseBackward || v.Value == DoesNotFit {
			t.Errorf("%s in %s", v.Value, v.Phase)
		}
	}
}

// What is unknown from one phase on is said of the phase that stands highest, as the
// table names it: of equal ones of that with more allocated, else of the last.
func TestPhaseOfAnOpenTermIsNamed(t *testing.T) {
	p := account.Provenance{Scope: account.Process}
	phase := func(id account.PhaseID, inner int64) account.Phase {
		open := account.AtLeast(inner*gib, "nobody said", account.Provenance{})
		return account.Phase{ID: id, AtPeak: []account.Share{{Bytes: open}}, Peaks: []account.Peak{
			{Figure: account.AtLeast(20*gib, "nobody said", p)}, {Figure: account.Exact(inner*gib, account.Provenance{Scope: account.Allocated})}}}
	}
	a := oneRank(0, account.Exact(gib, p))
	for _, c := range []struct {
		forward, backward, step int64
		want                    account.PhaseID
	}{{16, 18, 10, account.PhaseBackward}, {18, 18, 10, account.PhaseBackward}, {18, 16, 10, account.PhaseForward}, {10, 10, 10, account.PhaseOptimizerStep}} {
		a.Phases = []account.Phase{phase(account.PhaseForward, c.forward), phase(account.PhaseBackward, c.backward), phase(account.PhaseOptimizerStep, c.step)}
		if v := Decide(Calculated, []account.Account{a}, Budgets{0: card(80*gib, 80*gib)}); v.Phase != c.want || v.Value != CannotTell {
			t.Errorf("%+v: %s in %s", c, v.Value, v.Phase)
		}
	}
}

// A phase that stands higher and only inherits the unknown, in what the allocator kept,
// is not named in place of the one that makes it.
func TestPhaseThatMakesTheUnknownIsNamed(t *testing.T) {
	unknown := account.Unknown("nobody said", account.Provenance{Scope: account.Process})
	a := oneRank(0, account.Exact(gib, account.Provenance{Scope: account.Process}))
	a.Terms = []account.Term{{ID: account.TermActivations}, {ID: account.TermAllocatorCache}}
	phase := func(id account.PhaseID, low int64, terms ...int) account.Phase {
		ph := account.Phase{ID: id, Peaks: []account.Peak{{Figure: account.AtLeast(low*gib, "nobody said", account.Provenance{Scope: account.Process})}}}
		for _, term := range terms {
			ph.AtPeak = append(ph.AtPeak, account.Share{Term: term, Bytes: unknown})
		}
		return ph
	}
	for _, shares := range [][]int{{0}, {0, 1}, {1, 0}} {
		a.Phases = []account.Phase{phase(account.PhaseForward, 8, shares...), phase(account.PhaseOptimizerStep, 12, 1)}
		if v := Decide(Calculated, []account.Account{a}, Budgets{0: card(80*gib, 80*gib)}); v.Phase != account.PhaseForward {
			t.Errorf("%v: %s is named", shares, v.Phase)
		}
	}
	a.Phases = a.Phases[1:]
	if v := Decide(Calculated, []account.Account{a}, Budgets{0: card(80*gib, 80*gib)}); v.Term != account.TermAllocatorCache {
		t.Errorf("%s is named where nothing else is unknown", v.Term)
	}
}

// Phases differ in how well they are known: the least is of one and the most of
// another, and what is left of the card is less than either says by itself.
func TestHeadroomIsOverAllPhases(t *testing.T) {
	of := func(low, high int64) account.Phase {
		f := process(func(p account.Provenance) account.Figure { return account.Between(low*gib, high*gib, p) })
		return account.Phase{ID: account.PhaseOptimizerStep, Peaks: []account.Peak{{Figure: f}}}
	}
	open := account.Phase{ID: account.PhaseEvaluation, Peaks: []account.Peak{{Figure: process(func(p account.Provenance) account.Figure { return account.AtLeast(gib, "nobody said", p) })}}}
	for _, c := range []struct {
		name   string
		phases []account.Phase
		want   Value
		left   account.Figure
	}{
		{"the most is of another phase", []account.Phase{of(7, 8), of(6, 10)}, Fits, account.Between(14*gib, 17*gib, account.Provenance{})},
		{"and may be too much", []account.Phase{of(7, 8), of(6, 25)}, CannotTell, account.Between(-1*gib, 17*gib, account.Provenance{})},
		{"nobody can say of another", []account.Phase{of(7, 8), open}, CannotTell, account.Unknown("nobody said", account.Provenance{})},
		{"the run dies in the one that does not fit", []account.Phase{of(26, 27), open}, DoesNotFit, account.Between(-3*gib, -2*gib, account.Provenance{})},
	} {
		a := account.Account{Ranks: []int{0}, Terms: []account.Term{{ID: account.TermWeights}}, Phases: c.phases}
		got := Decide(Calculated, []account.Account{a}, map[int]Budget{0: card(24*gib, 24*gib)})
		if got.Value != c.want || got.Headroom.In(bytesize.GiB) != c.left.In(bytesize.GiB) {
			t.Errorf("%s: %s with %s left, want %s with %s", c.name, got.Value, got.Headroom.In(bytesize.GiB), c.want, c.left.In(bytesize.GiB))
		}
	}
}

func TestNothingToJudge(t *testing.T) {
	if got := Decide(Calculated, nil, nil); got.Value != CannotTell || len(got.Reasons) == 0 {
		t.Errorf("no account: %+v", got)
	}
}

// What passes binds only where what stays would fit: of a step of training the
// states are ahead of the temporaries of the step, whatever the account's order.
func TestBindingTerm(t *testing.T) {
	known := func(n int64) account.Figure { return account.Exact(n*gib, account.Provenance{}) }
	for _, c := range []struct {
		capacity int64
		want     account.TermID
	}{{120, account.TermTemporaries}, {110, account.TermGradients}, {80, account.TermOptimizerState}, {40, account.TermMasterCopy}, {10, account.TermWeights}} {
		a := account.Account{}
		phase := account.Phase{ID: account.PhaseOptimizerStep}
		for i, s := range []struct {
			id account.TermID
			n  int64
		}{{account.TermTemporaries, 30}, {account.TermWeights, 15}, {account.TermMasterCopy, 30}, {account.TermGradients, 15}, {account.TermOptimizerState, 60}} {
			a.Terms = append(a.Terms, account.Term{ID: s.id})
			phase.AtPeak = append(phase.AtPeak, account.Share{Term: i, Bytes: known(s.n)})
		}
		if got := binding(a, phase, c.capacity*gib); got != c.want {
			t.Errorf("%d GiB: %s binds, want %s", c.capacity, got, c.want)
		}
	}
}
