package record

// Measurement is what was read of one run, phase by phase. Where subject is
// "lab" it is about a small network that shows how a machine measures, and is no
// evidence for any workload.
type Measurement struct {
	Head
	Subject     string              `json:"subject"` // lab, program
	Complete    bool                `json:"complete"`
	Outcome     *Outcome            `json:"outcome"` // null while the program runs, or when nobody saw it end
	Environment MeasuredEnvironment `json:"environment"`
	Series      MeasuredSeries      `json:"series"`
	Processes   []MeasuredProcess   `json:"processes"`
	Phases      []MeasuredPhase     `json:"phases"`
	Trends      []Trend             `json:"trends"`      // what memory follows over the passes of a phase
	Checkpoints []Checkpoint        `json:"checkpoints"` // those that were asked for, scope inside scope
	Against     *Against            `json:"against"`     // an estimate beside what was measured; null where none was asked for
}

// Outcome is how a program ended. Status is as a shell sees it: 128+n on a
// signal.
type Outcome struct {
	Status      int     `json:"status"`
	Signal      *string `json:"signal"`
	Interrupted bool    `json:"interrupted"`
	DurationNS  int64   `json:"duration_ns"`
}

// MeasuredEnvironment is what the measured process said of itself.
type MeasuredEnvironment struct {
	Driver     *string           `json:"driver"`
	Python     *string           `json:"python"`
	PyTorch    *string           `json:"pytorch"`
	Backend    *string           `json:"backend"`
	Allocator  MeasuredAllocator `json:"allocator"`
	Extensions []MeasuredVersion `json:"extensions"`
	Devices    []MeasuredDevice  `json:"devices"`
}

// MeasuredAllocator is the allocator's backend, and its settings as they were
// written.
type MeasuredAllocator struct {
	Backend  *string `json:"backend"`
	Settings *string `json:"settings"`
}

// MeasuredVersion is one extension.
type MeasuredVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// MeasuredDevice is a device that the process could use.
type MeasuredDevice struct {
	Index         int     `json:"index"`
	Name          *string `json:"name"`
	UUID          *string `json:"uuid"`
	ReportedBytes *int64  `json:"reported_bytes"`
}

// MeasuredSeries is the conditions of the run. Runs under two policies are never
// pooled.
type MeasuredSeries struct {
	Policy  MeasuredPolicy `json:"policy"`
	Order   int            `json:"order"`   // which run of its series this is, from 1
	Process string         `json:"process"` // in_process: later passes benefit from the first; process: each has its own
}

// MeasuredPolicy is how the readings were taken. Instrumented runs locate; a
// run without instruments verifies.
type MeasuredPolicy struct {
	Instrumented             bool    `json:"instrumented"`
	Protocol                 *string `json:"protocol"`
	Warmup                   *int    `json:"warmup"`
	Repeats                  *int    `json:"repeats"`
	EmptyCacheBetweenRepeats *bool   `json:"empty_cache_between_repeats"`
	SampleIntervalNS         *int64  `json:"sample_interval_ns"` // null where nothing was sampled from outside
}

// MeasuredProcess is one process that reported, or a rank that should have.
// Status is ended, cut (its readings stop), replaced (it went on as another
// program) or missing (it never reported).
type MeasuredProcess struct {
	Rank            *int    `json:"rank"` // null for a process without one, such as a launcher
	Ranks           *int    `json:"ranks"`
	PID             *int    `json:"pid"`
	Host            *string `json:"host"`
	Status          string  `json:"status"`
	DroppedReadings int64   `json:"dropped_readings"`
}

// MeasuredPhase is one phase on one device of one process. Null was not read.
// The peaks are absolute: what was there at the start is inside them. The peak
// of allocated and that of reserved may be two moments.
type MeasuredPhase struct {
	Name           string          `json:"name"`
	Label          *string         `json:"label"` // what the program or the hook calls it, where that is not the name
	Step           int             `json:"step"`
	Pass           *string         `json:"pass"`   // first, warmup or repeat, in the lab
	Nested         bool            `json:"nested"` // within another phase
	Rank           *int            `json:"rank"`
	Process        int             `json:"process"` // index into processes
	Device         *int            `json:"device"`  // null where it ran on none
	Inputs         *Input          `json:"inputs"`
	ObservedShapes []MeasuredShape `json:"observed_shapes"`
	// TruncatedTokens is how many tokens preparing the inputs cut off: that makes
	// it another task.
	TruncatedTokens *int64           `json:"truncated_tokens"`
	Start           MeasuredCounters `json:"start"`
	Peak            MeasuredPeak     `json:"peak"`
	End             MeasuredCounters `json:"end"`
	// DeviceBytes and ProcessBytes are the highest seen from outside. Samples can
	// miss a peak, so they are null with the highest sample as low.
	DeviceBytes     *int64  `json:"device_bytes"`
	DeviceLowBytes  *int64  `json:"device_low_bytes,omitempty"`
	ProcessBytes    *int64  `json:"process_bytes"`
	ProcessLowBytes *int64  `json:"process_low_bytes,omitempty"`
	Samples         int     `json:"samples"`
	ProcessUnknown  *string `json:"process_unknown"` // why the process has no sample
	DurationNS      *int64  `json:"duration_ns"`
	BeganNS         *int64  `json:"began_ns"` // on the machine's monotonic clock
	Status          string  `json:"status"`   // completed, failed, unfinished, missing
	Inferred        bool    `json:"inferred"` // its boundaries were concluded from other events
	Note            *string `json:"note"`
	Error           *string `json:"error"`
	Result          *Result `json:"result"`
}

// MeasuredShape is one tensor that a phase was given, as it was processed.
type MeasuredShape struct {
	Name   string  `json:"name"`
	Shape  []int64 `json:"shape"`
	Format *string `json:"format"`
}

// MeasuredCounters are readings of one checkpoint. OutsideBytes is device less
// reserved of that moment: contexts, libraries and other processes together.
type MeasuredCounters struct {
	AllocatedBytes *int64 `json:"allocated_bytes"`
	ReservedBytes  *int64 `json:"reserved_bytes"`
	DeviceBytes    *int64 `json:"device_bytes"`
	ProcessBytes   *int64 `json:"process_bytes"`
	OutsideBytes   *int64 `json:"outside_bytes"`
}

// MeasuredPeak is the two peaks. One is an interval where the phase did not
// complete, or where the counter is only an upper bound.
type MeasuredPeak struct {
	AllocatedBytes     *int64 `json:"allocated_bytes"`
	AllocatedLowBytes  *int64 `json:"allocated_low_bytes,omitempty"`
	AllocatedHighBytes *int64 `json:"allocated_high_bytes,omitempty"`
	ReservedBytes      *int64 `json:"reserved_bytes"`
	ReservedLowBytes   *int64 `json:"reserved_low_bytes,omitempty"`
	ReservedHighBytes  *int64 `json:"reserved_high_bytes,omitempty"`
}

// Result tells whether two runs computed the same.
type Result struct {
	Loss   *string `json:"loss"` // as Python prints it; a text, because it can be nan
	SHA256 *string `json:"sha256"`
}

// Trend is a straight line through the passes of one phase: what its memory follows.
// It is fitted, and says of what was not run only what the line says.
type Trend struct {
	Kind      string  `json:"kind"` // kept, follows_input, follows_longest
	Phase     string  `json:"phase"`
	Rank      *int    `json:"rank"`
	Device    *int    `json:"device"`
	Scope     string  `json:"scope"`
	Passes    int     `json:"passes"`
	Per       string  `json:"per"` // pass, token
	Slope     float64 `json:"slope"`
	Intercept float64 `json:"intercept"`
	Fit       float64 `json:"r_squared"`
	// RowElements is how many 32-bit numbers are kept of each token, where the slope is
	// a whole number of them: of logits it is the vocabulary.
	RowElements   *int64 `json:"row_elements"`
	FailedTokens  *int64 `json:"failed_tokens"`  // of the pass that failed after these
	LongestTokens *int64 `json:"longest_tokens"` // before it
	Text          string `json:"text"`           // one sentence
}
