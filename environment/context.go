package environment

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/owners"
	"floodmark/internal/child"
)

//go:embed context.py
var contextScript string

// Context is what it costs to have a context on a device, measured on one that a
// process of its own made and gave up again. It is a cost of this driver and
// this PyTorch on this device.
type Context struct {
	Device int // index of the devices; −1 when it is not known which it was
	// Before and After are the device read from outside, just before the context
	// was made and while it stood.
	Before, After device.Memory
	// Process is what the driver counts for the process, context included.
	Process account.Figure
	// Grown is how much more of the device was in use after than before: the
	// context, and whatever others did meanwhile.
	Grown account.Figure
	// Total and Free are what a program sees that has a context: torch.cuda.mem_get_info.
	Total, Free account.Figure
	// Allocated and Reserved are of PyTorch's allocator, so that a context is told
	// apart from tensors: both are 0 unless something allocates on import.
	Allocated, Reserved account.Figure
	Problem             string // why it could not be measured; empty where it was
}

// step is one line of the script.
type step struct {
	Step                             string
	PID                              int
	UUID                             string
	Total, Free, Allocated, Reserved *int64
	Error                            string
}

// attempt is the making of one context.
type attempt struct {
	ctx      context.Context
	devices  device.Reader
	table    owners.Table
	visible  device.Visibility
	ordinal  int
	before   []device.Memory
	pid      int
	measured Context
}

// measureContext makes a context on the device of that number, as PyTorch counts.
func measureContext(ctx context.Context, o Options, v device.Visibility, python string, ordinal int) (Context, error) {
	a := &attempt{ctx: ctx, devices: o.Devices, table: o.Processes, visible: v, ordinal: ordinal}
	a.measured = unknownContext("it was not measured")
	result, err := child.Run(ctx, child.Program{Path: python, Args: []string{"-c", contextScript, fmt.Sprint(ordinal)}, Env: quiet(o.Environ),
		Timeout: o.Patience, While: a.follow})
	if ctx.Err() != nil {
		return a.measured, ctx.Err()
	}
	switch {
	case a.measured.Problem == "":
	case err != nil:
		a.measured.Problem = err.Error()
	case result.Ended() != "":
		a.measured.Problem = "the process that was to make it " + result.Ended() + lastWords(result)
	}
	return a.measured, nil
}

func unknownContext(reason string) Context {
	unknown := account.Unknown(reason, account.Provenance{Origin: account.Observed, Scope: account.Device})
	m := device.UnknownMemory(time.Time{}, reason)
	return Context{Device: -1, Before: m, After: m, Process: unknown, Grown: unknown, Total: unknown, Free: unknown,
		Allocated: unknown, Reserved: unknown, Problem: reason}
}

// follow reads the devices while the process stands still.
func (a *attempt) follow(said io.Reader, answer io.Writer) {
	for lines := bufio.NewScanner(said); lines.Scan(); {
		var s step
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue
		}
		switch s.Step {
		case "imported":
			a.pid = s.PID
			for i := range a.devices.Devices() {
				a.before = append(a.before, a.devices.Read(a.ctx, i))
			}
			fmt.Fprintln(answer)
		case "created":
			a.created(s)
			return
		case "failed":
			a.measured.Problem = clip(s.Error)
			return
		}
	}
}

// created reads what the context costs. The device is that of the UUID which the
// process saw, else the one that its number leads to.
func (a *attempt) created(s step) {
	m := &a.measured
	*m = unknownContext("")
	m.Total, m.Free = inProgram(s.Total, "total", account.Device), inProgram(s.Free, "free", account.Device)
	m.Allocated, m.Reserved = inProgram(s.Allocated, "memory_allocated", account.Allocated), inProgram(s.Reserved, "memory_reserved", account.Reserved)
	m.Device = a.device(s.UUID)
	if m.Device < 0 || m.Device >= len(a.before) {
		*m = a.unread(*m)
		return
	}
	m.Before, m.After = a.before[m.Device], a.devices.Read(a.ctx, m.Device)
	m.Process = a.table.Held(m.After, a.table.Tree(a.pid))
	p := account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: m.After.Used.Counter + ", after less before"}
	m.Grown = m.After.Used.Minus(m.Before.Used, p)
}

func (a *attempt) unread(m Context) Context {
	const reason = "nobody can say which device of the machine it was made on"
	u := unknownContext(reason)
	u.Total, u.Free, u.Allocated, u.Reserved, u.Problem = m.Total, m.Free, m.Allocated, m.Reserved, ""
	return u
}

func (a *attempt) device(uuid string) int {
	if uuid != "" && uuid != "None" {
		if i := slices.IndexFunc(a.devices.Devices(), func(d device.Device) bool { return sameUUID(d.UUID, uuid) }); i >= 0 {
			return i
		}
	}
	if a.ordinal < len(a.visible.Indexes) {
		return a.visible.Indexes[a.ordinal]
	}
	return -1
}

// sameUUID compares a driver's UUID with PyTorch's, which lacks what stands
// before it.
func sameUUID(driver, torch string) bool {
	bare := func(s string) string {
		return strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(s), "gpu-"), "mig-")
	}
	return driver != "" && bare(driver) == bare(torch)
}

// inProgram is a count that the program itself read.
func inProgram(n *int64, counter string, scope account.Scope) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: scope, Counter: "torch.cuda " + counter}
	if n == nil || *n < 0 {
		return account.Unknown("this PyTorch does not say", p)
	}
	return device.Bytes(uint64(*n), p)
}
