package floodmark

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/record"
)

// estimatedBy is the document of evidence that is an estimate, new or read back.
func estimatedBy(e Evidence, tool record.Tool) (*record.Estimate, bool) {
	switch e.(type) {
	case *Prediction, recordEvidence:
		d, ok := e.Record(tool).(*record.Estimate)
		return d, ok && len(d.Ranks) > 0
	}
	return nil, false
}

// compareEstimates sets two estimates side by side: each phase at like scope, the
// terms that moved in it, and what the one thing that changed can reach.
func compareEstimates(a, b *record.Estimate, names [2]string, o CompareOptions, tool record.Tool) (*record.Comparison, error) {
	changed := changedEstimates(a, b)
	reasons := tooMany(changed)
	if len(reasons) > 0 && !o.Force {
		return nil, &NotComparableError{reasons}
	}
	r := &record.Comparison{A: names[0], B: names[1], Changed: changed, Comparable: len(reasons) == 0}
	warnings := notComparable(reasons)
	if len(changed) == 0 {
		warnings = append(warnings, account.Warning{Code: "nothing_changed", Text: "nothing that the two declare differs; where their figures do, versions of the program or files of the model differ"})
	}
	for i, rank := range a.Ranks {
		other := rankBeside(b, rank, i)
		if other == nil {
			warnings = append(warnings, account.Warning{Code: "rank_alone", Text: fmt.Sprintf("only a has rank %d", rank.Rank)})
			continue
		}
		warnings = append(warnings, comparedPhases(r, rank, *other)...)
	}
	r.Totals = []record.ComparisonRow{peakRow(a, b)}
	if len(changed) == 1 {
		r.Reach = reachOf(changed[0].Field, a)
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindComparison, tool, warnings)}
	return r, nil
}

func notComparable(reasons []string) (warnings []account.Warning) {
	for _, reason := range reasons {
		warnings = append(warnings, account.Warning{Code: "not_comparable", Text: reason})
	}
	return warnings
}

// estimateConditions is all that an estimate depends on, by name.
func estimateConditions(e *record.Estimate) map[string]string {
	c := map[string]string{}
	for _, s := range e.Settings {
		c[s.Name] = s.Value
	}
	c[engineSetting] = e.Engine.Name
	if e.Engine.Version != nil {
		c[engineSetting] += " " + *e.Engine.Version
	}
	if e.Model.Name != nil {
		c["model"] = *e.Model.Name
	}
	var formats []string
	for _, f := range e.Model.StoredFormats {
		formats = append(formats, f.Name)
	}
	c[weightsSetting] = strings.Join(formats, ", ")
	if d := e.Ranks[0].Device; d != nil {
		c["card"] = d.Name
	}
	return c
}

// changedEstimates lists what two estimates declare otherwise. The formats of
// moments follow from the optimizer and from the precision, and those of weights
// from the model.
func changedEstimates(a, b *record.Estimate) []record.ChangedField {
	x, y := estimateConditions(a), estimateConditions(b)
	for follows, from := range map[string][]string{momentsSetting: {optimizerSetting, precisionSetting}, weightsSetting: {"model", precisionSetting, baseFormatSetting}} {
		if slices.ContainsFunc(from, func(name string) bool { return x[name] != y[name] }) {
			delete(x, follows)
			delete(y, follows)
		}
	}
	return differing(x, y)
}

// rankBeside is the class of ranks of an estimate that stands beside one of another:
// of the same number, or of the same place where the layouts are not the same.
func rankBeside(e *record.Estimate, of record.Rank, i int) *record.Rank {
	for j, r := range e.Ranks {
		if r.Rank == of.Rank {
			return &e.Ranks[j]
		}
	}
	if i < len(e.Ranks) {
		return &e.Ranks[i]
	}
	return nil
}

// comparedPhases are the rows of one class of ranks: the peaks of each phase, and
// the terms that moved in it.
func comparedPhases(r *record.Comparison, a, b record.Rank) (warnings []account.Warning) {
	alone := func(side string, p record.Phase) {
		warnings = append(warnings, account.Warning{Code: "phase_alone", Text: fmt.Sprintf("only %s has %s", side, phaseOfRank(p, a.Rank))})
	}
	for _, p := range a.Phases {
		q, both := samePhase(b.Phases, p)
		if !both {
			alone("a", p)
			continue
		}
		r.Rows = append(r.Rows, estimatedRows(p, q, a.Rank)...)
	}
	for _, q := range b.Phases {
		if _, both := samePhase(a.Phases, q); !both {
			alone("b", q)
		}
	}
	if a.Peak != nil && b.Peak != nil && (a.Peak.Phase != b.Peak.Phase || a.Peak.Step != b.Peak.Step) {
		warnings = append(warnings, account.Warning{Code: "peak_moved", Text: fmt.Sprintf("rank %d: the peak moved from %s to %s", a.Rank, stepName(a.Peak.Phase, a.Peak.Step), stepName(b.Peak.Phase, b.Peak.Step))})
	}
	return warnings
}

func samePhase(list []record.Phase, p record.Phase) (record.Phase, bool) {
	i := slices.IndexFunc(list, func(q record.Phase) bool {
		return q.Name == p.Name && q.Step == p.Step && q.MicroBatch == p.MicroBatch
	})
	if i < 0 {
		return record.Phase{}, false
	}
	return list[i], true
}

func stepName(phase string, step int) string {
	if step == 0 {
		return spacedTerm(phase)
	}
	return fmt.Sprintf("%s %d", spacedTerm(phase), step)
}

func phaseOfRank(p record.Phase, rank int) string {
	return fmt.Sprintf("%s of rank %d", stepName(p.Name, p.Step), rank)
}

// estimatedRows are the peaks of a phase by scope, and the terms of its widest one
// that moved.
func estimatedRows(a, b record.Phase, rank int) []record.ComparisonRow {
	var rows []record.ComparisonRow
	add := func(term string, scope account.Scope, x, y account.Figure) {
		rows = append(rows, figureRow(term, scope, x, y))
		row := &rows[len(rows)-1]
		row.Phase, row.Step, row.Rank = &a.Name, a.Step, &rank
	}
	add("peak", account.Allocated, allocatedPeak(a), allocatedPeak(b))
	add("peak", account.Reserved, figureOf(a.PeakReservedBytes, a.PeakReservedLowBytes, a.PeakReservedHighBytes), figureOf(b.PeakReservedBytes, b.PeakReservedLowBytes, b.PeakReservedHighBytes))
	add("peak", account.Process, figureOf(a.ProcessBytes, a.ProcessLowBytes, a.ProcessHighBytes), figureOf(b.ProcessBytes, b.ProcessLowBytes, b.ProcessHighBytes))
	narrowed(&rows[len(rows)-1], a, b)
	for _, term := range termsAtPeak(a, b) {
		if x, y := heldAtPeak(a, term), heldAtPeak(b, term); interval(x) != interval(y) {
			add(term, account.Process, x, y)
		}
	}
	return rows
}

// figureRow is a quantity on both sides, as intervals where it is one.
func figureRow(term string, scope account.Scope, a, b account.Figure) record.ComparisonRow {
	row := record.ComparisonRow{Term: term, Scope: string(scope)}
	row.ABytes, row.ALowBytes, row.AHighBytes = record.Interval(a)
	row.BBytes, row.BLowBytes, row.BHighBytes = record.Interval(b)
	d := compare.Pair{Predicted: a, Observed: b}.Difference()
	switch {
	case interval(a) == interval(b):
		row.DifferenceBytes = new(int64)
	case d.Low != nil && d.High != nil && *d.Low == *d.High:
		row.DifferenceBytes = d.Low
	default:
		row.DifferenceLow, row.DifferenceHigh = d.Low, d.High
	}
	return row
}

// narrowed gives a process's difference as the sum of those of its terms, where they
// add up to it: what is as uncertain on both sides is the same bytes, and does not
// make their difference uncertain.
func narrowed(row *record.ComparisonRow, a, b record.Phase) {
	p := account.Provenance{}
	sums := [2]account.Figure{account.Exact(0, p), account.Exact(0, p)}
	var low, high int64
	for _, term := range termsAtPeak(a, b) {
		x, y := heldAtPeak(a, term), heldAtPeak(b, term)
		sums[0], sums[1] = account.Sum(p, sums[0], x), account.Sum(p, sums[1], y)
		d := compare.Pair{Predicted: x, Observed: y}.Difference()
		switch {
		case interval(x) == interval(y):
		case d.Low == nil || d.High == nil:
			return
		default:
			low, high = low+*d.Low, high+*d.High
		}
	}
	if interval(sums[0]) != interval(figureOf(row.ABytes, row.ALowBytes, row.AHighBytes)) || interval(sums[1]) != interval(figureOf(row.BBytes, row.BLowBytes, row.BHighBytes)) {
		return
	}
	row.DifferenceBytes, row.DifferenceLow, row.DifferenceHigh = nil, &low, &high
	if low == high {
		row.DifferenceBytes, row.DifferenceLow, row.DifferenceHigh = &low, nil, nil
	}
}

// termsAtPeak are the terms of either side's peak of a phase.
func termsAtPeak(a, b record.Phase) []string {
	var terms []string
	for _, s := range slices.Concat(a.Composition, b.Composition) {
		if !slices.Contains(terms, s.Term) {
			terms = append(terms, s.Term)
		}
	}
	return terms
}

func heldAtPeak(p record.Phase, term string) account.Figure {
	for _, s := range p.Composition {
		if s.Term == term {
			return figureOf(s.Bytes, s.LowBytes, s.HighBytes)
		}
	}
	return account.Exact(0, account.Provenance{})
}

// peakRow is the peak of the rank that stands highest on each side: two moments, and
// their difference is that of two peaks of one scope.
func peakRow(a, b *record.Estimate) record.ComparisonRow {
	x, y := limiting(a), limiting(b)
	row := figureRow("peak", account.Process, peakOfRank(x), peakOfRank(y))
	row.Rank = &x.Rank
	if x.Peak == nil || y.Peak == nil {
		return row
	}
	row.Phase, row.Step = &x.Peak.Phase, x.Peak.Step
	narrowed(&row, record.Phase{Composition: x.Peak.Composition}, record.Phase{Composition: y.Peak.Composition})
	return row
}

// limiting is the class of ranks whose peak stands highest.
func limiting(e *record.Estimate) record.Rank {
	top := e.Ranks[0]
	for _, r := range e.Ranks[1:] {
		if peakOfRank(r).Low() > peakOfRank(top).Low() {
			top = r
		}
	}
	return top
}

func peakOfRank(r record.Rank) account.Figure {
	if r.Peak == nil {
		return account.Unknown("the rank has no phase", account.Provenance{})
	}
	return figureOf(r.Peak.Bytes, r.Peak.LowBytes, r.Peak.HighBytes)
}
