package snapshot

import (
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
)

// User metadata names parts of a trace; each has its own peak.
func TestNamed(t *testing.T) {
	p := newProgram()
	p.now = "forward"
	a := p.alloc(100, inModel)
	p.now = "sampling"
	p.free(a, inModel)
	p.alloc(30, inModel)
	p.now = "forward"
	p.alloc(10, inModel)
	r, _ := p.record()
	got := r.Named()
	want := []Named{
		{Name: "forward", Phase: account.PhaseForward, Intervals: 2, Peak: Peak{100, 0}},
		{Name: "sampling", Phase: account.PhaseRecorded, Intervals: 1, Peak: Peak{100, 1}},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("names are %+v, want %+v", got, want)
	}
}

// Whatever the intervals are, each peak is the highest level between its ends.
func TestHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		var live []uint64
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				p.free(live[0])
				live = live[1:]
				continue
			}
			live = append(live, p.alloc(int64(rapid.IntRange(1, 9).Draw(t, "size"))))
		}
		r, _ := p.record()
		n := r.Trace.Len()
		first := 0
		for range rapid.IntRange(0, 8).Draw(t, "intervals") {
			first = rapid.IntRange(first, n).Draw(t, "first")
			r.Intervals = append(r.Intervals, Interval{First: first, Last: rapid.IntRange(first, n).Draw(t, "last")})
		}
		peaks := r.highest()
		for i, interval := range r.Intervals {
			most := int64(0)
			r.Walk(func(entry int, l Levels) {
				if interval.First <= entry && entry < interval.Last {
					most = max(most, l.Requested)
				}
			})
			if peaks[i].Bytes != most {
				t.Fatalf("%+v reaches %d, want %d", interval, peaks[i].Bytes, most)
			}
		}
	})
}
