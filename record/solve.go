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
}

// Point is one combination of a matrix and its verdict.
type Point struct {
	Values  map[string]int64 `json:"values"`
	Verdict string           `json:"verdict"`
}
