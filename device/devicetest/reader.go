package devicetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"floodmark/account"
	"floodmark/device"
)

// Reader is a [device.Reader] of made-up devices. Its zero value is a machine
// without any. It may be used by several goroutines.
type Reader struct {
	Name string // what Source says; "test" when empty
	Of   device.Driver
	List []device.Device
	// Readings are what Read gives of each device, by its index: one after the
	// other, and the last again and again.
	Readings map[int][]device.Memory

	mu     sync.Mutex
	reads  map[int]int
	closed bool
}

// Source is the reader's name.
func (r *Reader) Source() string {
	if r.Name == "" {
		return "test"
	}
	return r.Name
}

// Driver is the made-up driver.
func (r *Reader) Driver() device.Driver { return r.Of }

// Devices lists the made-up devices.
func (r *Reader) Devices() []device.Device { return slices.Clone(r.List) }

// Read gives the next reading of a device, stamped with the time.
func (r *Reader) Read(_ context.Context, index int) device.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.Readings[index]
	if len(list) == 0 {
		return device.UnknownMemory(time.Now(), fmt.Sprintf("the test gives no reading of device %d", index))
	}
	if r.reads == nil {
		r.reads = map[int]int{}
	}
	m := list[min(r.reads[index], len(list)-1)]
	r.reads[index]++
	m.At = time.Now()
	return m
}

// Reads is how often a device was read.
func (r *Reader) Reads(index int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads[index]
}

// Close notes that the reader was closed.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// Closed reports whether somebody closed the reader.
func (r *Reader) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Memory is an exact reading: what is free is what neither the driver nor a
// process holds. Owners are PIDs and their bytes.
func Memory(total, reserved int64, owners map[int]int64) device.Memory {
	of := func(n int64, scope account.Scope) account.Figure {
		return account.Exact(n, account.Provenance{Origin: account.Observed, Scope: scope, Counter: "test"})
	}
	var used int64
	var list []device.Process
	for pid, bytes := range owners {
		used += bytes
		list = append(list, device.Process{PID: pid, Bytes: of(bytes, account.Process)})
	}
	slices.SortFunc(list, func(a, b device.Process) int { return a.PID - b.PID })
	return device.Memory{Total: of(total, account.Device), Reserved: of(reserved, account.Device),
		Free: of(total-reserved-used, account.Device), Used: of(used, account.Device), Processes: list}
}
