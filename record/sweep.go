package record

// Sweep is one dimension varied, each value in a process of its own.
type Sweep struct {
	Head
	Varied  string       `json:"varied"`  // the dimension
	Command []string     `json:"command"` // with {dimension} where the value goes; empty for the lab network
	Folder  string       `json:"folder"`  // where the ledger, the measurements and the programs' output lie
	Series  SweepSeries  `json:"series"`
	Points  []SweepPoint `json:"points"`  // by value
	Missing []int64      `json:"missing"` // values of the plan that have not been run
	// Limit is what was searched; null for a list of values.
	Limit    *SweepLimit   `json:"limit"`
	Boundary SweepBoundary `json:"boundary"`
}

// SweepSeries is the conditions under which the values were run.
type SweepSeries struct {
	Policy  map[string]string `json:"policy"`
	Order   string            `json:"order"`   // given, ascending, descending, bisection
	Process string            `json:"process"` // always process: a new one each
	Lengths *string           `json:"lengths"` // how values were drawn from a list of lengths
	// CapacityBytes is what the device of the runs reports, the least of several; null
	// where none was read.
	CapacityBytes *int64 `json:"capacity_bytes"`
}

// SweepPoint is one value. Status is passed, out_of_memory, failed (for another
// reason) or lost (it ended without a result); the last two say nothing about
// memory. Peak is the highest that was read; of a run that failed it is what was
// read last, and not what it needs.
type SweepPoint struct {
	Value      int64   `json:"value"`
	Attempt    int     `json:"attempt"`
	Status     string  `json:"status"`
	Error      *string `json:"error"`
	Record     *string `json:"record"` // the measurement, in the folder
	PeakBytes  *int64  `json:"peak_bytes"`
	Scope      *string `json:"scope"`
	DurationNS int64   `json:"duration_ns"`
}

// SweepLimit is the range of a search.
type SweepLimit struct {
	Low     int64 `json:"low"`
	High    int64 `json:"high"`
	Step    int64 `json:"step"`
	MaxRuns int   `json:"max_runs"`
}

// SweepBoundary lies between the largest value that passed and the smallest that
// ran out of memory. It is none where a pass lies above a failure.
type SweepBoundary struct {
	LargestPass  *int64 `json:"largest_pass"`
	SmallestFail *int64 `json:"smallest_fail"`
	Monotone     bool   `json:"monotone"`
}
