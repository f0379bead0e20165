package floodmark

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/record"
)

// declaredWork is what an estimate says of the work: a run that leaves some of it
// out proves nothing of the whole.
type declaredWork struct {
	ranks    int
	settings []record.NamedSetting
}

func declaredBy(r *record.Estimate) declaredWork {
	w := declaredWork{settings: r.Settings}
	for _, class := range r.Ranks {
		w.ranks += len(class.Ranks)
	}
	return w
}

// untested is what the work declares and the chosen run did not have; empty where
// the run had it all.
func (d *decider) untested(m *record.Measurement) string {
	var reasons []string
	for _, p := range d.d.Phases {
		if p.Status == notExercised && ownPeak(account.PhaseID(p.Name)) {
			reasons = append(reasons, phaseWords(record.MeasuredPhase{Name: p.Name, Step: p.Step})+" was not exercised")
		}
	}
	if n := measuredRanks(m); n < d.declared.ranks {
		reasons = append(reasons, fmt.Sprintf("%d of %d ranks were measured", n, d.declared.ranks))
	}
	for _, s := range d.declared.settings {
		i := slices.IndexFunc(d.d.MaximumLoad, func(l record.MeasuredLoad) bool { return l.Dimension == s.Name })
		if most := largestOf(s.Value); i >= 0 && most > d.d.MaximumLoad[i].Value {
			reasons = append(reasons, fmt.Sprintf("%s %d was not run, only %d", s.Name, most, d.d.MaximumLoad[i].Value))
		}
	}
	return strings.Join(reasons, "; ")
}

// ownPeak reports phases that a program can leave out without failing, and that
// can be its most demanding moment.
func ownPeak(id account.PhaseID) bool {
	switch id {
	case account.PhaseEvaluation, account.PhaseSave, account.PhaseMerge, account.PhaseExport, account.PhaseResume,
		account.PhasePrefill, account.PhaseDecode, account.PhaseBackward, account.PhaseOptimizerStep:
		return true
	}
	return false
}

// measuredRanks is of how many ranks a device was read.
func measuredRanks(m *record.Measurement) int {
	seen := map[int]bool{}
	for _, p := range m.Phases {
		switch {
		case p.Device == nil:
		case p.Rank == nil:
			seen[-1] = true
		default:
			seen[*p.Rank] = true
		}
	}
	return len(seen)
}

// largestOf is the largest number of a declared setting, which holds one for each
// input; 0 where there is none.
func largestOf(text string) int64 {
	var most int64
	for word := range strings.SplitSeq(text, ", ") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			most = max(most, n)
		}
	}
	return most
}
