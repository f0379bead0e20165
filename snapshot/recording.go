package snapshot

import (
	"cmp"
	"fmt"
	"strconv"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/timeline"
)

// Recording is what one device recorded, as a timeline, and how its events and
// allocations correspond to the snapshot.
type Recording struct {
	Timeline timeline.Timeline
	Trace    *Trace
	// Entries is parallel to Timeline.Events: the trace entry that the event
	// comes from, or before which it was put; −1 before the first entry, and
	// Trace.Len() after the last. It never falls.
	Entries []int32
	// Addresses is parallel to Timeline.Allocs.
	Addresses []uint64
	// Blocks is parallel to Timeline.Allocs: the block that holds the allocation
	// at the end, an index into Snapshot.Blocks; −1 when it is gone by then.
	Blocks []int32
	// Sizes is parallel to Timeline.Allocs: bytes of the block as far as the
	// file tells, else the request rounded up to 512, which a block never falls
	// below.
	Sizes []int64
	// Failures is parallel to Timeline.Failures.
	Failures []Failure
	Segments []Segment // of this device, by address
	// End is by the counters of Segments. Where a file has none EndKnown is false,
	// and End is a lower bound: what the trace leaves. So are all levels then, for
	// what lived before the trace and what the driver had given are not in it.
	End      Levels
	EndKnown bool
	// Intervals are the parts of the trace that have a name, by their beginning.
	// Timeline.Phases follow one another and are made of those that name a phase.
	Intervals []Interval
	// Contradictions are the warnings of Timeline.Warnings by which the file says
	// different things of the same memory.
	Contradictions []Contradiction
	reserved       int64 // before the first entry
}

// Contradiction is what a file contradicts itself in.
type Contradiction struct {
	account.Warning
	Entry int // the first of the trace that shows it; Trace.Len() where the end does
}

// Failure is what an out-of-memory entry tells beside the request.
type Failure struct {
	Entry    int   // index into Trace
	Reserved int64 // bytes that the allocator held at that point
	// Capacity is what the allocator could hold at most: Reserved and what the
	// driver still had. The rest of the card is in use outside this allocator.
	// −1 when the driver's part was not recorded.
	Capacity int64
}

// Outside is what is in use outside the allocator on a card of that many bytes;
// false when the capacity is not known or exceeds the card.
func (f Failure) Outside(total int64) (int64, bool) {
	if f.Capacity < 0 || f.Capacity > total {
		return 0, false
	}
	return total - f.Capacity, true
}

// Recordings makes a recording of each device that has a trace, empty or not,
// or segments, by ordinal.
func (s *Snapshot) Recordings() []*Recording {
	annotations := map[int][]Annotation{}
	for _, a := range s.Annotations {
		annotations[int(a.Device)] = append(annotations[int(a.Device)], a)
	}
	list := s.Outlines()
	for _, r := range list {
		r.follow(s)
		r.name(s, annotations[r.Timeline.Device])
	}
	return list
}

// Outlines are the recordings of [Snapshot.Recordings] before anything is made
// of their traces: with their segments, entries and what is reserved at the end,
// and without allocations and events.
func (s *Snapshot) Outlines() []*Recording {
	byDevice := map[int32][]Segment{}
	for _, segment := range s.Segments {
		byDevice[segment.Device] = append(byDevice[segment.Device], segment)
	}
	devices := make([]int32, 0, len(s.Traces))
	for d := range s.Traces {
		devices = append(devices, int32(d))
	}
	for d := range byDevice {
		if int(d) >= len(s.Traces) {
			devices = append(devices, d)
		}
	}
	sorting.By(devices, func(i, j int) int { return cmp.Compare(devices[i], devices[j]) })
	streams := make([]string, len(s.Streams))
	for i, handle := range s.Streams {
		streams[i] = strconv.FormatUint(handle, 10)
	}
	list := make([]*Recording, len(devices))
	for i, d := range devices {
		trace := &Trace{}
		if int(d) < len(s.Traces) {
			trace = &s.Traces[d]
		}
		list[i] = s.outline(int(d), byDevice[d], trace, streams)
	}
	return list
}

// Timelines are the timelines of [Snapshot.Recordings].
func (s *Snapshot) Timelines() []timeline.Timeline {
	var list []timeline.Timeline
	for _, r := range s.Recordings() {
		list = append(list, r.Timeline)
	}
	return list
}

func (s *Snapshot) outline(device int, segments []Segment, trace *Trace, streams []string) *Recording {
	sorting.By(segments, func(i, j int) int {
		a, b := segments[i], segments[j]
		switch {
		case a.Address < b.Address:
			return -1
		case a.Address > b.Address:
			return 1
		}
		return 0
	})
	r := &Recording{Trace: trace, Segments: segments}
	r.Timeline = timeline.Timeline{Device: device, Streams: streams, Stacks: s.Stacks}
	r.measureEnd(s)
	return r
}

// follow makes allocations and events of the trace.
func (r *Recording) follow(s *Snapshot) {
	t := tracker{s: s, r: r, live: newAddresses(), granted: map[uint64]uint32{}}
	t.follow()
	t.reconcile()
	t.conclude()
}

// warn adds a warning about so many things.
func (r *Recording) warn(count int, code, text string) {
	if count > 0 {
		r.Timeline.Warnings = append(r.Timeline.Warnings, account.Warning{Code: code, Text: fmt.Sprintf("%d %s", count, text)})
	}
}

// contradict adds a warning about as many contradictions as were counted.
func (r *Recording) contradict(c tally, code, text string) {
	if r.warn(c.n, code, text); c.n > 0 {
		last := r.Timeline.Warnings[len(r.Timeline.Warnings)-1]
		r.Contradictions = append(r.Contradictions, Contradiction{last, min(max(c.first, 0), r.Trace.Len())})
	}
}
