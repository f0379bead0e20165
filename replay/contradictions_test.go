package replay

import (
	"errors"
	"strings"
	"testing"

	"floodmark/allocator"
	"floodmark/snapshot"
)

// A file that says two things of the same memory is not certified, although an
// allocator that looks at only one of them comes out the same.
func TestContradictionsAreNotCertified(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	tr.malloc(5<<20, 1)
	tr.free(0, false)
	tr.malloc(6<<20, 1)
	tr.malloc(300<<10, 1)
	tr.free(0, false)
	frees := func(s *snapshot.Snapshot, change func(*snapshot.Trace, int)) {
		for i, action := range s.Traces[0].Action {
			if action == snapshot.FreeRequested || action == snapshot.FreeCompleted {
				change(&s.Traces[0], i)
			}
		}
	}
	grant := func(s *snapshot.Snapshot, change func(*snapshot.Trace, int)) {
		for i, action := range s.Traces[0].Action {
			if action == snapshot.SegmentAlloc {
				change(&s.Traces[0], i)
				return
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot)
		says   string
	}{
		"frees of one byte": {func(s *snapshot.Snapshot) {
			frees(s, func(t *snapshot.Trace, i int) { t.Size[i] = 1 })
		}, "name another size"},
		"frees of 2⁴⁰ bytes": {func(s *snapshot.Snapshot) {
			frees(s, func(t *snapshot.Trace, i int) { t.Size[i] = 1 << 40 })
		}, "name another size"},
		"frees on another stream": {func(s *snapshot.Snapshot) {
			frees(s, func(t *snapshot.Trace, i int) { t.Stream[i] = 2 })
		}, "name another stream"},
		"a segment on another stream": {func(s *snapshot.Snapshot) {
			grant(s, func(t *snapshot.Trace, i int) { t.Stream[i] = 2 })
		}, "is recorded on stream 7696581394432"},
		"a segment taken by an action that nobody knows": {func(s *snapshot.Snapshot) {
			grant(s, func(t *snapshot.Trace, i int) { t.Action[i] = snapshot.OtherAction })
		}, "is not known"},
		"a birth that is missing": {func(s *snapshot.Snapshot) {
			dropAlloc(&s.Traces[0], 2)
		}, "no birth in the trace"},
		"counters of the segments": {func(s *snapshot.Snapshot) {
			s.Segments[0].Allocated, s.Segments[0].Active = 1<<50, 0
		}, "do not add up to their allocated_size"},
	} {
		s := tr.snapshot(100)
		c.change(s)
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Certificate
		if got.Holds() || got.FirstMismatch == nil || !strings.Contains(got.FirstMismatch.Text, c.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// dropAlloc leaves the n-th birth of a trace out, from 1 on.
func dropAlloc(t *snapshot.Trace, n int) {
	for i, action := range t.Action {
		if action == snapshot.Alloc {
			n--
		}
		if n == 0 {
			t.Action = append(t.Action[:i], t.Action[i+1:]...)
			t.Addr = append(t.Addr[:i], t.Addr[i+1:]...)
			t.Size = append(t.Size[:i], t.Size[i+1:]...)
			t.Stream = append(t.Stream[:i], t.Stream[i+1:]...)
			t.Stack = append(t.Stack[:i], t.Stack[i+1:]...)
			return
		}
	}
}

// Of a device that recorded nothing an outline is enough to say so.
func TestUnrecorded(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	tr.malloc(5<<20, 0)
	s := tr.snapshot(0)
	outline := s.Outlines()[0]
	if HasHistory(outline.Trace) || !HasHistory(tr.snapshot(1).Outlines()[0].Trace) {
		t.Error("an empty trace has a history, or one birth has none")
	}
	got := Unrecorded(s, outline, allocator.LatestRules())
	if _, err := got.AsRecorded(); !errors.Is(err, ErrNothingRecorded) || len(outline.Timeline.Allocs) > 0 || got.Capacity().Low() != 20<<20 {
		t.Errorf("got %v; %d allocations, capacity %d", err, len(outline.Timeline.Allocs), got.Capacity().Low())
	}
}
