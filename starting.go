package floodmark

import (
	"slices"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/record"
)

// budgeted is an account with the rules by which its engine stops, and with what
// the engine knows of whole processes better than by the sum of their terms.
func budgeted(a account.Account, r estimate.Result) account.Account {
	a.Checks = r.Checks
	for _, total := range r.Totals {
		for i := range a.Phases {
			if a.Phases[i].ID == total.Phase {
				a.Phases[i].Peaks = tightened(a.Phases[i].Peaks, total.Figure)
			}
		}
	}
	return a
}

// tightened is peaks of which that of the process is within a figure too.
func tightened(peaks []account.Peak, f account.Figure) []account.Peak {
	peaks = slices.Clone(peaks)
	for i, peak := range peaks {
		if peak.Figure.Scope == account.Process {
			peaks[i].Figure = within(peak.Figure, f)
		}
	}
	return peaks
}

// within is what is known of bytes of which two intervals are known.
func within(a, b account.Figure) account.Figure {
	low := max(a.Low(), b.Low())
	first, bounded := a.High()
	second, also := b.High()
	switch {
	case !bounded && !also:
		return account.AtLeast(low, a.Reason(), a.Provenance)
	case !bounded || also && second < first:
		first = second
	}
	// Intervals of one thing overlap; where rounding parts them, both ends stand.
	return account.Between(low, first, a.Provenance)
}

// starting is the accounts up to the last phase of a start; nil for an engine
// that has none.
func starting(accounts []account.Account) []account.Account {
	list := slices.Clone(accounts)
	for i, a := range list {
		end := slices.IndexFunc(a.Phases, func(p account.Phase) bool { return p.ID == account.PhaseSamplerWarmup })
		if end < 0 {
			return nil
		}
		list[i].Phases = a.Phases[:end+1]
		list[i].Checks = slices.DeleteFunc(slices.Clone(a.Checks), func(c account.Check) bool {
			return !slices.ContainsFunc(list[i].Phases, func(p account.Phase) bool { return p.ID == c.Phase })
		})
	}
	return list
}

// capacityRecord is what an engine that fills its budget can hold.
func capacityRecord(c *estimate.Capacity) *record.Capacity {
	if c == nil {
		return nil
	}
	r := &record.Capacity{}
	if c.Length > 0 {
		r.Length = &c.Length
	}
	r.Blocks, r.BlocksLow, r.BlocksHigh = record.Interval(c.Blocks)
	r.Tokens, r.TokensLow, r.TokensHigh = record.Interval(c.Tokens)
	r.SequencesAtLength, r.SequencesLow, r.SequencesHigh = record.Interval(c.SequencesAtLength)
	r.BytesPerToken, _, _ = record.Interval(c.BytesPerToken)
	r.FixedBytesPerSequence, _, _ = record.Interval(c.FixedBytesPerSequence)
	return r
}
