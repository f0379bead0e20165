//go:build linux && (amd64 || arm64) && !nonvml

package nvml

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"floodmark/device"
)

// mostDevices is more cards and instances than any machine has.
const mostDevices = 1024

// readDriver gives the driver's version, and the newest CUDA that it runs.
func (r *reader) readDriver() device.Driver {
	var d device.Driver
	d.Version = text(80, func(b *byte, n uint32) status { return ask(r.functions.driverVersion, b, n) })
	var version int32
	if r.functions.cudaVersion != nil && r.functions.cudaVersion(&version) == success && version >= 1000 && version < 100000 {
		d.Runtime = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	return d
}

func ask(function func(*byte, uint32) status, b *byte, n uint32) status {
	if function == nil {
		return functionNotFound
	}
	return function(b, n)
}

// text is what the library wrote into a buffer; empty where it did not.
func text(length uint32, write func(*byte, uint32) status) string {
	buffer := make([]byte, length+1)
	if write(&buffer[0], length) != success {
		return ""
	}
	return clean(buffer)
}

// clean is the text of a buffer up to its end.
func clean(buffer []byte) string {
	if end := bytes.IndexByte(buffer, 0); end >= 0 {
		buffer = buffer[:end]
	}
	if !utf8.Valid(buffer) {
		return ""
	}
	return strings.TrimSpace(string(buffer))
}

// list finds cards and MIG instances. A card whose handle the library refuses is
// listed without it, so that numbers stay those of the driver.
func (r *reader) list() error {
	var n uint32
	if s := r.functions.count(&n); s != success {
		return fmt.Errorf("NVML does not count the cards: %s", s)
	}
	if n > mostDevices {
		return fmt.Errorf("NVML counts %d cards, which no machine has", n)
	}
	for i := range n {
		var h handle
		if s := r.functions.byIndex(i, &h); s != success {
			r.add(device.Device{Vendor: vendor, Card: int(i), Kind: device.KindUnsaid, KindReason: "NVML gives no access to the card: " + s.String()}, 0)
			continue
		}
		card := r.card(int(i), h)
		r.add(card, h)
		if card.Partitioned {
			r.instances(card, h)
		}
	}
	return nil
}

const vendor = "NVIDIA"

func (r *reader) add(d device.Device, h handle) {
	if len(r.devices) == mostDevices {
		return
	}
	r.devices, r.handles = append(r.devices, d), append(r.handles, h)
}

func (r *reader) card(i int, h handle) device.Device {
	d := device.Device{Vendor: vendor, Card: i,
		Name: r.deviceText(h, r.functions.name), UUID: r.deviceText(h, r.functions.uuid),
		PCI: r.busID(h), ComputeCapability: r.computeCapability(h)}
	if mode, ok := value(h, r.functions.computeMode); ok {
		d.ComputeMode = computeModes()[mode]
	}
	if mode, ok := value(h, r.functions.virtualization); ok {
		d.Virtual = virtualModes()[mode]
	}
	var current, pending uint32
	if r.functions.migMode != nil && r.functions.migMode(h, &current, &pending) == success {
		d.Partitioned = current == 1
	}
	d.Kind, d.KindReason = r.kind(h)
	return d
}

// computeModes are nvmlComputeMode_t.
func computeModes() map[uint32]string {
	return map[uint32]string{0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
}

// virtualModes are those of nvmlGpuVirtualizationMode_t that a program notices.
func virtualModes() map[uint32]string {
	return map[uint32]string{1: "passthrough", 2: "vgpu", 3: "vgpu_host", 4: "vsga_host"}
}

// kind says whose the memory is. NVML answers "not supported" for the memory of
// cards that have none of their own, such as GB10
// (https://forums.developer.nvidia.com/t/nvml-support-for-dgx-spark-grace-blackwell-unified-memory-community-solution/358869); WDDM is a driver model that
// only Windows has.
func (r *reader) kind(h handle) (device.MemoryKind, string) {
	var current, pending uint32
	if r.functions.driverModel != nil && r.functions.driverModel(h, &current, &pending) == success && current == 0 {
		return device.WDDM, "the driver's model is WDDM"
	}
	if r.functions.memory != nil {
		var info memoryV1
		if r.functions.memory(h, &info) == notSupported {
			return device.Unified, "NVML reports no memory of the card's own (not supported)"
		}
	}
	return device.Discrete, ""
}

func (r *reader) deviceText(h handle, function func(handle, *byte, uint32) status) string {
	if function == nil {
		return ""
	}
	return text(96, func(b *byte, n uint32) status { return function(h, b, n) })
}

func value(h handle, function func(handle, *uint32) status) (uint32, bool) {
	var v uint32
	if function == nil || function(h, &v) != success {
		return 0, false
	}
	return v, true
}

// busID is the PCI address as Linux writes it: four digits of domain where
// NVIDIA writes eight.
func (r *reader) busID(h handle) string {
	var info pciInfo
	if r.functions.pci == nil || r.functions.pci(h, &info) != success {
		return ""
	}
	id := strings.ToLower(clean(info.ID[:]))
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return id
}

func (r *reader) computeCapability(h handle) string {
	var major, minor int32
	if r.functions.capability == nil || r.functions.capability(h, &major, &minor) != success || major <= 0 || major > 99 || minor < 0 || minor > 9 {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// reProfile is a MIG profile at the end of an instance's name, "NVIDIA A100 MIG
// 1c.3g.20gb".
var reProfile = regexp.MustCompile(`MIG ([0-9cg.]+gb(?:\+[a-z.]+)*)$`)

// instances lists the MIG instances of a card.
func (r *reader) instances(card device.Device, h handle) {
	var most uint32
	if r.functions.migCount == nil || r.functions.migByIndex == nil || r.functions.migCount(h, &most) != success {
		return
	}
	for i := range min(most, mostDevices) {
		var mig handle
		if r.functions.migByIndex(h, i, &mig) != success {
			continue // a place that no instance takes
		}
		d := device.Device{Vendor: vendor, Card: card.Card, PCI: card.PCI, ComputeCapability: card.ComputeCapability,
			ComputeMode: card.ComputeMode, Virtual: card.Virtual, Kind: device.MIG, KindReason: "a MIG instance",
			Name: r.deviceText(mig, r.functions.name), UUID: r.deviceText(mig, r.functions.uuid),
			Partition: &device.Partition{GPUInstance: -1, ComputeInstance: -1}}
		if m := reProfile.FindStringSubmatch(d.Name); m != nil {
			d.Partition.Profile = m[1]
		}
		if id, ok := value(mig, r.functions.gpuInstance); ok && id < mostDevices {
			d.Partition.GPUInstance = int(id)
		}
		if id, ok := value(mig, r.functions.computeInstance); ok && id < mostDevices {
			d.Partition.ComputeInstance = int(id)
		}
		r.add(d, mig)
	}
}
