package fit

import (
	"fmt"
	"math"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/sorting"
)

// Value is the answer.
type Value string

const (
	Fits        Value = "fits"
	DoesNotFit  Value = "does_not_fit"
	NotRunnable Value = "not_runnable"
	CannotTell  Value = "cannot_tell"
)

// Basis is what an answer stands on.
type Basis string

const (
	Calculated Basis = "calculated"
	Measured   Basis = "measured"
	// Verified needs an uninstrumented run at these dimensions or larger.
	Verified Basis = "verified"
)

// Verdict is the answer for a whole workload: that of its worst rank.
type Verdict struct {
	Value Value
	Basis Basis
	Rank  int
	Phase account.PhaseID
	Step  int // of the phase; 0 where steps mean nothing
	Term  account.TermID
	// Headroom is the capacity less the process's peak on that rank, over all its
	// phases; of one that does not fit it is that phase's, and negative.
	Headroom account.Figure
	Short    int64 // bytes that are lacking at least; 0 unless it does not fit
	Reasons  []string
}

// Budget is the memory that a rank may use.
type Budget struct {
	Card     string
	Capacity account.Figure // [lowest, highest] bytes that such a card reports
	Others   account.Figure // bytes that other owners hold on the card
}

// Budgets is what each rank may use: that of its number, else that of [EveryRank].
type Budgets map[int]Budget

// EveryRank is the key of what ranks may use that have no budget of their own: a
// million of them are alike.
const EveryRank = -1

// Of is what a rank may use; false where nobody said it.
func (b Budgets) Of(rank int) (Budget, bool) {
	own, ok := b[rank]
	if !ok {
		own, ok = b[EveryRank]
	}
	return own, ok
}

// alike reports two ranks that may use the same.
func (b Budgets) alike(one, other int) bool {
	x, own := b[one]
	y, too := b[other]
	if !own && !too {
		return true
	}
	if !own || !too {
		x, _ = b.Of(one)
		y, _ = b.Of(other)
	}
	return x == y
}

// Decide answers for every rank of every account. Ranks without a budget, and
// no accounts at all, cannot be told.
func Decide(basis Basis, accounts []account.Account, budgets Budgets) Verdict {
	worst := judgement{Verdict: Verdict{Value: CannotTell, Reasons: []string{"there is no account to judge"}}}
	first := true
	for _, a := range accounts {
		for i, rank := range a.Ranks {
			if i > 0 && budgets.alike(rank, a.Ranks[i-1]) {
				continue // the same account on the same memory: thousands of ranks have one answer
			}
			j := decideRank(a, rank, budgets)
			if first || j.worse(worst) {
				worst, first = j, false
			}
		}
	}
	worst.Basis = basis
	return worst.Verdict
}

// DecidePhase answers for one phase of a rank by itself.
func DecidePhase(basis Basis, a account.Account, phase account.Phase, budget Budget) Verdict {
	v := decidePhase(a, phase, budget)
	v.Basis = basis
	if len(a.Ranks) > 0 {
		v.Rank = a.Ranks[0]
	}
	return v
}

// judgement is a verdict, and the least that its process must hold.
type judgement struct {
	Verdict
	least int64
	inner int64 // the least that is allocated in that phase
	open  bool  // a term of that phase is unknown
	heir  bool  // nothing is but what the allocator kept of another phase's
}

// worse orders judgements: what cannot run, then what does not fit, then what
// nobody can say; among equals the one that is known to need more, though of those that
// nobody can tell what only inherits the unknown comes last. Of phases that need
// the same since the allocator keeps what another freed, that is the one with more
// allocated; of those that nobody can tell, one with an open term of its own says why.
func (j judgement) worse(than judgement) bool {
	order := map[Value]int{NotRunnable: 0, DoesNotFit: 1, CannotTell: 2, Fits: 3}
	switch {
	case order[j.Value] != order[than.Value]:
		return order[j.Value] < order[than.Value]
	case j.Value == CannotTell && j.heir != than.heir:
		return than.heir
	case j.least != than.least:
		return j.least > than.least
	case j.Value != CannotTell && j.Value != Fits:
		return false // a run dies in the first
	case j.open != than.open:
		return j.open
	}
	return j.inner > than.inner
}

func decideRank(a account.Account, rank int, budgets Budgets) judgement {
	answer := judgement{Verdict: Verdict{Value: CannotTell, Rank: rank, Reasons: []string{fmt.Sprintf("no card is named for rank %d", rank)}}}
	budget, ok := budgets.Of(rank)
	if !ok {
		return answer
	}
	if a.Subject == account.SubjectLab {
		answer.Reasons = []string{"the lab's small network is no evidence for a workload: measure the workload itself"}
		return answer
	}
	answer.Reasons = []string{"there is no phase to judge"}
	for i, phase := range a.Phases {
		open, heir := hasOpen(a, phase)
		j := judgement{decidePhase(a, phase, budget), phase.Peak(account.Process).Figure.Low(), phase.Peak(account.Allocated).Figure.Low(), open, heir}
		j.Rank = rank
		// A run dies in the first; of others that stand alike the last holds what came before it.
		if i == 0 || j.worse(answer) || j.Value != DoesNotFit && j.Value != NotRunnable && !answer.worse(j) {
			answer = j
		}
	}
	if answer.Value != DoesNotFit && len(a.Phases) > 0 {
		answer.Headroom = headroom(a.Highest(account.Process), budget)
	}
	return answer.checked(a, rank, budget)
}

// headroom is what a process that needs so much leaves of its card.
func headroom(process account.Figure, budget Budget) account.Figure {
	device := account.Provenance{Origin: account.Calculated, Scope: account.Device}
	return budget.Capacity.Minus(account.Sum(device, process, budget.Others).Needed(), device)
}

// checked is a judgement with the rules by which the software itself stops. Where
// one fails for certain it is the answer, whatever would not fit behind it, which
// nothing reaches; an earlier phase that does not fit comes first.
func (j judgement) checked(a account.Account, rank int, budget Budget) judgement {
	for _, c := range a.Checks {
		v := Verdict{Value: CannotTell, Rank: rank, Phase: c.Phase, Term: c.Term, Reasons: []string{c.Rule, c.Remedy}}
		v.Headroom = c.Have.Minus(c.Need, account.Provenance{Origin: account.Calculated, Scope: account.Device})
		most, needed := c.Need.High()
		have, bounded := c.Have.High()
		switch {
		case needed && most <= c.Have.Low():
			continue
		case bounded && c.Need.Low() > have:
			if before, fails := j.before(a, c.Phase, budget); fails {
				return before
			}
			v.Value, v.Short = DoesNotFit, c.Need.Low()-have
			return judgement{Verdict: v, least: j.least}
		}
		if j.Value != Fits {
			continue
		}
		if !bounded {
			v.Reasons = []string{c.Have.Reason()}
		}
		v.Reasons[0] = "it may be that " + v.Reasons[0]
		j = judgement{Verdict: v, least: j.least}
	}
	return j
}

// before is the first phase before one that does not fit.
func (j judgement) before(a account.Account, until account.PhaseID, budget Budget) (judgement, bool) {
	for _, phase := range a.Phases {
		if phase.ID == until {
			break
		}
		if v := decidePhase(a, phase, budget); v.Value == DoesNotFit {
			v.Rank = j.Rank
			return judgement{Verdict: v, least: j.least}, true
		}
	}
	return j, false
}

// decidePhase applies the rule: the low of any scope above the highest plausible
// capacity does not fit; the most that process needs, with what others hold, within
// the lowest plausible capacity fits; anything else cannot be told.
func decidePhase(a account.Account, phase account.Phase, budget Budget) Verdict {
	device := account.Provenance{Origin: account.Calculated, Scope: account.Device}
	all := account.Sum(device, phase.Peak(account.Process).Figure, budget.Others).Needed()
	v := Verdict{Value: CannotTell, Phase: phase.ID, Step: phase.Step, Headroom: headroom(phase.Peak(account.Process).Figure, budget)}
	highest, bounded := budget.Capacity.High()
	if bounded {
		if peak, least, over := above(phase, budget, highest); over {
			v.Value = DoesNotFit
			v.Term = binding(a, phase, highest-budget.Others.Low())
			v.Short = least - highest
			v.Reasons = []string{tooMuch(phase, peak, budget, highest),
				"it is short of " + show(v.Short) + " at least"}
			return v
		}
	}
	need, known := all.High()
	switch {
	case phase.Failed != "" && phase.Peak(account.Reserved).Figure.Origin == account.Calculated:
		v.Value, v.Term = NotRunnable, largest(a, phase)
		v.Reasons = []string{fmt.Sprintf("%s: %s, on a card of any size", phase.ID, phase.Failed)}
	case phase.Failed != "":
		v.Term = largest(a, phase)
		v.Reasons = []string{fmt.Sprintf("the recorded run failed in %s, so its readings are lower bounds", phase.ID)}
	case !known:
		v.Term, v.Reasons = open(a, phase, all)
	case !bounded:
		v.Term = largest(a, phase)
		v.Reasons = []string{"the capacity of " + budget.Card + " is not known: " + budget.Capacity.Reason()}
	case need <= budget.Capacity.Low():
		v.Value, v.Term = Fits, largest(a, phase)
	default:
		v.Term = widest(a, phase, largest(a, phase))
		v.Reasons = []string{fmt.Sprintf("%s: the process needs up to %s and %s has at least %s",
			phase.ID, show(need), budget.Card, show(budget.Capacity.Low()))}
	}
	return v
}

// above finds the scope whose low is furthest above the capacity.
func above(phase account.Phase, budget Budget, highest int64) (peak account.Figure, least int64, over bool) {
	for _, p := range phase.Peaks {
		if p.Figure.Scope == account.Host {
			continue
		}
		n, fits := leastOnCard(p.Figure, budget.Others)
		if !fits {
			n = math.MaxInt64
		}
		if n > highest && (!over || n > least) {
			peak, least, over = p.Figure, n, true
		}
	}
	return peak, least, over
}

// open lists the terms that nobody can bound, the first of them named.
func open(a account.Account, phase account.Phase, all account.Figure) (account.TermID, []string) {
	var id account.TermID
	var reasons []string
	for _, s := range phase.AtHighest() {
		if _, bounded := s.Bytes.Need(); bounded {
			continue
		}
		if id == "" {
			id = a.Terms[s.Term].ID
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s: %s", phase.ID, a.Terms[s.Term].ID, s.Bytes.Reason()))
	}
	if id == "" {
		return largest(a, phase), []string{fmt.Sprintf("%s: %s", phase.ID, all.Reason())}
	}
	return id, reasons
}

// binding is the term with which the known bytes of a peak first exceed the
// capacity, when terms are taken in the order in which they stay: what is loaded
// stands before what is kept from step to step, and both before what passes.
func binding(a account.Account, phase account.Phase, capacity int64) account.TermID {
	sum := int64(0)
	shares := slices.Clone(phase.AtHighest())
	sorting.By(shares, func(i, j int) int {
		x, y := shares[i], shares[j]
		return staying(a.Terms[x.Term].ID) - staying(a.Terms[y.Term].ID)
	})
	for _, s := range shares {
		n, fits := bytesize.Add(sum, s.Bytes.Low())
		if !fits || n > capacity {
			return a.Terms[s.Term].ID
		}
		sum = n
	}
	return largest(a, phase)
}

// Stays reports a term that does not pass with an operator or a layer.
func Stays(id account.TermID) bool { return staying(id) < 3 }

// staying is the place of a term in the order of how long it stays. Of two terms
// in one place the account's order counts.
func staying(id account.TermID) int {
	switch id {
	case account.TermContext, account.TermCommunication, account.TermWeights, account.TermBuffers, account.TermQuantisationMetadata, account.TermAdapters, account.TermReserve:
		return 0
	case account.TermMasterCopy, account.TermOptimizerState, account.TermPagedState, account.TermKVCache, account.TermRecurrentState, account.TermKeptPredictions:
		return 1
	case account.TermGradients, account.TermAutocastCache:
		return 2
	}
	return 3
}

// leastOnCard is the least that a card must hold when a scope of one process
// peaks at that figure: a device's reading holds the others already.
func leastOnCard(peak, others account.Figure) (int64, bool) {
	if peak.Scope == account.Device {
		return peak.Low(), true
	}
	return bytesize.Add(peak.Low(), others.Low())
}

func tooMuch(phase account.Phase, need account.Figure, budget Budget, highest int64) string {
	others := ""
	if budget.Others.Low() > 0 && need.Scope != account.Device {
		others = fmt.Sprintf(" beside the %s that others hold", show(budget.Others.Low()))
	}
	return fmt.Sprintf("%s needs at least %s (%s)%s and %s has at most %s",
		phase.ID, show(need.Low()), need.Scope, others, budget.Card, show(highest))
}

func show(bytes int64) string { return bytesize.Format(bytes, bytesize.GiB) }

// hasOpen reports a phase of which a term is unknown, and one of which only what the
// allocator kept is.
func hasOpen(a account.Account, phase account.Phase) (open, heir bool) {
	for _, s := range phase.AtPeak {
		if _, bounded := s.Bytes.Need(); !bounded {
			heir = a.Terms[s.Term].ID == account.TermAllocatorCache && (heir || !open)
			open = true
		}
	}
	return open, heir
}

// largest is the term that holds most at the peak.
func largest(a account.Account, phase account.Phase) account.TermID {
	var id account.TermID
	most := int64(-1)
	for _, s := range phase.AtHighest() {
		if s.Bytes.Low() > most {
			most, id = s.Bytes.Low(), a.Terms[s.Term].ID
		}
	}
	return id
}

// widest is the term whose interval is the widest.
func widest(a account.Account, phase account.Phase, otherwise account.TermID) account.TermID {
	id, width := otherwise, int64(0)
	for _, s := range phase.AtHighest() {
		if high, known := s.Bytes.Need(); known && high-s.Bytes.Low() > width {
			width, id = high-s.Bytes.Low(), a.Terms[s.Term].ID
		}
	}
	return id
}
