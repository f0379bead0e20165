package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// against is what evidence says beside an estimate: for each place its phases, its
// terms, and last the residual. Seen is how the evidence was come by.
func against(b *strings.Builder, a *record.Against, seen string, s Style) {
	if a == nil {
		return
	}
	b.WriteString("\n" + paragraph(s, "  ", "beside the estimate of "+s.bold(a.Estimate)))
	unit := againstUnit(a, s)
	for _, place := range byPlace(a.Rows) {
		if name := placeOfRows(place[0]); name != "" {
			b.WriteString("\n" + paragraph(s, "  ", s.bold(name)))
		}
		againstRows(b, place, seen, unit, s)
	}
	for _, c := range a.Cancelling {
		b.WriteString(paragraph(s, "  ", s.bold(placePrefix(c.Rank, c.Device)+c.Text)))
	}
	checkpoint(b, a.Checkpoint, s)
	if a.BareUtilization != nil {
		line := fmt.Sprintf("with the printed terms the utilization must be at least %.3f for any room at all", *a.BareUtilization)
		if a.OneUtilization != nil {
			line += fmt.Sprintf(", and at least %.3f for one request of the longest length", *a.OneUtilization)
		}
		b.WriteString(paragraph(s, "  ", line))
	}
}

// againstUnit is one unit for the whole answer: GiB, or what fits a small run.
func againstUnit(a *record.Against, s Style) bytesize.Unit {
	var all []quantity
	for _, r := range a.Rows {
		if r.Unit == "bytes" {
			all = append(all, quantity{low: r.PredictedLow, high: r.PredictedHigh}, quantity{low: r.ObservedLow, high: r.ObservedHigh})
		}
	}
	return s.unit(all...)
}

// byPlace sorts rows by rank and device, in their order.
func byPlace(rows []record.AgainstRow) [][]record.AgainstRow {
	var places [][]record.AgainstRow
	index := map[string]int{}
	for _, r := range rows {
		key := ordinal(r.Rank) + " " + ordinal(r.Device)
		i, known := index[key]
		if !known {
			i = len(places)
			index[key] = i
			places = append(places, nil)
		}
		places[i] = append(places[i], r)
	}
	return places
}

func placeOfRows(r record.AgainstRow) string {
	return strings.TrimSuffix(placePrefix(r.Rank, r.Device), ": ")
}

func placePrefix(rank, device *int) string {
	var words []string
	if rank != nil {
		words = append(words, fmt.Sprintf("rank %d", *rank))
	}
	if device != nil {
		words = append(words, fmt.Sprintf("cuda:%d", *device))
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, " · ") + ": "
}

// againstRows is the table of one place.
func againstRows(b *strings.Builder, rows []record.AgainstRow, seen string, unit bytesize.Unit, s Style) {
	g := grid{columns: []column{{title: "what, " + unit.String()}, {title: "estimated", align: right}, {title: seen, align: right}, {title: "difference", align: right}, {title: "cause", prose: true}}}
	for _, r := range rows {
		if unremarkable(r, unit) {
			continue
		}
		g.row(againstName(r), ends(r, r.PredictedLow, r.PredictedHigh, unit), ends(r, r.ObservedLow, r.ObservedHigh, unit), differenceEnds(r, unit), r.Cause)
	}
	b.WriteString(g.render(s))
}

// unremarkable is what the table leaves out: where a phase starts, which its peak
// tells, ends that are as estimated, samples of the process that contradict nothing, and terms
// that were not measured and would read 0.
func unremarkable(r record.AgainstRow, unit bytesize.Unit) bool {
	switch {
	case r.Term == "start":
		return true
	case r.Term == "end":
		return r.Inside == nil || *r.Inside
	case r.Term == "peak" && r.Scope == "process":
		return r.Inside == nil
	}
	return r.Term != "residual" && r.ObservedLow == nil && r.PredictedHigh != nil && ends(r, r.PredictedLow, r.PredictedHigh, unit) == fixed(0, unit)
}

// againstName is a term, or a level with its phase and scope.
func againstName(r record.AgainstRow) string {
	name := spaced(r.Term)
	switch r.Term {
	case "start", "peak", "end":
		phase := ""
		if r.Phase != nil {
			phase = spaced(*r.Phase) + " "
		}
		if r.Phase != nil && r.Step > 0 {
			phase += fmt.Sprintf("%d ", r.Step)
		}
		return phase + name + ", " + r.Scope
	}
	return name
}

// ends is an interval in a table: one number where both ends read the same, and a
// lower bound as one.
func ends(r record.AgainstRow, low, high *int64, u bytesize.Unit) string {
	show := func(n int64) string {
		if r.Unit == "tokens" {
			return bytesize.Group(n)
		}
		return fixed(n, u)
	}
	switch {
	case low == nil:
		return unknown
	case high == nil:
		return "≥ " + show(*low)
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

// differenceEnds is a difference with its sign, where it has one.
func differenceEnds(r record.AgainstRow, u bytesize.Unit) string {
	show := func(n int64) string {
		if r.Unit == "tokens" {
			return bytesize.Group(n)
		}
		return difference(&n, u)
	}
	switch {
	case r.DifferenceLow == nil && r.DifferenceHigh == nil:
		return unknown
	case r.DifferenceHigh == nil:
		return "≥ " + show(*r.DifferenceLow)
	case r.DifferenceLow == nil:
		return "≤ " + show(*r.DifferenceHigh)
	}
	a, b := show(*r.DifferenceLow), show(*r.DifferenceHigh)
	if a == b {
		return a
	}
	return a + " to " + b
}

// checkpoint is the levels of one moment inside each other: the next line is always
// part of the one above it.
func checkpoint(b *strings.Builder, c *record.Checkpoint, s Style) {
	if c == nil {
		return
	}
	b.WriteString("\n" + paragraph(s, "  ", fmt.Sprintf("%sat %s, one moment; each line lies inside the one above it, and they are not added", placePrefix(c.Rank, c.Device), c.At)))
	var all []quantity
	for _, l := range c.Levels {
		all = append(all, quantity{l.Bytes, l.LowBytes, l.HighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "scope, " + unit.String()}, {title: "in use", align: right}, {title: "beside the next", align: right}, {title: "which is", prose: true}}}
	for i, l := range c.Levels {
		words := l.BesideWords
		if l.BesideLow == nil && scopeEnds(i, c) {
			words = "the innermost that was read: " + words
		}
		g.row(strings.Repeat(" ", i)+l.Scope, quantity{l.Bytes, l.LowBytes, l.HighBytes}.number(unit), quantity{low: l.BesideLow, high: l.BesideHigh}.number(unit), words)
	}
	b.WriteString(g.render(s))
}

func scopeEnds(i int, c *record.Checkpoint) bool {
	return i == len(c.Levels)-1 && c.Levels[i].Scope != "allocated"
}
