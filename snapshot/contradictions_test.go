package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/timeline"
)

const (
	first  = uint64(0x7f00_0000_0000)
	second = first + 4096
)

// oneSegment is a snapshot of one segment of 2 MiB that holds blocks, each an
// address, a size, a requested size and a state, and of one trace.
func oneSegment(blocks array, trace ...any) object {
	rest := 2 << 20
	var list array
	for _, b := range blocks {
		block := b.(object)
		rest -= block[1].value.(int)
		list = append(list, block)
	}
	list = append(list, object{{"address", first + 1<<20}, {"size", rest}, {"state", "inactive"}})
	return object{
		{"segments", array{object{{"device", 0}, {"address", first}, {"total_size", 2 << 20}, {"blocks", list}}}},
		{"device_traces", array{array(trace)}},
	}
}

func blockAt(addr uint64, size, requested int, state string, more ...member) object {
	return append(object{{"address", addr}, {"size", size}, {"requested_size", requested}, {"state", state}}, more...)
}

func onStream(stream int, action string, addr uint64, size int) object {
	return object{{"action", action}, {"addr", addr}, {"size", size}, {"stream", stream}}
}

// TestEdges: what the beginning and the end of a trace leave out.
func TestEdges(t *testing.T) {
	const held = "active_allocated"
	pending := "active_pending_free"
	for _, c := range []struct {
		name      string
		value     object
		before    []int64 // requested bytes of what lived before the first entry
		kinds     []timeline.Kind
		peak, end int64
		truncated bool
		warnings  []string
	}{
		{name: "a whole trace",
			value: oneSegment(array{blockAt(first, 512, 500, held)},
				entryOf("alloc", second, 600), entryOf("alloc", first, 500), entryOf("free_requested", second, 600), entryOf("free_completed", second, 600)),
			kinds: []timeline.Kind{timeline.Born, timeline.Born, timeline.FreeRequested, timeline.FreeCompleted}, peak: 1100, end: 500},
		{name: "a wrapped ring: frees of what was never born, and a block that no entry names",
			value: oneSegment(array{blockAt(first, 512, 500, held)},
				entryOf("free_requested", second, 600), entryOf("free_completed", second, 600)),
			before: []int64{600, 500}, kinds: []timeline.Kind{timeline.FreeRequested, timeline.FreeCompleted}, peak: 1100, end: 500, truncated: true},
		{name: "a ring that was cut between the two entries of a free",
			value:  oneSegment(array{}, entryOf("free_completed", second, 600), entryOf("alloc", second, 100), entryOf("free_requested", second, 100), entryOf("free_completed", second, 100)),
			before: []int64{600}, kinds: []timeline.Kind{timeline.FreeRequested, timeline.FreeCompleted, timeline.Born, timeline.FreeRequested, timeline.FreeCompleted},
			peak: 600, end: 0, truncated: true},
		{name: "a trace in which no request of a free is recorded",
			value:  oneSegment(array{}, entryOf("free_completed", second, 600), entryOf("alloc", second, 100), entryOf("free_completed", second, 100)),
			before: []int64{600}, kinds: []timeline.Kind{timeline.FreeCompleted, timeline.Born, timeline.FreeCompleted}, peak: 600, end: 0, truncated: true},
		{name: "a pending free from before the trace",
			value:  oneSegment(array{blockAt(first, 512, 500, pending)}, entryOf("alloc", second, 9), entryOf("free", second, 9)),
			before: []int64{500}, kinds: []timeline.Kind{timeline.FreeRequested, timeline.Born, timeline.FreeRequested, timeline.FreeCompleted}, peak: 509, end: 500, truncated: true},
		{name: "no trace at all",
			value:  oneSegment(array{blockAt(first, 512, 500, held), blockAt(second, 1024, 600, pending)}),
			before: []int64{500, 600}, kinds: []timeline.Kind{timeline.FreeRequested}, peak: 1100, end: 1100},
		{name: "an address that is handed out twice",
			value: oneSegment(array{blockAt(first, 512, 300, held)}, entryOf("alloc", first, 500), entryOf("alloc", first, 300)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted, timeline.Born}, peak: 500, end: 300, warnings: []string{"free_missing"}},
		{name: "an address that is freed twice",
			value: oneSegment(array{}, entryOf("alloc", first, 500), entryOf("free_completed", first, 500), entryOf("free_completed", first, 500)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted, timeline.Born, timeline.FreeCompleted}, peak: 500, end: 0, warnings: []string{"birth_missing"}},
		{name: "two requests of one free",
			value: oneSegment(array{blockAt(first, 512, 500, pending)}, entryOf("alloc", first, 500), entryOf("free_requested", first, 500), entryOf("free_requested", first, 500)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeRequested}, peak: 500, end: 500, warnings: []string{"freed_twice"}},
		{name: "a free of another size",
			value: oneSegment(array{}, entryOf("alloc", first, 500), entryOf("free_completed", first, 400)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted}, peak: 500, end: 0, warnings: []string{"sizes_differ"}},
		{name: "a free on another stream",
			value: oneSegment(array{}, entryOf("alloc", first, 500), onStream(9, "free_completed", first, 500)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted}, peak: 500, end: 0, warnings: []string{"streams_differ"}},
		{name: "a segment that goes back on another stream",
			value: oneSegment(array{}, entryOf("segment_alloc", second, 2<<20), onStream(9, "segment_free", second, 2<<20)), warnings: []string{"streams_differ"}},
		{name: "an allocation that the segments do not hold",
			value: oneSegment(array{}, entryOf("alloc", first, 500)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted}, peak: 500, end: 0, warnings: []string{"end_differs"}},
		{name: "a block at an address that was freed",
			value: oneSegment(array{blockAt(first, 512, 500, held)}, entryOf("alloc", first, 400), entryOf("free_completed", first, 400)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeCompleted, timeline.Born}, peak: 500, end: 500, warnings: []string{"birth_missing"}},
		{name: "a trace without segments",
			value: object{{"device_traces", array{array{entryOf("alloc", first, 500), entryOf("alloc", second, 500), entryOf("free", first, 500)}}}},
			kinds: []timeline.Kind{timeline.Born, timeline.Born, timeline.FreeRequested, timeline.FreeCompleted}, peak: 1000, end: 500, warnings: []string{"no_segments"}},
		{name: "more than the segments can hold",
			value: oneSegment(array{}, entryOf("segment_alloc", first, 2<<20), entryOf("alloc", first, 4<<20), entryOf("free", first, 4<<20)),
			kinds: []timeline.Kind{timeline.Born, timeline.FreeRequested, timeline.FreeCompleted}, peak: 4 << 20, end: 0, warnings: []string{"active_exceeds_reserved"}},
		{name: "more segments in the trace than at the end",
			value: oneSegment(array{}, entryOf("segment_alloc", first, 4<<20)), warnings: []string{"reserved_contradicts", "active_exceeds_reserved"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := read(t, c.value).Recordings()[0]
			var before []int64
			for _, a := range r.Timeline.Before {
				before = append(before, r.Timeline.Allocs[a].Requested)
			}
			var kinds []timeline.Kind
			for _, e := range r.Timeline.Events {
				kinds = append(kinds, e.Kind)
			}
			var warnings []string
			for _, w := range r.Timeline.Warnings {
				warnings = append(warnings, w.Code)
			}
			for _, diff := range []string{cmp.Diff(c.before, before), cmp.Diff(c.kinds, kinds), cmp.Diff(c.warnings, warnings)} {
				if diff != "" {
					t.Error(diff)
				}
			}
			peak, _ := r.Timeline.PeakRequested()
			if end := r.Timeline.EndRequested(); peak != c.peak || end != c.end || r.Timeline.Truncated != c.truncated {
				t.Errorf("peak %d, end %d, truncated %v; want %d, %d, %v", peak, end, r.Timeline.Truncated, c.peak, c.end, c.truncated)
			}
		})
	}
}

// TestReservedBackwards: reserved moves at segment entries only, and is counted
// from the end.
func TestReservedBackwards(t *testing.T) {
	r := read(t, oneSegment(array{},
		entryOf("segment_free", 1<<40, 20<<20), entryOf("segment_map", first, 1<<20), entryOf("segment_map", first+1<<20, 3<<20),
		entryOf("segment_unmap", first+2<<20, 2<<20))).Recordings()[0]
	var reserved []int64
	r.Walk(func(_ int, l Levels) { reserved = append(reserved, l.Reserved>>20) })
	if diff := cmp.Diff([]int64{20, 0, 1, 4, 2}, reserved); diff != "" {
		t.Error(diff)
	}
	if p := r.Peaks().Reserved; p != (Peak{20 << 20, -1}) {
		t.Errorf("peak %+v", p)
	}
}

// TestPoolByAddress: entries without pool_id belong to the pool of the segment
// that holds their address.
func TestPoolByAddress(t *testing.T) {
	value := oneSegment(array{blockAt(first, 512, 500, "active_allocated")}, entryOf("alloc", first, 500), entryOf("alloc", 1<<40, 500), entryOf("free", 1<<40, 500))
	segment := value[0].value.(array)[0].(object)
	value[0].value = array{append(segment, member{"segment_pool_id", pair{0, 7}})}
	allocs := read(t, value).Recordings()[0].Timeline.Allocs
	if allocs[0].Space != timeline.PrivatePool || allocs[1].Space != timeline.Caching {
		t.Errorf("spaces %v and %v", allocs[0].Space, allocs[1].Space)
	}
}
