package record

// Decision is the short record of a choice: what was calculated, what was
// observed and what is assumed stand apart, and the raw results are named by
// their content.
type Decision struct {
	Head
	// WeightsBytes is calculated: stored tensors, and nothing else that memory
	// holds.
	WeightsBytes *int64               `json:"weights_bytes"`
	MaximumLoad  []MeasuredLoad       `json:"maximum_load"` // of the chosen option, the largest of each dimension that was run
	Phases       []DecidedPhase       `json:"phases"`
	Counters     []Counter            `json:"counters"`    // of the chosen option: two peaks and two levels at the end, those of the highest phase
	Environment  *MeasuredEnvironment `json:"environment"` // of the chosen option's run
	Chosen       *Chosen              `json:"chosen"`      // null where nothing can be chosen
	Options      []DecisionOption     `json:"options"`
	Margin       []Variation          `json:"margin"`
	OutOfScope   []string             `json:"out_of_scope"`
	Cards        []DecidedCard        `json:"cards"`
	Evidence     []EvidenceFile       `json:"evidence"`
}

// MeasuredLoad is one dimension of what was really run. One success at a small
// size says nothing about a larger one.
type MeasuredLoad struct {
	Dimension string `json:"dimension"`
	Value     int64  `json:"value"`
}

// DecidedPhase is one phase and how it ended: completed, failed, unfinished or
// missing; not_exercised where the work declares it and no run had it.
type DecidedPhase struct {
	Name   string `json:"name"`
	Step   int    `json:"step"`
	Status string `json:"status"`
}

// Counter is one reading. Its name and scope are its source's.
type Counter struct {
	Name   string `json:"name"`
	Scope  string `json:"scope"`
	Unit   string `json:"unit"`
	Value  *int64 `json:"value"`
	Phase  string `json:"phase"`
	Origin string `json:"origin"` // observed
}

// Chosen is the option that was taken, and why.
type Chosen struct {
	Option string `json:"option"`
	Reason string `json:"reason"`
	// Basis is measured (the phases were delimited: it locates) or verified (a run
	// without instruments at these dimensions or larger completed).
	Basis string `json:"basis"`
}

// DecisionOption is one candidate. Without its quality and a result check there is no
// ranking: the fields are null, and Complete says so.
type DecisionOption struct {
	Name        string         `json:"name"`
	Quality     *string        `json:"quality"`
	DurationNS  *int64         `json:"duration_ns"`
	ResultCheck *string        `json:"result_check"`
	PeakBytes   *int64         `json:"peak_bytes"`
	Scope       *string        `json:"scope"`
	Status      string         `json:"status"` // completed, failed
	Complete    bool           `json:"complete"`
	Missing     []string       `json:"missing"` // what it lacks for a choice
	Changed     []ChangedField `json:"changed"` // against the first option
	Comparable  bool           `json:"comparable"`
}

// Variation is one named reason to keep room. There is no percentage.
type Variation struct {
	Variation string `json:"variation"`
	Bytes     *int64 `json:"bytes"`
	Origin    string `json:"origin"` // calculated, observed, assumed
}

// DecidedCard is the requirement beside what one card reports. The cards are
// never one pool.
type DecidedCard struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	ReportedLowBytes  *int64 `json:"reported_low_bytes"`
	ReportedHighBytes *int64 `json:"reported_high_bytes"`
	RoomLowBytes      *int64 `json:"room_low_bytes"` // beside the highest reserved peak; negative where it does not fit
	RoomHighBytes     *int64 `json:"room_high_bytes"`
	MarginBytes       *int64 `json:"margin_bytes"`
	Verdict           string `json:"verdict"` // fits, does_not_fit, cannot_tell
	Reason            string `json:"reason"`
}

// EvidenceFile is one raw result, by its name and content.
type EvidenceFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Kind   string `json:"kind"`
}
