package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func log(b *strings.Builder, d *record.Log, s Style) {
	lines := count(d.Lines, "line")
	switch {
	case d.NotUnderstood > 0:
		lines += fmt.Sprintf(", of which %s nothing about memory", says(d.NotUnderstood))
	case d.Lines > 1:
		lines += ", all understood"
	}
	b.WriteString(paragraph(s, "  ", s.bold(d.Source)+" · "+lines))
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
	against(b, d.Against, "printed", s)
	warnings(b, d.Warnings, s)
}

// says is how many lines say something.
func says(n int) string {
	if n == 1 {
		return "1 says"
	}
	return bytesize.Group(int64(n)) + " say"
}

func outOfMemory(b *strings.Builder, m record.OutOfMemory, s Style) {
	asked := "a request of unknown size"
	if n := s.amount(quantity{m.RequestBytes, m.RequestLowBytes, m.RequestHighBytes}); n != unknown {
		asked = "a request of " + n
	}
	b.WriteString("\n" + paragraph(s, "  ", s.bold(strings.ToUpper(spaced(m.Class)))+" · "+asked+" · "+strings.Join(circumstances(m), ", ")))
	if m.Where != nil {
		b.WriteString(paragraph(s, "  ", "  in "+place(*m.Where)))
	}
	b.WriteString(paragraph(s, "  ", "  "+m.Because))
	for _, a := range m.Advice {
		b.WriteString(paragraph(s, "    ", "  "+effect(a.Effect)+": "+a.Text))
	}
}

// circumstances are where and when a request failed.
func circumstances(m record.OutOfMemory) []string {
	list := []string{}
	if m.Rank != nil {
		list = append(list, fmt.Sprintf("rank %d", *m.Rank))
	}
	if m.Device != nil {
		list = append(list, fmt.Sprintf("device %d", *m.Device))
	}
	if m.Phase != nil {
		list = append(list, "phase "+spaced(*m.Phase))
	}
	list = append(list, fmt.Sprintf("line %d", m.Line))
	switch {
	case m.Repeats == 1:
		list = append(list, "told once more")
	case m.Repeats > 1:
		list = append(list, fmt.Sprintf("told %d more times", m.Repeats))
	}
	return list
}

// place is the line of a program that failed.
func place(w record.Where) string {
	text := fmt.Sprintf("%s, line %d", w.File, w.Line)
	if w.Function != nil {
		text += ", " + *w.Function
	}
	if w.Code != nil {
		text += ": " + *w.Code
	}
	return text
}

// effect is what a step does, as a label.
func effect(e string) string {
	if e == "more_information" {
		return "would tell more"
	}
	return spaced(e)
}

// spaced turns a word of the record into words.
func spaced(word string) string { return strings.ReplaceAll(word, "_", " ") }

// components lists every number of a text: as it was printed, or in the unit
// that was asked for.
func components(b *strings.Builder, list []record.Component, s Style) {
	head := []column{{title: "printed", align: right}, {title: ""}}
	if s.Unit != nil {
		head = []column{{title: s.Unit.String(), align: right}}
	}
	ranked := slices.ContainsFunc(list, func(c record.Component) bool { return c.Rank != nil })
	head = append(head, column{title: "what"})
	if ranked {
		head = append(head, column{title: "rank", align: right})
	}
	g := grid{columns: append(head, column{title: "device", align: right}, column{title: "line", align: right}, column{title: "whose", prose: true})}
	for _, c := range list {
		row := append(printed(c, s), spaced(c.Kind))
		if ranked {
			row = append(row, ordinal(c.Rank))
		}
		g.row(append(row, ordinal(c.Device), fmt.Sprint(c.Line), c.Component)...)
	}
	b.WriteString(g.render(s))
}

// ordinal is the number of a rank or a device, where a text gives it.
func ordinal(n *int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

// printed is a number in its own unit, so that a small one is not taken for
// none, or in the unit that was asked for.
func printed(c record.Component, s Style) []string {
	if s.Unit == nil {
		number, unit, _ := strings.Cut(c.Printed, " ")
		if unit == "" && c.Bytes == nil && c.LowBytes == nil && c.HighBytes == nil {
			number = unknown // DCGM's blank, which looks like a number
		}
		return []string{number, unit}
	}
	number := quantity{c.Bytes, c.LowBytes, c.HighBytes}.number(*s.Unit)
	if c.HighBytes != nil && *c.HighBytes > 0 && number == fixed(0, *s.Unit) {
		number = "< " + bytesize.Fixed(s.Unit.Bytes()/100, *s.Unit, 2)
	}
	return []string{number}
}
