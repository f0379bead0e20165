package report

import (
	"fmt"
	"strings"

	"floodmark/record"
)

func comparison(b *strings.Builder, d *record.Comparison, s Style) {
	fmt.Fprintf(b, "a: %s\nb: %s\n", s.bold(d.A), s.bold(d.B))
	for _, c := range d.Changed {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("%s differ: a %s; b %s", strings.ReplaceAll(c.Field, "_", " "), c.A, c.B)))
	}
	for _, total := range d.Totals {
		comparedDevice(b, d, total, s)
	}
	warnings(b, d.Warnings, s)
}

func comparedDevice(b *strings.Builder, d *record.Comparison, total record.ComparisonRow, s Style) {
	ofDevice := func(r record.ComparisonRow) bool {
		return r.Device == nil || total.Device == nil || *r.Device == *total.Device
	}
	var all []quantity
	rows := []record.ComparisonRow{}
	for _, r := range d.Rows {
		if ofDevice(r) {
			rows = append(rows, r)
		}
	}
	for _, r := range d.Residual {
		if ofDevice(r) {
			rows = append(rows, r)
		}
	}
	rows = append(rows, total)
	for _, r := range rows {
		all = append(all, quantity{exact: r.ABytes}, quantity{exact: r.BBytes})
	}
	unit := s.unit(all...)
	if total.Device != nil {
		fmt.Fprintf(b, "\n%s, at the peak of %s bytes\n", s.bold(fmt.Sprintf("cuda:%d", *total.Device)), total.Scope)
	}
	g := grid{columns: []column{{title: "b − a, " + unit.String(), align: right}, {title: "a", align: right}, {title: "b", align: right}, {title: "count", align: right}, {title: "where", prose: true}}}
	for _, r := range rows {
		g.row(signed(r.DifferenceBytes, unit), quantity{exact: r.ABytes}.number(unit), quantity{exact: r.BBytes}.number(unit), counts(r), whereOf(r))
	}
	b.WriteString(g.render(s))
}

func counts(r record.ComparisonRow) string {
	if r.ACount == nil || r.BCount == nil {
		return unknown
	}
	return fmt.Sprintf("%d → %d", *r.ACount, *r.BCount)
}

func whereOf(r record.ComparisonRow) string {
	switch {
	case len(r.Stack) > 0:
		return strings.Join(r.Stack[:min(shownFrames, len(r.Stack))], " ← ")
	case r.Term == "stack":
		return "no stack was recorded"
	}
	return r.Term
}
