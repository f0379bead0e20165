package record

// Remedies are what would make a workload fit that does not, or of which nobody can
// tell: single changes, each estimated, and what cannot reach the term that
// binds.
type Remedies struct {
	Rank  int    `json:"rank"`
	Phase string `json:"phase"`
	Term  string `json:"term"` // that binds
	// Options is the changes that lower the process at the peak of that phase,
	// those that make it fit first.
	Options     []Option  `json:"options"`
	CannotReach []Useless `json:"cannot_reach"`
	// Together is several changes that make it fit where no single one does; null
	// where one does, or all of them do not.
	Together *Combination `json:"together"`
	// Reading is what somebody would have to read for an answer; null where the
	// answer is known.
	Reading *string `json:"reading"`
	// NotTried is the settings of which not every value was tried, or not beside
	// others: estimates of so large a job take too long. Absent where none was left.
	NotTried []string `json:"not_tried,omitempty"`
}

// Option is one change and what it does on the rank that limits.
type Option struct {
	Setting     string       `json:"setting"`      // "sequences=6"
	ReachesTerm bool         `json:"reaches_term"` // it lowers the term that binds
	Moves       []ChangedRow `json:"moves"`        // what changes at the peak of the phase, the process last
	// LowMovedBytes is how much less the process holds at least, HighMovedBytes at
	// most; negative where it holds more, null where nobody can say.
	LowMovedBytes  *int64  `json:"low_moved_bytes"`
	HighMovedBytes *int64  `json:"high_moved_bytes"`
	Cost           string  `json:"cost"`        // in kind
	Check          *string `json:"check"`       // what to look at before it is kept
	ShortBytes     *int64  `json:"short_bytes"` // that are lacking after it; null unless it does not fit
	Verdict        Verdict `json:"verdict"`     // with the change: its phase is what binds next
}

// Useless is a change that does not reach the term that binds.
type Useless struct {
	Setting string `json:"setting"` // the key of it: "data_parallel"
	Reason  string `json:"reason"`
}

// Combination is changes that together make a workload fit, none of which can be
// left out: what does least harm comes first.
type Combination struct {
	Parts          []Joined     `json:"parts"`
	Moves          []ChangedRow `json:"moves"` // what changes at the peak of the phase, the process last
	LowMovedBytes  *int64       `json:"low_moved_bytes"`
	HighMovedBytes *int64       `json:"high_moved_bytes"`
	Verdict        Verdict      `json:"verdict"` // with the changes: its phase is what binds next
}

// Joined is one change of a combination.
type Joined struct {
	Setting string  `json:"setting"` // "micro_batch=2"
	Cost    string  `json:"cost"`    // in kind
	Check   *string `json:"check"`   // what to look at before it is kept
}
