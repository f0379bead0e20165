package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func comparison(b *strings.Builder, d *record.Comparison, s Style) {
	if len(d.Records) > 0 {
		comparedSeveral(b, d, s)
		return
	}
	if len(d.Results) > 0 {
		comparedRuns(b, d, s)
		return
	}
	if len(d.Devices) == 0 && len(d.Rows) > 0 {
		comparedEstimates(b, d, s)
		return
	}
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
		comparedDevice(b, d, rows, total, s)
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

// comparedDevice is the sentence, the categories and the places of one device;
// the sentence alone where the sides are equal.
func comparedDevice(b *strings.Builder, d *record.Comparison, of map[int][]record.ComparisonRow, total record.ComparisonRow, s Style) {
	rows := slices.Clone(of[everyDevice])
	var device record.ComparedDevice
	if total.Device != nil {
		rows = append(rows, of[*total.Device]...)
		b.WriteString("\n" + paragraph(s, "  ", s.bold(fmt.Sprintf("cuda:%d", *total.Device))+" · "+total.Scope+" bytes"))
		if i := slices.IndexFunc(d.Devices, func(c record.ComparedDevice) bool { return c.Device == *total.Device }); i >= 0 {
			device = d.Devices[i]
		}
	}
	if device.Summary != "" {
		b.WriteString(paragraph(s, "  ", sentence(device.SummaryParts, device.Summary, s)))
	}
	if device.Equal {
		return
	}
	unit := s.unit(quantity{exact: total.ABytes}, quantity{exact: total.BBytes})
	if len(device.Categories) > 0 {
		differences(b, "category", append(slices.Clone(device.Categories), total), unit, s)
	}
	differences(b, "where", append(rows, total), unit, s)
}

// differences is a table of rows of which the last is the total. What would read
// 0.00 stands in one row with the rest.
func differences(b *strings.Builder, title string, rows []record.ComparisonRow, unit bytesize.Unit, s Style) {
	g := grid{columns: []column{{title: "b − a, " + unit.String(), align: right}, {title: "a", align: right}, {title: "b", align: right}, {title: "count", align: right}, {title: title, prose: true}}}
	add := func(r record.ComparisonRow) {
		g.row(difference(r.DifferenceBytes, unit), quantity{exact: r.ABytes}.number(unit), quantity{exact: r.BBytes}.number(unit), counts(r), whereOf(r))
	}
	total := rows[len(rows)-1]
	rest := record.ComparisonRow{Term: "all others", ABytes: new(int64), BBytes: new(int64), DifferenceBytes: new(int64), ACount: new(int), BCount: new(int)}
	for _, r := range rows[:len(rows)-1] {
		if !exact(r) || difference(r.DifferenceBytes, unit) != difference(new(int64), unit) && !strings.HasPrefix(r.Term, "all other") {
			add(r)
			continue
		}
		*rest.ABytes, *rest.BBytes, *rest.DifferenceBytes = *rest.ABytes+*r.ABytes, *rest.BBytes+*r.BBytes, *rest.DifferenceBytes+*r.DifferenceBytes
		*rest.ACount, *rest.BCount = *rest.ACount+*r.ACount, *rest.BCount+*r.BCount
	}
	if none := fixed(0, unit); fixed(*rest.ABytes, unit) != none || fixed(*rest.BBytes, unit) != none {
		add(rest)
	}
	add(total)
	b.WriteString("\n" + g.render(s))
}

// exact reports whether every figure of a row is known.
func exact(r record.ComparisonRow) bool {
	return r.ABytes != nil && r.BBytes != nil && r.DifferenceBytes != nil && r.ACount != nil && r.BCount != nil
}

// difference is a difference with its sign; what rounds to zero has none.
func difference(n *int64, u bytesize.Unit) string {
	text := signed(n, u)
	if strings.Trim(text, "+-0.") == "" {
		return strings.TrimLeft(text, "+-")
	}
	return text
}

func counts(r record.ComparisonRow) string {
	if r.ACount == nil || r.BCount == nil {
		return unknown
	}
	return bytesize.Group(int64(*r.ACount)) + " → " + bytesize.Group(int64(*r.BCount))
}

func whereOf(r record.ComparisonRow) string {
	switch r.Term {
	case "stack":
		return cmp.Or(r.Where, "no stack was recorded")
	case "peak":
		return "total"
	}
	return r.Term
}
