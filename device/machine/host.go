package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/device"
)

// host is what this machine's own files say, under a root that is "/" but in
// tests.
type host struct{ root string }

func (h host) text(path string) string {
	data, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// platform tells WSL by its kernel's name
// (https://learn.microsoft.com/en-us/windows/wsl/).
func (h host) platform() device.Platform {
	release := strings.ToLower(h.text("proc/sys/kernel/osrelease"))
	switch {
	case release == "":
		return device.UnknownPlatform
	case strings.Contains(release, "microsoft"):
		return device.WSL
	}
	return device.Linux
}

// meminfo is a count of /proc/meminfo, which is in KiB.
func (h host) meminfo(name string) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: name + " of /proc/meminfo"}
	for line := range strings.Lines(h.text("proc/meminfo")) {
		value, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 53)
		if err != nil {
			break
		}
		return device.Bytes(n<<10, p)
	}
	return account.Unknown("/proc/meminfo has no "+name, p)
}

// shared fills in a reading of memory that device and machine share. What is
// free is MemAvailable: MemFree leaves out what the kernel would give up.
func (h host) shared(m device.Memory) device.Memory {
	available := h.meminfo("MemAvailable")
	if !m.Total.Known() {
		m.Total = h.meminfo("MemTotal")
		m.Free = available
		m.Reserved = account.Unknown("the operating system and all programs share this memory", m.Total.Provenance)
		m.Used = account.Unknown("the driver does not say which of the machine's memory the device uses", m.Total.Provenance)
		return m
	}
	free, known := m.Free.IsExact()
	if n, ok := available.IsExact(); ok && known && n < free {
		p := m.Free.Provenance
		p.Counter += ", " + available.Counter
		m.Free = account.Between(n, free, p)
	}
	return m
}

// undriven lists cards of a vendor that are in the machine, though no driver
// shows them.
func (h host) undriven(vendor, number string) []Attempt {
	folder := filepath.Join(h.root, "sys/bus/pci/devices")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var list []Attempt
	for _, e := range entries {
		at := "sys/bus/pci/devices/" + e.Name()
		// Class 03 is display controllers, 12 processing accelerators.
		class := h.text(at + "/class")
		if h.text(at+"/vendor") == number && (strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")) {
			list = append(list, Attempt{"PCI", fmt.Sprintf("a card of %s is in the machine at %s, and its driver does not show it", vendor, e.Name())})
		}
	}
	return list
}
