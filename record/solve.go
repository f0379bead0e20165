package record

// Solve is the largest value of one dimension that still fits, or the fewest
// ranks, and the estimate there.
type Solve struct {
	Estimate
	Solution Solution `json:"solution"`
	// ByCard is the answer for every card, where it was asked for.
	ByCard []CardSolution `json:"by_card"`
}

// CardSolution is the answer on one card of the catalogue under every rank.
type CardSolution struct {
	ID                string  `json:"id"`
	Name              *string `json:"name"`
	ReportedBytes     *int64  `json:"reported_bytes"`
	ReportedLowBytes  *int64  `json:"reported_low_bytes,omitempty"`
	ReportedHighBytes *int64  `json:"reported_high_bytes,omitempty"`
	Value             *int64  `json:"value"`
	OpenValue         *int64  `json:"open_value"`
	LimitReason       string  `json:"limit_reason"`
}

// Solution is the answer. Where no value is known to fit, value is null; open is
// the largest value that nobody can exclude.
type Solution struct {
	Field              string  `json:"field"`
	Smallest           bool    `json:"smallest"` // the value is the least that fits, and open the least that nobody can exclude
	Value              *int64  `json:"value"`
	OpenValue          *int64  `json:"open_value"`
	RemainderBytes     *int64  `json:"remainder_bytes"`
	RemainderLowBytes  *int64  `json:"remainder_low_bytes,omitempty"`
	RemainderHighBytes *int64  `json:"remainder_high_bytes,omitempty"`
	LimitReason        string  `json:"limit_reason"`
	PayloadBytes       *int64  `json:"payload_bytes"` // of one unit of the field on the limiting rank, where a room was given
	RoomBytes          *int64  `json:"room_bytes"`
	Matrix             []Point `json:"matrix"`
	Window             *Window `json:"window"` // of a share of the card; null for another field
	// Partitions is what an even division of training's states is made of; null for
	// another field.
	Partitions *Partitions `json:"partitions"`
}

// Partitions is an even division of what training keeps of each parameter. It
// bounds the capacity from below.
type Partitions struct {
	Layout      string       `json:"layout"`
	States      []StateBytes `json:"states"`
	StateBytes  int64        `json:"state_bytes"`
	BudgetBytes int64        `json:"budget_bytes"` // of one part
	EachBytes   int64        `json:"each_bytes"`   // of one part
	Label       string       `json:"label"`
	NotIncluded []string     `json:"not_included"`
}

// Window is the shares of its card that an engine can be given: at least what its
// parts and one request of the longest length take, at most what the card leaves.
// Between low and high every share is known to start; one between possible_low and
// possible_high cannot be excluded.
type Window struct {
	Given        float64     `json:"given"`
	Low          float64     `json:"low"`
	High         float64     `json:"high"`
	Bare         float64     `json:"bare"` // the least without any room for a request
	PossibleLow  float64     `json:"possible_low"`
	PossibleHigh float64     `json:"possible_high"`
	LowBytes     int64       `json:"low_bytes"`
	HighBytes    int64       `json:"high_bytes"`
	LowBecause   string      `json:"low_because"`
	HighBecause  string      `json:"high_because"`
	Direction    string      `json:"direction"` // raise, lower, keep, unsure, none
	Changes      []Reopening `json:"changes"`   // where no share is known to start: the smallest that reopen the window
}

// Reopening is one change after which some share starts.
type Reopening struct {
	Change     string  `json:"change"`
	Value      string  `json:"value"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	SpareBytes int64   `json:"spare_bytes"`
}

// Point is one combination of a matrix and its verdict.
type Point struct {
	Values  map[string]int64 `json:"values"`
	Verdict string           `json:"verdict"`
}
