package snapshot

import (
	"slices"

	"floodmark/bytesize"
	"floodmark/timeline"
)

// granule is the unit to which the allocator rounds every request; a block is
// never smaller.
const granule = 512

// ending is how far the free of an allocation is.
type ending uint8

const (
	alive   ending = iota
	pending        // its free was requested
	gone           // its free is completed
)

// tracker follows the entries of a trace and makes events of them. What is
// freed without having been born lived before the first entry; so did what the
// segments hold at the end and the trace never mentions.
type tracker struct {
	s        *Snapshot
	r        *Recording
	live     addresses // the latest allocation at an address, alive or gone
	ended    []ending  // by allocation
	private  bool      // some segment belongs to a private pool
	reserved int64     // at the entry that is being followed

	unbornPending []uint32 // allocations whose free was requested before the first entry
	counts        contradictions
	granted       map[uint64]uint32 // stream by address: segments and ranges that the trace took
}

// contradictions counts where a trace and the segments disagree.
type contradictions struct {
	unborn, ghosts                         int // lived before the first entry: freed, or still there
	missingFree, missingBirth              tally
	freedTwice, sizesDiffer, streamsDiffer tally
	ending                                 tally
}

// tally counts one contradiction, and keeps the first entry that shows it.
type tally struct{ n, first int }

func (c *tally) at(entry int) {
	if c.n == 0 {
		c.first = entry
	}
	c.n++
}

// reserve makes room for what a trace without gaps leads to.
func (t *tracker) reserve() {
	events, births := 0, 0
	for _, action := range t.r.Trace.Action {
		switch action {
		case Alloc:
			births++
			events++
		case FreeRequested, FreeCompleted, OutOfMemory:
			events++
		case Free:
			events += 2
		}
	}
	t.r.Timeline.Events = make([]timeline.Event, 0, events)
	t.r.Entries = make([]int32, 0, events)
	t.r.Timeline.Allocs = make([]timeline.Alloc, 0, births)
	t.r.Addresses = make([]uint64, 0, births)
	t.r.Blocks = make([]int32, 0, births)
	t.r.Sizes = make([]int64, 0, births)
	t.ended = make([]ending, 0, births)
}

func (t *tracker) follow() {
	t.reserve()
	t.reserved = t.r.reserved
	for _, segment := range t.r.Segments {
		t.private = t.private || segment.Pool != 0
	}
	trace := t.r.Trace
	for i, action := range trace.Action {
		t.reserved += action.reserves() * trace.Size[i]
		switch action {
		case Alloc:
			t.born(i)
		case FreeRequested:
			t.request(i, t.freed(i))
		case FreeCompleted:
			t.complete(i, t.freed(i))
		case Free:
			a := t.freed(i)
			t.request(i, a)
			t.complete(i, a)
		case OutOfMemory:
			t.failed(i)
		case SegmentAlloc, SegmentMap:
			t.granted[trace.Addr[i]] = trace.Stream[i]
		case SegmentFree, SegmentUnmap:
			if stream, ok := t.granted[trace.Addr[i]]; ok && stream != trace.Stream[i] {
				t.counts.streamsDiffer.at(i)
			}
		}
	}
}

func (t *tracker) event(entry int, kind timeline.Kind, alloc uint32) {
	t.r.Timeline.Events = append(t.r.Timeline.Events, timeline.Event{Kind: kind, Alloc: alloc})
	t.r.Entries = append(t.r.Entries, int32(entry))
}

// allocation adds an allocation as an entry describes it.
func (t *tracker) allocation(i int, stack uint32) uint32 {
	trace := t.r.Trace
	pool := uint32(0)
	switch {
	case trace.Pool != nil:
		pool = trace.Pool[i]
	case t.private:
		pool = t.poolAt(trace.Addr[i])
	}
	return t.add(timeline.Alloc{
		Requested: trace.Size[i], Term: timeline.NoTerm, Stack: stack, Stream: trace.Stream[i], Space: space(pool),
	}, trace.Addr[i])
}

func (t *tracker) add(a timeline.Alloc, address uint64) uint32 {
	r := t.r
	r.Timeline.Allocs = append(r.Timeline.Allocs, a)
	r.Addresses = append(r.Addresses, address)
	r.Blocks = append(r.Blocks, -1)
	r.Sizes = append(r.Sizes, max(bytesize.CeilDiv(a.Requested, granule)*granule, granule))
	t.ended = append(t.ended, alive)
	index := uint32(len(r.Timeline.Allocs) - 1)
	t.live.set(index, r.Addresses)
	return index
}

func space(pool uint32) timeline.Space {
	if pool != 0 {
		return timeline.PrivatePool
	}
	return timeline.Caching
}

// poolAt is the pool of the segment that holds an address at the end; entries
// name no pool before PyTorch 2.12.
func (t *tracker) poolAt(address uint64) uint32 {
	segments := t.r.Segments
	i, exact := slices.BinarySearchFunc(segments, address, func(s Segment, a uint64) int {
		switch {
		case s.Address < a:
			return -1
		case s.Address > a:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	if i < 0 || address-segments[i].Address >= uint64(segments[i].Total) {
		return 0
	}
	return segments[i].Pool
}

func (t *tracker) born(i int) {
	address := t.r.Trace.Addr[i]
	if a, ok := t.live.at(address, t.r.Addresses); ok && t.ended[a] != gone {
		// The address was handed out again, so the allocation is gone: the
		// entries of its free are missing.
		t.counts.missingFree.at(i)
		t.complete(i, a)
	}
	a := t.allocation(i, t.r.Trace.Stack[i])
	t.event(i, timeline.Born, a)
}

// freed is the allocation that an entry frees.
func (t *tracker) freed(i int) uint32 {
	address, size := t.r.Trace.Addr[i], t.r.Trace.Size[i]
	a, ok := t.live.at(address, t.r.Addresses)
	if ok && t.ended[a] != gone {
		if t.r.Timeline.Allocs[a].Requested != size {
			t.counts.sizesDiffer.at(i)
		}
		if t.r.Timeline.Allocs[a].Stream != t.r.Trace.Stream[i] {
			t.counts.streamsDiffer.at(i)
		}
		return a
	}
	a = t.allocation(i, timeline.NoStack)
	if ok {
		// Something else lived here during the trace, so this did not live
		// before it: the entry of its birth is missing.
		t.counts.missingBirth.at(i)
		t.event(i, timeline.Born, a)
		return a
	}
	t.counts.unborn++
	t.r.Timeline.Before = append(t.r.Timeline.Before, a)
	if t.r.Trace.Action[i] == FreeCompleted {
		t.unbornPending = append(t.unbornPending, a)
	}
	return a
}

func (t *tracker) request(i int, a uint32) {
	if t.ended[a] == pending {
		t.counts.freedTwice.at(i)
		return
	}
	t.ended[a] = pending
	t.event(i, timeline.FreeRequested, a)
}

func (t *tracker) complete(i int, a uint32) {
	t.event(i, timeline.FreeCompleted, a)
	t.ended[a] = gone
}

func (t *tracker) failed(i int) {
	trace, tl := t.r.Trace, &t.r.Timeline
	free := int64(trace.Addr[i])
	f := Failure{Entry: i, Reserved: t.reserved, Capacity: -1}
	if capacity, ok := bytesize.Add(t.reserved, free); free >= 0 && ok {
		f.Capacity = capacity
	}
	t.r.Failures = append(t.r.Failures, f)
	tl.Failures = append(tl.Failures, timeline.Failure{
		Requested: trace.Size[i], DeviceFree: free, Stream: trace.Stream[i], Stack: trace.Stack[i],
	})
	t.event(i, timeline.OutOfMemory, uint32(len(tl.Failures)-1))
}

// reconcile compares what the trace leaves alive with the blocks of the
// segments, which are the truth.
func (t *tracker) reconcile() {
	after := t.r.Trace.Len()
	for _, segment := range t.r.Segments {
		for k := range segment.Count {
			index := segment.First + k
			if block := &t.s.Blocks[index]; block.State != Inactive {
				t.match(segment, block, index, after)
			}
		}
	}
	if t.s.NoSegments {
		return
	}
	for a := range t.r.Timeline.Allocs {
		if t.ended[a] != gone && t.r.Blocks[a] < 0 {
			t.counts.ending.at(after)
			t.complete(after, uint32(a))
		}
	}
}

// match finds the allocation of an active block, or adds it.
func (t *tracker) match(segment Segment, block *Block, index, after int) {
	a, ok := t.live.at(block.Address, t.r.Addresses)
	if !ok || t.ended[a] == gone {
		a = t.add(timeline.Alloc{
			Requested: block.Requested, Term: timeline.NoTerm, Stack: block.Stack, Stream: segment.Stream, Space: space(segment.Pool),
		}, block.Address)
		if ok {
			t.counts.missingBirth.at(after)
			t.event(after, timeline.Born, a)
		} else {
			t.counts.ghosts++
			t.r.Timeline.Before = append(t.r.Timeline.Before, a)
		}
	} else {
		if t.r.Timeline.Allocs[a].Requested != block.Requested {
			t.counts.sizesDiffer.at(after)
		}
		if t.r.Timeline.Allocs[a].Stream != segment.Stream {
			t.counts.streamsDiffer.at(after)
		}
	}
	t.r.Blocks[a], t.r.Sizes[a] = int32(index), block.Size
	if block.State == PendingFree && t.ended[a] == alive {
		t.ended[a] = pending
		t.unbornPending = append(t.unbornPending, a)
	}
}

// conclude adds what can be told only now, and the warnings.
func (t *tracker) conclude() {
	tl, c := &t.r.Timeline, t.counts
	tl.Truncated = t.r.Trace.Len() > 0 && c.unborn+c.ghosts > 0
	t.requestEarly()
	t.r.contradict(c.missingFree, "free_missing", "allocations have no free in the trace although their address was handed out again: they end there")
	t.r.contradict(c.missingBirth, "birth_missing", "frees or blocks have no birth in the trace although their address was used before: they begin there")
	t.r.contradict(c.freedTwice, "freed_twice", "frees were requested for an allocation that was already being freed: they are left out")
	t.r.contradict(c.sizesDiffer, "sizes_differ", "frees or blocks name another size than the birth of their allocation")
	t.r.contradict(c.ending, "end_differs", "allocations are alive at the end of the trace and not in the segments: they end after the last entry")
	t.r.contradict(c.streamsDiffer, "streams_differ", "frees, blocks or segments name another stream than the birth of the same memory")
	if t.s.NoSegments {
		t.r.Walk(func(_ int, l Levels) { t.r.End = l })
		t.r.warn(min(t.r.Trace.Len(), 1), "no_segments", "snapshot without segments: levels count from the first entry and are lower bounds")
	}
	t.r.checkNesting()
}

// requestEarly puts the requests that the trace does not show before its first
// entry. Where no request is recorded at all, requests were left out and a free
// is both at once.
func (t *tracker) requestEarly() {
	requested := slices.Contains(t.r.Trace.Action, FreeRequested)
	var early []timeline.Event
	for _, a := range t.unbornPending {
		if requested || t.r.Trace.Len() <= 1 || t.r.Blocks[a] >= 0 {
			early = append(early, timeline.Event{Kind: timeline.FreeRequested, Alloc: a})
		}
	}
	if len(early) == 0 {
		return
	}
	tl := &t.r.Timeline
	tl.Events = append(early, tl.Events...)
	t.r.Entries = append(slices.Repeat([]int32{-1}, len(early)), t.r.Entries...)
}

// text is a string of the snapshot.
func (s *Snapshot) text(index uint32) string {
	if int(index) >= len(s.Stacks.Strings) {
		return ""
	}
	return s.Stacks.Strings[index]
}
