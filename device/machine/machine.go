package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"floodmark/device"
)

// Machine is the devices of this machine. It is a [device.Reader] of all of
// them, and of none where there is none.
type Machine struct {
	readers []device.Reader
	// Tried is what could not be read, and why.
	Tried []Attempt
}

// Attempt is one way of reading devices that led to none.
type Attempt struct {
	Source string // "NVML"
	Reason string
}

// Open finds the devices. It always returns a machine, which may be without any.
func Open(context.Context) *Machine { return Of() }

// Of is a machine of some readers.
func Of(readers ...device.Reader) *Machine { return &Machine{readers: readers} }

// Source names what is read, "NVML" or "NVML, amdgpu"; empty where nothing is.
func (m *Machine) Source() string {
	var list []string
	for _, r := range m.readers {
		list = append(list, r.Source())
	}
	return strings.Join(list, ", ")
}

// Driver is that of the first devices.
func (m *Machine) Driver() device.Driver {
	if len(m.readers) == 0 {
		return device.Driver{}
	}
	return m.readers[0].Driver()
}

// Devices lists all devices, one driver's after the other's.
func (m *Machine) Devices() []device.Device {
	var list []device.Device
	for _, r := range m.readers {
		list = append(list, r.Devices()...)
	}
	return list
}

// Read reads the memory of the device at an index of Devices.
func (m *Machine) Read(ctx context.Context, index int) device.Memory {
	if r, at := m.reader(index); r != nil {
		return r.Read(ctx, at)
	}
	return device.UnknownMemory(time.Now(), "there is no such device on this machine")
}

// Watch is as [device.Watch]; each driver's devices are watched in its own way.
func (m *Machine) Watch(ctx context.Context, indexes []int, every time.Duration, into func(device.Sample)) {
	if len(m.readers) == 1 {
		device.Watch(ctx, m.readers[0], indexes, every, into)
		return
	}
	device.Watch(ctx, plain{m}, indexes, every, into)
}

// plain hides that a machine is a [device.Watcher].
type plain struct{ device.Reader }

// reader is who reads the device at an index, and which it is there.
func (m *Machine) reader(index int) (device.Reader, int) {
	if index < 0 {
		return nil, 0
	}
	for _, r := range m.readers {
		n := len(r.Devices())
		if index < n {
			return r, index
		}
		index -= n
	}
	return nil, 0
}

// Close closes every reader.
func (m *Machine) Close() error {
	var all []error
	for _, r := range slices.Backward(m.readers) {
		all = append(all, r.Close())
	}
	return errors.Join(all...)
}
