package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func snapshot(b *strings.Builder, d *record.Snapshot, s Style) {
	fmt.Fprintf(b, "%s · PyTorch memory snapshot\n", s.bold(d.Source))
	for _, device := range d.Devices {
		snapshotDevice(b, device, s)
	}
	warnings(b, d.Warnings, s)
}

func snapshotDevice(b *strings.Builder, d record.SnapshotDevice, s Style) {
	fmt.Fprintf(b, "\n%s · %s · %s · %s\n", s.bold(fmt.Sprintf("cuda:%d", d.Device)),
		count(d.Events, "event"), count(d.Segments, "segment"), count(d.Blocks, "block"))
	scopes := []struct {
		name      string
		peak, end quantity
	}{
		{"requested", quantity{exact: d.PeakRequestedBytes}, quantity{exact: d.EndRequestedBytes}},
		{"allocated", quantity{exact: d.PeakAllocatedBytes, low: d.PeakAllocatedLowBytes}, quantity{exact: d.EndAllocatedBytes}},
		{"active", quantity{}, quantity{exact: d.EndActiveBytes}},
		{"reserved", quantity{exact: d.PeakReservedBytes}, quantity{exact: d.EndReservedBytes}},
	}
	var all []quantity
	for _, scope := range scopes {
		all = append(all, scope.peak, scope.end)
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: unit.String()}, {title: "peak", align: right}, {title: "peak, bytes", align: right}, {title: "at the end", align: right}}}
	for _, scope := range scopes {
		g.row(scope.name, scope.peak.number(unit), scope.peak.number(bytesize.B), scope.end.number(unit))
	}
	b.WriteString(g.render(s))
	b.WriteString(paragraph(s, "  ", peakLine(d)))
	fragmentation(b, d.Fragmentation, s)
	top(b, d.Top, s)
}

func peakLine(d record.SnapshotDevice) string {
	switch {
	case d.PeakEvent == nil:
		return "peaks of different scopes may be different moments"
	case *d.PeakEvent < 0:
		return "requested stands highest before the first recorded event; peaks of different scopes may be different moments"
	}
	return fmt.Sprintf("requested stands highest after event %d of %d; peaks of different scopes may be different moments", *d.PeakEvent, d.Events)
}

func fragmentation(b *strings.Builder, f *record.Fragmentation, s Style) {
	if f == nil {
		return
	}
	parts := []string{}
	add := func(name string, n *int64) {
		if n != nil {
			u := bytesize.Suggest(*n)
			parts = append(parts, name+" "+fixed(*n, u)+" "+u.String())
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

// shownFrames is how many frames a terminal shows; the record has more.
const shownFrames = 3

func top(b *strings.Builder, list []record.TopStack, s Style) {
	if len(list) == 0 {
		return
	}
	var all []quantity
	for _, t := range list {
		all = append(all, quantity{exact: &t.Bytes})
	}
	unit := s.unit(all...)
	b.WriteString("\nlargest at the peak, by stack\n")
	g := grid{columns: []column{{title: unit.String(), align: right}, {title: "count", align: right}, {title: "where", prose: true}}}
	for _, t := range list {
		where := "no stack was recorded"
		if len(t.Stack) > 0 {
			where = strings.Join(t.Stack[:min(shownFrames, len(t.Stack))], " ← ")
		}
		g.row(fixed(t.Bytes, unit), fmt.Sprint(t.Count), where)
	}
	b.WriteString(g.render(s))
}

func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return bytesize.Group(int64(n)) + " " + thing
}
