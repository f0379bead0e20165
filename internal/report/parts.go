package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// parts is the weights by module or by layer.
func parts(b *strings.Builder, list []record.Part, s Style) {
	var all []quantity
	for _, p := range list {
		all = append(all, quantity{p.Bytes, p.LowBytes, p.HighBytes})
	}
	unit := s.unit(all...)
	b.WriteString("\n")
	g := grid{columns: []column{{title: "weights of"}, {title: unit.String(), align: right}, {title: "parameters", align: right}, {title: "tensors", align: right}, {title: "stored as", prose: true}}}
	for i, p := range list {
		g.row(partName(p), all[i].number(unit), quantity{exact: p.Parameters}.number(bytesize.B), fmt.Sprint(p.Tensors), formatNames(p.StoredFormats))
	}
	b.WriteString(g.render(s))
}

func partName(p record.Part) string {
	var words []string
	if p.Stack != nil {
		words = append(words, *p.Stack)
	}
	if p.Layer != nil {
		words = append(words, fmt.Sprint(*p.Layer))
	}
	if p.Module != nil {
		words = append(words, strings.ReplaceAll(*p.Module, "_", " "))
	}
	if len(words) == 0 {
		return "outside the layers"
	}
	return strings.Join(words, " · ")
}

// change is one thing changed: what moves, and what does not.
func change(b *strings.Builder, c record.Change, s Style) {
	b.WriteString("\n" + paragraph(s, "  ", fmt.Sprintf("what if %s · rank %d, %s", s.bold(c.Setting), c.Rank, c.Phase)))
	var all []quantity
	for _, t := range c.Terms {
		all = append(all, quantity{t.BeforeBytes, t.BeforeLowBytes, t.BeforeHighBytes}, quantity{t.AfterBytes, t.AfterLowBytes, t.AfterHighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "term, " + unit.String()}, {title: "as it is", align: right}, {title: "changed", align: right}, {title: ""}}}
	for i, t := range c.Terms {
		moves := "unchanged"
		if t.Moves {
			moves = "moves"
		}
		g.row(t.Term, all[2*i].number(unit), all[2*i+1].number(unit), moves)
	}
	b.WriteString(g.render(s))
	if c.Verdict != nil {
		verdict(b, *c.Verdict, s)
	}
}
