package report

import (
	"fmt"
	"strings"

	"floodmark/record"
)

func log(b *strings.Builder, d *record.Log, s Style) {
	fmt.Fprintf(b, "%s · %s, %d not understood\n", s.bold(d.Source), count(d.Lines, "line"), d.NotUnderstood)
	for _, m := range d.OutOfMemory {
		outOfMemory(b, m, s)
	}
	if len(d.Components) > 0 {
		b.WriteString("\nwhat the text says\n")
		components(b, d.Components, s)
	}
	for _, set := range d.Settings {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("already set: %s:%s (line %d)", set.Name, set.Value, set.Line)))
	}
	warnings(b, d.Warnings, s)
}

func outOfMemory(b *strings.Builder, m record.OutOfMemory, s Style) {
	where := []string{}
	if m.Rank != nil {
		where = append(where, fmt.Sprintf("rank %d", *m.Rank))
	}
	if m.Device != nil {
		where = append(where, fmt.Sprintf("device %d", *m.Device))
	}
	where = append(where, fmt.Sprintf("line %d", m.Line))
	if m.Repeats > 0 {
		where = append(where, fmt.Sprintf("printed %d more times", m.Repeats))
	}
	request := quantity{m.RequestBytes, m.RequestLowBytes, m.RequestHighBytes}
	unit := s.unit(request)
	asked := "a request of unknown size"
	if n := request.number(unit); n != unknown {
		asked = "a request of " + n + " " + unit.String()
	}
	fmt.Fprintf(b, "\n%s · %s · %s\n", s.bold(strings.ToUpper(strings.ReplaceAll(m.Class, "_", " "))), asked, strings.Join(where, ", "))
	b.WriteString(paragraph(s, "  ", "  "+m.Because))
	for _, a := range m.Advice {
		b.WriteString(paragraph(s, "    ", "  "+strings.ReplaceAll(a.Effect, "_", " ")+": "+a.Text))
	}
}

func components(b *strings.Builder, list []record.Component, s Style) {
	var all []quantity
	for _, c := range list {
		all = append(all, quantity{c.Bytes, c.LowBytes, c.HighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: unit.String(), align: right}, {title: "what"}, {title: "device", align: right}, {title: "line", align: right}, {title: "whose", prose: true}}}
	for i, c := range list {
		device := unknown
		if c.Device != nil {
			device = fmt.Sprint(*c.Device)
		}
		g.row(all[i].number(unit), strings.ReplaceAll(c.Kind, "_", " "), device, fmt.Sprint(c.Line), c.Component)
	}
	b.WriteString(g.render(s))
}
