package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// against is what an engine printed beside an estimate, term by term, the residual
// last.
func against(b *strings.Builder, a record.Against, s Style) {
	b.WriteString("\n" + paragraph(s, "  ", "beside the estimate of "+a.Estimate))
	unit := bytesize.GiB
	if s.Unit != nil {
		unit = *s.Unit
	}
	g := grid{columns: []column{{title: "term, " + unit.String()}, {title: "estimated", align: right}, {title: "printed", align: right}, {title: "difference", align: right}, {title: "cause", prose: true}}}
	for _, r := range a.Rows {
		g.row(strings.ReplaceAll(r.Term, "_", " "), ends(r, r.PredictedLow, r.PredictedHigh, unit), ends(r, r.ObservedLow, r.ObservedHigh, unit), ends(r, r.DifferenceLow, r.DifferenceHigh, unit), r.Cause)
	}
	b.WriteString(g.render(s))
	if a.BareUtilization != nil {
		line := fmt.Sprintf("with the printed terms the utilization must be at least %.3f for any room at all", *a.BareUtilization)
		if a.OneUtilization != nil {
			line += fmt.Sprintf(", and at least %.3f for one request of the longest length", *a.OneUtilization)
		}
		b.WriteString(paragraph(s, "  ", line))
	}
}

// ends is an interval in a table: one number where both ends read the same.
func ends(r record.AgainstRow, low, high *int64, u bytesize.Unit) string {
	if low == nil || high == nil {
		return unknown
	}
	show := func(n int64) string {
		if r.Unit == "tokens" {
			return bytesize.Group(n)
		}
		return bytesize.Fixed(n, u, 2)
	}
	a, b := show(*low), show(*high)
	switch {
	case a == b:
		return a
	case *low < 0:
		return a + " to " + b
	}
	return a + "–" + b
}
