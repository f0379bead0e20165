package timeline

import "floodmark/account"

// NoTerm and NoStack mark an allocation of which nobody knows the purpose or
// the origin.
const (
	NoTerm  = ^uint32(0)
	NoStack = ^uint32(0)
)

// Space is where an allocation lives. Only Caching and PrivatePool go through
// the caching allocator.
type Space uint8

const (
	Caching     Space = iota // the allocator's default pools
	PrivatePool              // a pool of a CUDA graph or a MemPool
	Driver                   // direct from the driver: outside the allocator
	Pinned                   // page-locked main memory
	Host                     // pageable main memory
)

// Alloc is one allocation, from birth to completed free.
type Alloc struct {
	Requested int64  // bytes as the program asked, before any rounding
	Term      uint32 // index into Timeline.Terms, or NoTerm
	Stack     uint32 // index into Timeline.Stacks, or NoStack
	Stream    uint32 // index into Timeline.Streams
	Space     Space
}

// Kind says what an event does.
type Kind uint8

const (
	Born          Kind = iota // Event.Alloc is allocated
	FreeRequested             // the program let go of Event.Alloc: allocated falls
	FreeCompleted             // its bytes are reusable: requested and active fall
	EmptyCache                // the program asked the allocator to give back what it caches
	Mark                      // a phase begins: Event.Alloc is an index into Phases
	OutOfMemory               // a request failed: Event.Alloc is an index into Failures
)

// Event is one step. Its index in Timeline.Events is the moment; the level "at
// a moment" is the one after that event, and moment −1 is before the first.
type Event struct {
	Kind  Kind
	Alloc uint32
}

// Bound is bytes without births that are held from the beginning of span From
// to the end of span To, both indexes into Phases.
type Bound struct {
	Term     uint32
	From, To int32
	Figure   account.Figure
}

// Span is one phase of a timeline: events First ≤ moment < Last.
type Span struct {
	Phase       account.PhaseID
	Step        int
	Micro       int // micro-batch of an accumulated step, from 1; 0 elsewhere
	First, Last int
}

// Failure is a request that could not be served.
type Failure struct {
	Requested  int64  // bytes; PyTorch records it rounded to 512
	DeviceFree int64  // bytes that the driver still had, −1 when not recorded
	Stream     uint32 // index into Timeline.Streams
	Stack      uint32 // index into Timeline.Stacks, or NoStack
}

// Timeline is what one class of equal ranks allocates on one device.
type Timeline struct {
	Ranks     []int
	Device    int
	Terms     []account.Term
	Streams   []string // as the source names them; index 0 is the default stream
	Stacks    StackTable
	Allocs    []Alloc
	Before    []uint32 // allocations alive before the first event
	Events    []Event
	Bounds    []Bound
	Phases    []Span
	Failures  []Failure
	Truncated bool // the beginning is lost: a ring buffer wrapped
	// Most is what the process never exceeds, since the allocator gives back what it
	// caches before a request fails, and was run with what is left to it; 0 without such
	// a limit.
	Most int64
	// Loose says that what is allocated has room, and that in every run within what its
	// card leaves a request failed: where blocks come to lie decides, so that of what is
	// reserved no more than what is allocated is certain.
	Loose    bool
	Warnings []account.Warning
}

// Start is the requested bytes alive before the first event.
func (t *Timeline) Start() int64 {
	var sum int64
	for _, a := range t.Before {
		sum += t.Allocs[a].Requested
	}
	return sum
}

// Delta is how an event moves the requested bytes, which count an allocation
// until its free is completed, as PyTorch's requested_bytes does.
func (t *Timeline) Delta(e Event) int64 {
	switch e.Kind {
	case Born:
		return t.Allocs[e.Alloc].Requested
	case FreeCompleted:
		return -t.Allocs[e.Alloc].Requested
	}
	return 0
}

// PeakRequested is the highest level of requested bytes over the whole
// timeline, the level before the first event included, and the first moment at
// which it is reached (−1: before the first event).
func (t *Timeline) PeakRequested() (bytes int64, moment int) {
	level := t.Start()
	bytes, moment = level, -1
	for i, e := range t.Events {
		if level += t.Delta(e); level > bytes {
			bytes, moment = level, i
		}
	}
	return bytes, moment
}

// EndRequested is the level of requested bytes after the last event.
func (t *Timeline) EndRequested() int64 {
	level := t.Start()
	for _, e := range t.Events {
		level += t.Delta(e)
	}
	return level
}

// AliveAt lists the allocations alive at a moment, in order of their index.
func (t *Timeline) AliveAt(moment int) []uint32 {
	alive := make([]bool, len(t.Allocs))
	for _, a := range t.Before {
		alive[a] = true
	}
	for _, e := range t.Events[:moment+1] {
		switch e.Kind {
		case Born:
			alive[e.Alloc] = true
		case FreeCompleted:
			alive[e.Alloc] = false
		}
	}
	var list []uint32
	for a, is := range alive {
		if is {
			list = append(list, uint32(a))
		}
	}
	return list
}
