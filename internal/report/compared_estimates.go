package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// comparedEstimates is two estimates side by side: what changed, what that can
// reach, each phase, and the terms that moved where the two stand highest.
func comparedEstimates(b *strings.Builder, d *record.Comparison, s Style) {
	comparedHead(b, d, s)
	unit := comparedUnit(d.Rows, s)
	ranked := slices.ContainsFunc(d.Rows, func(r record.ComparisonRow) bool { return r.Rank != nil && *r.Rank > 0 })
	g := comparedGrid("phase, "+unit.String(), "peak of", ranked)
	for _, r := range d.Rows {
		if r.Term == "peak" {
			g.comparedRow(phaseAndStep(r), r.Scope, r, ranked, unit)
		}
	}
	b.WriteString("\n" + g.render(s))
	terms := comparedGrid("at the peak of", "term that moves", ranked)
	for _, r := range d.Rows {
		if r.Term != "peak" && atHighest(d.Rows, r) && differs(r, unit) {
			terms.comparedRow(phaseAndStep(r), spaced(r.Term), r, ranked, unit)
		}
	}
	if len(terms.rows) > 0 {
		b.WriteString("\n" + terms.render(s))
	}
	warnings(b, d.Warnings, s)
}

// changedThings is the names of both sides, and what differs.
func changedThings(b *strings.Builder, d *record.Comparison, s Style) {
	b.WriteString(paragraph(s, "  ", "a: "+s.bold(d.A)) + paragraph(s, "  ", "b: "+s.bold(d.B)))
	if !d.Comparable {
		b.WriteString(paragraph(s, "  ", s.verdict("cannot_tell", "not comparable")+": what follows is no effect of any one thing"))
	}
	for _, c := range d.Changed {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("changed: %s, %s → %s", spaced(c.Field), c.A, c.B)))
	}
}

// reach is what the thing that changed can touch, and what it costs.
func reach(b *strings.Builder, r record.Reach, s Style) {
	b.WriteString(paragraph(s, "  ", s.bold(r.Text)))
	if r.Cost != nil {
		line := "it costs: " + *r.Cost
		if r.Check != nil {
			line += "; check " + *r.Check
		}
		b.WriteString(paragraph(s, "  ", line))
	}
}

func comparedUnit(rows []record.ComparisonRow, s Style) bytesize.Unit {
	var all []quantity
	for _, r := range rows {
		all = append(all, sideA(r), sideB(r))
	}
	return s.unit(all...)
}

func sideA(r record.ComparisonRow) quantity { return quantity{r.ABytes, r.ALowBytes, r.AHighBytes} }

func sideB(r record.ComparisonRow) quantity { return quantity{r.BBytes, r.BLowBytes, r.BHighBytes} }

func comparedGrid(first, second string, ranked bool) *grid {
	g := &grid{columns: []column{{title: first}}}
	if ranked {
		g.columns = append(g.columns, column{title: "rank", align: right})
	}
	g.columns = append(g.columns, column{title: second}, column{title: "a", align: right}, column{title: "b", align: right}, column{title: "b − a", align: right})
	return g
}

func (g *grid) comparedRow(phase, what string, r record.ComparisonRow, ranked bool, unit bytesize.Unit) {
	cells := []string{phase}
	if ranked {
		cells = append(cells, rankOf(r))
	}
	g.row(append(cells, what, sideA(r).number(unit), sideB(r).number(unit), differenceOf(r, unit))...)
}

func phaseAndStep(r record.ComparisonRow) string {
	name := spaced(text(r.Phase))
	if r.Step > 0 {
		name += fmt.Sprintf(" %d", r.Step)
	}
	return name
}

// differenceOf is the difference of a row: one number, or the ends of it.
func differenceOf(r record.ComparisonRow, u bytesize.Unit) string {
	if r.DifferenceBytes != nil {
		return difference(r.DifferenceBytes, u)
	}
	return differenceEnds(record.AgainstRow{Unit: "bytes", DifferenceLow: r.DifferenceLow, DifferenceHigh: r.DifferenceHigh}, u)
}

// differs reports a row whose sides read otherwise.
func differs(r record.ComparisonRow, u bytesize.Unit) bool {
	return sideA(r).number(u) != sideB(r).number(u)
}

// atHighest reports a row of the phase in which the process of its rank stands
// highest on either side.
func atHighest(rows []record.ComparisonRow, of record.ComparisonRow) bool {
	for _, side := range []func(record.ComparisonRow) quantity{sideA, sideB} {
		var top record.ComparisonRow
		most := int64(-1)
		for _, r := range rows {
			if r.Term == "peak" && r.Scope == "process" && rankOf(r) == rankOf(of) && leastOf(side(r)) >= most {
				top, most = r, leastOf(side(r))
			}
		}
		if phaseAndStep(top) == phaseAndStep(of) {
			return true
		}
	}
	return false
}

func leastOf(q quantity) int64 {
	switch {
	case q.exact != nil:
		return *q.exact
	case q.low != nil:
		return *q.low
	}
	return 0
}
