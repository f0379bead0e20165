package timeline

// Course is work whose pieces come again and again, in orders that differ from run
// to run: micro-batches of sequences of different lengths. The timeline has the
// beginning and then each piece once, in an order in which they could come.
type Course struct {
	Timeline *Timeline
	Begins   int     // events of the beginning: First of the first piece or less
	Pieces   []Piece // by their place in the timeline
	// Orders are runs: pieces by their index, as they come after the beginning.
	Orders [][]int32
}

// Piece is the events First ≤ moment < Last of a course's timeline. What it leaves
// behind, a later piece may let go of: the gradients, and what a loop has names for.
type Piece struct{ First, Last int }
