package device

import (
	"context"
	"time"

	"floodmark/account"
)

// MemoryKind says whose memory a device's is, which decides what its total is
// worth as a capacity.
type MemoryKind string

const (
	Discrete   MemoryKind = "discrete" // the card's own
	Unified    MemoryKind = "unified"  // the machine's, which everything on it shares
	MIG        MemoryKind = "mig"      // one partition of a card (NVIDIA MIG); the card's own total is not its capacity
	WDDM       MemoryKind = "wddm"     // Windows manages it and lets programs spill into main memory
	KindUnsaid MemoryKind = "unknown"
)

// Device is one device of this machine as its driver describes it: a card, or a
// partition of one. A text is empty where the driver does not say.
type Device struct {
	Vendor            string // "NVIDIA", "AMD"
	Name              string // as the driver reports it
	UUID              string // "GPU-…", "MIG-…"
	PCI               string // "0000:01:00.0", in lower case
	Card              int    // the driver's own number of the card, from 0 in the order of the bus
	Kind              MemoryKind
	KindReason        string     // by what the kind is known, or why it is not
	Partition         *Partition // of a MIG instance; nil for a whole card
	Partitioned       bool       // the card is divided, so that no program gets the whole of it
	ComputeCapability string     // "9.0", "gfx942"
	ComputeMode       string     // "default", "exclusive_process", "prohibited"
	Virtual           string     // "vgpu", "passthrough"; empty on bare metal and where nobody says
}

// Partition is which part of its card a MIG instance is.
type Partition struct {
	Profile                      string // "3g.40gb"; empty where the driver does not say
	GPUInstance, ComputeInstance int    // −1 where the driver does not say
}

// Driver is what drives the devices.
type Driver struct {
	Version string // "580.95.05"; empty where nobody says
	// Runtime is the newest CUDA that the driver runs, "13.0"; empty for other
	// vendors.
	Runtime string
}

// Memory is what a device held at one moment. Every figure was read from outside
// any program that uses it; one that the driver does not give is unknown, with
// the reason.
type Memory struct {
	At       time.Time
	Total    account.Figure // all that the driver manages, its reserve included
	Reserved account.Figure // of that, what the driver or the firmware keeps for itself
	Free     account.Figure // now
	Used     account.Figure // by whoever holds it; without the reserve where that is known
	// Processes are those that hold memory here, and NoProcesses is why they
	// could not be listed; empty when they were.
	Processes   []Process
	NoProcesses string
}

// Process is one owner of a device's memory. The driver numbers processes as the
// host does, so that inside a container the PID may be nobody's, or another's:
// package owners tells.
type Process struct {
	PID      int
	Bytes    account.Figure // unknown where the driver does not say, as under WDDM
	Graphics bool           // it draws; else it computes
}

// Reader reads the devices of one driver on this machine. Reading creates no
// context on a device, allocates nothing there, and needs no PyTorch. A Reader
// may be used by several goroutines.
type Reader interface {
	// Source is through what it reads: "NVML", "nvidia-smi", "amdgpu".
	Source() string
	// Driver is that of the devices.
	Driver() Driver
	// Devices lists the devices in the order of the bus; the partitions of a card
	// follow it. The slice is the caller's own.
	Devices() []Device
	// Read reads the memory of the device at an index of Devices, now. Whatever
	// cannot be read is unknown in it, with the reason.
	Read(ctx context.Context, index int) Memory
	// Close ends what the reader has open.
	Close() error
}

// UnknownMemory is a reading of which nothing is known, for one reason.
func UnknownMemory(at time.Time, reason string) Memory {
	unknown := account.Unknown(reason, account.Provenance{Origin: account.Observed, Scope: account.Device})
	return Memory{At: at, Total: unknown, Reserved: unknown, Free: unknown, Used: unknown, NoProcesses: reason}
}
