package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/record"
)

// comparedSeveral is several records in one table, in the order in which they were
// named.
func comparedSeveral(b *strings.Builder, d *record.Comparison, s Style) {
	var all []quantity
	for _, r := range d.Records {
		all = append(all, quantity{r.Bytes, r.LowBytes, r.HighBytes})
	}
	unit := s.unit(all...)
	timed := slices.ContainsFunc(d.Records, func(r record.ComparedRecord) bool { return r.DurationNS != nil || r.Result != nil })
	g := grid{columns: []column{{title: "record"}, {title: "changed"}, {title: "peak, " + unit.String(), align: right}, {title: "against the first", align: right}, {title: "peak in"}}}
	if timed {
		g.columns = append(g.columns, column{title: "took", align: right}, column{title: "result"})
	}
	for _, r := range d.Records {
		cells := []string{r.Name, changedWords(r), quantity{r.Bytes, r.LowBytes, r.HighBytes}.number(unit), differenceEnds(record.AgainstRow{Unit: "bytes", DifferenceLow: r.DifferenceLow, DifferenceHigh: r.DifferenceHigh}, unit), peakWords(r)}
		if timed {
			cells = append(cells, tookOrUnknown(r.DurationNS), text(r.Result))
		}
		g.row(cells...)
	}
	b.WriteString(g.render(s))
	for _, r := range d.Records {
		if !r.Comparable {
			b.WriteString(paragraph(s, "  ", s.verdict("cannot_tell", "not comparable")+": "+r.Name+": "+strings.Join(r.Why, "; ")))
		}
	}
	b.WriteString(paragraph(s, "  ", "in the order in which they were named; no ranking, for which each would also need: "+strings.Join(d.Records[0].Missing, ", ")))
	warnings(b, d.Warnings, s)
}

func changedWords(r record.ComparedRecord) string {
	var words []string
	for _, c := range r.Changed {
		words = append(words, fmt.Sprintf("%s %s → %s", spaced(c.Field), c.A, c.B))
	}
	if len(words) == 0 {
		return "—"
	}
	return strings.Join(words, ", ")
}

func peakWords(r record.ComparedRecord) string {
	if r.Phase == nil {
		return unknown
	}
	words := spaced(*r.Phase)
	if r.Step > 0 {
		words += fmt.Sprintf(" %d", r.Step)
	}
	return words + ", " + r.Scope
}
