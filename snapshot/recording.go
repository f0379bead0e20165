package snapshot

import (
	"fmt"
	"slices"
	"strconv"

	"floodmark/account"
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
	End      Levels    // by the counters of Segments
	// Intervals are the parts of the trace that have a name, by their beginning.
	// Timeline.Phases follow one another and are made of those that name a phase.
	Intervals []Interval
	reserved  int64 // before the first entry
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
	slices.Sort(devices)
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
		list[i] = s.record(int(d), byDevice[d], trace, streams)
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

func (s *Snapshot) record(device int, segments []Segment, trace *Trace, streams []string) *Recording {
	slices.SortStableFunc(segments, func(a, b Segment) int {
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
	t := tracker{s: s, r: r, live: map[uint64]uint32{}}
	t.follow()
	t.reconcile()
	t.conclude()
	r.name(s)
	return r
}

// measureEnd adds up the segments' own counters, which every version writes,
// and tells where their blocks say something else.
func (r *Recording) measureEnd(s *Snapshot) {
	unfilled, differ := 0, 0
	for _, segment := range r.Segments {
		var size int64
		var of Levels
		for _, block := range s.Blocks[segment.First : segment.First+segment.Count] {
			size += block.Size
			of.Requested += block.Requested
			if block.State != Inactive {
				of.Active += block.Size
			}
			if block.State == Allocated {
				of.Allocated += block.Size
			}
		}
		r.End.Reserved += segment.Total
		r.End.Requested += of.Requested
		r.End.Allocated += segment.Allocated
		r.End.Active += segment.Active
		if size != segment.Total {
			unfilled++
		}
		if of.Allocated != segment.Allocated || of.Active != segment.Active {
			differ++
		}
	}
	r.reserved = r.End.Reserved
	for i, action := range r.Trace.Action {
		r.reserved -= action.reserves() * r.Trace.Size[i]
	}
	r.warn(unfilled, "blocks_do_not_fill_segment", "segments have blocks that do not add up to their total_size")
	r.warn(differ, "blocks_contradict_segment", "segments have blocks that do not add up to their allocated_size or active_size; the levels at the end are those of the segments")
	if r.reserved < 0 {
		r.warn(1, "reserved_contradicts", "trace takes more memory from the driver than the segments hold at the end")
	}
}

// warn adds a warning about so many things.
func (r *Recording) warn(count int, code, text string) {
	if count > 0 {
		r.Timeline.Warnings = append(r.Timeline.Warnings, account.Warning{Code: code, Text: fmt.Sprintf("%d %s", count, text)})
	}
}
