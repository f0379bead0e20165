package record

// Estimate predicts a workload on each rank.
type Estimate struct {
	Head
	Model    ModelFacts `json:"model"`
	Engine   Engine     `json:"engine"`
	Ranks    []Rank     `json:"ranks"`
	Capacity *Capacity  `json:"capacity"`
	Verdict  *Verdict   `json:"verdict"` // null without a card
	// Starts is whether an engine starts, without the work behind it; null for one
	// that does not fill a budget before it works.
	Starts *Verdict `json:"starts"`
	// Preparation is the answer to a parameter count and a width; null where
	// there is a model.
	Preparation *Preparation  `json:"preparation"`
	Adapters    []Adapter     `json:"adapters"`
	Training    *Training     `json:"training"` // null where nothing is trained
	Declared    []Declaration `json:"declared"` // where each part of a recipe was read
	Open        []string      `json:"open"`     // settings whose bearing on sizes is not modelled, each with why
	Parts       []Part        `json:"parts"`    // of the weights, where they were asked for
	WhatIf      []Change      `json:"what_if"`  // one thing changed, where it was asked for
	// Cards is the answer for every card, where it was asked for.
	Cards  []CardVerdict `json:"cards"`
	Shared *Shared       `json:"shared"` // several workloads on one device; null for one
	Share  *CardShare    `json:"share"`  // of the card that the engine is given; null for one that takes none
	Advice *Remedies     `json:"advice"` // what would make it fit; null where it fits or no card was named
	Host   *Host         `json:"host"`   // null where nothing is put into main memory
	// Settings is all that the workload declares, each by the name of its setting.
	Settings []NamedSetting `json:"settings"`
}

// NamedSetting is one thing that a workload declares.
type NamedSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Host is what the ranks of a workload put into main memory, taken to be that of
// one machine. It is no part of what a card holds; what the programs themselves
// and the system hold there is not in it.
type Host struct {
	Phase         string   `json:"phase"` // in which it is most
	Term          string   `json:"term"`
	Bytes         *int64   `json:"bytes"`
	LowBytes      *int64   `json:"low_bytes,omitempty"`
	HighBytes     *int64   `json:"high_bytes,omitempty"`
	CapacityBytes *int64   `json:"capacity_bytes"` // as declared; null where it was not
	Verdict       *Verdict `json:"verdict"`        // null without a capacity
}

// CardShare is what an engine asks of its card, and what one request of the longest
// length takes of its cache.
type CardShare struct {
	Given              float64 `json:"given"`
	RequestedLowBytes  *int64  `json:"requested_low_bytes"`
	RequestedHighBytes *int64  `json:"requested_high_bytes"`
	RequestBytes       *int64  `json:"request_bytes"`
}

// Preparation is arithmetic before any model is chosen: a payload of weights,
// and a reserve that somebody assumed. It proves no fit.
type Preparation struct {
	Parameters   int64        `json:"parameters"`
	Bits         int          `json:"bits"`
	WeightsBytes int64        `json:"weights_bytes"`
	ReserveBytes int64        `json:"reserve_bytes"`
	TotalBytes   int64        `json:"total_bytes"`
	Excluded     []string     `json:"excluded"`
	Caveats      []string     `json:"caveats"`
	States       []StateBytes `json:"states"` // what training keeps of each parameter, where a layout was named
}

// ModelFacts are the model's totals.
type ModelFacts struct {
	Name             *string  `json:"name"`
	Architectures    []string `json:"architectures"`
	Parameters       *int64   `json:"parameters"`
	ParametersLow    *int64   `json:"parameters_low,omitempty"` // at least so many, where parameters is null
	WeightsBytes     *int64   `json:"weights_bytes"`
	WeightsLowBytes  *int64   `json:"weights_low_bytes,omitempty"`
	WeightsHighBytes *int64   `json:"weights_high_bytes,omitempty"`
	StoredFormats    []Format `json:"stored_formats"`
	ComputeFormat    *string  `json:"compute_format"`
	NotUnderstood    []string `json:"not_understood"`
	Sources          []string `json:"sources"`
}

// Format is the bytes that are stored in one element format.
type Format struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Engine is the software whose memory is predicted.
type Engine struct {
	Name    string  `json:"name"`
	Version *string `json:"version"`
	Profile *string `json:"profile"`
	// Software is whose modules the engine runs, or whose rules were taken for those
	// of the engine; absent where the engine is that software.
	Software *string `json:"software,omitempty"`
}

// Rank is one class of equal ranks.
type Rank struct {
	Rank    int       `json:"rank"`
	Ranks   []int     `json:"ranks"`
	Device  *Device   `json:"device"`
	Phases  []Phase   `json:"phases"`
	Peak    *RankPeak `json:"peak"`
	Terms   []Term    `json:"terms"`
	Verdict *Verdict  `json:"verdict"`
}

// Device is the card under a rank.
type Device struct {
	Name              string  `json:"name"`
	ReportedBytes     *int64  `json:"reported_bytes"`
	ReportedLowBytes  *int64  `json:"reported_low_bytes,omitempty"`
	ReportedHighBytes *int64  `json:"reported_high_bytes,omitempty"`
	UsableBytes       *int64  `json:"usable_bytes"`
	UsableLowBytes    *int64  `json:"usable_low_bytes,omitempty"`
	UsableHighBytes   *int64  `json:"usable_high_bytes,omitempty"`
	Origin            *string `json:"origin"`
}

// Phase is the peaks of one phase; null is a scope of which no upper end is
// known, and lower_bound_bytes is the least that the process holds.
type Phase struct {
	Name                    string `json:"name"`
	Step                    int    `json:"step"`
	MicroBatch              int    `json:"micro_batch,omitempty"` // of an accumulated step, from 1
	PeakRequestedBytes      *int64 `json:"peak_requested_bytes"`
	PeakRequestedLowBytes   *int64 `json:"peak_requested_low_bytes,omitempty"`
	PeakRequestedHighBytes  *int64 `json:"peak_requested_high_bytes,omitempty"`
	PeakAllocatedBytes      *int64 `json:"peak_allocated_bytes"`
	PeakAllocatedLowBytes   *int64 `json:"peak_allocated_low_bytes,omitempty"`
	PeakAllocatedHighBytes  *int64 `json:"peak_allocated_high_bytes,omitempty"`
	PeakReservedBytes       *int64 `json:"peak_reserved_bytes"`
	PeakReservedLowBytes    *int64 `json:"peak_reserved_low_bytes,omitempty"`
	PeakReservedHighBytes   *int64 `json:"peak_reserved_high_bytes,omitempty"`
	ProcessBytes            *int64 `json:"process_bytes"`
	ProcessLowBytes         *int64 `json:"process_low_bytes,omitempty"`
	ProcessHighBytes        *int64 `json:"process_high_bytes,omitempty"`
	DeviceBytes             *int64 `json:"device_bytes"`
	DeviceLowBytes          *int64 `json:"device_low_bytes,omitempty"`
	DeviceHighBytes         *int64 `json:"device_high_bytes,omitempty"`
	LowerBoundBytes         *int64 `json:"lower_bound_bytes"`
	HostBytes               *int64 `json:"host_bytes"`
	HostLowBytes            *int64 `json:"host_low_bytes,omitempty"`
	HostHighBytes           *int64 `json:"host_high_bytes,omitempty"`
	StartAllocatedBytes     *int64 `json:"start_allocated_bytes"`
	StartAllocatedLowBytes  *int64 `json:"start_allocated_low_bytes,omitempty"`
	StartAllocatedHighBytes *int64 `json:"start_allocated_high_bytes,omitempty"`
	EndAllocatedBytes       *int64 `json:"end_allocated_bytes"`
	EndAllocatedLowBytes    *int64 `json:"end_allocated_low_bytes,omitempty"`
	EndAllocatedHighBytes   *int64 `json:"end_allocated_high_bytes,omitempty"`
	// Composition is what the peak of the widest scope is made of in this phase.
	Composition []Share  `json:"composition"`
	Verdict     *Verdict `json:"verdict"` // of this phase alone; null without a card
}

// RankPeak is where a rank stands highest, by what is known: the bytes are over all
// its phases, and the composition is that of the phase.
type RankPeak struct {
	Phase       string  `json:"phase"`
	Step        int     `json:"step"`
	Bytes       *int64  `json:"bytes"`
	LowBytes    *int64  `json:"low_bytes,omitempty"`
	HighBytes   *int64  `json:"high_bytes,omitempty"`
	Scope       string  `json:"scope"`
	Composition []Share `json:"composition"`
}

// Share is one row of what a peak is made of.
type Share struct {
	Category  string `json:"category"`
	Term      string `json:"term"`
	Bytes     *int64 `json:"bytes"`
	LowBytes  *int64 `json:"low_bytes,omitempty"`
	HighBytes *int64 `json:"high_bytes,omitempty"`
}

// Term is one thing that bytes are held for, over the phases in which it lives.
type Term struct {
	ID              string  `json:"id"`
	Category        string  `json:"category"`
	FromPhase       *string `json:"from_phase"`
	ToPhase         *string `json:"to_phase"`
	Bytes           *int64  `json:"bytes"`
	LowBytes        *int64  `json:"low_bytes"`
	HighBytes       *int64  `json:"high_bytes"`
	AtPeakBytes     *int64  `json:"at_peak_bytes"`
	AtPeakLowBytes  *int64  `json:"at_peak_low_bytes,omitempty"`
	AtPeakHighBytes *int64  `json:"at_peak_high_bytes,omitempty"`
	Status          string  `json:"status"` // counted, zero, unknown
	Reason          *string `json:"reason"` // why it is zero or unknown
	Origin          string  `json:"origin"` // calculated, fitted, observed, assumed
	Scope           string  `json:"scope"`
	Formula         *string `json:"formula"`    // the id of the rule
	Rule            *string `json:"rule"`       // the rule in words and symbols
	RuleShort       *string `json:"rule_short"` // the same in at most 60 characters
	Source          *string `json:"source"`
}

// Capacity is what an engine that fills its budget can hold. Counts, not bytes,
// where the name does not say bytes.
type Capacity struct {
	Blocks                *int64 `json:"blocks"`
	BlocksLow             *int64 `json:"blocks_low,omitempty"`
	BlocksHigh            *int64 `json:"blocks_high,omitempty"`
	Tokens                *int64 `json:"tokens"`
	TokensLow             *int64 `json:"tokens_low,omitempty"`
	TokensHigh            *int64 `json:"tokens_high,omitempty"`
	SequencesAtLength     *int64 `json:"sequences_at_length"`
	SequencesLow          *int64 `json:"sequences_low,omitempty"`
	SequencesHigh         *int64 `json:"sequences_high,omitempty"`
	Length                *int64 `json:"length,omitempty"` // positions of the sequences that are counted
	BytesPerToken         *int64 `json:"bytes_per_token"`
	FixedBytesPerSequence *int64 `json:"fixed_bytes_per_sequence"`
}

// Verdict is the answer: fits, does_not_fit, not_runnable or cannot_tell.
type Verdict struct {
	Value             string   `json:"value"`
	Basis             string   `json:"basis"`
	Rank              int      `json:"rank"`
	Phase             *string  `json:"phase"`
	Step              int      `json:"step"` // of the phase; 0 where steps mean nothing
	Term              *string  `json:"term"`
	HeadroomBytes     *int64   `json:"headroom_bytes"`
	HeadroomLowBytes  *int64   `json:"headroom_low_bytes,omitempty"`
	HeadroomHighBytes *int64   `json:"headroom_high_bytes,omitempty"`
	Reasons           []string `json:"reasons"`
}

// Snapshot is what a PyTorch memory snapshot says.
type Snapshot struct {
	Head
	Source  string           `json:"source"`
	Devices []SnapshotDevice `json:"devices"`
	Against *Against         `json:"against"` // an estimate beside what the snapshot says; null where none was asked for
}

// SnapshotDevice is one device of a snapshot. Moments are indexes of trace
// entries; −1 is before the first.
type SnapshotDevice struct {
	Device                int            `json:"device"`
	Events                int            `json:"events"`
	Segments              int            `json:"segments"`
	Blocks                int            `json:"blocks"`
	PeakRequestedBytes    *int64         `json:"peak_requested_bytes"`
	PeakRequestedLowBytes *int64         `json:"peak_requested_low_bytes,omitempty"`
	PeakAllocatedBytes    *int64         `json:"peak_allocated_bytes"`
	PeakAllocatedLowBytes *int64         `json:"peak_allocated_low_bytes,omitempty"`
	PeakActiveBytes       *int64         `json:"peak_active_bytes"`
	PeakActiveLowBytes    *int64         `json:"peak_active_low_bytes,omitempty"`
	PeakReservedBytes     *int64         `json:"peak_reserved_bytes"`
	PeakReservedLowBytes  *int64         `json:"peak_reserved_low_bytes,omitempty"`
	PeakEvent             *int64         `json:"peak_event"`
	EndRequestedBytes     *int64         `json:"end_requested_bytes"`
	EndRequestedLowBytes  *int64         `json:"end_requested_low_bytes,omitempty"`
	EndAllocatedBytes     *int64         `json:"end_allocated_bytes"`
	EndAllocatedLowBytes  *int64         `json:"end_allocated_low_bytes,omitempty"`
	EndActiveBytes        *int64         `json:"end_active_bytes"`
	EndActiveLowBytes     *int64         `json:"end_active_low_bytes,omitempty"`
	EndReservedBytes      *int64         `json:"end_reserved_bytes"`
	EndReservedLowBytes   *int64         `json:"end_reserved_low_bytes,omitempty"`
	Truncated             bool           `json:"truncated"`
	History               bool           `json:"history"` // false: no allocation was recorded, and peaks are the levels at the dump
	Summary               string         `json:"summary"` // one sentence
	SummaryParts          []SentencePart `json:"summary_parts"`
	PeakPhase             *string        `json:"peak_phase"`  // null when nothing says what the program was doing
	Composition           []Share        `json:"composition"` // of allocated at its peak where that is exact, else of requested; the rows sum to it
	CompositionEvent      int64          `json:"composition_event"`
	Reasons               []Reason       `json:"reasons"` // the same, by what decided the category
	Top                   []TopStack     `json:"top"`
	Files                 []Place        `json:"files"`
	Modules               []Place        `json:"modules"`
	Named                 []NamedPart    `json:"named"`
	Streams               []StreamPool   `json:"streams"`
	Fragmentation         *Fragmentation `json:"fragmentation"`
	// Failures are the first requests that failed, at most 16.
	Failures []SnapshotFailure `json:"failures"`
}

// SentencePart is a piece of a sentence: words, or an amount, whose text is in a
// unit that fits it.
type SentencePart struct {
	Text  string `json:"text"`
	Bytes *int64 `json:"bytes"` // null for words
}

// NamedPart is the parts of a trace that the program gave one name, by an
// annotation or user metadata, and the highest requested bytes within them.
type NamedPart struct {
	Name               string  `json:"name"`
	Phase              *string `json:"phase"` // null where the name means none
	Intervals          int     `json:"intervals"`
	PeakRequestedBytes *int64  `json:"peak_requested_bytes"`
	PeakEvent          int64   `json:"peak_event"`
}

// Reason is the bytes whose category one kind of evidence decided: annotation,
// frames, pool, free (functions on the stack of the free), lifetime, sizes, or
// none.
type Reason struct {
	Category string `json:"category"`
	Evidence string `json:"evidence"`
	Why      string `json:"why"`
	Bytes    int64  `json:"bytes"`
	Count    int    `json:"count"`
}

// TopStack is the allocations of one stack and category that are alive at the
// peak. Births
// and frees are indexes of trace entries; the first birth is −1 when it is
// before the trace, and the last free is null when none of them is freed.
type TopStack struct {
	Bytes      int64    `json:"bytes"`
	Count      int      `json:"count"`
	Stack      []string `json:"stack"`
	Where      string   `json:"where"` // the stack in one line
	Category   string   `json:"category"`
	AtEndBytes int64    `json:"at_end_bytes"`
	FirstBirth int64    `json:"first_birth"`
	LastBirth  int64    `json:"last_birth"`
	LastFree   *int64   `json:"last_free"`
}

// Place is the allocations of one file, or of one module's forward, that are
// alive at the peak. Name is null where no frame says.
type Place struct {
	Name       *string `json:"name"`
	Category   *string `json:"category"` // null where its allocations differ in it
	Bytes      int64   `json:"bytes"`
	Count      int     `json:"count"`
	AtEndBytes int64   `json:"at_end_bytes"`
}

// StreamPool is what one stream holds in one pool, at the end of the snapshot.
type StreamPool struct {
	Stream           string `json:"stream"`
	Pool             string `json:"pool"` // default, or the identity of a private pool
	ReservedBytes    *int64 `json:"reserved_bytes"`
	ActiveBytes      *int64 `json:"active_bytes"`
	StrandedBytes    *int64 `json:"stranded_bytes"` // free, in segments that something still uses
	LargestFreeBytes *int64 `json:"largest_free_bytes"`
}

// Fragmentation is what the allocator holds and nobody uses, at the end of the
// snapshot.
type Fragmentation struct {
	CachedBytes       *int64 `json:"cached_bytes"`       // reserved − active, of one moment
	UnreleasableBytes *int64 `json:"unreleasable_bytes"` // cached bytes in segments that something still uses
	RoundingBytes     *int64 `json:"rounding_bytes"`     // active − requested, of one moment
	LargestFreeBytes  *int64 `json:"largest_free_bytes"`
}

// Log is what a log or an out-of-memory text says.
type Log struct {
	Head
	Source        string      `json:"source"`
	Components    []Component `json:"components"`
	Settings      []Setting   `json:"settings"` // allocator settings that the text shows as in force
	Lines         int         `json:"lines"`
	NotUnderstood int         `json:"not_understood"` // lines, blank ones aside
	// RequestBytes and Class are those of the first failure; null when none is
	// in the text.
	RequestBytes     *int64        `json:"request_bytes"`
	RequestLowBytes  *int64        `json:"request_low_bytes,omitempty"`
	RequestHighBytes *int64        `json:"request_high_bytes,omitempty"`
	Class            *string       `json:"class"`
	OutOfMemory      []OutOfMemory `json:"out_of_memory"`
	Against          *Against      `json:"against"` // an estimate beside what the text says; null where none was asked for
}

// OutOfMemory is one failed request of a log. Class is spill, absurd_size,
// limit_outside_allocator, exhaustion, fragmentation_plausible or cannot_tell.
type OutOfMemory struct {
	Line             int      `json:"line"`
	Repeats          int      `json:"repeats"` // how often the text prints it again
	Rank             *int     `json:"rank"`
	Device           *int     `json:"device"`
	Backend          *string  `json:"backend"`
	Message          string   `json:"message"`
	RequestBytes     *int64   `json:"request_bytes"`
	RequestLowBytes  *int64   `json:"request_low_bytes,omitempty"`
	RequestHighBytes *int64   `json:"request_high_bytes,omitempty"`
	Class            string   `json:"class"`
	Possible         []string `json:"possible"` // what it can be, where the class is cannot_tell
	Because          string   `json:"because"`
	Phase            *string  `json:"phase"` // where the text names it
	Where            *Where   `json:"where"` // the line that failed, of the user's own code where the traceback shows any
	Advice           []Advice `json:"advice"`
}

// Setting is an allocator setting.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Line  int    `json:"line"`
}

// Component is one figure of a log: who holds it, where, and of which kind.
type Component struct {
	Component string `json:"component"`
	Rank      *int   `json:"rank"`
	Device    *int   `json:"device"`
	Kind      string `json:"kind"`
	Bytes     *int64 `json:"bytes"`
	LowBytes  *int64 `json:"low_bytes,omitempty"`
	HighBytes *int64 `json:"high_bytes,omitempty"`
	Printed   string `json:"printed"` // as the text has it: "452.50 KiB"
	Line      int    `json:"line"`
}

// Where is the line of a program that was running, as its traceback says.
type Where struct {
	File     string  `json:"file"`
	Line     int     `json:"line"`
	Function *string `json:"function"`
	Code     *string `json:"code"` // the source line
}

// Advice is one change, and what it could do: helps, does_not_help or may_help.
// Its effect is more_information where it is no change, but would tell more.
type Advice struct {
	Code   string `json:"code"`
	Effect string `json:"effect"`
	Text   string `json:"text"`
}

// GPUs is the catalogue of cards.
type GPUs struct {
	Envelope
	Cards []Card `json:"cards"`
}

// Card is one card: what is printed on it, and what it reports.
type Card struct {
	ID                string   `json:"id"`
	Name              string   `json:"name"`
	LabelBytes        *int64   `json:"label_bytes"`
	ReportedLowBytes  *int64   `json:"reported_low_bytes"` // null where nothing bounds it
	ReportedHighBytes *int64   `json:"reported_high_bytes"`
	LowOrigin         *string  `json:"reported_low_origin"`  // observed; fitted where no card reported the low
	HighOrigin        *string  `json:"reported_high_origin"` // observed
	LowRule           *string  `json:"reported_low_rule"`    // how a fitted low was found, or why there is none
	ComputeCapability *string  `json:"compute_capability"`
	Sources           []string `json:"sources"`
}

// Error is a failure of the tool itself, written to standard error.
type Error struct {
	Envelope
	Code    string  `json:"code"`
	Message string  `json:"message"`
	File    *string `json:"file"`
	Offset  *int64  `json:"offset"`
	Field   *string `json:"field"`
	Hint    *string `json:"hint"`
}
