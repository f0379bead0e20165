package floodmark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/enginelog"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
	"floodmark/internal/sweep"
	"floodmark/record"
)

// SweepRecord is the document of what a sweep's folder holds.
func SweepRecord(l *sweep.Ledger, tool record.Tool) *record.Sweep {
	p := l.Plan
	points := l.Points()
	sorting.By(points, func(i, j int) int { return cmp.Compare(points[i].Value, points[j].Value) })
	d := &record.Sweep{
		Head:    record.Head{Envelope: record.NewEnvelope(record.KindSweep, tool, sweepWarnings(p, points))},
		Varied:  p.Dimension,
		Command: p.Command,
		Folder:  l.Folder,
		Series:  record.SweepSeries{Policy: p.Policy, Order: string(p.Order), Process: "process", Lengths: record.Text(p.Lengths)},
		Missing: l.Missing(),
	}
	if p.Limit != nil {
		d.Limit = &record.SweepLimit{Low: p.Limit.Low, High: p.Limit.High, Step: p.Limit.Step, MaxRuns: p.Limit.MaxRuns()}
	}
	for _, point := range points {
		d.Series.CapacityBytes = leastOf(d.Series.CapacityBytes, point.Total)
		d.Points = append(d.Points, record.SweepPoint{
			Value: point.Value, Attempt: point.Attempt, Status: string(point.Status), Error: record.Text(point.Error),
			Record: record.Text(point.Record), PeakBytes: point.Bytes, Scope: record.Text(point.Scope), DurationNS: int64(point.Took),
		})
	}
	b := sweep.BoundaryOf(points)
	d.Boundary = record.SweepBoundary{LargestPass: positive(b.LargestPass), SmallestFail: positive(b.SmallestFail), Monotone: b.Monotone()}
	return d
}

// SweptMeasurement is how a value of a sweep ended, from the record that measure
// wrote of it and from what the program printed; either may be nil. It is out of
// memory only where PyTorch or the engine said so: a program that was killed, or
// failed otherwise, says nothing about the device.
func SweptMeasurement(m *record.Measurement, printed source.Source) sweep.Point {
	var p sweep.Point
	if m != nil {
		p.Bytes, p.Scope = highestPeak(m)
		p.Total = leastReported(m)
	}
	switch {
	case m != nil && m.Outcome != nil && m.Outcome.Status == 0:
		p.Status = sweep.Passed
		return p
	case m != nil && m.Outcome != nil && m.Outcome.Signal != nil:
		p.Status, p.Error = sweep.Lost, "the program was ended by "+*m.Outcome.Signal+"; the host's own memory runs out in this way, too"
	case m != nil && m.Outcome != nil:
		p.Status, p.Error = sweep.Failed, fmt.Sprintf("the program ended with status %d", m.Outcome.Status)
	default:
		p.Status, p.Error = sweep.Lost, "the measurement left no result"
	}
	if text, failed := failedPhase(m); failed {
		p.Error = text
		if outOfMemory(text) {
			p.Status = sweep.OutOfMemory
			return p
		}
	}
	if printed == nil {
		return p
	}
	if l, err := enginelog.Read(printed); err == nil && len(l.OutOfMemory) > 0 {
		p.Status, p.Error = sweep.OutOfMemory, "the program printed an out-of-memory error"
	}
	return p
}

// highestPeak is the highest peak of allocated bytes of any phase and rank, else
// of reserved ones.
func highestPeak(m *record.Measurement) (*int64, string) {
	for _, scope := range []account.Scope{account.Allocated, account.Reserved} {
		var most *int64
		for _, p := range m.Phases {
			n := cmp.Or(p.Peak.AllocatedBytes, p.Peak.AllocatedLowBytes)
			if scope == account.Reserved {
				n = cmp.Or(p.Peak.ReservedBytes, p.Peak.ReservedLowBytes)
			}
			if n != nil && (most == nil || *n > *most) {
				most = n
			}
		}
		if most != nil {
			return most, string(scope)
		}
	}
	return nil, ""
}

// leastReported is what the smallest device reports of those on which a phase ran.
func leastReported(m *record.Measurement) *int64 {
	var least *int64
	for _, device := range m.Environment.Devices {
		if slices.ContainsFunc(m.Phases, func(p record.MeasuredPhase) bool { return p.Device != nil && *p.Device == device.Index }) {
			least = leastOf(least, device.ReportedBytes)
		}
	}
	return least
}

// leastOf is the smaller of two counts of which either may be unknown.
func leastOf(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// failedPhase is the first phase that failed, and its error.
func failedPhase(m *record.Measurement) (text string, failed bool) {
	if m == nil {
		return "", false
	}
	for _, p := range m.Phases {
		if p.Error != nil {
			return p.Name + ": " + *p.Error, true
		}
	}
	return "", false
}

// outOfMemory reports a text of PyTorch about a device's memory: its error class
// or its words, and not those of the allocator of main memory.
func outOfMemory(text string) bool {
	text = strings.ToLower(text)
	return (strings.Contains(text, "outofmemoryerror") || strings.Contains(text, "out of memory")) && !strings.Contains(text, "defaultcpuallocator")
}

func sweepWarnings(p sweep.Plan, points []sweep.Point) []account.Warning {
	var w []account.Warning
	if b := sweep.BoundaryOf(points); !b.Monotone() {
		w = append(w, account.Warning{Code: "not_monotone", Text: "a larger " + p.Dimension + " passed than one that ran out of memory: something else than " + p.Dimension + " decides (another user of the card, fragmentation, an input that differs), so that there is no boundary"})
	}
	if slices.ContainsFunc(points, func(q sweep.Point) bool { return q.Status == sweep.Failed }) {
		w = append(w, account.Warning{Code: "other_failure", Text: "a program that failed for another reason says nothing about memory, and is not part of the boundary"})
	}
	return w
}
