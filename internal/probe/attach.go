package probe

import (
	"os"
	"strings"

	"floodmark/device"
	"floodmark/measurement"
)

// Attach adds to each phase what the sampler saw of its device and process while
// it ran. A process on another host, or one that the driver lists by another
// number, as it does within containers, has no sample and says why.
func (s *Sampler) Attach(m *measurement.Measurement) {
	host, _ := os.Hostname()
	devices := newMapping(s.reader.Devices(), m.Environment.Devices)
	for i := range m.Phases {
		p := &m.Phases[i]
		if p.Device < 0 {
			continue
		}
		process := m.Ranks[p.Process]
		if process.Host != "" && process.Host != host {
			p.Sampled.Why = "it ran on another host"
			continue
		}
		index, why := devices.physical(p.Device)
		if why != "" {
			p.Sampled.Why = why
			continue
		}
		s.attach(p, index, process.PID)
	}
}

// attach looks up one phase. A phase that is shorter than the time between two
// samples may have none.
func (s *Sampler) attach(p *measurement.Phase, device, pid int) {
	p.Sampled.Count = s.count(device, p.Began, p.Ended)
	p.Sampled.Device = s.highest(holder{device, 0}, p.Began, p.Ended)
	p.Sampled.Process = s.highest(holder{device, pid}, p.Began, p.Ended)
	p.End.Process = s.around(holder{device, pid}, p.Ended)
	if p.Sampled.Process != nil {
		return
	}
	switch this, any := s.listed(device, pid); {
	case p.Sampled.Count == 0:
		p.Sampled.Why = "no sample fell into the phase"
	case !this && any:
		p.Sampled.Why = "the driver lists other processes and not this one, as it does in a container, where the numbers of processes differ"
	case !this:
		p.Sampled.Why = "the driver lists no processes here, as in a container"
	default:
		p.Sampled.Why = "the driver did not say how much the process holds"
	}
}

// around is what a holder had at a moment, where the samples before and after it
// say the same; nil where they do not.
func (s *Sampler) around(h holder, at int64) *int64 {
	before, after, known := s.neighbours(h.device, at)
	if !known {
		return nil
	}
	a, b := s.highest(h, before, before), s.highest(h, after, after)
	if a == nil || b == nil || *a != *b {
		return nil
	}
	return a
}

// mapping finds the device of the driver under the ordinal of a process.
type mapping struct {
	byOrdinal map[int]int
	only      int // the one device of the machine; −1 where there are several
}

func newMapping(machine []device.Device, seen []measurement.Device) mapping {
	m := mapping{byOrdinal: map[int]int{}, only: -1}
	if len(machine) == 1 {
		m.only = 0
	}
	for index, of := range machine {
		for _, d := range seen {
			if of.UUID != "" && bare(d.UUID) == bare(of.UUID) || of.PCI != "" && of.Partition == nil && slot(d.PCI) == slot(of.PCI) {
				m.byOrdinal[d.Index] = index
			}
		}
	}
	return m
}

// bare is a UUID without the driver's prefix: PyTorch leaves "GPU-" away.
func bare(uuid string) string {
	uuid = strings.ToLower(uuid)
	return strings.TrimPrefix(strings.TrimPrefix(uuid, "gpu-"), "mig-")
}

// slot is a place on the bus without its domain's leading zeros, which NVML
// writes with eight digits and others with four.
func slot(pci string) string { return strings.TrimLeft(strings.ToLower(pci), "0") }

func (m mapping) physical(ordinal int) (index int, why string) {
	if index, ok := m.byOrdinal[ordinal]; ok {
		return index, ""
	}
	if m.only >= 0 {
		return m.only, ""
	}
	return 0, "it is not known which device of the driver this is: no UUID and no place on the bus is known to both"
}
