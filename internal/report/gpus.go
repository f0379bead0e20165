package report

import (
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// gpus lists the catalogue: what is printed on the box beside what cards of
// that name report. A low that no card reported is marked, and its rule stated.
func gpus(b *strings.Builder, d *record.GPUs, s Style) {
	var all []quantity
	for _, c := range d.Cards {
		all = append(all, quantity{nil, c.ReportedLowBytes, c.ReportedHighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "card"}, {title: "label", align: right}, {title: unit.String() + " reported", align: right}, {title: "compute"}, {title: "name", prose: true}}}
	for _, c := range d.Cards {
		label := unknown
		if c.LabelBytes != nil {
			label = bytesize.Format(*c.LabelBytes, bytesize.GB)
		}
		g.row(c.ID, label, reported(c, unit), text(c.ComputeCapability), c.Name)
	}
	b.WriteString(g.render(s) + "\n")
	for _, rule := range lowRules(d.Cards) {
		b.WriteString(paragraph(s, "  ", rule))
	}
	b.WriteString(paragraph(s, "", count(len(d.Cards), "card")+`. The label is what the box says; its "GB" are GiB at most: a card reports that many GiB or fewer, `+
		"and a process may use fewer still."))
	warnings(b, d.Warnings, s)
}

// Marks of lows that no card reported.
const (
	fitted   = "*"
	atMost   = "≤ "
	observed = "observed"
)

// reported prints what a card reports, in the table's unit.
func reported(c record.Card, unit bytesize.Unit) string {
	if c.ReportedHighBytes == nil {
		return unknown
	}
	high := fixed(*c.ReportedHighBytes, unit)
	switch {
	case c.ReportedLowBytes == nil:
		return atMost + high
	case c.LowOrigin != nil && *c.LowOrigin != observed:
		return fixed(*c.ReportedLowBytes, unit) + fitted + "–" + high
	}
	return quantity{nil, c.ReportedLowBytes, c.ReportedHighBytes}.number(unit)
}

// lowRules are the rules behind the marks of a table, each once.
func lowRules(cards []record.Card) []string {
	var list []string
	for _, c := range cards {
		if c.LowRule == nil {
			continue
		}
		line := fitted + " no card reported this low: " + *c.LowRule
		if c.ReportedLowBytes == nil {
			line = atMost + *c.LowRule
		}
		if !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list
}
