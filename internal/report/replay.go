package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

func replay(b *strings.Builder, d *record.Replay, s Style) {
	b.WriteString(paragraph(s, "  ", s.bold(d.Source)+" · replay through the simulated allocator"))
	var idle []int
	for _, device := range d.Devices {
		if notReplayed(device) {
			idle = append(idle, device.Device)
			continue
		}
		replayDevice(b, device, s)
	}
	nothingRecorded(b, idle, s)
	warnings(b, d.Warnings, s)
}

// notReplayed reports a device of which nothing was recorded.
func notReplayed(d record.ReplayDevice) bool {
	c := d.Certificate
	return c.Holds && c.Addresses.Total+c.Segments.Total+c.Releases.Total == 0 && c.ReservedPeak == record.Compared{} && d.CapacityBytes == nil
}

func replayDevice(b *strings.Builder, d record.ReplayDevice, s Style) {
	settings := d.Settings
	if settings == "" {
		settings = "default settings"
	}
	b.WriteString("\n" + paragraph(s, "  ", s.bold(fmt.Sprintf("cuda:%d", d.Device))+" · recorded under "+settings))
	certificate(b, d.Certificate, s)
	if d.CapacityBytes != nil {
		b.WriteString(paragraph(s, "  ", "a request failed in the recording: the driver could give "+
			s.amount(quantity{exact: d.CapacityBytes})+" to the allocator"))
	}
	if len(d.WhatIf) > 0 {
		whatIfs(b, d.WhatIf, s)
	}
}

func certificate(b *strings.Builder, c record.Certificate, s Style) {
	word := "the certificate holds"
	switch {
	case c.Holds && c.Addresses.Total == 0:
		word = "nothing was recorded that could be replayed"
	case !c.Holds:
		word = "the certificate does not hold"
	}
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("%s: %s addresses, %s segments, %s releases found again; reserved peak %s B recorded, %s B replayed",
		s.bold(word), matched(c.Addresses), matched(c.Segments), matched(c.Releases),
		bytesize.Group(c.ReservedPeak.Recorded), bytesize.Group(c.ReservedPeak.Replayed))))
	if m := c.FirstMismatch; m != nil {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("  first mismatch: event %d (%s): %s", m.Event, m.Action, m.Text)))
	}
	if c.Refusal != nil {
		b.WriteString(paragraph(s, "  ", "  so there is no what-if: a simulation that does not reproduce this recording cannot say what other settings would do"))
	}
}

func matched(m record.Matched) string {
	return fmt.Sprintf("%s of %s", bytesize.Group(int64(m.Matched)), bytesize.Group(int64(m.Total)))
}

func whatIfs(b *strings.Builder, list []record.WhatIf, s Style) {
	var all []quantity
	smallest := false
	for _, w := range list {
		all = append(all, quantity{w.PeakReservedBytes, w.PeakReservedLowBytes, w.PeakReservedHighBytes}, quantity{exact: w.CapacityBytes})
		smallest = smallest || w.SmallestCapacityBytes != nil
	}
	unit := s.unit(all...)
	b.WriteString("\n")
	g := grid{columns: []column{{title: "reserved, " + unit.String(), align: right}, {title: "allocated", align: right}, {title: "capacity", align: right}}}
	if smallest {
		g.columns = append(g.columns, column{title: "least capacity", align: right})
	}
	g.columns = append(g.columns, column{title: "runs"}, column{title: "settings", prose: true})
	for _, w := range list {
		capacity := "no limit"
		if w.CapacityBytes != nil {
			capacity = fixed(*w.CapacityBytes, unit)
		}
		cells := []string{
			quantity{w.PeakReservedBytes, w.PeakReservedLowBytes, w.PeakReservedHighBytes}.number(unit),
			quantity{w.PeakAllocatedBytes, w.PeakAllocatedLowBytes, w.PeakAllocatedHighBytes}.number(unit),
			capacity}
		if smallest {
			cells = append(cells, quantity{exact: w.SmallestCapacityBytes}.number(unit))
		}
		settings := w.Settings
		if settings == "" {
			settings = "default settings"
		}
		g.row(append(cells, runs(w.OutOfMemory), settings)...)
	}
	b.WriteString(g.render(s))
	told := map[string]bool{}
	for _, w := range list {
		for _, warning := range w.Warnings {
			if !told[warning.Text] {
				told[warning.Text] = true
				b.WriteString(paragraph(s, "  ", "note: "+warning.Text))
			}
		}
	}
}

func runs(outOfMemory *bool) string {
	switch {
	case outOfMemory == nil:
		return "cannot tell"
	case *outOfMemory:
		return "out of memory"
	}
	return "yes"
}
