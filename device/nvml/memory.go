//go:build linux && (amd64 || arm64) && !nonvml

package nvml

import (
	"encoding/binary"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/device"
)

// memory reads a device, in the second form of the reading where the driver has
// it: the first leaves the reserve out.
func (r *reader) memory(h handle) device.Memory {
	m := r.bytes(h)
	m.Processes, m.NoProcesses = r.processes(h)
	return m
}

func (r *reader) bytes(h handle) device.Memory {
	if r.functions.memoryV2 != nil {
		info := memoryV2{Version: memoryVersion2}
		s := r.functions.memoryV2(h, &info)
		if s == success {
			return whole(info)
		}
		if s != functionNotFound && s != argumentVersion {
			return none("nvmlDeviceGetMemoryInfo_v2", s)
		}
	}
	if r.functions.memory == nil {
		return none("nvmlDeviceGetMemoryInfo", functionNotFound)
	}
	var info memoryV1
	if s := r.functions.memory(h, &info); s != success {
		return none("nvmlDeviceGetMemoryInfo", s)
	}
	m := whole(memoryV2{Total: info.Total, Free: info.Free, Used: info.Used})
	m.Reserved = account.Unknown("this driver does not say what it keeps for itself", observed("nvmlDeviceGetMemoryInfo_v2"))
	return m
}

// argumentVersion is the status of a driver that knows the function and not this
// version of its argument.
const argumentVersion status = 25

func none(counter string, s status) device.Memory {
	unknown := account.Unknown(counter+": "+s.String(), observed(counter))
	return device.Memory{Total: unknown, Reserved: unknown, Free: unknown, Used: unknown}
}

// whole is a reading whose parts were checked against each other. What is in use
// is given without the reserve. The documentation of some releases counts the
// reserve in it and of others does not
// (https://docs.nvidia.com/deploy/archive/R525/nvml-api/structnvmlMemory__v2__t.html),
// so that the numbers decide: with it, free and used make up the total.
func whole(info memoryV2) device.Memory {
	m := device.Memory{
		Total: device.Bytes(info.Total, observed("NVML total")), Reserved: device.Bytes(info.Reserved, observed("NVML reserved")),
		Free: device.Bytes(info.Free, observed("NVML free")), Used: device.Bytes(info.Used, observed("NVML used")),
	}
	total, known := m.Total.IsExact()
	if !known {
		return m
	}
	if total == 0 {
		m.Total = account.Unknown("NVML gives a total of 0 bytes", m.Total.Provenance)
		return m
	}
	for _, f := range []*account.Figure{&m.Reserved, &m.Free, &m.Used} {
		if n, ok := f.IsExact(); ok && n > total {
			*f = account.Unknown(fmt.Sprintf("%s is %d bytes, which is more than the total", f.Counter, n), f.Provenance)
		}
	}
	reserved, hasReserve := m.Reserved.IsExact()
	free, hasFree := m.Free.IsExact()
	used, hasUsed := m.Used.IsExact()
	if !hasReserve || !hasFree || !hasUsed {
		return m
	}
	switch total - free {
	case used + reserved: // apart already
	case used:
		m.Used = account.Exact(max(used-reserved, 0), m.Used.Provenance)
	default:
		m.Used = account.Between(max(used-reserved, 0), used, m.Used.Provenance)
	}
	return m
}

// Lists of processes: an entry is a PID, padding, and bytes, and since the
// second version two instance numbers of 4 bytes. R530 alone put 8 bytes more
// behind each (https://github.com/XuehaiPan/nvitop/blob/v1.3.2/nvitop/api/libnvml.py),
// so that the length of an entry is found by what makes sense.
const (
	firstEntry   = 16
	laterEntry   = 24
	longestEntry = 32
	mostEntries  = 1 << 16
	largestPID   = 1 << 22 // PID_MAX_LIMIT of Linux
)

// processes lists who holds memory of a device: those that compute, those that
// draw, and those that compute through a server they share.
func (r *reader) processes(h handle) ([]device.Process, string) {
	const counter = "nvmlDeviceGetComputeRunningProcesses"
	if r.functions.compute == nil {
		return nil, counter + ": " + functionNotFound.String()
	}
	list, reason := r.running(h, r.functions.compute, counter)
	if reason != "" {
		return nil, reason
	}
	for _, more := range []struct {
		function func(handle, *uint32, *byte) status
		graphics bool
	}{{r.functions.mps, false}, {r.functions.graphics, true}} {
		if more.function == nil {
			continue
		}
		others, _ := r.running(h, more.function, counter)
		for _, p := range others {
			p.Graphics = more.graphics
			list = merged(list, p)
		}
	}
	return list, ""
}

// merged adds a process to a list. One that both computes and draws is listed
// twice by the library, mostly with the same bytes: they are its own, once.
func merged(list []device.Process, p device.Process) []device.Process {
	i := slices.IndexFunc(list, func(q device.Process) bool { return q.PID == p.PID })
	if i < 0 {
		return append(list, p)
	}
	a, known := list[i].Bytes.IsExact()
	b, too := p.Bytes.IsExact()
	if known && too && a != b {
		list[i].Bytes = account.Between(max(a, b), a+b, list[i].Bytes.Provenance)
	}
	return list
}

// running asks for one list, again with more room while processes come.
func (r *reader) running(h handle, ask func(handle, *uint32, *byte) status, counter string) ([]device.Process, string) {
	room := uint32(64)
	for range 5 {
		buffer := make([]byte, int(room)*longestEntry)
		n := room
		s := ask(h, &n, &buffer[0])
		switch {
		case s == success && n <= room:
			list, ok := r.entries(buffer, int(n))
			if !ok {
				return nil, counter + ": the list makes no sense"
			}
			return list, ""
		case s != insufficientSize:
			return nil, counter + ": " + s.String()
		case n > mostEntries:
			return nil, fmt.Sprintf("%s: %d processes", counter, n)
		}
		room = max(n, room) + 16
	}
	return nil, counter + ": the list keeps growing"
}

// entries reads a list with the first length of entry under which every PID is
// one that a process can have.
func (r *reader) entries(buffer []byte, n int) ([]device.Process, bool) {
	lengths := []int{laterEntry, longestEntry, firstEntry}
	if r.functions.firstProcesses {
		lengths = []int{firstEntry, laterEntry}
	}
	for _, length := range lengths {
		list := make([]device.Process, 0, n)
		sensible := true
		for i := range n {
			entry := buffer[i*length:]
			pid := binary.NativeEndian.Uint32(entry)
			sensible = sensible && pid > 0 && pid <= largestPID
			p := account.Provenance{Origin: account.Observed, Scope: account.Process, Counter: "NVML usedGpuMemory"}
			list = append(list, device.Process{PID: int(pid), Bytes: device.Bytes(binary.NativeEndian.Uint64(entry[8:]), p)})
		}
		if sensible {
			return list, true
		}
	}
	return nil, false
}
