package record

// Replay is a recorded snapshot run through the simulated allocator: a
// certificate for each device, and what other settings would have reserved.
type Replay struct {
	Head
	Source  string         `json:"source"`
	Devices []ReplayDevice `json:"devices"`
}

// ReplayDevice is the replay of one device. What-ifs are listed only where the
// certificate holds.
type ReplayDevice struct {
	Device             int         `json:"device"`
	Settings           string      `json:"settings"`        // as recorded; empty for the defaults
	SettingsOrigin     string      `json:"settings_origin"` // observed; assumed where the file does not have them
	Certificate        Certificate `json:"certificate"`
	PeakAllocatedBytes *int64      `json:"peak_allocated_bytes"` // of the replay under the recorded settings; null without a certificate
	PeakActiveBytes    *int64      `json:"peak_active_bytes"`    // the same
	CapacityBytes      *int64      `json:"capacity_bytes"`       // what the driver could give, where a request failed in the recording
	CapacityLowBytes   *int64      `json:"capacity_low_bytes,omitempty"`
	OutsideBytes       *int64      `json:"outside_bytes"` // of the card, in use beside the allocator then; null where its total was not named
	WhatIf             []WhatIf    `json:"what_if"`
}

// Certificate says how exactly the simulation reproduces the recording.
type Certificate struct {
	Holds         *bool     `json:"holds"` // null where nothing was recorded
	Addresses     Matched   `json:"addresses"`
	Segments      Matched   `json:"segments"`
	Releases      Matched   `json:"releases"`
	ReservedPeak  Compared  `json:"reserved_peak"`
	EndStateEqual bool      `json:"end_state_equal"`
	FirstMismatch *Mismatch `json:"first_mismatch"`
	Refusal       *string   `json:"refusal"` // why no what-if is offered
}

// Matched is how many of a number were found again.
type Matched struct {
	Matched int `json:"matched"`
	Total   int `json:"total"`
}

// Compared is a peak of reserved bytes, recorded and replayed.
type Compared struct {
	Recorded int64 `json:"recorded"`
	Replayed int64 `json:"replayed"`
}

// Mismatch is where the replay parts from the recording: the trace entry, its
// action and what differs.
type Mismatch struct {
	Event  int    `json:"event"`
	Action string `json:"action"`
	Text   string `json:"text"`
}

// WhatIf is the recorded program under other settings or less memory. The first
// of a device is the recording itself, to compare the others with.
type WhatIf struct {
	Recorded               bool      `json:"recorded"`
	Settings               string    `json:"settings"`        // as PYTORCH_ALLOC_CONF spells them; empty for the defaults
	CapacityBytes          *int64    `json:"capacity_bytes"`  // null: without a limit; of the recording itself: not known
	CapacityOrigin         *string   `json:"capacity_origin"` // given, recorded, or memory_fraction
	PeakReservedBytes      *int64    `json:"peak_reserved_bytes"`
	PeakReservedLowBytes   *int64    `json:"peak_reserved_low_bytes,omitempty"`
	PeakReservedHighBytes  *int64    `json:"peak_reserved_high_bytes,omitempty"`
	PeakAllocatedBytes     *int64    `json:"peak_allocated_bytes"`
	PeakAllocatedLowBytes  *int64    `json:"peak_allocated_low_bytes,omitempty"`
	PeakAllocatedHighBytes *int64    `json:"peak_allocated_high_bytes,omitempty"`
	OutOfMemory            *bool     `json:"out_of_memory"`           // null: cannot tell
	Failure                *Request  `json:"failure"`                 // at which it is out of memory, or may be
	Served                 *Request  `json:"served"`                  // failed in the recording and not here, where the run ends
	SmallestCapacityBytes  *int64    `json:"smallest_capacity_bytes"` // null: not asked for, or none; with what failed in the recording
	ValidatedOnHardware    bool      `json:"validated_on_hardware"`
	Warnings               []Warning `json:"warnings"`
}

// Request is a request at which a replay ends. The event is the index of a trace
// entry, −1 for what lived before the first.
type Request struct {
	Event         int64    `json:"event"`
	RequestBytes  *int64   `json:"request_bytes"`
	ReservedBytes *int64   `json:"reserved_bytes"` // with which it ended, what is cached released
	AsRecorded    bool     `json:"as_recorded"`    // it failed in the recording, too
	Stack         []string `json:"stack"`
	Where         string   `json:"where"` // the stack in one line
}
