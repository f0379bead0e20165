package floodmark

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/machine"
	"floodmark/device/owners"
	"floodmark/environment"
	"floodmark/record"
)

// EnvironmentRequest says what of this machine to look at.
type EnvironmentRequest struct {
	Device  string        // "cuda:0", or a UUID or its beginning; empty for none in particular
	Python  string        // path of the interpreter; empty for the first on PATH
	Init    bool          // make a context on the device, to measure its cost
	Timeout time.Duration // for each question to Python; 0 is a minute
	Environ []string      // the variables that programs would have; nil for this process's own
}

// patience is how long Python is waited for: importing PyTorch from a network's
// disk takes half a minute.
const patience = time.Minute

// Environment looks at this machine: its cards and who uses them, the driver,
// Python, PyTorch and the allocator's settings. What cannot be asked is null in
// the record, with the reason. It allocates nothing on a device unless a context
// is asked for.
func Environment(ctx context.Context, r EnvironmentRequest, tool record.Tool) (*record.Environment, error) {
	if r.Environ == nil {
		r.Environ = os.Environ()
	}
	if r.Timeout <= 0 {
		r.Timeout = patience
	}
	m := machine.Open(ctx)
	defer m.Close()
	found, err := environment.Look(ctx, environment.Options{Devices: m, Processes: owners.Open("/proc"), Environ: r.Environ,
		Python: r.Python, Patience: r.Timeout, Device: r.Device, Init: r.Init})
	if err != nil {
		return nil, err
	}
	var warnings []account.Warning
	for _, n := range found.Notes {
		warnings = append(warnings, account.Warning{Code: n.Code, Text: n.Text})
	}
	document := &record.Environment{Envelope: record.NewEnvelope(record.KindEnvironment, tool, warnings), Setup: setupRecord(found, m)}
	if r.Device != "" {
		document.Selected = &record.Selected{Asked: r.Device, Index: atLeastZero(found.Selected)}
	}
	return document, nil
}

// setupRecord is a report as it stands in records.
func setupRecord(r environment.Report, m *machine.Machine) record.Setup {
	s := record.Setup{Container: &r.Container, ReadBy: record.Text(r.Source), Driver: record.Text(r.Driver.Version), DriverRuntime: record.Text(r.Driver.Runtime)}
	if m.Platform != device.UnknownPlatform {
		s.Platform = record.Text(string(m.Platform))
	}
	for _, a := range m.Tried {
		s.NotRead = append(s.NotRead, record.NotRead{What: a.Source, Reason: a.Reason})
	}
	pythonRecord(&s, r.Python)
	if r.Backend != "" {
		version := r.Python.Torch.CUDA + r.Python.Torch.HIP // one of them is empty
		s.Backend = &record.Backend{Name: string(r.Backend), Version: version}
	}
	s.Allocator = record.AllocatorSetup{Backend: record.Text(r.Allocator.Backend), Origin: record.Text(r.Allocator.Origin), Settings: variablesRecord(r.Allocator.Settings)}
	s.Variables = variablesRecord(r.Variables)
	for i, d := range r.Devices {
		s.Devices = append(s.Devices, installedRecord(i, d))
	}
	if r.Context != nil {
		s.Context = contextRecord(*r.Context)
	}
	return s
}

func variablesRecord(list []device.Variable) []record.Variable {
	var all []record.Variable
	for _, v := range list {
		all = append(all, record.Variable{Name: v.Name, Value: v.Value})
	}
	return all
}

func pythonRecord(s *record.Setup, p environment.Python) {
	s.Python = record.Text(p.Version)
	switch {
	case p.Asked != "":
		s.Interpreter = &record.Interpreter{Path: p.Asked, Executable: record.Text(p.Executable), Error: record.Text(p.Problem)}
		if p.Version != "" {
			s.Interpreter.VirtualEnvironment = &p.Virtual
		}
	case p.Problem != "":
		s.NotRead = append(s.NotRead, record.NotRead{What: "Python", Reason: p.Problem})
	}
	if p.NoExtensions != "" {
		s.NotRead = append(s.NotRead, record.NotRead{What: "extensions", Reason: p.NoExtensions})
	}
	for _, e := range p.Extensions {
		s.Extensions = append(s.Extensions, record.Extension{Name: e.Name, Version: record.Text(e.Version)})
	}
	t := p.Torch
	if !t.Found {
		if t.Problem != "" {
			s.NotRead = append(s.NotRead, record.NotRead{What: "PyTorch", Reason: t.Problem})
		}
		return
	}
	s.PyTorch = record.Text(t.Version)
	s.Installation = &record.Installation{Path: record.Text(t.Path), Imported: t.Imported, DeviceCount: t.Devices, Error: record.Text(t.Problem)}
}

func installedRecord(index int, d environment.Device) record.Installed {
	r := record.Installed{Index: index, Vendor: d.Vendor, Name: record.Text(d.Name), UUID: record.Text(d.UUID), PCI: record.Text(d.PCI), Card: d.Card,
		Kind: string(d.Kind), KindReason: record.Text(d.KindReason), Partitioned: d.Partitioned,
		ComputeCapability: record.Text(d.ComputeCapability), ComputeMode: record.Text(d.ComputeMode), Virtual: record.Text(d.Virtual),
		OwnersReason: record.Text(d.Memory.NoProcesses)}
	if visible := d.Ordinal >= 0; visible || !d.Unsure {
		r.Visible = &visible
	}
	if d.Ordinal >= 0 {
		r.Program = record.Text(fmt.Sprintf("cuda:%d", d.Ordinal)) // HIP's too: PyTorch calls both so
	}
	if p := d.Partition; p != nil {
		r.Partition = &record.Partition{Profile: record.Text(p.Profile), GPUInstance: atLeastZero(p.GPUInstance), ComputeInstance: atLeastZero(p.ComputeInstance)}
	}
	if card, err := device.Find(d.Name); err == nil && d.Name != "" && d.Partition == nil {
		r.CatalogueID = record.Text(card.ID)
		if label, known := card.LabelBytes.IsExact(); known {
			r.LabelBytes = &label
		}
	}
	m := d.Memory
	r.TotalBytes, r.TotalLowBytes, r.TotalHighBytes = record.Interval(m.Total)
	r.ReservedBytes, r.ReservedLowBytes, r.ReservedHighBytes = record.Interval(m.Reserved)
	r.UsedBytes, r.UsedLowBytes, r.UsedHighBytes = record.Interval(m.Used)
	r.FreeBytes, r.FreeLowBytes, r.FreeHighBytes = record.Interval(m.Free)
	r.NotRead = notRead(named{"total", m.Total}, named{"reserved", m.Reserved}, named{"used", m.Used}, named{"free", m.Free})
	for _, o := range d.Owners {
		owner := record.Owner{PID: o.PID, Name: record.Text(o.Name), Reason: record.Text(o.Reason), Graphics: o.Graphics}
		owner.Bytes, owner.LowBytes, owner.HighBytes = record.Interval(o.Bytes)
		r.Owners = append(r.Owners, owner)
		r.NotRead = append(r.NotRead, notRead(named{fmt.Sprintf("bytes of process %d", o.PID), o.Bytes})...)
	}
	return r
}

func contextRecord(c environment.Context) *record.ContextCost {
	r := &record.ContextCost{Index: atLeastZero(c.Device), Error: record.Text(c.Problem)}
	r.ProcessBytes, r.ProcessLowBytes, r.ProcessHighBytes = record.Interval(c.Process)
	r.BeforeBytes, r.BeforeLowBytes, r.BeforeHighBytes = record.Interval(c.Before.Used)
	r.AfterBytes, r.AfterLowBytes, r.AfterHighBytes = record.Interval(c.After.Used)
	r.DifferenceBytes, r.DifferenceLowBytes, r.DifferenceHighBytes = record.Interval(c.Grown)
	r.ProgramTotalBytes, _, _ = record.Interval(c.Total)
	r.ProgramFreeBytes, _, _ = record.Interval(c.Free)
	r.AllocatedBytes, _, _ = record.Interval(c.Allocated)
	r.AllocatorBytes, _, _ = record.Interval(c.Reserved)
	if c.Problem == "" {
		r.NotRead = notRead(named{"process", c.Process}, named{"difference", c.Grown}, named{"program total", c.Total}, named{"program free", c.Free})
	}
	return r
}

// named is a figure and what it is called.
type named struct {
	name   string
	figure account.Figure
}

// notRead lists those of some figures that are unknown.
func notRead(figures ...named) []record.NotRead {
	var list []record.NotRead
	for _, f := range figures {
		if !f.figure.Known() {
			list = append(list, record.NotRead{What: f.name, Reason: f.figure.Reason()})
		}
	}
	return slices.Clip(list)
}

// atLeastZero is null for a number that is not known.
func atLeastZero(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
