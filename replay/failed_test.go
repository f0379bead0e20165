package replay

import (
	"context"
	"errors"
	"testing"

	"floodmark/account"
	"floodmark/allocator"
)

// died is a recording that ends in a failure: 200 MiB of weights, 5 MiB in a
// segment of 20 MiB, 100 MiB that were freed, and 512 MiB that a driver with 520
// MiB for the allocator could not give.
func died(t *testing.T) *Recorded {
	t.Helper()
	tr := newTracer(520*mib, allocator.DefaultSettings())
	tr.malloc(200*mib, 0)
	tr.malloc(5*mib, 0)
	tr.malloc(100*mib, 0)
	tr.free(2, false)
	tr.malloc(512*mib, 0)
	tr.trace.Addr[len(tr.trace.Addr)-1] = 300 * mib // what cudaMemGetInfo said
	s := tr.snapshot(100)
	r := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	if !r.Certificate.Holds() {
		t.Fatal(r.Certificate)
	}
	return r
}

// What a run died of is described as the allocator stood then, its cache
// released: 15 MiB stay behind the 5 MiB.
func TestRecordedFailure(t *testing.T) {
	r := died(t)
	if len(r.Failures) != 1 {
		t.Fatalf("%d failures", len(r.Failures))
	}
	f := r.Failures[0]
	if f.Levels.Reserved != 220*mib || f.Cached() != 15*mib || f.Stuck != 15*mib || f.LargestFree != 15*mib || r.Recording.Trace.Action[f.Entry].String() != "oom" {
		t.Errorf("%+v", f)
	}
	w, err := r.AsRecorded()
	if err != nil {
		t.Fatal(err)
	}
	if n, exact := w.PeakReserved.IsExact(); !exact || n != 320*mib || w.OutOfMemory != Yes || w.Capacity != 520*mib || !w.Recorded {
		t.Errorf("as recorded: %+v", w)
	}
}

// The same settings at the capacity at which the program died do not run. With
// more, the request is served, and nobody knows what follows; without a limit,
// nothing fails.
func TestWhatIfOfAFailure(t *testing.T) {
	r := died(t)
	for _, c := range []struct {
		capacity  int64
		want      Answer
		reserved  int64
		exact     bool
		allocated int64
	}{
		{520 * mib, Yes, 320 * mib, true, 305 * mib},
		{730 * mib, Yes, 320 * mib, true, 305 * mib},
		{732 * mib, CannotTell, 732 * mib, false, 717 * mib},
		{0, No, 832 * mib, false, 717 * mib},
	} {
		o := DefaultOptions()
		o.Capacity = c.capacity
		w, err := r.WhatIf(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, exact := w.PeakReserved.IsExact(); w.OutOfMemory != c.want || w.PeakReserved.Low() != c.reserved || exact != c.exact || w.PeakAllocated.Low() != c.allocated {
			t.Errorf("%d MiB: out of memory %s, %d MiB reserved and %d allocated, exact %v", c.capacity/mib, w.OutOfMemory,
				w.PeakReserved.Low()/mib, w.PeakAllocated.Low()/mib, exact)
		}
		if served := w.Served() != nil; served == c.exact || has(w.Warnings, "what_if_failure_served") != served {
			t.Errorf("%d MiB: served %v, %v", c.capacity/mib, served, w.Warnings)
		}
	}
	if least, err := r.SmallestCapacity(context.Background(), DefaultOptions()); err != nil || least != 732*mib {
		t.Errorf("it needs %d MiB, %v", least/mib, err)
	}
}

// A memory fraction is a limit like any other, and one of a card that nobody
// named is no limit that could be tried.
func TestWhatIfUnderAMemoryFraction(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	tr.malloc(300*mib, 0)
	tr.malloc(300*mib, 0)
	tr.free(0, false)
	s := tr.snapshot(2) // both lived before the first entry
	r := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	o := DefaultOptions()
	o.Settings.MemoryFraction = 0.5
	// Of a recording of frees alone there is no what-if, so one birth is added.
	if _, err := r.WhatIf(context.Background(), o); !errors.As(err, new(*NotCertifiedError)) {
		t.Errorf("without a birth: %v", err)
	}
	tr.malloc(10*mib, 0)
	s = tr.snapshot(4)
	r = Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	if _, err := r.WhatIf(context.Background(), o); !errors.Is(err, ErrTotalUnknown) {
		t.Errorf("of an unknown card: %v", err)
	}
	for total, want := range map[int64]Answer{1000 * mib: Yes, 1200 * mib: No} {
		o.TotalMemory = total
		w, err := r.WhatIf(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if w.Capacity != total/2 || w.OutOfMemory != want || w.Kept == nil {
			t.Errorf("half of %d MiB: capacity %d MiB, out of memory %s", total/mib, w.Capacity/mib, w.OutOfMemory)
		}
	}
	o.TotalMemory = 1000 * mib
	if _, err := r.SmallestCapacity(context.Background(), o); !errors.Is(err, ErrNeverRuns) {
		t.Errorf("a fraction that is too small has a capacity: %v", err)
	}
}

// A span in which a failure is served did not end: its peaks are lower bounds.
func TestAccountOfAServedFailure(t *testing.T) {
	r := died(t)
	o := DefaultOptions()
	w, err := r.WhatIf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	a := Account(&r.Recording.Timeline, w.Fresh, account.Calculated)
	peak := a.Phases[0].Peak(account.Allocated).Figure
	if peak.Known() || peak.Low() != 717*mib || a.Phases[0].Failed != ErrServed.Error() {
		t.Errorf("at least %d MiB, known %v; %q", peak.Low()/mib, peak.Known(), a.Phases[0].Failed)
	}
}
