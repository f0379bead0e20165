package report

import (
	"cmp"
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func snapshot(b *strings.Builder, d *record.Snapshot, s Style) {
	b.WriteString(paragraph(s, "  ", s.bold(d.Source)+" · PyTorch memory snapshot"))
	var idle []int
	for _, device := range d.Devices {
		if device.Events+device.Segments+device.Blocks == 0 {
			idle = append(idle, device.Device)
			continue
		}
		snapshotDevice(b, device, s)
	}
	nothingRecorded(b, idle, s)
	against(b, d.Against, "recorded", s)
	warnings(b, d.Warnings, s)
}

func snapshotDevice(b *strings.Builder, d record.SnapshotDevice, s Style) {
	b.WriteString("\n" + paragraph(s, "  ", strings.Join([]string{s.bold(fmt.Sprintf("cuda:%d", d.Device)),
		count(d.Events, "event"), count(d.Segments, "segment"), count(d.Blocks, "block")}, " · ")))
	if d.Summary != "" {
		b.WriteString(paragraph(s, "  ", sentence(d.SummaryParts, d.Summary, s)))
	}
	failures(b, d.Failures, s)
	scopes := []struct {
		name      string
		peak, end quantity
	}{
		{"requested", quantity{exact: d.PeakRequestedBytes, low: d.PeakRequestedLowBytes}, quantity{exact: d.EndRequestedBytes, low: d.EndRequestedLowBytes}},
		{"allocated", quantity{exact: d.PeakAllocatedBytes, low: d.PeakAllocatedLowBytes}, quantity{exact: d.EndAllocatedBytes, low: d.EndAllocatedLowBytes}},
		{"active", quantity{exact: d.PeakActiveBytes, low: d.PeakActiveLowBytes}, quantity{exact: d.EndActiveBytes, low: d.EndActiveLowBytes}},
		{"reserved", quantity{exact: d.PeakReservedBytes, low: d.PeakReservedLowBytes}, quantity{exact: d.EndReservedBytes, low: d.EndReservedLowBytes}},
	}
	var all []quantity
	for _, scope := range scopes {
		all = append(all, scope.peak, scope.end)
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: unit.String()}, {title: "peak", align: right}, {title: "peak, bytes", align: right}, {title: "at the end", align: right}}}
	if !d.History {
		g.columns = []column{{title: unit.String()}, {title: "at the dump", align: right}, {title: "bytes", align: right}}
	}
	for _, scope := range scopes {
		cells := []string{scope.name, scope.peak.number(unit), scope.peak.number(bytesize.B), scope.end.number(unit)}
		if !d.History {
			cells = []string{scope.name, scope.end.number(unit), scope.end.number(bytesize.B)}
		}
		g.row(cells...)
	}
	b.WriteString(g.render(s))
	b.WriteString(paragraph(s, "  ", peakLine(d)))
	fragmentation(b, d.Fragmentation, s)
	streams(b, d.Streams, s)
	peakRows(b, d, s)
	top(b, d.Top, s)
	places(b, "by file", d.Files, s)
	places(b, "by module", d.Modules, s)
	named(b, d.Named, s)
}

// sentence is a summary in the unit that was asked for, else in those of its
// parts.
func sentence(parts []record.SentencePart, whole string, s Style) string {
	if len(parts) == 0 || s.Unit == nil {
		return whole
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Bytes == nil {
			b.WriteString(p.Text)
			continue
		}
		b.WriteString(s.amount(quantity{exact: p.Bytes}))
	}
	return b.String()
}

func peakLine(d record.SnapshotDevice) string {
	switch {
	case !d.History:
		return "no history was recorded: levels at the dump, and nothing of what was before it"
	case d.PeakEvent == nil:
		return "peaks of different scopes may be different moments"
	case *d.PeakEvent < 0:
		return "requested stands highest before the first recorded event; peaks of different scopes may be different moments"
	}
	return fmt.Sprintf("requested stands highest after event %s of %s, counted from 0; peaks of different scopes may be different moments",
		bytesize.Group(*d.PeakEvent), bytesize.Group(int64(d.Events)))
}

func fragmentation(b *strings.Builder, f *record.Fragmentation, s Style) {
	if f == nil {
		return
	}
	parts := []string{}
	add := func(name string, n *int64) {
		if n != nil {
			parts = append(parts, name+" "+s.amount(quantity{exact: n}))
		}
	}
	add("held from the driver and unused", f.CachedBytes)
	add("of it stuck in segments that something still uses", f.UnreleasableBytes)
	add("largest free block", f.LargestFreeBytes)
	add("rounding", f.RoundingBytes)
	if len(parts) > 0 {
		b.WriteString(paragraph(s, "  ", "at the end: "+strings.Join(parts, "; ")))
	}
}

// streams is a table where more than one stream or pool holds memory; one alone
// is what the lines above say.
func streams(b *strings.Builder, list []record.StreamPool, s Style) {
	if len(list) < 2 {
		return
	}
	var all []quantity
	for _, h := range list {
		all = append(all, quantity{exact: h.ReservedBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "stream"}, {title: "pool"}, {title: "reserved, " + unit.String(), align: right}, {title: "active", align: right}, {title: "stuck", align: right}, {title: "largest free", align: right}}}
	for _, h := range list[:min(shownRows, len(list))] {
		g.row(h.Stream, h.Pool, quantity{exact: h.ReservedBytes}.number(unit), quantity{exact: h.ActiveBytes}.number(unit),
			quantity{exact: h.StrandedBytes}.number(unit), quantity{exact: h.LargestFreeBytes}.number(unit))
	}
	b.WriteString("\n" + g.render(s))
	more(b, len(list)-shownRows, s)
}

// shownRows is how many rows of a list a terminal shows; the record has more.
const shownRows = 5

func more(b *strings.Builder, n int, s Style) {
	if n > 0 {
		b.WriteString(paragraph(s, "  ", "and "+bytesize.Group(int64(n))+" more: --json has them"))
	}
}

// peakRows is the rows that sum to the peak, each with what decided most of
// it.
func peakRows(b *strings.Builder, d record.SnapshotDevice, s Style) {
	if len(d.Composition) == 0 {
		return
	}
	var all []quantity
	total := int64(0)
	for _, share := range d.Composition {
		all = append(all, quantity{exact: share.Bytes})
		if share.Bytes != nil {
			total += *share.Bytes
		}
	}
	unit := s.unit(all...)
	scope, at := "requested", "before the first event"
	if d.PeakAllocatedBytes != nil {
		scope = "allocated"
	}
	if d.CompositionEvent >= 0 {
		at = "after event " + bytesize.Group(d.CompositionEvent)
	}
	title := "the " + scope + " peak, " + at
	if !d.History {
		title = scope + " at the dump"
	}
	b.WriteString("\n" + paragraph(s, "  ", title))
	g := grid{columns: []column{{title: unit.String(), align: right}, {title: "%", align: right}, {title: "category"}, {title: "because", prose: true}}}
	for _, share := range d.Composition {
		q := quantity{exact: share.Bytes}
		if q.exact != nil && *q.exact < total/2000 && share.Category != "unattributed" {
			continue // its row would read 0.0
		}
		g.row(q.number(unit), percent(share.Bytes, total), share.Category, because(d.Reasons, share.Category))
	}
	b.WriteString(g.render(s))
}

// percent is a part of a whole with one decimal.
func percent(part *int64, whole int64) string {
	if part == nil || whole <= 0 {
		return unknown
	}
	return fmt.Sprintf("%.1f", 100*float64(*part)/float64(whole))
}

// because is what decided most of a category.
func because(reasons []record.Reason, category string) string {
	for _, r := range reasons {
		if r.Category == category {
			return r.Why
		}
	}
	return ""
}

func top(b *strings.Builder, list []record.TopStack, s Style) {
	if len(list) == 0 {
		return
	}
	var all []quantity
	for _, t := range list {
		all = append(all, quantity{exact: &t.Bytes})
	}
	unit := s.unit(all...)
	b.WriteString("\n" + paragraph(s, "  ", "largest of it, by stack"))
	g := grid{columns: []column{{title: unit.String(), align: right}, {title: "count", align: right}, {title: "category"}, {title: "where", prose: true}}}
	for _, t := range list[:min(shownRows, len(list))] {
		g.row(fixed(t.Bytes, unit), fmt.Sprint(t.Count), t.Category, cmp.Or(t.Where, "no stack was recorded"))
	}
	b.WriteString(g.render(s))
}

// named is the parts of the trace that the program gave a name.
func named(b *strings.Builder, list []record.NamedPart, s Style) {
	if len(list) == 0 {
		return
	}
	var all []quantity
	for _, n := range list {
		all = append(all, quantity{exact: n.PeakRequestedBytes})
	}
	unit := s.unit(all...)
	b.WriteString("\n" + paragraph(s, "  ", "parts of the trace that the program named, by their highest requested bytes"))
	g := grid{columns: []column{{title: unit.String(), align: right}, {title: "after event", align: right}, {title: "times", align: right}, {title: "name", prose: true}}}
	for _, n := range list[:min(shownRows, len(list))] {
		name := n.Name
		if n.Phase != nil && *n.Phase != n.Name {
			name += " (" + *n.Phase + ")"
		}
		g.row(quantity{exact: n.PeakRequestedBytes}.number(unit), bytesize.Group(n.PeakEvent), bytesize.Group(int64(n.Intervals)), name)
	}
	b.WriteString(g.render(s))
	more(b, len(list)-shownRows, s)
}

// places is the largest files or modules in one line.
func places(b *strings.Builder, title string, list []record.Place, s Style) {
	var parts []string
	for _, p := range list {
		if p.Name != nil && len(parts) < shownRows-1 {
			parts = append(parts, *p.Name+" "+s.amount(quantity{exact: &p.Bytes}))
		}
	}
	if len(parts) > 0 {
		b.WriteString(paragraph(s, "  ", title+": "+strings.Join(parts, " · ")))
	}
}
