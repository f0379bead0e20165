package report

import (
	"fmt"
	"strings"

	"floodmark/record"
)

// comparedHead is what changed, how far each peak moved, and what that can reach.
func comparedHead(b *strings.Builder, d *record.Comparison, s Style) {
	changedThings(b, d, s)
	for _, total := range d.Totals {
		b.WriteString(paragraph(s, "  ", movedPeak(total, s)))
	}
	if d.Reach != nil {
		reach(b, *d.Reach, s)
	}
}

// comparedRuns is two measurements side by side: what changed, how far the peak
// of each scope moved, and each phase.
func comparedRuns(b *strings.Builder, d *record.Comparison, s Style) {
	comparedHead(b, d, s)
	unit := comparedUnit(d.Rows, s)
	g := grid{columns: []column{{title: "phase, " + unit.String()}, {title: "rank", align: right}, {title: "scope"}, {title: "a", align: right}, {title: "b", align: right}, {title: "b − a", align: right}}}
	for _, r := range d.Rows {
		g.row(text(r.Phase), rankOf(r), r.Scope, quantity{exact: r.ABytes}.number(unit), quantity{exact: r.BBytes}.number(unit), difference(r.DifferenceBytes, unit))
	}
	b.WriteString("\n" + g.render(s) + "\n" + comparedResults(d.Results, s))
	warnings(b, d.Warnings, s)
}

// movedPeak is one scope's peak on both sides. It may be of two phases; it is
// read where the greater side peaks.
func movedPeak(r record.ComparisonRow, s Style) string {
	at := ""
	if r.Phase != nil {
		at = " in " + strings.ReplaceAll(*r.Phase, "_", " ")
	}
	if r.Phase != nil && r.Step > 0 {
		at += fmt.Sprintf(" %d", r.Step)
	}
	return fmt.Sprintf("%s, %s%s: %s → %s, %s", r.Term, r.Scope, at, s.amount(sideA(r)), s.amount(sideB(r)), movedBy(r, s))
}

func movedBy(r record.ComparisonRow, s Style) string {
	switch {
	case r.DifferenceLow != nil && *r.DifferenceLow > 0:
		return "more by " + s.amount(quantity{low: r.DifferenceLow, high: r.DifferenceHigh})
	case r.DifferenceHigh != nil && *r.DifferenceHigh < 0 && r.DifferenceLow != nil:
		return "less by " + s.amount(quantity{low: negated(r.DifferenceHigh), high: negated(r.DifferenceLow)})
	case r.DifferenceLow != nil && r.DifferenceHigh != nil:
		return "which may be the same"
	case r.DifferenceBytes == nil:
		return "the difference is not known"
	case *r.DifferenceBytes == 0:
		return "not moved"
	case *r.DifferenceBytes < 0:
		return "less by " + s.amount(quantity{exact: negated(r.DifferenceBytes)})
	}
	return "more by " + s.amount(quantity{exact: r.DifferenceBytes})
}

func negated(n *int64) *int64 {
	m := -*n
	return &m
}

func rankOf(r record.ComparisonRow) string {
	if r.Rank == nil {
		return ""
	}
	return fmt.Sprint(*r.Rank)
}

// comparedResults says how long the phases took and whether they computed the
// same: memory alone chooses nothing.
func comparedResults(list []record.ComparedResult, s Style) string {
	g := grid{columns: []column{{title: "phase"}, {title: "a took", align: right}, {title: "b took", align: right}, {title: "result"}}}
	for _, r := range list {
		g.row(r.Phase, tookOrUnknown(r.ADurationNS), tookOrUnknown(r.BDurationNS), sameResult(r))
	}
	return g.render(s)
}

func tookOrUnknown(ns *int64) string {
	if ns == nil {
		return unknown
	}
	return took(*ns)
}

func sameResult(r record.ComparedResult) string {
	switch {
	case r.ALoss != nil && r.BLoss != nil && *r.ALoss != *r.BLoss:
		return "loss " + *r.ALoss + " → " + *r.BLoss
	case r.ALoss != nil && r.BLoss != nil:
		return "the same loss, " + *r.ALoss
	case r.ASHA256 != nil && r.BSHA256 != nil && *r.ASHA256 == *r.BSHA256:
		return "the same output"
	case r.ASHA256 != nil && r.BSHA256 != nil:
		return "another output"
	}
	return unknown
}
