package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"floodmark/device"
	"floodmark/device/amdgpu"
	"floodmark/device/nvml"
	"floodmark/device/smi"
)

// Machine is the devices of this machine. It is a [device.Reader] of all of
// them, and of none where there is none.
type Machine struct {
	readers []device.Reader
	host    host
	// Tried is what could not be read, and why.
	Tried []Attempt
	// Platform is what the machine runs; WSL is told apart from Linux.
	Platform device.Platform
}

// Attempt is one way of reading devices that led to none.
type Attempt struct {
	Source string // "NVML"
	Reason string
}

// Open finds the devices. It always returns a machine, which may be without any.
func Open(ctx context.Context) *Machine { return open(ctx, "/") }

func open(ctx context.Context, root string) *Machine {
	m := &Machine{host: host{root}}
	m.Platform = m.host.platform()
	if !m.nvidia(ctx) {
		m.Tried = append(m.Tried, m.host.undriven("NVIDIA", "0x10de")...)
	}
	r, err := amdgpu.Open(root)
	if err != nil {
		m.Tried = append(m.Tried, Attempt{"amdgpu", err.Error()})
		m.Tried = append(m.Tried, m.host.undriven("AMD", "0x1002")...)
		return m
	}
	m.readers = append(m.readers, r)
	return m
}

// nvidia adds NVIDIA's cards by the first way that leads to any.
func (m *Machine) nvidia(ctx context.Context) bool {
	for _, way := range []struct {
		source string
		open   func(context.Context) (device.Reader, error)
	}{{"NVML", nvml.Open}, {"nvidia-smi", smi.Open}} {
		r, err := way.open(ctx)
		if err == nil {
			m.readers = append(m.readers, r)
			return true
		}
		m.Tried = append(m.Tried, Attempt{way.source, err.Error()})
	}
	return false
}

// Of is a machine of some readers.
func Of(readers ...device.Reader) *Machine {
	return &Machine{readers: readers, host: host{"/"}, Platform: device.Linux}
}

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
	for i, d := range list {
		if m.Platform == device.WSL && d.Kind == device.Discrete {
			list[i].Kind, list[i].KindReason = device.WDDM, "this is WSL, where the driver of Windows manages the memory"
		}
	}
	return list
}

// Read reads the memory of the device at an index of Devices. Of a device whose
// memory is the machine's, what its driver does not say is the machine's own
// count: of all memory, and of what programs could get.
func (m *Machine) Read(ctx context.Context, index int) device.Memory {
	r, at := m.reader(index)
	if r == nil {
		return device.UnknownMemory(time.Now(), "there is no such device on this machine")
	}
	reading := r.Read(ctx, at)
	if r.Devices()[at].Kind == device.Unified {
		return m.host.shared(reading)
	}
	return reading
}

// Watch is as [device.Watch]; each driver's devices are watched in its own way.
func (m *Machine) Watch(ctx context.Context, indexes []int, every time.Duration, into func(device.Sample)) {
	unified := slices.ContainsFunc(m.Devices(), func(d device.Device) bool { return d.Kind == device.Unified })
	if len(m.readers) == 1 && !unified {
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
