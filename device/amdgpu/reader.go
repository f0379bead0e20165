package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"floodmark/account"
	"floodmark/device"
)

// reader is a [device.Reader] through the files.
type reader struct {
	files   files
	driver  device.Driver
	devices []device.Device
	nodes   []node
}

// node is where the files of a device are.
type node struct {
	drm   string // "renderD128" or "card0": its folder under /sys/class/drm
	gpuID uint64 // as KFD calls it; 0 where KFD does not know the device
	kfd   string // number of its node; empty likewise
}

// Open lists AMD's devices under a root, "/" but in tests. Those that ROCm sees
// come first, in its order. It fails where there is none.
func Open(root string) (device.Reader, error) {
	r := &reader{files: files{root}}
	r.driver.Version = r.version()
	r.listKFD()
	r.listCards()
	if len(r.devices) == 0 {
		return nil, errors.New("there is no AMD device under /sys/class/drm or /sys/class/kfd")
	}
	return r, nil
}

// version is that of a driver built apart from the kernel, or the kernel's.
func (r *reader) version() string {
	if v, err := r.files.text("sys/module/amdgpu/version"); err == nil && v != "" {
		return v
	}
	if v, err := r.files.text("proc/sys/kernel/osrelease"); err == nil && v != "" {
		return "Linux " + v
	}
	return ""
}

// amdVendor is AMD's number among makers of PCI devices, as sysfs and KFD give
// it.
const (
	amdVendor    = "0x1002"
	amdVendorKFD = 0x1002
)

// listKFD lists the GPU nodes of the topology, whose order is that in which ROCm
// numbers devices
// (https://github.com/ROCm/ROCR-Runtime/blob/rocm-6.4.0/libhsakmt/src/topology.c).
func (r *reader) listKFD() {
	for _, n := range r.files.numbered("", kfdFolder, "topology/nodes") {
		number := strconv.Itoa(n)
		id, err := r.files.number(kfdFolder, "topology/nodes", number, "gpu_id")
		if err != nil || id == 0 {
			continue // a processor
		}
		p := r.files.properties(kfdFolder, "topology/nodes", number, "properties")
		if vendor, said := p["vendor_id"]; said && vendor != amdVendorKFD {
			continue
		}
		at := node{kfd: number, gpuID: id}
		if minor := p["drm_render_minor"]; minor > 0 && minor < 1<<20 {
			at.drm = fmt.Sprintf("renderD%d", minor)
		}
		d := r.described(at)
		d.UUID, d.ComputeCapability = uuid(p["unique_id"]), gfx(p["gfx_target_version"])
		if p["cpu_cores_count"] > 0 {
			d.Kind, d.KindReason = device.Unified, "processor and GPU are one KFD node"
		} else if r.fromMainMemory(at) {
			d.Kind, d.KindReason = device.Unified, "KFD gives it more memory than the card has of its own"
		}
		r.add(d, at)
	}
}

// fromMainMemory reports a device whose bank in KFD is larger than its VRAM: an
// APU, whose programs get main memory
// (https://docs.kernel.org/gpu/amdgpu/driver-misc.html).
func (r *reader) fromMainMemory(at node) bool {
	vram, known := r.vram(at, "mem_info_vram_total").IsExact()
	var banks uint64
	for _, b := range r.files.numbered("", kfdFolder, "topology/nodes", at.kfd, "mem_banks") {
		p := r.files.properties(kfdFolder, "topology/nodes", at.kfd, "mem_banks", strconv.Itoa(b), "properties")
		if heap := p["heap_type"]; heap == 1 || heap == 2 { // of the device: visible to the processor, or not
			banks = max(banks, p["size_in_bytes"])
		}
	}
	return known && banks > uint64(vram)
}

// listCards lists what KFD does not know: cards that only draw, and all where
// ROCm's part of the driver is missing.
func (r *reader) listCards() {
	var known []string
	for _, d := range r.devices {
		known = append(known, d.PCI)
	}
	for _, n := range r.files.numbered("card", drmFolder) {
		at := node{drm: fmt.Sprintf("card%d", n)}
		if vendor, err := r.files.text(drmFolder, at.drm, "device/vendor"); err != nil || vendor != amdVendor {
			continue
		}
		if d := r.described(at); d.PCI == "" || !slices.Contains(known, d.PCI) {
			r.add(d, at)
		}
	}
}

func (r *reader) add(d device.Device, at node) {
	d.Card = len(r.devices)
	r.devices, r.nodes = append(r.devices, d), append(r.nodes, at)
}

// described is what the card's own files say.
func (r *reader) described(at node) device.Device {
	d := device.Device{Vendor: "AMD", Kind: device.Discrete}
	if at.drm == "" {
		return d
	}
	d.Name, _ = r.files.text(drmFolder, at.drm, "device/product_name")
	uevent, _ := r.files.text(drmFolder, at.drm, "device/uevent")
	for line := range strings.Lines(uevent) {
		if slot, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
			d.PCI = strings.ToLower(slot)
		}
	}
	return d
}

// uuid is a device's as ROCm prints it; empty for cards that have none.
func uuid(unique uint64) string {
	if unique == 0 {
		return ""
	}
	return fmt.Sprintf("GPU-%016x", unique)
}

// gfx is the name of a target from its number: two digits each for major, minor
// and stepping, of which the last two are written in base 16: 90010 is gfx90a.
func gfx(version uint64) string {
	if version < 10000 || version > 999999 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", version/10000, version/100%100, version%100)
}

// Source is the driver's name.
func (r *reader) Source() string { return "amdgpu" }

// Driver is amdgpu.
func (r *reader) Driver() device.Driver { return r.driver }

// Devices lists the devices.
func (r *reader) Devices() []device.Device { return slices.Clone(r.devices) }

// Close has nothing to end.
func (r *reader) Close() error { return nil }

// Read reads one device now.
func (r *reader) Read(_ context.Context, index int) device.Memory {
	now := time.Now()
	if index < 0 || index >= len(r.nodes) {
		return device.UnknownMemory(now, "there is no such device on this machine")
	}
	at := r.nodes[index]
	m := device.Memory{At: now, Total: r.vram(at, "mem_info_vram_total"), Used: r.vram(at, "mem_info_vram_used"),
		Reserved: account.Unknown("amdgpu does not say what it keeps for itself", account.Provenance{Origin: account.Observed, Scope: account.Device})}
	if r.devices[index].Kind == device.Unified {
		m.Total = sum(m.Total, r.vram(at, "mem_info_gtt_total"))
		m.Used = sum(m.Used, r.vram(at, "mem_info_gtt_used"))
	}
	m.Free = free(m.Total, m.Used)
	m.Processes, m.NoProcesses = r.processes(at)
	return m
}

func (r *reader) vram(at node, counter string) account.Figure {
	if at.drm == "" {
		return account.Unknown("KFD names no file of this device's memory", account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: counter})
	}
	return r.files.bytes(account.Device, drmFolder, at.drm, "device", counter)
}

func sum(a, b account.Figure) account.Figure {
	p := a.Provenance
	p.Counter += " + " + b.Counter
	return account.Sum(p, a, b)
}

// free is what is left of the total.
func free(total, used account.Figure) account.Figure {
	p := total.Provenance
	p.Counter += " − " + used.Counter
	left := total.Minus(used, p)
	if left.Known() && left.Low() < 0 {
		return account.Unknown(used.Counter+" is more than the total", p)
	}
	return left
}

// processes lists those that compute on a device, which KFD counts.
func (r *reader) processes(at node) ([]device.Process, string) {
	if at.gpuID == 0 {
		return nil, "ROCm's part of the driver (KFD) does not know this device, and nothing else lists its processes"
	}
	if _, err := r.files.stat(kfdFolder, "proc"); err != nil {
		return nil, "this kernel does not list the processes of a device"
	}
	var list []device.Process
	for _, pid := range r.files.numbered("", kfdFolder, "proc") {
		bytes := r.files.bytes(account.Process, kfdFolder, "proc", strconv.Itoa(pid), fmt.Sprintf("vram_%d", at.gpuID))
		if n, exact := bytes.IsExact(); !exact || n > 0 {
			list = append(list, device.Process{PID: pid, Bytes: bytes})
		}
	}
	return list, ""
}
