package record

// Against is what evidence says beside what was estimated, at like scope: term by
// term, phase by phase, rank by rank.
type Against struct {
	Estimate string       `json:"estimate"` // what was estimated
	Rows     []AgainstRow `json:"rows"`     // the residual is the last
	// Cancelling is errors that hide each other in a sum, which then looks better
	// than its parts are.
	Cancelling []Cancelling `json:"cancelling"`
	// Checkpoint is the widest checkpoint of the evidence, scope inside scope; null
	// where no checkpoint holds two scopes.
	Checkpoint *Checkpoint `json:"checkpoint"`
	// BareUtilization and OneUtilization are the least shares of the card with which
	// the printed terms leave room for nothing, and for one request; null where the
	// text does not print them.
	BareUtilization *float64 `json:"bare_utilization"`
	OneUtilization  *float64 `json:"one_utilization"`
}

// AgainstRow is one term, or one level of a phase: bytes, or counts where the unit
// says so. A term that was never measured has no observed ends.
type AgainstRow struct {
	Term           string  `json:"term"` // the id of a term, start, peak, end, or residual
	Unit           string  `json:"unit"` // bytes, tokens
	Scope          string  `json:"scope"`
	Rank           *int    `json:"rank"`
	Device         *int    `json:"device"`
	Phase          *string `json:"phase"`
	Step           int     `json:"step"`
	PredictedLow   *int64  `json:"predicted_low"`
	PredictedHigh  *int64  `json:"predicted_high"`
	ObservedLow    *int64  `json:"observed_low"`
	ObservedHigh   *int64  `json:"observed_high"`
	DifferenceLow  *int64  `json:"difference_low_bytes"` // observed less predicted
	DifferenceHigh *int64  `json:"difference_high_bytes"`
	Inside         *bool   `json:"inside"` // the two intervals meet; null where one is not known
	Cause          string  `json:"cause"`
}

// Cancelling is errors of terms that hide each other in their sum.
type Cancelling struct {
	Rank                     *int   `json:"rank"`
	Device                   *int   `json:"device"`
	DifferenceOverBytes      int64  `json:"difference_over_bytes"`  // more than foreseen, added up
	DifferenceUnderBytes     int64  `json:"difference_under_bytes"` // less than foreseen, added up; negative
	DifferenceTotalLowBytes  *int64 `json:"difference_total_low_bytes"`
	DifferenceTotalHighBytes *int64 `json:"difference_total_high_bytes"`
	Text                     string `json:"text"`
}

// Checkpoint is the levels of one moment, each inside the next: never added, and
// no peaks. What lies between two scopes is a difference of that moment.
type Checkpoint struct {
	At     string            `json:"at"` // "end of backward 2"
	Rank   *int              `json:"rank"`
	Device *int              `json:"device"`
	Levels []CheckpointLevel `json:"levels"` // the widest scope first
}

// CheckpointLevel is one scope of a checkpoint, and what of it is outside the next
// one.
type CheckpointLevel struct {
	Scope       string `json:"scope"`
	Bytes       *int64 `json:"bytes"`
	LowBytes    *int64 `json:"low_bytes,omitempty"`
	HighBytes   *int64 `json:"high_bytes,omitempty"`
	BesideLow   *int64 `json:"beside_low_bytes"` // of this scope and not of the next that was read
	BesideHigh  *int64 `json:"beside_high_bytes"`
	BesideWords string `json:"beside"` // what that is, as far as anybody can say
}
