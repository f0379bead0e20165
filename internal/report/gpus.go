package report

import (
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// gpus lists the catalogue: what is printed on a card beside what it reports.
func gpus(b *strings.Builder, d *record.GPUs, s Style) {
	g := grid{columns: []column{{title: "card"}, {title: "GB label", align: right}, {title: "GiB reported", align: right}, {title: "compute"}, {title: "name", prose: true}}}
	for _, c := range d.Cards {
		label := unknown
		if c.LabelBytes != nil {
			label = bytesize.Number(*c.LabelBytes, bytesize.GB)
		}
		g.row(c.ID, label, quantity{nil, c.ReportedLowBytes, c.ReportedHighBytes}.number(bytesize.GiB), text(c.ComputeCapability), c.Name)
	}
	b.WriteString(g.render(s))
	b.WriteString("\n" + paragraph(s, "", count(len(d.Cards), "card")+". The label is not a capacity: a card reports less, and a process may use less still."))
	warnings(b, d.Warnings, s)
}
