package snapshot

// Action is what a trace entry records.
type Action uint8

const (
	Alloc         Action = iota // a block was handed out; Size is what was requested
	FreeRequested               // the program let go of a block
	FreeCompleted               // the block is reusable
	Free                        // both at once; only in snapshots that profilers made
	SegmentAlloc                // memory came from the driver
	SegmentFree                 // memory went back to the driver
	SegmentMap                  // pages were mapped into an expandable segment
	SegmentUnmap                // pages were unmapped from one
	OutOfMemory                 // a request failed; Addr is what the driver still had
	Dumped                      // an earlier snapshot was taken; Size is what was active
	Annotate                    // a live allocation was named; the name is the metadata
	OtherAction                 // an action that this package does not know
	actionCount
)

// String is PyTorch's word for the action.
func (a Action) String() string {
	switch a {
	case Alloc:
		return "alloc"
	case FreeRequested:
		return "free_requested"
	case FreeCompleted:
		return "free_completed"
	case Free:
		return "free"
	case SegmentAlloc:
		return "segment_alloc"
	case SegmentFree:
		return "segment_free"
	case SegmentMap:
		return "segment_map"
	case SegmentUnmap:
		return "segment_unmap"
	case OutOfMemory:
		return "oom"
	case Dumped:
		return "snapshot"
	case Annotate:
		return "annotate"
	}
	return "other"
}

// Actions lists the actions.
func Actions() []Action {
	list := make([]Action, actionCount)
	for i := range list {
		list[i] = Action(i)
	}
	return list
}

func actionNamed(name string) Action {
	for a := range OtherAction {
		if a.String() == name {
			return a
		}
	}
	return OtherAction
}

// reserves is how an action moves the reserved bytes: +1, −1 or 0.
func (a Action) reserves() int64 {
	switch a {
	case SegmentAlloc, SegmentMap:
		return 1
	case SegmentFree, SegmentUnmap:
		return -1
	}
	return 0
}

// located reports whether an entry of this action needs an address and a size.
func (a Action) located() bool { return a <= SegmentUnmap }

// State is what a block is used for.
type State uint8

const (
	Inactive    State = iota // cached: it can be handed out
	Allocated                // a tensor holds it
	PendingFree              // its tensor is gone, and its free waits for a stream
)

// stateNamed takes both names of the pending state: files have
// active_pending_free, PyTorch's documentation says active_awaiting_free.
func stateNamed(name string) (State, bool) {
	switch name {
	case "inactive":
		return Inactive, true
	case "active_allocated":
		return Allocated, true
	case "active_pending_free", "active_awaiting_free":
		return PendingFree, true
	}
	return Inactive, false
}
