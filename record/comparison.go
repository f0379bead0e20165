package record

// Comparison sets two pieces of evidence side by side, at like scope.
type Comparison struct {
	Head
	A       string         `json:"a"`
	B       string         `json:"b"`
	Changed []ChangedField `json:"changed"`
	// Comparable is false where more differs than the one thing that was asked
	// about, and somebody wanted to see it all the same.
	Comparable bool             `json:"comparable"`
	Results    []ComparedResult `json:"results"` // of two measurements
	Devices    []ComparedDevice `json:"devices"` // those that both sides have
	Rows       []ComparisonRow  `json:"rows"`
	// Residual is what no row shows, for each device: the rows and it sum to the
	// totals on both sides.
	Residual []ComparisonRow `json:"residual"`
	Totals   []ComparisonRow `json:"totals"`
	// Reach is what the one thing that changed can touch; null where nothing or more
	// than one thing did.
	Reach *Reach `json:"reach"`
	// Records is each record in the order in which it was named, where several are
	// compared: it ranks nothing.
	Records []ComparedRecord `json:"records"`
}

// Reach is which terms a switch can touch in the phase where a stands highest, and
// how much of that peak they are: what it gives cannot be more.
type Reach struct {
	Switch        string   `json:"switch"`
	Phase         string   `json:"phase"`
	Step          int      `json:"step"`
	Scope         string   `json:"scope"` // of the bytes below
	Terms         []string `json:"terms"` // that it can touch then
	BytesLow      *int64   `json:"reachable_low_bytes"`
	BytesHigh     *int64   `json:"reachable_high_bytes"`
	PeakLowBytes  *int64   `json:"peak_low_bytes"`
	PeakHighBytes *int64   `json:"peak_high_bytes"`
	Cost          *string  `json:"cost"`  // in kind
	Check         *string  `json:"check"` // what to look at before it is kept
	Text          string   `json:"text"`  // one sentence
}

// ComparedRecord is one of several records. Memory alone chooses none of them:
// Missing says what a choice would need beside it.
type ComparedRecord struct {
	Name           string         `json:"name"`
	Kind           string         `json:"kind"`
	Changed        []ChangedField `json:"changed"` // against the first
	Comparable     bool           `json:"comparable"`
	Why            []string       `json:"why"` // it is not comparable
	Phase          *string        `json:"phase"`
	Step           int            `json:"step"`
	Scope          string         `json:"scope"`
	Bytes          *int64         `json:"bytes"` // the highest peak of that scope
	LowBytes       *int64         `json:"low_bytes,omitempty"`
	HighBytes      *int64         `json:"high_bytes,omitempty"`
	DifferenceLow  *int64         `json:"difference_low_bytes"` // against the first, where the two are comparable
	DifferenceHigh *int64         `json:"difference_high_bytes"`
	DurationNS     *int64         `json:"duration_ns"`
	Result         *string        `json:"result"`
	Missing        []string       `json:"missing"`
}

// ComparedDevice is one device of two snapshots, at the peak of requested bytes
// of each.
type ComparedDevice struct {
	Device       int            `json:"device"`
	Equal        bool           `json:"equal"`   // the same bytes at every place of the program, in the same categories
	Summary      string         `json:"summary"` // one sentence
	SummaryParts []SentencePart `json:"summary_parts"`
	APhase       *string        `json:"a_phase"` // null when nothing says what the program was doing
	BPhase       *string        `json:"b_phase"`
	// Categories sum to the totals; each has its category as its term.
	Categories []ComparisonRow `json:"categories"`
}

// ChangedField is something that differs between the two and may be why.
type ChangedField struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// ComparedResult is what two runs say of a phase beside its bytes. Memory alone
// chooses nothing.
type ComparedResult struct {
	Phase       string  `json:"phase"`
	ADurationNS *int64  `json:"a_duration_ns"`
	BDurationNS *int64  `json:"b_duration_ns"`
	ALoss       *string `json:"a_loss"`
	BLoss       *string `json:"b_loss"`
	ASHA256     *string `json:"a_sha256"`
	BSHA256     *string `json:"b_sha256"`
}

// ComparisonRow is one term, or the allocations of one place of the program, on
// both sides.
type ComparisonRow struct {
	Term            string   `json:"term"`
	Scope           string   `json:"scope"`
	Phase           *string  `json:"phase"`
	Step            int      `json:"step,omitempty"`
	Rank            *int     `json:"rank"`
	Device          *int     `json:"device"`
	Stack           []string `json:"stack"` // as much of it as tells the place
	Where           string   `json:"where"` // the same in one line
	ABytes          *int64   `json:"a_bytes"`
	ALowBytes       *int64   `json:"a_low_bytes,omitempty"`
	AHighBytes      *int64   `json:"a_high_bytes,omitempty"`
	BBytes          *int64   `json:"b_bytes"`
	BLowBytes       *int64   `json:"b_low_bytes,omitempty"`
	BHighBytes      *int64   `json:"b_high_bytes,omitempty"`
	DifferenceBytes *int64   `json:"difference_bytes"`
	DifferenceLow   *int64   `json:"difference_low_bytes,omitempty"`
	DifferenceHigh  *int64   `json:"difference_high_bytes,omitempty"`
	ACount          *int     `json:"a_count"`
	BCount          *int     `json:"b_count"`
	Cause           *string  `json:"cause"`
}
