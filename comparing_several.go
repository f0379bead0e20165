package floodmark

import (
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/record"
)

// CompareSeveral sets several estimates, or several measurements, in one table: what
// each changed against the first, its highest peak, and what a choice would need
// beside it. It ranks nothing: memory alone chooses none.
func CompareSeveral(list []Evidence, names []string, o CompareOptions, tool record.Tool) (*record.Comparison, error) {
	r := &record.Comparison{A: names[0], B: strings.Join(names[1:], ", "), Comparable: true}
	first, err := comparedRecord(list[0], names[0], tool)
	if err != nil {
		return nil, err
	}
	var warnings []account.Warning
	for i, e := range list {
		c, err := comparedRecord(e, names[i], tool)
		if err != nil {
			return nil, err
		}
		if c.Kind != first.Kind {
			return nil, fmt.Errorf("%w: %s is of kind %s and %s of kind %s", ErrNotComparable, names[0], first.Kind, names[i], c.Kind)
		}
		c.Changed, c.Why = changedAgainst(list[0], e, tool)
		if c.Comparable = len(c.Why) == 0; !c.Comparable {
			if !o.Force {
				return nil, &NotComparableError{[]string{names[i] + " beside " + names[0] + ": " + strings.Join(c.Why, "; ")}}
			}
			r.Comparable = false
		} else if c.Scope == first.Scope && i > 0 {
			d := compare.Pair{Predicted: figureOf(first.Bytes, first.LowBytes, first.HighBytes), Observed: figureOf(c.Bytes, c.LowBytes, c.HighBytes)}.Difference()
			c.DifferenceLow, c.DifferenceHigh = d.Low, d.High
		}
		r.Records = append(r.Records, c)
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindComparison, tool, warnings)}
	return r, nil
}

// comparedRecord is what one record says of its highest peak.
func comparedRecord(e Evidence, name string, tool record.Tool) (record.ComparedRecord, error) {
	c := record.ComparedRecord{Name: name, Missing: []string{"quality"}}
	if d, ok := estimatedBy(e, tool); ok {
		c.Kind, c.Scope = string(record.KindEstimate), string(account.Process)
		if top := limiting(d); top.Peak != nil {
			c.Phase, c.Step = &top.Peak.Phase, top.Peak.Step
			c.Bytes, c.LowBytes, c.HighBytes = top.Peak.Bytes, top.Peak.LowBytes, top.Peak.HighBytes
		}
		c.Missing = append(c.Missing, "duration", "result check: an estimate runs nothing")
		return c, nil
	}
	m, ok := measured(e, tool)
	if !ok {
		return c, fmt.Errorf("%w: %s is no estimate and no measurement", ErrNotComparable, name)
	}
	c.Kind = string(record.KindMeasurement)
	c.Bytes, c.Scope = highestPeak(m)
	for _, p := range m.Phases {
		if n := peakIn(p, c.Scope); n != nil && c.Bytes != nil && *n == *c.Bytes {
			c.Phase, c.Step = &p.Name, p.Step
		}
	}
	c.DurationNS, c.Result = runDuration(m), resultCheck(m)
	if c.DurationNS == nil {
		c.Missing = append(c.Missing, "duration")
	}
	if c.Result == nil {
		c.Missing = append(c.Missing, "result check")
	}
	return c, nil
}

// peakIn is the peak of a phase in a scope.
func peakIn(p record.MeasuredPhase, scope string) *int64 {
	if account.Scope(scope) == account.Reserved {
		return p.Peak.ReservedBytes
	}
	return p.Peak.AllocatedBytes
}

// changedAgainst is what differs from the first record, and why the two are not
// comparable.
func changedAgainst(first, e Evidence, tool record.Tool) ([]record.ChangedField, []string) {
	if a, ok := estimatedBy(first, tool); ok {
		b, _ := estimatedBy(e, tool)
		changed := changedEstimates(a, b)
		return changed, tooMany(changed)
	}
	a, _ := measured(first, tool)
	b, _ := measured(e, tool)
	changed := changedConditions(a, b)
	return changed, obstacles(a, b, changed)
}
