package record

// Environment is a machine as it was found: its devices, and what is installed
// to run on them.
type Environment struct {
	Envelope
	Setup
}

// Setup is what programs run on. Null is what could not be asked; not_read says
// why.
type Setup struct {
	Platform      *string        `json:"platform"`       // linux, wsl
	Container     *bool          `json:"container"`      // processes have other numbers than the driver gives them
	ReadBy        *string        `json:"read_by"`        // NVML, nvidia-smi, amdgpu
	Driver        *string        `json:"driver"`         // its version
	DriverRuntime *string        `json:"driver_runtime"` // the newest CUDA that it runs, "13.0"
	Python        *string        `json:"python"`         // its version
	Interpreter   *Interpreter   `json:"interpreter"`    // null where none was found
	PyTorch       *string        `json:"pytorch"`        // its version; null where it is missing
	Installation  *Installation  `json:"pytorch_installation"`
	Backend       *Backend       `json:"backend"` // what PyTorch was built for; null for the CPU alone
	Allocator     AllocatorSetup `json:"allocator"`
	Extensions    []Extension    `json:"extensions"`
	Variables     []Variable     `json:"variables"` // that choose devices or bound what programs take, raw
	Devices       []Installed    `json:"devices"`
	Selected      *Selected      `json:"selected"` // null unless a device was asked for
	Context       *ContextCost   `json:"context"`  // null unless one was made
	NotRead       []NotRead      `json:"not_read"`
}

// Interpreter is the Python that was asked.
type Interpreter struct {
	Path               string  `json:"path"`
	Executable         *string `json:"executable"` // as it calls itself
	VirtualEnvironment *bool   `json:"virtual_environment"`
	Error              *string `json:"error"` // why it said less than everything
}

// Installation is the PyTorch of the interpreter.
type Installation struct {
	Path        *string `json:"path"`
	Imported    bool    `json:"imported"`
	DeviceCount *int    `json:"device_count"` // that PyTorch sees
	Error       *string `json:"error"`        // why it cannot be imported, or asked
}

// Backend is a runtime that PyTorch was built for.
type Backend struct {
	Name    string `json:"name"`    // cuda, hip
	Version string `json:"version"` // "13.0"
}

// AllocatorSetup is PyTorch's allocator. Backend is native or cudaMallocAsync;
// under the second, peaks of reserved are upper bounds.
type AllocatorSetup struct {
	Backend  *string    `json:"backend"`
	Origin   *string    `json:"origin"`   // who named it: pytorch, or settings, from which it follows
	Settings []Variable `json:"settings"` // raw
}

// Variable is one of the environment's.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Extension is an installed distribution that has a say in memory.
type Extension struct {
	Name    string  `json:"name"`
	Version *string `json:"version"`
}

// Installed is one device of the machine. Bytes were read from outside any
// program, at one moment.
type Installed struct {
	Index             int        `json:"index"`          // among the devices here
	Program           *string    `json:"program_device"` // "cuda:0", as programs call it; null where they do not see it, or nobody can say
	Visible           *bool      `json:"visible"`        // to programs; null where nobody can say
	Vendor            string     `json:"vendor"`
	Name              *string    `json:"name"`
	UUID              *string    `json:"uuid"`
	PCI               *string    `json:"pci"`
	Card              int        `json:"card"` // the driver's number
	Kind              string     `json:"kind"` // discrete, unified, mig, wddm, unknown
	KindReason        *string    `json:"kind_reason"`
	Partition         *Partition `json:"partition"`   // of a MIG instance
	Partitioned       bool       `json:"partitioned"` // no program gets the whole card
	ComputeCapability *string    `json:"compute_capability"`
	ComputeMode       *string    `json:"compute_mode"`
	Virtual           *string    `json:"virtual"`      // vgpu, passthrough
	CatalogueID       *string    `json:"catalogue_id"` // null for a card that is not in the catalogue
	LabelBytes        *int64     `json:"label_bytes"`  // never a capacity
	TotalBytes        *int64     `json:"total_bytes"`  // all that the driver manages
	TotalLowBytes     *int64     `json:"total_low_bytes,omitempty"`
	TotalHighBytes    *int64     `json:"total_high_bytes,omitempty"`
	ReservedBytes     *int64     `json:"reserved_bytes"` // of it, what the driver keeps for itself
	ReservedLowBytes  *int64     `json:"reserved_low_bytes,omitempty"`
	ReservedHighBytes *int64     `json:"reserved_high_bytes,omitempty"`
	UsedBytes         *int64     `json:"used_bytes"` // by whoever, the reserve aside
	UsedLowBytes      *int64     `json:"used_low_bytes,omitempty"`
	UsedHighBytes     *int64     `json:"used_high_bytes,omitempty"`
	FreeBytes         *int64     `json:"free_bytes"`
	FreeLowBytes      *int64     `json:"free_low_bytes,omitempty"`
	FreeHighBytes     *int64     `json:"free_high_bytes,omitempty"`
	Owners            []Owner    `json:"owners"`
	OwnersReason      *string    `json:"owners_reason"` // why they could not be listed
	NotRead           []NotRead  `json:"not_read"`
}

// Partition is which part of its card a MIG instance is.
type Partition struct {
	Profile         *string `json:"profile"`
	GPUInstance     *int    `json:"gpu_instance"`
	ComputeInstance *int    `json:"compute_instance"`
}

// Owner is a process that holds memory of a device. PID is the driver's number
// for it, which is the host's.
type Owner struct {
	PID       int     `json:"pid"`
	Name      *string `json:"name"`
	Reason    *string `json:"reason"` // why the name is null
	Graphics  bool    `json:"graphics"`
	Bytes     *int64  `json:"bytes"`
	LowBytes  *int64  `json:"low_bytes,omitempty"`
	HighBytes *int64  `json:"high_bytes,omitempty"`
}

// Selected is the device that was asked for.
type Selected struct {
	Asked string `json:"asked"`
	Index *int   `json:"index"` // null where there is none, or nobody can say which
}

// ContextCost is what a context was seen to cost, on one that was made for it.
type ContextCost struct {
	Index *int `json:"index"` // of the devices
	// Process is what the driver counts for the process that has the context and
	// no tensor.
	ProcessBytes     *int64 `json:"process_bytes"`
	ProcessLowBytes  *int64 `json:"process_low_bytes,omitempty"`
	ProcessHighBytes *int64 `json:"process_high_bytes,omitempty"`
	// Difference is of the device's used bytes, after less before; others may
	// have had a part in it.
	BeforeBytes         *int64    `json:"before_bytes"`
	BeforeLowBytes      *int64    `json:"before_low_bytes,omitempty"`
	BeforeHighBytes     *int64    `json:"before_high_bytes,omitempty"`
	AfterBytes          *int64    `json:"after_bytes"`
	AfterLowBytes       *int64    `json:"after_low_bytes,omitempty"`
	AfterHighBytes      *int64    `json:"after_high_bytes,omitempty"`
	DifferenceBytes     *int64    `json:"difference_bytes"`
	DifferenceLowBytes  *int64    `json:"difference_low_bytes,omitempty"`
	DifferenceHighBytes *int64    `json:"difference_high_bytes,omitempty"`
	ProgramTotalBytes   *int64    `json:"program_total_bytes"` // that a program with a context sees
	ProgramFreeBytes    *int64    `json:"program_free_bytes"`  // and could have then
	AllocatedBytes      *int64    `json:"allocated_bytes"`
	AllocatorBytes      *int64    `json:"allocator_bytes"` // reserved by PyTorch's allocator
	NotRead             []NotRead `json:"not_read"`
	Error               *string   `json:"error"` // why it was not measured
}

// NotRead is something that could not be read, and why.
type NotRead struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}
