package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func solve(b *strings.Builder, d *record.Solve, s Style) {
	solution := d.Solution
	if len(solution.Matrix) > 0 {
		matrix(b, d, s)
		return
	}
	if solution.Partitions != nil {
		partitions(b, d, s)
		return
	}
	if solution.Window != nil {
		window(b, d, s)
		return
	}
	if len(d.ByCard) > 0 {
		byCard(b, d, s)
		return
	}
	name := strings.ReplaceAll(solution.Field, "_", " ")
	not, open := "not more because ", "up to %s cannot be excluded"
	if solution.Smallest {
		not, open = "not fewer because ", "from %s on it cannot be excluded"
	}
	of := name // where there is none
	if strings.HasSuffix(of, "s") {
		of = "number of " + of
	}
	switch {
	case solution.Value != nil:
		b.WriteString(paragraph(s, "  ", s.verdict("fits", fmt.Sprintf("%s %s", name, bytesize.Group(*solution.Value)))+" · "+solvedFor(d)))
	case solution.OpenValue != nil:
		b.WriteString(paragraph(s, "  ", s.verdict("cannot_tell", fmt.Sprintf("no %s is known to fit; "+open, of, bytesize.Group(*solution.OpenValue)))+" · "+solvedFor(d)))
	default:
		b.WriteString(paragraph(s, "  ", s.verdict("does_not_fit", "no "+of+" fits")+" · "+solvedFor(d)))
	}
	if left := s.amount(quantity{solution.RemainderBytes, solution.RemainderLowBytes, solution.RemainderHighBytes}); left != unknown {
		b.WriteString(paragraph(s, "  ", "left over: "+left))
	}
	if solution.Value == nil {
		not = "because "
	}
	b.WriteString(paragraph(s, "  ", not+solution.LimitReason))
	if solution.Value != nil && solution.OpenValue != nil && *solution.OpenValue != *solution.Value {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf(open, bytesize.Group(*solution.OpenValue))))
	}
	if solution.RoomBytes != nil {
		warnings(b, d.Warnings, s)
		return
	}
	b.WriteString("\n")
	estimate(b, &d.Estimate, s)
}

// solvedFor is the model, and the room or card that it is to fit in.
func solvedFor(d *record.Solve) string {
	where := text(d.Model.Name)
	if d.Solution.RoomBytes != nil {
		return fmt.Sprintf("%s, in %s for the cache of one rank", where, bytesize.Format(*d.Solution.RoomBytes, bytesize.GiB))
	}
	for _, r := range d.Ranks {
		if r.Device != nil {
			return where + " on " + r.Device.Name
		}
	}
	return where
}

// byCard is the answer for every card: a row each, the smallest card first.
func byCard(b *strings.Builder, d *record.Solve, s Style) {
	name := words(d.Solution.Field)
	b.WriteString(paragraph(s, "  ", name+" · "+text(d.Model.Name)+" · engine "+d.Engine.Name) + "\n")
	unit := bytesize.GiB
	if s.Unit != nil {
		unit = *s.Unit
	}
	open := "cannot be excluded up to"
	if d.Solution.Smallest {
		open = "cannot be excluded from"
	}
	g := grid{columns: []column{{title: "card, " + unit.String()}, {title: "reports", align: right}, {title: name, align: right}, {title: open, align: right}}}
	fits, unsure := 0, 0
	for _, c := range d.ByCard {
		value, rest := "none", ""
		switch {
		case c.Value != nil:
			fits++
			value = bytesize.Group(*c.Value)
		case c.OpenValue != nil:
			unsure++
			value = unknown
		}
		if c.OpenValue != nil && (c.Value == nil || *c.Value != *c.OpenValue) {
			rest = bytesize.Group(*c.OpenValue)
		}
		g.row(c.ID, quantity{c.ReportedBytes, c.ReportedLowBytes, c.ReportedHighBytes}.number(unit), value, rest)
	}
	b.WriteString(g.render(s) + "\n")
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("of %s some %s fits on %d, and of %d nobody can tell; --gpu NAME says what limits it",
		count(len(d.ByCard), "card"), name, fits, unsure)))
	warnings(b, d.Warnings, s)
}
