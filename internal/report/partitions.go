package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// partitions is the answer to solve partitions: a bound, its arithmetic, and what
// it leaves out.
func partitions(b *strings.Builder, d *record.Solve, s Style) {
	p := d.Solution.Partitions
	unit := bytesize.GB
	if p.BudgetBytes%(1<<30) == 0 {
		unit = bytesize.GiB
	}
	if s.Unit != nil {
		unit = *s.Unit
	}
	of := "a model"
	if d.Model.Name != nil {
		of = *d.Model.Name
	}
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("at least %s partitions · %s of %s parameters, %s each", bytesize.Group(*d.Solution.Value), of,
		bytesize.Group(*d.Model.Parameters), bytesize.Format(p.EachBytes, unit))))
	b.WriteString(paragraph(s, "  ", p.Label+"; "+d.Solution.LimitReason) + "\n")
	g := grid{columns: []column{{title: "states, " + unit.String()}, {title: "format"}, {title: "bytes", align: right}}}
	for _, state := range p.States {
		g.row(state.Tensor, state.Format, quantity{&state.Bytes, nil, nil}.number(unit))
	}
	g.row("together", "", quantity{&p.StateBytes, nil, nil}.number(unit))
	b.WriteString(g.render(s) + "\n")
	b.WriteString(paragraph(s, "  ", "not included: "+strings.Join(p.NotIncluded, "; ")))
	warnings(b, d.Warnings, s)
}
