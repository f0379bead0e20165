package timeline

import (
	"slices"
	"testing"
	"unsafe"
)

// twoSteps holds 100 before it begins, peaks at 170 (moment 1), and ends at 50.
func twoSteps() *Timeline {
	return &Timeline{
		Allocs: []Alloc{{Requested: 100}, {Requested: 20}, {Requested: 50}},
		Before: []uint32{0},
		Events: []Event{
			{Born, 1}, {Born, 2},
			{FreeRequested, 0}, {FreeCompleted, 0},
			{FreeRequested, 1}, {FreeCompleted, 1},
		},
	}
}

func TestPeakCountsWhatLivedBefore(t *testing.T) {
	tl := twoSteps()
	if bytes, moment := tl.PeakRequested(); bytes != 170 || moment != 1 {
		t.Errorf("peak %d at %d, want 170 at 1", bytes, moment)
	}
	if end := tl.EndRequested(); end != 50 {
		t.Errorf("ends at %d, want 50", end)
	}
	tl.Events = nil
	if bytes, moment := tl.PeakRequested(); bytes != 100 || moment != -1 {
		t.Errorf("without events the peak is %d at %d, want 100 at -1", bytes, moment)
	}
}

func TestAliveAt(t *testing.T) {
	tl := twoSteps()
	for moment, want := range map[int][]uint32{-1: {0}, 1: {0, 1, 2}, 2: {0, 1, 2}, 3: {1, 2}, 5: {2}} {
		if got := tl.AliveAt(moment); !slices.Equal(got, want) {
			t.Errorf("alive at %d: %v, want %v", moment, got, want)
		}
	}
}

func TestStacks(t *testing.T) {
	var s StackTable
	s.Strings = []string{"", "forward", "model.py"}
	s.Frames = []Frame{{Function: 1, File: 2, Line: 7}, {}}
	empty, one := s.Add(nil), s.Add([]uint32{0, 1})
	if len(s.Stack(empty)) != 0 || !slices.Equal(s.Stack(one), []uint32{0, 1}) || s.Stack(NoStack) != nil {
		t.Errorf("stacks do not read back: %v %v", s.Stack(empty), s.Stack(one))
	}
	if s.Function(0) != "forward" || s.File(0) != "model.py" || s.Line(0) != 7 || s.Function(1) != "" {
		t.Error("a frame does not read back")
	}
}

// A trace of a million events is to fit in 20 MB beside its stacks.
func TestSizes(t *testing.T) {
	if a, e := unsafe.Sizeof(Alloc{}), unsafe.Sizeof(Event{}); a != 24 || e != 8 {
		t.Errorf("an allocation takes %d bytes and an event %d, want 24 and 8", a, e)
	}
}
