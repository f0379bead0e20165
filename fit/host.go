package fit

import (
	"fmt"

	"floodmark/account"
)

// HostNeed is what all ranks of the accounts put into main memory in a phase,
// taken to be on one machine; false where none puts anything there.
func HostNeed(accounts []account.Account, id account.PhaseID) (account.Figure, bool) {
	var held []account.Figure
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host}
	found := false
	for _, a := range accounts {
		if peaks := hostPeaks(a, id); len(peaks) > 0 {
			found = true
			held = append(held, account.Highest(p, peaks...).Times(int64(len(a.Ranks))))
		}
	}
	return account.Sum(p, held...), found
}

// hostPeaks is what one rank puts into main memory in each step of a phase.
func hostPeaks(a account.Account, id account.PhaseID) []account.Figure {
	var peaks []account.Figure
	for _, phase := range a.Phases {
		for _, peak := range phase.Peaks {
			if phase.ID == id && peak.Figure.Scope == account.Host {
				peaks = append(peaks, peak.Figure)
			}
		}
	}
	return peaks
}

// DecideHost answers for main memory: what the ranks put there against what may
// be used of it. Ranks of one machine share it, so that here, unlike on cards,
// they are added up. The term is what is put there. False where nothing is.
func DecideHost(basis Basis, accounts []account.Account, capacity account.Figure, term account.TermID) (Verdict, bool) {
	var worst judgement
	found := false
	for _, id := range phasesOf(accounts) {
		need, has := HostNeed(accounts, id)
		if !has {
			continue
		}
		j := judgement{Verdict: decideHost(id, need, capacity), least: need.Low()}
		j.Term = term
		if !found || j.worse(worst) {
			worst, found = j, true
		}
	}
	worst.Basis = basis
	return worst.Verdict, found
}

func decideHost(id account.PhaseID, need, capacity account.Figure) Verdict {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host}
	v := Verdict{Value: CannotTell, Phase: id, Headroom: capacity.Minus(need, p)}
	highest, known := capacity.High()
	most, bounded := need.High()
	switch {
	case known && need.Low() > highest:
		v.Value, v.Short = DoesNotFit, need.Low()-highest
		v.Reasons = []string{fmt.Sprintf("%s puts at least %s into main memory, of which there are at most %s", id, show(need.Low()), show(highest)),
			"it is short of " + show(v.Short) + " at least"}
	case !bounded:
		v.Reasons = []string{fmt.Sprintf("%s: main memory: %s", id, need.Reason())}
	case !known:
		v.Reasons = []string{"how much main memory there is, is not known: " + capacity.Reason()}
	case most <= capacity.Low():
		v.Value = Fits
	default:
		v.Reasons = []string{fmt.Sprintf("%s puts up to %s into main memory, of which there are at least %s", id, show(most), show(capacity.Low()))}
	}
	return v
}

func phasesOf(accounts []account.Account) []account.PhaseID {
	var ids []account.PhaseID
	seen := map[account.PhaseID]bool{}
	for _, a := range accounts {
		for _, phase := range a.Phases {
			if !seen[phase.ID] {
				seen[phase.ID] = true
				ids = append(ids, phase.ID)
			}
		}
	}
	return ids
}
