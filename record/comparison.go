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
	Rank            *int     `json:"rank"`
	Device          *int     `json:"device"`
	Stack           []string `json:"stack"` // as much of it as tells the place
	Where           string   `json:"where"` // the same in one line
	ABytes          *int64   `json:"a_bytes"`
	BBytes          *int64   `json:"b_bytes"`
	DifferenceBytes *int64   `json:"difference_bytes"`
	ACount          *int     `json:"a_count"`
	BCount          *int     `json:"b_count"`
	Cause           *string  `json:"cause"`
}
