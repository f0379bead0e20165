package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// environment shows a machine: its devices, who holds their memory, what is
// installed, and what to know of it.
func environment(b *strings.Builder, d *record.Environment, s Style) {
	installed(b, d.Setup, s)
	holders(b, d.Devices, s)
	software(b, d.Setup, s)
	contextCost(b, d.Setup, s)
	for _, line := range unread(d.Setup) {
		b.WriteString(paragraph(s, "  ", line))
	}
	warnings(b, d.Warnings, s)
}

// installed is the table of devices, or why there is none.
func installed(b *strings.Builder, d record.Setup, s Style) {
	if len(d.Devices) == 0 {
		b.WriteString("no GPU was found\n")
		for _, n := range d.NotRead {
			if n.What != "Python" && n.What != "PyTorch" && n.What != "extensions" {
				b.WriteString(paragraph(s, "    ", "  "+n.What+": "+n.Reason))
			}
		}
		b.WriteString("\n")
		return
	}
	var all []quantity
	for _, i := range d.Devices {
		all = append(all, quantity{i.TotalBytes, i.TotalLowBytes, i.TotalHighBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "device"}, {title: "memory"}, {title: unit.String() + " total", align: right}, {title: "driver's", align: right},
		{title: "used", align: right}, {title: "free", align: right}, {title: "card", prose: true}}}
	for _, i := range d.Devices {
		g.row(programName(i), i.Kind, quantity{i.TotalBytes, i.TotalLowBytes, i.TotalHighBytes}.number(unit),
			quantity{i.ReservedBytes, i.ReservedLowBytes, i.ReservedHighBytes}.number(unit),
			quantity{i.UsedBytes, i.UsedLowBytes, i.UsedHighBytes}.number(unit),
			quantity{i.FreeBytes, i.FreeLowBytes, i.FreeHighBytes}.number(unit), text(i.Name))
	}
	b.WriteString(g.render(s) + "\n")
	for _, i := range d.Devices {
		asked := ""
		if d.Selected != nil && d.Selected.Index != nil && *d.Selected.Index == i.Index {
			asked = " · the one asked for"
		}
		b.WriteString(paragraph(s, "  ", programName(i)+": "+identity(i)+asked))
	}
	b.WriteString("\n")
}

// programName is how programs call a device.
func programName(i record.Installed) string {
	switch {
	case i.Program != nil:
		return *i.Program
	case i.Visible == nil:
		return "cuda:?"
	}
	return "hidden"
}

// identity says which card a device is, and what is particular about it.
func identity(i record.Installed) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if i.UUID != nil {
		add("%s", *i.UUID)
	}
	at := fmt.Sprintf("card %d", i.Card)
	if i.PCI != nil {
		at += " at " + *i.PCI
	}
	add("%s", at)
	if i.ComputeCapability != nil {
		add("compute %s", *i.ComputeCapability)
	}
	if i.LabelBytes != nil {
		add("label %s", bytesize.Format(*i.LabelBytes, bytesize.GB))
	}
	if i.Virtual != nil {
		add("virtual (%s)", *i.Virtual)
	}
	if i.ComputeMode != nil && *i.ComputeMode != "default" {
		add("compute mode %s", strings.ReplaceAll(*i.ComputeMode, "_", " "))
	}
	if i.Partitioned {
		add("divided by MIG")
	}
	if i.KindReason != nil && i.Partition == nil {
		add("%s: %s", i.Kind, *i.KindReason)
	}
	return strings.Join(parts, " · ")
}

// holders is the table of processes that hold memory.
func holders(b *strings.Builder, list []record.Installed, s Style) {
	var all []quantity
	for _, i := range list {
		for _, o := range i.Owners {
			all = append(all, quantity{o.Bytes, o.LowBytes, o.HighBytes})
		}
	}
	if len(all) == 0 {
		return
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "held on"}, {title: "process", align: right}, {title: unit.String(), align: right}, {title: "program", prose: true}}}
	for _, i := range list {
		for _, o := range i.Owners {
			name := text(o.Name)
			if o.Reason != nil {
				name += " (" + *o.Reason + ")"
			}
			if o.Graphics {
				name += " · draws"
			}
			g.row(programName(i), fmt.Sprint(o.PID), quantity{o.Bytes, o.LowBytes, o.HighBytes}.number(unit), name)
		}
	}
	b.WriteString(g.render(s) + "\n")
}

// software is the table of what is installed.
func software(b *strings.Builder, d record.Setup, s Style) {
	g := grid{columns: []column{{title: "software"}, {title: "found", prose: true}}}
	g.row("driver", driver(d))
	g.row("Python", python(d))
	g.row("PyTorch", pytorch(d))
	backend := unknown
	if d.Backend != nil {
		backend = d.Backend.Name + " " + d.Backend.Version
	}
	g.row("backend", backend)
	allocator := text(d.Allocator.Backend)
	if d.Allocator.Origin != nil && *d.Allocator.Origin == "settings" {
		allocator += " (by the settings; PyTorch itself was not asked)"
	}
	g.row("allocator", allocator)
	for _, v := range d.Allocator.Settings {
		g.row("", v.Name+"="+v.Value)
	}
	var names []string
	for _, e := range d.Extensions {
		names = append(names, e.Name+" "+text(e.Version))
	}
	if len(names) == 0 {
		names = []string{unknown}
	}
	g.row("extensions", strings.Join(names, ", "))
	for _, v := range d.Variables {
		g.row("variable", v.Name+"="+v.Value)
	}
	b.WriteString(g.render(s) + "\n")
}

func driver(d record.Setup) string {
	line := text(d.Driver)
	if d.DriverRuntime != nil {
		line += ", for CUDA up to " + *d.DriverRuntime
	}
	if d.ReadBy != nil {
		line += ", read through " + *d.ReadBy
	}
	return line
}

func python(d record.Setup) string {
	if d.Interpreter == nil {
		return unknown
	}
	line := text(d.Python) + ", " + d.Interpreter.Path
	if v := d.Interpreter.VirtualEnvironment; v != nil && *v {
		line += ", a virtual environment"
	}
	return line
}

func pytorch(d record.Setup) string {
	switch i := d.Installation; {
	case i == nil && (d.Python == nil || isUnread(d, "PyTorch")):
		return unknown
	case i == nil:
		return "missing"
	case !i.Imported:
		return text(d.PyTorch) + ", which cannot be imported"
	case d.Backend == nil:
		return text(d.PyTorch) + ", built for the CPU only"
	case i.DeviceCount != nil:
		return text(d.PyTorch) + ", which counts " + count(*i.DeviceCount, "device")
	}
	return text(d.PyTorch)
}

func isUnread(d record.Setup, what string) bool {
	return slices.ContainsFunc(d.NotRead, func(n record.NotRead) bool { return n.What == what })
}

// contextCost says what a context was seen to cost.
func contextCost(b *strings.Builder, d record.Setup, s Style) {
	c := d.Context
	if c == nil {
		return
	}
	if c.Error != nil {
		b.WriteString(paragraph(s, "  ", "no context was measured: "+*c.Error))
		return
	}
	on := "a device"
	if c.Index != nil && *c.Index < len(d.Devices) {
		on = programName(d.Devices[*c.Index])
	}
	process := s.amount(quantity{c.ProcessBytes, c.ProcessLowBytes, c.ProcessHighBytes})
	grown := s.amount(quantity{c.DifferenceBytes, c.DifferenceLowBytes, c.DifferenceHighBytes})
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("a context on %s: the driver counts %s for the process that has it; the device's used bytes were %s more than before, others' changes included",
		on, process, grown)))
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("a program that has one sees a total of %s, of which %s were free",
		s.amount(quantity{exact: c.ProgramTotalBytes}), s.amount(quantity{exact: c.ProgramFreeBytes}))))
}

// unread lists why something is unknown.
func unread(d record.Setup) []string {
	var list []string
	if d.Interpreter != nil && d.Interpreter.Error != nil {
		list = append(list, "not known, Python: "+*d.Interpreter.Error)
	}
	if d.Installation != nil && d.Installation.Error != nil {
		list = append(list, "not known, PyTorch: "+*d.Installation.Error)
	}
	for _, n := range d.NotRead {
		if n.What == "Python" || n.What == "PyTorch" || n.What == "extensions" {
			list = append(list, "not known, "+n.What+": "+n.Reason)
		}
	}
	for _, i := range d.Devices {
		at := fmt.Sprintf("card %d", i.Card)
		if i.Program != nil {
			at = *i.Program
		}
		for _, n := range i.NotRead {
			list = append(list, "not known, "+at+" "+n.What+": "+n.Reason)
		}
		if i.OwnersReason != nil {
			list = append(list, "not known, "+at+" owners: "+*i.OwnersReason)
		}
	}
	if d.Context != nil {
		for _, n := range d.Context.NotRead {
			list = append(list, "not known, context "+n.What+": "+n.Reason)
		}
	}
	return list
}
