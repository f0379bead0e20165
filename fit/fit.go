package fit

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
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
	Value    Value
	Basis    Basis
	Rank     int
	Phase    account.PhaseID
	Term     account.TermID
	Headroom account.Figure // capacity less the process's peak on that rank; negative when it does not fit
	Reasons  []string
}

// Budget is the memory that a rank may use.
type Budget struct {
	Card     string
	Capacity account.Figure // [lowest, highest] bytes that such a card reports
	Others   account.Figure // bytes that other owners hold on the card
}

// Decide answers for every rank of every account. Ranks without a budget, and
// no accounts at all, cannot be told.
func Decide(basis Basis, accounts []account.Account, budgets map[int]Budget) Verdict {
	worst := judgement{Verdict: Verdict{Value: CannotTell, Reasons: []string{"there is no account to judge"}}}
	first := true
	for _, a := range accounts {
		for _, rank := range a.Ranks {
			j := decideRank(a, rank, budgets)
			if first || j.worse(worst) {
				worst, first = j, false
			}
		}
	}
	worst.Basis = basis
	return worst.Verdict
}

// judgement is a verdict, and the least that its process must hold.
type judgement struct {
	Verdict
	least int64
}

// worse orders judgements: what cannot run, then what does not fit, then what
// nobody can say; among equals the one that is known to need more.
func (j judgement) worse(than judgement) bool {
	order := map[Value]int{NotRunnable: 0, DoesNotFit: 1, CannotTell: 2, Fits: 3}
	if order[j.Value] != order[than.Value] {
		return order[j.Value] < order[than.Value]
	}
	return j.least > than.least
}

func decideRank(a account.Account, rank int, budgets map[int]Budget) judgement {
	answer := judgement{Verdict: Verdict{Value: CannotTell, Rank: rank, Reasons: []string{fmt.Sprintf("no card is named for rank %d", rank)}}}
	budget, ok := budgets[rank]
	if !ok {
		return answer
	}
	answer.Reasons = []string{"there is no phase to judge"}
	for i, phase := range a.Phases {
		j := judgement{decidePhase(a, phase, budget), phase.Peak(account.Process).Figure.Low()}
		j.Rank = rank
		// Of phases that need the same, the later one holds what came before it.
		if i == 0 || !answer.worse(j) {
			answer = j
		}
	}
	return answer
}

// decidePhase applies the rule: the low of any scope above the highest plausible
// capacity does not fit; the high of process, with what others hold, within the
// lowest plausible capacity fits; anything else cannot be told.
func decidePhase(a account.Account, phase account.Phase, budget Budget) Verdict {
	v := Verdict{Value: CannotTell, Phase: phase.ID, Term: largest(a, phase)}
	process := phase.Peak(account.Process).Figure
	all := account.Sum(account.Provenance{Scope: account.Device}, process, budget.Others)
	v.Headroom = budget.Capacity.Minus(all, account.Provenance{Scope: account.Device})

	if highest, known := budget.Capacity.High(); known {
		for _, peak := range phase.Peaks {
			least, fits := leastOnCard(peak.Figure, budget.Others)
			if peak.Figure.Scope == account.Host || (fits && least <= highest) {
				continue
			}
			v.Value = DoesNotFit
			v.Reasons = []string{tooMuch(phase, peak.Figure, budget, highest)}
			v.Headroom = budget.Capacity.Minus(account.Exact(least, account.Provenance{}), account.Provenance{Scope: peak.Figure.Scope})
			return v
		}
	}
	need, known := all.High()
	switch {
	case phase.Failed != "":
		v.Reasons = []string{fmt.Sprintf("the recorded run failed in %s, so its readings are lower bounds", phase.ID)}
	case !known:
		v.Term = firstUnknown(a, phase, v.Term)
		v.Reasons = []string{fmt.Sprintf("%s: %s", phase.ID, all.Reason())}
	case !budget.Capacity.Known() && budget.Capacity.Low() == 0:
		v.Reasons = []string{"the capacity of " + budget.Card + " is not known"}
	case need <= budget.Capacity.Low():
		v.Value = Fits
	default:
		v.Term = widest(a, phase, v.Term)
		v.Reasons = []string{fmt.Sprintf("%s: the process needs up to %s and %s has at least %s",
			phase.ID, show(need), budget.Card, show(budget.Capacity.Low()))}
	}
	return v
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

// largest is the term that holds most at the peak.
func largest(a account.Account, phase account.Phase) account.TermID {
	var id account.TermID
	most := int64(-1)
	for _, s := range phase.AtPeak {
		if s.Bytes.Low() > most {
			most, id = s.Bytes.Low(), a.Terms[s.Term].ID
		}
	}
	return id
}

// firstUnknown is the first term at the peak that nobody can bound.
func firstUnknown(a account.Account, phase account.Phase, otherwise account.TermID) account.TermID {
	for _, s := range phase.AtPeak {
		if !s.Bytes.Known() {
			return a.Terms[s.Term].ID
		}
	}
	return otherwise
}

// widest is the term whose interval is the widest.
func widest(a account.Account, phase account.Phase, otherwise account.TermID) account.TermID {
	id, width := otherwise, int64(0)
	for _, s := range phase.AtPeak {
		if high, known := s.Bytes.High(); known && high-s.Bytes.Low() > width {
			width, id = high-s.Bytes.Low(), a.Terms[s.Term].ID
		}
	}
	return id
}
