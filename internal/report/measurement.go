package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"floodmark/bytesize"
	"floodmark/record"
)

// measurement is a run that was measured: for each process and device a table of
// its phases, allocated and reserved apart.
func measurement(b *strings.Builder, d *record.Measurement, s Style) {
	b.WriteString(paragraph(s, "  ", s.bold(subject(d))+" · "+outcome(d)))
	if len(d.Phases) > 0 {
		b.WriteString(paragraph(s, "  ", environmentLine(d.Environment)))
		b.WriteString(paragraph(s, "  ", policyLine(d.Series)))
	}
	for _, p := range d.Processes {
		if p.Status == "missing" {
			b.WriteString("\n" + paragraph(s, "  ", s.bold("rank "+ordinal(p.Rank))+" · missing: it never reported"))
		}
	}
	unit := measuredUnit(d, s)
	for _, g := range groups(d) {
		measuredPlace(b, g, d, unit, s)
	}
	for _, t := range d.Trends {
		b.WriteString("\n" + paragraph(s, "  ", s.bold(placePrefix(t.Rank, t.Device)+t.Text)))
	}
	for _, c := range d.Checkpoints {
		checkpoint(b, &c, s)
	}
	against(b, d.Against, "measured", s)
	if lines := meanings(d); len(lines) > 0 {
		b.WriteString("\n")
		for _, line := range lines {
			b.WriteString(paragraph(s, "  ", line))
		}
	}
	warnings(b, d.Warnings, s)
}

func subject(d *record.Measurement) string {
	if d.Subject == "program" {
		return "your program"
	}
	return "the lab: a small dense network with synthetic inputs"
}

// outcome says how the run ended.
func outcome(d *record.Measurement) string {
	o := d.Outcome
	switch {
	case o == nil:
		return "not seen to its end: what follows is partial, and a lower bound"
	case o.Interrupted:
		return "interrupted: what follows is partial, and a lower bound"
	case o.Signal != nil:
		return "ended by " + *o.Signal + " after " + duration(o.DurationNS) + ": what follows is partial, and a lower bound"
	case o.Status != 0:
		return fmt.Sprintf("ended with status %d after %s", o.Status, duration(o.DurationNS))
	case len(d.Phases) == 0:
		return "ended after " + duration(o.DurationNS) + ", and nothing was read of its memory"
	case !d.Complete:
		return "ended after " + duration(o.DurationNS) + ", and not all of it was read"
	}
	return "ended after " + duration(o.DurationNS)
}

func environmentLine(e record.MeasuredEnvironment) string {
	words := []string{}
	add := func(name string, value *string) {
		if value != nil {
			words = append(words, name+" "+*value)
		}
	}
	for _, d := range e.Devices {
		name := fmt.Sprintf("cuda:%d", d.Index)
		if d.Name != nil {
			name += " " + *d.Name
		}
		if d.ReportedBytes != nil {
			name += " (" + bytesize.Group(*d.ReportedBytes) + " B reported)"
		}
		words = append(words, name)
	}
	add("driver", e.Driver)
	add("Python", e.Python)
	add("PyTorch", e.PyTorch)
	add("backend", e.Backend)
	add("allocator", e.Allocator.Backend)
	settings := "default allocator settings"
	if e.Allocator.Settings != nil {
		settings = "allocator settings " + *e.Allocator.Settings
	}
	return strings.Join(append(words, settings), " · ")
}

// policyLine is the conditions that a comparison must share.
func policyLine(series record.MeasuredSeries) string {
	p := series.Policy
	words := []string{"no phase was delimited: this run verifies"}
	if p.Instrumented {
		words[0] = "phases were delimited by synchronisation, which can change how work overlaps: this run locates, and one without phases verifies"
	}
	if p.Warmup != nil && p.Repeats != nil {
		words = append(words, fmt.Sprintf("%s, %s in one process, which benefit from its state",
			plural(int64(*p.Warmup), "warm-up"), plural(int64(*p.Repeats), "repetition")))
	}
	if p.EmptyCacheBetweenRepeats != nil {
		word := "no "
		if *p.EmptyCacheBetweenRepeats {
			word = ""
		}
		words = append(words, word+"empty_cache between repetitions")
	}
	if p.SampleIntervalNS != nil {
		words = append(words, "sampled from outside every "+duration(*p.SampleIntervalNS))
	}
	return strings.Join(words, " · ")
}

// measuredGroup is the phases of one process on one device.
type measuredGroup struct {
	process int
	device  *int
	phases  []record.MeasuredPhase
}

// groups are those of a record, in its order.
func groups(d *record.Measurement) []measuredGroup {
	var list []measuredGroup
	for _, p := range d.Phases {
		i := slices.IndexFunc(list, func(g measuredGroup) bool { return g.process == p.Process && ordinal(g.device) == ordinal(p.Device) })
		if i < 0 {
			i = len(list)
			list = append(list, measuredGroup{process: p.Process, device: p.Device})
		}
		list[i].phases = append(list[i].phases, p)
	}
	return list
}

// counterUnit is the unit of what the allocator counted. A small program's
// megabytes would all be 0.00 in the unit of a device that holds gigabytes.
func counterUnit(phases []record.MeasuredPhase, s Style) bytesize.Unit {
	var all []quantity
	for _, p := range phases {
		for _, c := range []struct{ allocated, reserved *int64 }{{p.Start.AllocatedBytes, p.Start.ReservedBytes}, {p.End.AllocatedBytes, p.End.ReservedBytes}} {
			all = append(all, quantity{exact: c.allocated}, quantity{exact: c.reserved})
		}
		all = append(all, quantity{p.Peak.AllocatedBytes, p.Peak.AllocatedLowBytes, p.Peak.AllocatedHighBytes},
			quantity{p.Peak.ReservedBytes, p.Peak.ReservedLowBytes, p.Peak.ReservedHighBytes})
	}
	return s.unit(all...)
}

// measuredUnit is the unit of everything else in a report.
func measuredUnit(d *record.Measurement, s Style) bytesize.Unit {
	var all []quantity
	for _, p := range d.Phases {
		all = append(all, quantity{p.Peak.ReservedBytes, p.Peak.ReservedLowBytes, p.Peak.ReservedHighBytes},
			quantity{exact: p.End.DeviceBytes}, quantity{exact: p.DeviceLowBytes})
	}
	return s.unit(all...)
}

func measuredPlace(b *strings.Builder, g measuredGroup, d *record.Measurement, unit bytesize.Unit, s Style) {
	b.WriteString("\n" + paragraph(s, "  ", s.bold(placeName(g, d))+cutShort(g, d)))
	if g.device == nil {
		withoutDevice(b, g, s)
		return
	}
	shown, left := worth(g.phases)
	counted := counterUnit(g.phases, s)
	b.WriteString(counterTable(shown, counted).render(s) + "\n")
	b.WriteString(checkpointTable(shown, unit).render(s))
	if left > 0 {
		b.WriteString(paragraph(s, "  ", "and "+count(left, "further phase")+" in the record, none of a kind with a higher peak of allocated"))
	}
	for _, line := range aside(g, counted, unit) {
		b.WriteString(paragraph(s, "  ", line))
	}
}

// counterTable is the six readings of each phase.
func counterTable(phases []record.MeasuredPhase, unit bytesize.Unit) *grid {
	table := &grid{columns: []column{{title: "phase, " + unit.String()},
		{title: "allocated start", align: right}, {title: "peak", align: right}, {title: "end", align: right},
		{title: "reserved start", align: right}, {title: "peak", align: right}, {title: "end", align: right}}}
	for _, p := range phases {
		table.row(phaseRowName(p),
			exactBytes(p.Start.AllocatedBytes, unit), quantity{p.Peak.AllocatedBytes, p.Peak.AllocatedLowBytes, p.Peak.AllocatedHighBytes}.number(unit), exactBytes(p.End.AllocatedBytes, unit),
			exactBytes(p.Start.ReservedBytes, unit), quantity{p.Peak.ReservedBytes, p.Peak.ReservedLowBytes, p.Peak.ReservedHighBytes}.number(unit), exactBytes(p.End.ReservedBytes, unit))
	}
	return table
}

// checkpointTable is what else was read at the end of each phase.
func checkpointTable(phases []record.MeasuredPhase, unit bytesize.Unit) *grid {
	table := &grid{columns: []column{{title: "at its end, " + unit.String()}, {title: "level difference", align: right},
		{title: "device", align: right}, {title: "process", align: right}, {title: "time", align: right}, {title: "", prose: true}}}
	for _, p := range phases {
		difference := unknown
		if p.Start.AllocatedBytes != nil && p.End.AllocatedBytes != nil {
			n := *p.End.AllocatedBytes - *p.Start.AllocatedBytes
			difference = signed(&n, unit)
		}
		table.row(phaseRowName(p), difference, exactBytes(p.End.DeviceBytes, unit), exactBytes(p.End.ProcessBytes, unit), phaseTime(p), marks(p))
	}
	return table
}

func exactBytes(n *int64, unit bytesize.Unit) string { return quantity{exact: n}.number(unit) }

func placeName(g measuredGroup, d *record.Measurement) string {
	var words []string
	if g.process < len(d.Processes) {
		switch p := d.Processes[g.process]; {
		case p.Rank != nil:
			words = append(words, fmt.Sprintf("rank %d", *p.Rank))
		case p.PID != nil && len(d.Processes) > 1:
			words = append(words, fmt.Sprintf("process %d", *p.PID))
		}
	}
	if g.device != nil {
		words = append(words, fmt.Sprintf("cuda:%d", *g.device))
	} else {
		words = append(words, "on no device")
	}
	return strings.Join(words, ", ")
}

func cutShort(g measuredGroup, d *record.Measurement) string {
	text := ""
	if g.process < len(d.Processes) && d.Processes[g.process].Status == "cut" {
		text += " · its readings stop: partial, a lower bound"
	}
	return text
}

// withoutDevice lists phases that held nothing on a device, or of which nothing
// was read.
func withoutDevice(b *strings.Builder, g measuredGroup, s Style) {
	table := grid{columns: []column{{title: "phase"}, {title: "time", align: right}, {title: "", prose: true}}}
	shown, left := worth(g.phases)
	for _, p := range shown {
		table.row(phaseRowName(p), phaseTime(p), marks(p))
	}
	b.WriteString(table.render(s))
	if left > 0 {
		b.WriteString(paragraph(s, "  ", "and "+count(left, "further phase")+" in the record"))
	}
}

func phaseRowName(p record.MeasuredPhase) string {
	name := p.Name
	if name == "recorded" && p.Label != nil {
		name = *p.Label
	}
	if p.Step > 0 {
		name += fmt.Sprintf(" %d", p.Step)
	}
	if p.Nested {
		name = "· " + name
	}
	return name
}

func phaseTime(p record.MeasuredPhase) string {
	if p.DurationNS == nil {
		return unknown
	}
	return duration(*p.DurationNS)
}

// duration has three digits or so: a time is no result here, it tells runs
// apart.
func duration(ns int64) string {
	d := time.Duration(ns)
	for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
