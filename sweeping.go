package floodmark

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/internal/sweep"
	"floodmark/record"
)

// SweepRecord is the document of what a sweep's folder holds.
func SweepRecord(l *sweep.Ledger, tool record.Tool) *record.Sweep {
	p := l.Plan
	points := l.Points()
	slices.SortFunc(points, func(a, b sweep.Point) int { return cmp.Compare(a.Value, b.Value) })
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
		d.Points = append(d.Points, record.SweepPoint{
			Value: point.Value, Attempt: point.Attempt, Status: string(point.Status), Error: record.Text(point.Error),
			Record: record.Text(point.Record), PeakBytes: point.Bytes, Scope: record.Text(point.Scope), DurationNS: int64(point.Took),
		})
	}
	b := sweep.BoundaryOf(points)
	d.Boundary = record.SweepBoundary{LargestPass: positive(b.LargestPass), SmallestFail: positive(b.SmallestFail), Monotone: b.Monotone()}
	return d
}

// positive is nil for 0, which no value of a dimension is.
func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
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
