package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/record"
)

func comparison(b *strings.Builder, d *record.Comparison, s Style) {
	b.WriteString(paragraph(s, "  ", "a: "+s.bold(d.A)) + paragraph(s, "  ", "b: "+s.bold(d.B)))
	for _, c := range d.Changed {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("%s differ: a %s; b %s", strings.ReplaceAll(c.Field, "_", " "), c.A, c.B)))
	}
	rows := rowsByDevice(d)
	var idle []int
	for _, total := range d.Totals {
		if total.Device != nil && total.ABytes != nil && *total.ABytes == 0 && total.BBytes != nil && *total.BBytes == 0 {
			idle = append(idle, *total.Device)
			continue
		}
		comparedDevice(b, rows, total, s)
	}
	nothingRecorded(b, idle, s)
	warnings(b, d.Warnings, s)
}

// everyDevice is the key of rows that name no device.
const everyDevice = -1

// rowsByDevice sorts the rows of a comparison, and what they leave, by device.
func rowsByDevice(d *record.Comparison) map[int][]record.ComparisonRow {
	rows := map[int][]record.ComparisonRow{}
	for _, list := range [][]record.ComparisonRow{d.Rows, d.Residual} {
		for _, r := range list {
			device := everyDevice
			if r.Device != nil {
				device = *r.Device
			}
			rows[device] = append(rows[device], r)
		}
	}
	return rows
}

func comparedDevice(b *strings.Builder, of map[int][]record.ComparisonRow, total record.ComparisonRow, s Style) {
	rows := slices.Clone(of[everyDevice])
	if total.Device != nil {
		rows = append(rows, of[*total.Device]...)
	}
	rows = append(rows, total)
	var all []quantity
	for _, r := range rows {
		all = append(all, quantity{exact: r.ABytes}, quantity{exact: r.BBytes})
	}
	unit := s.unit(all...)
	if total.Device != nil {
		b.WriteString("\n" + paragraph(s, "  ", s.bold(fmt.Sprintf("cuda:%d", *total.Device))+", at the peak of "+total.Scope+" bytes"))
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
