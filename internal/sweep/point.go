package sweep

import "time"

// Status is how a value ended.
type Status string

const (
	Passed      Status = "passed"
	OutOfMemory Status = "out_of_memory" // the device's memory, not the host's
	Failed      Status = "failed"        // for another reason: says nothing about memory
	Lost        Status = "lost"          // the process was killed or vanished: says nothing either
)

// Point is one value and how it ended: a line of the ledger.
type Point struct {
	Value   int64         `json:"value"`
	Attempt int           `json:"attempt"` // counted from 1
	Status  Status        `json:"status"`
	Error   string        `json:"error"`  // empty when it passed
	Record  string        `json:"record"` // the measurement's file in the folder; empty when there is none
	Bytes   *int64        `json:"bytes"`  // the highest peak that it read, in Scope; null when it read none
	Scope   string        `json:"scope"`
	Total   *int64        `json:"total"` // what its device reports, the least of several; null when nobody asked it
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"duration_ns"`
}

// Boundary lies between the largest value that passed and the smallest that ran
// out of memory; 0 where there is none. What failed otherwise says nothing.
type Boundary struct {
	LargestPass  int64
	SmallestFail int64
}

// Monotone reports whether everything that passed lies below everything that ran
// out of memory. Where it does not, the dimension is not what decides.
func (b Boundary) Monotone() bool {
	return b.LargestPass == 0 || b.SmallestFail == 0 || b.LargestPass < b.SmallestFail
}

// BoundaryOf is the boundary that points show.
func BoundaryOf(points []Point) Boundary {
	var b Boundary
	for _, p := range points {
		switch p.Status {
		case Passed:
			b.LargestPass = max(b.LargestPass, p.Value)
		case OutOfMemory:
			if b.SmallestFail == 0 || p.Value < b.SmallestFail {
				b.SmallestFail = p.Value
			}
		}
	}
	return b
}
