package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// cards is the answer for every card: a row each, what fits first.
func cards(b *strings.Builder, e *record.Estimate, s Style) {
	for _, r := range e.Ranks {
		if r.Peak != nil {
			need := s.amount(quantity{r.Peak.Bytes, r.Peak.LowBytes, r.Peak.HighBytes})
			who := rankName(r)
			if len(r.Ranks) > 1 {
				who = "each of " + who
			}
			b.WriteString(paragraph(s, "  ", who+" needs "+need+" in "+s.bold(r.Peak.Phase)+", on a card of unknown architecture"))
		}
	}
	unit := bytesize.GiB
	if s.Unit != nil {
		unit = *s.Unit
	}
	b.WriteString("\n")
	g := grid{columns: []column{{title: "card, " + unit.String()}, {title: "reports", align: right}, {title: "answer"},
		{title: "headroom", align: right}, {title: "binding term", prose: true}}}
	answers := map[string]int{}
	notes := map[string][]string{}
	var order []string
	for _, c := range e.Cards {
		v := c.Verdict
		answers[v.Value]++
		g.row(c.ID, quantity{c.ReportedBytes, c.ReportedLowBytes, c.ReportedHighBytes}.number(unit), words(v.Value),
			headroom(c, unit), text(v.Term))
		if c.Note != nil {
			if notes[*c.Note] == nil {
				order = append(order, *c.Note)
			}
			notes[*c.Note] = append(notes[*c.Note], c.ID)
		}
	}
	b.WriteString(g.render(s) + "\n")
	for _, note := range order {
		b.WriteString(paragraph(s, "  ", "note: "+note+": "+strings.Join(notes[note], ", ")))
	}
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("of %s it fits on %d, does not fit on %d, cannot run on %d, and of %d nobody can tell; --gpu NAME says why",
		count(len(e.Cards), "card"), answers["fits"], answers["does_not_fit"], answers["not_runnable"], answers["cannot_tell"])))
}

// words is a verdict's value as it is read.
func words(value string) string { return strings.ReplaceAll(value, "_", " ") }

// headroom is what is left of a card, below zero where it is short. Its ends
// stand apart, because a minus beside a dash cannot be read.
func headroom(c record.CardVerdict, u bytesize.Unit) string {
	v := c.Verdict
	q := quantity{v.HeadroomBytes, v.HeadroomLowBytes, v.HeadroomHighBytes}
	switch {
	case q.number(u) == unknown && c.ShortBytes != nil:
		return "≤ " + fixed(-*c.ShortBytes, u)
	case q.exact == nil && q.low != nil && q.high != nil && fixed(*q.low, u) != fixed(*q.high, u):
		return fixed(*q.low, u) + " to " + fixed(*q.high, u)
	}
	return q.number(u)
}

// shared is several workloads on one device: a row a process, and what they need
// together.
func shared(b *strings.Builder, d record.Shared, s Style) {
	line := s.bold(d.Device)
	if d.Card != nil {
		line += ", " + d.Card.Name + ", " + capacityOf(*d.Card, s)
	}
	b.WriteString(paragraph(s, "  ", line))
	total := quantity{d.Bytes, d.LowBytes, d.HighBytes}
	all := []quantity{total}
	for _, p := range d.Processes {
		all = append(all, quantity{p.PeakBytes, p.PeakLowBytes, p.PeakHighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "process, " + unit.String()}, {title: "peak", align: right}, {title: "keeps", align: right}, {title: "stands highest in", prose: true}}}
	for i, p := range d.Processes {
		where := p.Phase
		if p.Term != nil {
			where += ", mostly " + *p.Term
		}
		g.row(p.Name, all[i+1].number(unit), "≥ "+fixed(p.KeptBytes, unit), where)
	}
	g.row("together", total.number(unit), "", "at most the sum of the peaks, at least one peak beside what the others keep: nobody declared when each of them peaks")
	b.WriteString(g.render(s))
	if d.Card != nil {
		b.WriteString("\n")
		bars(b, "device", []barRow{{name: d.Device, need: total, has: quantity{d.Card.UsableBytes, d.Card.UsableLowBytes, d.Card.UsableHighBytes}, where: "one process or several"}}, s)
	}
}

// matrix is a grid of answers over two dimensions.
func matrix(b *strings.Builder, d *record.Solve, s Style) {
	fields := strings.Split(d.Solution.Field, ",")
	if len(fields) != 2 {
		return
	}
	answers := map[[2]int64]string{}
	var rows, columns []int64
	for _, p := range d.Solution.Matrix {
		row, column := p.Values[fields[0]], p.Values[fields[1]]
		if len(rows) == 0 || rows[len(rows)-1] != row {
			rows = append(rows, row)
		}
		if len(rows) == 1 {
			columns = append(columns, column)
		}
		answers[[2]int64{row, column}] = p.Verdict
	}
	b.WriteString(paragraph(s, "  ", solvedFor(d)))
	b.WriteString(paragraph(s, "  ", words(fields[0])+" down, "+words(fields[1])+" across"))
	g := grid{columns: []column{{title: "", align: right}}}
	for _, c := range columns {
		g.columns = append(g.columns, column{title: bytesize.Group(c), align: right})
	}
	for _, r := range rows {
		cells := []string{bytesize.Group(r)}
		for _, c := range columns {
			cells = append(cells, short(answers[[2]int64{r, c}], s))
		}
		g.row(cells...)
	}
	b.WriteString(g.render(s))
	b.WriteString(paragraph(s, "  ", "fits: it fits · ?: cannot tell · no: does not fit, or cannot run"))
}

// short is an answer in one cell.
func short(value string, s Style) string {
	switch value {
	case "fits":
		return s.verdict(value, "fits")
	case "cannot_tell":
		return s.verdict(value, "?")
	}
	return s.verdict(value, "no")
}
