package floodmark

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/advice"
	"floodmark/record"
)

// reachOf is what a switch can touch in the phase where an estimate stands highest,
// and how much of what is allocated then it is; nil for a switch that no table
// knows.
func reachOf(field string, e *record.Estimate) *record.Reach {
	operation := "generation"
	if e.Training != nil {
		operation = "training"
	}
	s, known := switchOf(field, operation)
	rank := limiting(e)
	if !known || rank.Peak == nil {
		return nil
	}
	phase, found := peakPhase(&rank)
	if !found {
		return nil
	}
	r := &record.Reach{Switch: field, Phase: phase.Name, Step: phase.Step, Scope: string(account.Allocated), Cost: record.Text(s.Cost), Check: record.Text(s.Check)}
	scopes := map[string]account.Scope{}
	for _, t := range rank.Terms {
		scopes[t.ID] = account.Scope(t.Scope)
	}
	p := account.Provenance{}
	peak, reachable, kept := account.Exact(0, p), account.Exact(0, p), account.Exact(0, p)
	for _, share := range phase.Composition {
		if share.Term == string(account.TermAllocatorCache) {
			kept = figureOf(share.Bytes, share.LowBytes, share.HighBytes)
		}
		if scope := scopes[share.Term]; scope != account.Requested && scope != account.Allocated {
			continue
		}
		f := figureOf(share.Bytes, share.LowBytes, share.HighBytes)
		peak = account.Sum(p, peak, f)
		if s.Can(account.TermID(share.Term), account.PhaseID(phase.Name)) {
			reachable = account.Sum(p, reachable, f)
			if f.Low() > 0 || !f.Known() {
				r.Terms = append(r.Terms, share.Term)
			}
		}
	}
	r.PeakLowBytes, r.PeakHighBytes = endsOf(peak)
	r.BytesLow, r.BytesHigh = endsOf(reachable)
	r.Text = reachText(s, r, reachable, peak) + cachedText(kept)
	return r
}

// cachedText says what the allocator keeps at that moment of what was freed before
// it: a switch that lowers an earlier moment lowers this too, though no tensor that
// it can touch is held any longer.
func cachedText(kept account.Figure) string {
	if kept.Low() <= 0 {
		return ""
	}
	return fmt.Sprintf("; besides, the allocator keeps %s of blocks that were freed before: what it lowers at an earlier moment can make that less too", amountOf(kept))
}

// reachOfRun is the terms that a switch can touch in the phase where a run stands
// highest. How much of the peak they are no counter tells.
func reachOfRun(field string, m *record.Measurement) *record.Reach {
	operation := "generation"
	var top *record.MeasuredPhase
	for i, p := range m.Phases {
		if id := account.PhaseID(p.Name); id == account.PhaseBackward || id == account.PhaseOptimizerStep {
			operation = "training"
		}
		if top == nil || measuredPeak(p).Low() >= measuredPeak(*top).Low() {
			top = &m.Phases[i]
		}
	}
	s, known := switchOf(field, operation)
	if !known || top == nil {
		return nil
	}
	r := &record.Reach{Switch: field, Phase: top.Name, Step: top.Step, Scope: string(account.Allocated), Cost: record.Text(s.Cost), Check: record.Text(s.Check)}
	var words []string
	for _, term := range s.Reaches {
		if s.Can(term, account.PhaseID(top.Name)) {
			r.Terms = append(r.Terms, string(term))
			words = append(words, spacedTerm(string(term)))
		}
	}
	r.PeakLowBytes, r.PeakHighBytes = endsOf(measuredPeak(*top))
	name, at := spacedTerm(field), stepName(top.Name, top.Step)
	if len(words) == 0 {
		r.Text = fmt.Sprintf("%s can touch nothing in %s, where the peak is: %s", name, at, s.Why("", account.PhaseID(top.Name)))
		return r
	}
	r.Text = fmt.Sprintf("%s can only touch %s in %s, where the peak is; how much of it they are no counter tells: compare two estimates", name, strings.Join(words, ", "), at)
	return r
}

// switchOf is the switch of a setting of an operation.
func switchOf(field, operation string) (advice.Switch, bool) {
	if field == adapterSetting {
		field = loraRankSetting
	}
	list := advice.Of(operation)
	i := slices.IndexFunc(list, func(s advice.Switch) bool { return s.ID == field })
	if i < 0 {
		return advice.Switch{}, false
	}
	return list[i], true
}

// reachText is the sentence: which terms, how much of the peak, and why no more.
func reachText(s advice.Switch, r *record.Reach, reachable, peak account.Figure) string {
	at := stepName(r.Phase, r.Step)
	name := spacedTerm(r.Switch)
	if len(r.Terms) == 0 {
		why := s.Not
		if why == "" {
			why = "it lowers terms that hold nothing then"
		}
		return fmt.Sprintf("%s can reach nothing of the %s that are allocated in %s, where the peak is: %s", name, amountOf(peak), at, why)
	}
	var terms []string
	for _, t := range r.Terms {
		terms = append(terms, spacedTerm(t))
	}
	text := fmt.Sprintf("%s can only touch %s in %s, where the peak is: %s of %s allocated", name, strings.Join(terms, ", "), at, amountOf(reachable), amountOf(peak))
	if s.Not != "" {
		text += "; " + s.Not
	}
	return text
}

// amountOf is a figure in words.
func amountOf(f account.Figure) string {
	low := sizeText(f.Low())
	switch high := sizeText(highOf(f)); {
	case !f.Known():
		return "at least " + low
	case low == high:
		return low
	default:
		return low + " to " + high
	}
}
