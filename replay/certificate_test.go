package replay

import (
	"strings"
	"testing"

	"floodmark/allocator"
	"floodmark/snapshot"

	"pgregory.net/rapid"
)

// program runs anything that a program may do.
func program(t *rapid.T, tr *tracer, steps int, more int64) {
	for range steps {
		switch rapid.IntRange(0, 11).Draw(t, "action") {
		case 0, 1, 2, 3:
			base := rapid.SampledFrom([]int64{1, 3 << 10, 700 << 10, 2 << 20, 6 << 20, 12 << 20, 34 << 20, 90 << 20}).Draw(t, "size")
			tr.malloc(base+rapid.Int64Range(0, more).Draw(t, "more"), rapid.SampledFrom(tr.s.Streams).Draw(t, "stream"))
		case 4, 5, 6, 7:
			if len(tr.live) > 0 {
				tr.free(rapid.IntRange(0, len(tr.live)-1).Draw(t, "which"), false)
			}
		case 8:
			// With these settings a trace does not always tell which action waited
			// for a free.
			plain := tr.s.Settings.MaxSplitSize == allocator.Unlimited && !tr.s.Settings.ExpandableSegments
			if len(tr.live) > 0 && plain {
				tr.free(rapid.IntRange(0, len(tr.live)-1).Draw(t, "which"), true)
			}
		case 9:
			tr.reached()
		case 10:
			if rapid.IntRange(0, 3).Draw(t, "empty cache") == 0 {
				tr.emptyCache()
			}
		}
	}
}

func anySettings(t *rapid.T) allocator.Settings {
	s := allocator.DefaultSettings()
	s.ExpandableSegments = rapid.Bool().Draw(t, "expandable_segments")
	s.MaxSplitSize = rapid.SampledFrom([]int64{allocator.Unlimited, allocator.Unlimited, 32 << 20}).Draw(t, "max_split_size")
	s.RoundupPower2Divisions[0] = rapid.SampledFrom([]int64{0, 4}).Draw(t, "divisions")
	return s
}

// A recording from the first allocation on is reproduced whatever the program
// did, refusals of the driver and failed requests included.
func TestCompleteRecordingsAreReproduced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := newTracer(rapid.Int64Range(60, 1000).Draw(t, "capacity in MiB")<<20, anySettings(t))
		program(t, tr, rapid.IntRange(1, 150).Draw(t, "steps"), 700<<10)
		s := tr.snapshot(1 << 20)
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
		if !got.Certificate.Holds() {
			t.Fatalf("%s; reserved peaks %d and %d", got.Certificate,
				got.Certificate.ReservedPeakRecorded, got.Certificate.ReservedPeakReplayed)
		}
		stats := tr.a.Stats()
		if got.Run.Peaks.Allocated.Bytes != stats.AllocatedBytes.All.Peak || got.Run.Peaks.Active.Bytes < stats.ActiveBytes.All.Current {
			t.Fatalf("peaks %+v, the program had %+v", got.Run.Peaks, *stats)
		}
	})
}

// A ring buffer that wrapped loses the beginning; the state before its first
// entry is rebuilt. No large block keeps more than its request here: that rest
// cannot always be known, see TestSettle.
func TestWrappedRecordingsAreReproduced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		settings.MaxSplitSize = allocator.Unlimited
		tr := newTracer(0, settings)
		program(t, tr, rapid.IntRange(1, 150).Draw(t, "steps"), 0)
		s := tr.snapshot(rapid.IntRange(0, 100).Draw(t, "kept"))
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
		if !got.Certificate.Holds() {
			t.Fatalf("%s", got.Certificate)
		}
	})
}

// A trace with one wrong address names it.
func TestOneWrongAddressIsNamed(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	for range 3 {
		for _, mib := range []int64{5, 12, 40, 3, 1} {
			tr.malloc(mib<<20-100, 0)
		}
		for len(tr.live) > 1 {
			tr.free(0, false)
		}
	}
	whole := tr.snapshot(1 << 20)
	for i, action := range whole.Traces[0].Action {
		if action != snapshot.Alloc {
			continue
		}
		s := tr.snapshot(1 << 20)
		s.Traces[0].Addr[i] += 512
		c := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Certificate
		if c.Holds() || c.FirstMismatch == nil || c.FirstMismatch.Entry != i {
			t.Errorf("the address of entry %d was changed: %s", i, c)
		} else if c.Addresses.Matched != c.Addresses.Total-1 {
			t.Logf("entry %d: %s", i, c)
		}
	}
}

// A driver that gave what the allocator would not have asked for is named, too.
func TestWrongSegmentsAreNamed(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	tr.malloc(5<<20, 0)
	tr.malloc(50<<20, 0)
	tr.free(1, false)
	tr.emptyCache()
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot)
		entry  int
		text   string
	}{
		"another size":     {func(s *snapshot.Snapshot) { s.Traces[0].Size[2] += 2 << 20 }, 2, "segment_alloc of 52428800 bytes"},
		"another action":   {func(s *snapshot.Snapshot) { s.Traces[0].Action[0] = snapshot.SegmentMap }, 0, "segment_map"},
		"nothing released": {func(s *snapshot.Snapshot) { s.Traces[0].Action[6] = snapshot.Dumped }, 2, ""},
	} {
		s := tr.snapshot(100)
		c.change(s)
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Certificate
		if got.Holds() || got.FirstMismatch == nil || !strings.Contains(got.FirstMismatch.Text, c.text) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
