package report

import (
	"cmp"
	"fmt"
	"regexp"
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
	nextStep(b, d, s)
}

// notReplayed reports a device of which nothing was recorded.
func notReplayed(d record.ReplayDevice) bool {
	c := d.Certificate
	return (c.Holds == nil || *c.Holds) && c.Addresses.Total+c.Segments.Total+c.Releases.Total == 0 && c.ReservedPeak == record.Compared{} && d.CapacityBytes == nil
}

func replayDevice(b *strings.Builder, d record.ReplayDevice, s Style) {
	origin := "recorded under " + settingsText(d.Settings)
	if d.SettingsOrigin == "assumed" {
		origin = "settings were not recorded; " + settingsText(d.Settings) + " assumed"
		if d.Settings != "" {
			origin += ", as its segments show"
		}
	}
	b.WriteString("\n" + paragraph(s, "  ", s.bold(fmt.Sprintf("cuda:%d", d.Device))+" · "+origin))
	unit := replayUnit(d, s)
	certificate(b, d.Certificate, unit, s)
	if d.CapacityBytes != nil {
		outside := ""
		if d.OutsideBytes != nil {
			outside = " (" + s.amount(quantity{exact: d.OutsideBytes}) + " of the card were in use outside it)"
		}
		b.WriteString(paragraph(s, "  ", "a request failed in the recording: the driver could give "+s.amount(quantity{exact: d.CapacityBytes})+
			" to the allocator"+outside+", so that is the limit below where no other is named (--capacity none: no limit)"))
	}
	if len(d.WhatIf) > 0 {
		whatIfs(b, d.WhatIf, unit, s)
	}
}

// settingsText is settings as PYTORCH_ALLOC_CONF spells them.
func settingsText(settings string) string {
	if settings == "" {
		return "default settings"
	}
	return settings
}

// replayUnit is the one unit of what is said of a device.
func replayUnit(d record.ReplayDevice, s Style) bytesize.Unit {
	all := []quantity{{exact: &d.Certificate.ReservedPeak.Recorded}}
	for _, w := range d.WhatIf {
		all = append(all, quantity{w.PeakReservedBytes, w.PeakReservedLowBytes, w.PeakReservedHighBytes}, quantity{exact: w.CapacityBytes})
	}
	return s.unit(all...)
}

func certificate(b *strings.Builder, c record.Certificate, unit bytesize.Unit, s Style) {
	show := func(n int64) string { return fmt.Sprintf("%s %s (%s B)", fixed(n, unit), unit, bytesize.Group(n)) }
	peak := show(c.ReservedPeak.Recorded) + " recorded, " + show(c.ReservedPeak.Replayed) + " replayed"
	if c.ReservedPeak.Recorded == c.ReservedPeak.Replayed {
		peak = show(c.ReservedPeak.Recorded) + ", recorded and replayed"
	}
	word := "the certificate holds"
	switch {
	case c.Holds == nil:
		b.WriteString(paragraph(s, "  ", s.bold("nothing was recorded")+" that could be replayed, so there is no what-if; reserved at the dump: "+show(c.ReservedPeak.Recorded)))
		if c.Refusal != nil {
			b.WriteString(paragraph(s, "  ", "hint: "+strings.TrimPrefix(*c.Refusal, "nothing was recorded; ")))
		}
		return
	case !*c.Holds:
		word = "the certificate does not hold"
	}
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("%s: %s addresses, %s segments, %s releases found again; reserved peak %s",
		s.bold(word), matched(c.Addresses), matched(c.Segments), matched(c.Releases), peak)))
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

func whatIfs(b *strings.Builder, list []record.WhatIf, unit bytesize.Unit, s Style) {
	smallest := false
	for _, w := range list {
		smallest = smallest || w.SmallestCapacityBytes != nil
	}
	b.WriteString("\n")
	g := grid{columns: []column{{title: "reserved, " + unit.String(), align: right}, {title: "allocated", align: right}, {title: "capacity", align: right}}}
	if smallest {
		g.columns = append(g.columns, column{title: "least capacity", align: right})
	}
	g.columns = append(g.columns, column{title: "runs"}, column{title: "settings", prose: true})
	for _, w := range list {
		cells := []string{
			quantity{w.PeakReservedBytes, w.PeakReservedLowBytes, w.PeakReservedHighBytes}.number(unit),
			quantity{w.PeakAllocatedBytes, w.PeakAllocatedLowBytes, w.PeakAllocatedHighBytes}.number(unit),
			capacityText(w, unit)}
		if smallest {
			cells = append(cells, need(w.SmallestCapacityBytes, unit))
		}
		g.row(append(cells, runs(w), rowName(w))...)
	}
	b.WriteString(g.render(s))
	for _, w := range list {
		ended(b, w, unit, s)
	}
	notes(b, list, s)
}

func rowName(w record.WhatIf) string {
	if w.Recorded {
		return "as recorded: " + settingsText(w.Settings)
	}
	return settingsText(w.Settings)
}

func capacityText(w record.WhatIf, unit bytesize.Unit) string {
	switch {
	case w.CapacityBytes != nil:
		return fixed(*w.CapacityBytes, unit)
	case w.Recorded:
		return unknown
	}
	return "no limit"
}

// need is bytes that are needed: rounded up, because what is copied from here
// must be enough, and to the byte.
func need(n *int64, unit bytesize.Unit) string {
	if n == nil {
		return unknown
	}
	if unit == bytesize.B {
		return bytesize.Group(*n)
	}
	size := unit.Bytes()
	hundredths := bytesize.CeilDiv(*n%size*100, size)
	whole := *n/size + hundredths/100
	return fmt.Sprintf("%s.%02d (%s B)", bytesize.Group(whole), hundredths%100, bytesize.Group(*n))
}

// ended is the request at which a row is out of memory, or at which what was
// recorded ends.
func ended(b *strings.Builder, w record.WhatIf, unit bytesize.Unit, s Style) {
	tell := func(r *record.Request, what string) {
		if r == nil || r.RequestBytes == nil || r.ReservedBytes == nil {
			return
		}
		at := "before the first event"
		if r.Event >= 0 {
			at = "at event " + bytesize.Group(r.Event)
		}
		size := bytesize.Suggest(*r.RequestBytes)
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("%s: %s %s: %s %s requested, %s %s reserved; %s", rowName(w), what, at,
			fixed(*r.RequestBytes, size), size, fixed(*r.ReservedBytes, unit), unit, cmp.Or(r.Where, "no stack was recorded"))))
	}
	if w.OutOfMemory == nil {
		tell(w.Failure, "out of memory in one of the two ways to begin")
	} else {
		tell(w.Failure, "out of memory")
	}
	tell(w.Served, "serves what failed in the recording")
}

// notes tells what is true of every row that was simulated once, and the rest
// with its row.
func notes(b *strings.Builder, list []record.WhatIf, s Style) {
	count, simulated, told := map[string]int{}, 0, map[string]bool{}
	for _, w := range list {
		if !w.Recorded {
			simulated++
		}
		for _, warning := range w.Warnings {
			count[warning.Text]++
		}
	}
	for _, w := range list {
		for _, warning := range w.Warnings {
			note := "note: " + warning.Text
			if n := count[warning.Text]; n < simulated || w.Recorded && n < len(list) {
				note = "note on " + rowName(w) + ": " + warning.Text
			}
			if !told[note] {
				told[note] = true
				b.WriteString(paragraph(s, "  ", note))
			}
		}
	}
}

// runs is whether a row runs. One that serves what failed in the recording gets
// past that, and nobody knows further.
func runs(w record.WhatIf) string {
	switch {
	case w.Served != nil:
		return "past the failure"
	case w.OutOfMemory == nil:
		return "cannot tell"
	case *w.OutOfMemory && w.Recorded:
		return "out of memory, as recorded"
	case *w.OutOfMemory:
		return "out of memory"
	}
	return "yes"
}

// rePlainPath is a path that a shell takes as it stands.
var rePlainPath = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+@=:,-]*$`)

// nextStep offers a what-if to whoever has only the recording before him.
func nextStep(b *strings.Builder, d *record.Replay, s Style) {
	for _, device := range d.Devices {
		if len(device.WhatIf) != 1 || !device.WhatIf[0].Recorded || device.WhatIf[0].SmallestCapacityBytes != nil {
			continue
		}
		path, conf := "SNAPSHOT", "expandable_segments:True"
		if rePlainPath.MatchString(d.Source) {
			path = d.Source
		}
		if strings.Contains(device.Settings, conf) {
			conf = `""`
		}
		b.WriteString("\n" + paragraph(s, "  ", "hint: other settings are tried with --conf, less memory with --capacity: floodmark replay "+path+" --conf "+conf+" --smallest-capacity"))
		return
	}
}
