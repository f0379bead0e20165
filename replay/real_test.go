package replay

import (
	"context"
	"errors"
	"testing"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/snapshot"
)

// The committed recordings; their origin is in snapshot/testdata/real/ORIGIN.md.
const real = "../snapshot/testdata/real/"

// one is the first device of a committed recording.
func one(t *testing.T, name string) (*snapshot.Snapshot, *snapshot.Recording) {
	t.Helper()
	s := read(t, real+name)
	return s, s.Recordings()[0]
}

// Real recordings of several releases are reproduced to the last address. Their
// peaks were calculated independently by another implementation of the rules.
func TestRealRecordings(t *testing.T) {
	for _, c := range []struct {
		file                string
		certificate         string
		allocated, reserved int64
	}{
		{"assignment2-magma.pickle", "1721/1721 addresses, 0/0 segments, 0/0 releases", 13927832064, 14180941824},
		{"assignment2-silmont.pickle", "36/36 addresses, 9/9 segments, 0/0 releases", 3249144832, 3781165056},
		// No allocation is recorded in these: what is compared is their state. In
		// the last, frees of nine blocks wait: they are not allocated any more.
		{"llm-inference.pickle", "0/0 addresses, 0/0 segments, 0/0 releases", 11840159744, 11844714496},
		{"docubox.pickle", "0/0 addresses, 0/0 segments, 0/0 releases", 90861056, 109051904},
		{"verl.pickle", "0/0 addresses, 0/0 segments, 0/0 releases", 24916034560, 26189234176},
	} {
		s, r := one(t, c.file)
		got := Replay(s, r, allocator.LatestRules(), 0)
		if !got.Certificate.Holds() || got.Certificate.String() != c.certificate {
			t.Errorf("%s: %s, holds %v", c.file, got.Certificate, got.Certificate.Holds())
		}
		if p := got.Run.Peaks; p.Allocated.Bytes != c.allocated || p.Reserved.Bytes != c.reserved {
			t.Errorf("%s: allocated %d and reserved %d at their peaks, want %d and %d", c.file, p.Allocated.Bytes, p.Reserved.Bytes, c.allocated, c.reserved)
		}
	}
}

// A file of random data is no recording. It is said so, and nothing is promised.
func TestRandomDataIsNotReproduced(t *testing.T) {
	s, r := one(t, "mosaic.pickle")
	got := Replay(s, r, allocator.LatestRules(), 0)
	if got.Certificate.Holds() || got.Certificate.FirstMismatch == nil {
		t.Errorf("random data was reproduced: %s", got.Certificate)
	}
	_, err := got.WhatIf(context.Background(), DefaultOptions())
	var refused *NotCertifiedError
	if !errors.As(err, &refused) || refused.Certificate.Addresses.Total != 520 {
		t.Errorf("a what-if on it: %v", err)
	}
	if _, err := got.SmallestCapacity(context.Background(), DefaultOptions()); !errors.As(err, &refused) {
		t.Errorf("its smallest capacity: %v", err)
	}
}

// A real recording with one address changed names the entry.
func TestChangedRealRecording(t *testing.T) {
	s, r := one(t, "assignment2-magma.pickle")
	trace := &s.Traces[0]
	for i, n := 0, 0; i < trace.Len(); i++ {
		if trace.Action[i] != snapshot.Alloc {
			continue
		}
		if n++; n%173 != 0 {
			continue
		}
		was := trace.Addr[i]
		trace.Addr[i] += 0x200
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Certificate
		if m := got.FirstMismatch; got.Holds() || m == nil || m.Entry != i {
			t.Errorf("entry %d was changed: %s", i, got)
		}
		trace.Addr[i] = was
	}
	if !Replay(s, r, allocator.LatestRules(), 0).Certificate.Holds() {
		t.Error("the recording was not put back")
	}
}

// A recording of a state only has nothing that could run otherwise.
func TestNothingRecorded(t *testing.T) {
	s, r := one(t, "docubox.pickle")
	_, err := Replay(s, r, allocator.LatestRules(), 0).WhatIf(context.Background(), DefaultOptions())
	var refused *NotCertifiedError
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	const want = "device 0: the snapshot records no allocation, so there is nothing to replay"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// The program of a real recording under other settings. The recording begins in
// the middle of a run, so the answers are intervals; they are simulated and not
// validated on hardware.
func TestWhatIfOfARealRecording(t *testing.T) {
	s, r := one(t, "assignment2-magma.pickle")
	recorded := Replay(s, r, allocator.LatestRules(), 0)
	o := DefaultOptions()
	same, err := recorded.WhatIf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n, exact := same.PeakReserved.IsExact(); !exact || n != recorded.Certificate.ReservedPeakRecorded || same.OutOfMemory != No {
		t.Errorf("the settings of the recording: %d, exact %v, out of memory %s", n, exact, same.OutOfMemory)
	}
	o.Settings.ExpandableSegments = true
	o.Curve = false
	expandable, err := recorded.WhatIf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	peak := recorded.Run.Peaks.Allocated.Bytes
	if low := expandable.PeakReserved.Low(); low < peak || low > recorded.Certificate.ReservedPeakRecorded {
		t.Errorf("with expandable segments at least %d would be reserved for %d allocated", low, peak)
	}
	if expandable.ValidatedOnHardware || !has(expandable.Warnings, "what_if_not_validated") || !has(expandable.Warnings, "what_if_start_assumed") {
		t.Errorf("the what-if does not say what it cannot know: %v", expandable.Warnings)
	}
	o.Capacity = peak - 1<<30
	small, err := recorded.WhatIf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if small.OutOfMemory != Yes || small.PeakReserved.Known() || small.PeakReserved.Low() > o.Capacity {
		t.Errorf("with less than it allocates: %s, %d reserved", small.OutOfMemory, small.PeakReserved.Low())
	}
}

// With the least capacity the recorded program runs, however it began.
func TestLeastCapacityOfRealRecordings(t *testing.T) {
	for _, name := range []string{"assignment2-magma.pickle", "assignment2-silmont.pickle"} {
		s, r := one(t, name)
		recorded := Replay(s, r, allocator.LatestRules(), 0)
		for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:128"} {
			o := DefaultOptions()
			o.Settings, _ = allocator.ParseConf(conf)
			least, err := recorded.SmallestCapacity(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			for capacity, want := range map[int64]bool{least: true, least - capacityStep: false} {
				o.Capacity = capacity
				w, err := recorded.WhatIf(context.Background(), o)
				if err != nil || (w.OutOfMemory == No) != want {
					t.Errorf("%s, %q: with %d bytes out of memory %s, %v", name, conf, capacity, w.OutOfMemory, err)
				}
			}
		}
	}
}

func has(list []account.Warning, code string) bool {
	for _, w := range list {
		if w.Code == code {
			return true
		}
	}
	return false
}
