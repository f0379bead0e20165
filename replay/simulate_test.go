package replay

import (
	"context"
	"errors"
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/timeline"
)

const mib = 1 << 20

// birth adds an allocation and its birth to a timeline.
func birth(tl *timeline.Timeline, requested int64, term uint32, space timeline.Space) uint32 {
	a := uint32(len(tl.Allocs))
	tl.Allocs = append(tl.Allocs, timeline.Alloc{Requested: requested, Term: term, Stack: timeline.NoStack, Space: space})
	tl.Events = append(tl.Events, timeline.Event{Kind: timeline.Born, Alloc: a})
	return a
}

func free(tl *timeline.Timeline, list ...uint32) {
	for _, a := range list {
		tl.Events = append(tl.Events, timeline.Event{Kind: timeline.FreeRequested, Alloc: a},
			timeline.Event{Kind: timeline.FreeCompleted, Alloc: a})
	}
}

// leak is the published reproducer of
// https://github.com/pytorch/pytorch/issues/123548.
func leak(cycles int) *timeline.Timeline {
	tl := &timeline.Timeline{}
	birth(tl, 64*mib, timeline.NoTerm, timeline.Caching)
	for range cycles {
		x := birth(tl, 91*mib, timeline.NoTerm, timeline.Caching)
		y := birth(tl, 45*mib+mib/2, timeline.NoTerm, timeline.Caching)
		birth(tl, 2*mib, timeline.NoTerm, timeline.Caching)
		free(tl, x, y)
	}
	return tl
}

func simulate(t *testing.T, tl *timeline.Timeline, o Options) *Run {
	t.Helper()
	run, err := Simulate(context.Background(), tl, o)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Measured on a card of 16 GiB with PyTorch 2.12: 14060 MiB with both settings,
// 420 MiB with expandable segments alone, 422 MiB by default.
func TestSimulateTheMeasuredLeak(t *testing.T) {
	for conf, want := range map[string]int64{
		"":                         422,
		"expandable_segments:True": 420,
		"max_split_size_mb:128":    422,
		"max_split_size_mb:128,expandable_segments:True": 14060,
	} {
		o := DefaultOptions()
		o.Settings, _ = allocator.ParseConf(conf)
		o.Capacity = 16 << 30
		run := simulate(t, leak(101), o)
		if got := run.Peaks.Reserved.Bytes / mib; got != want || run.Stopped != nil {
			t.Errorf("%q: %d MiB reserved, want %d; stopped %v", conf, got, want, run.Stopped)
		}
	}
}

// The what-if of the same program, recorded under the defaults and complete, is
// exact.
func TestWhatIfOfTheMeasuredLeak(t *testing.T) {
	tr := newTracer(16<<30, allocator.DefaultSettings())
	tr.malloc(64*mib, 0)
	for cycle := range 101 {
		tr.malloc(91*mib, 0)
		tr.malloc(45*mib+mib/2, 0)
		tr.malloc(2*mib, 0)
		tr.free(1+cycle, false)
		tr.free(1+cycle, false)
	}
	s := tr.snapshot(1 << 20)
	recorded := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	if !recorded.Certificate.Holds() || recorded.Run.Peaks.Reserved.Bytes != 422*mib {
		t.Fatal(recorded.Certificate, recorded.Run.Peaks.Reserved)
	}
	o := DefaultOptions()
	o.Settings, _ = allocator.ParseConf("max_split_size_mb:128,expandable_segments:True")
	w, err := recorded.WhatIf(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n, exact := w.PeakReserved.IsExact(); !exact || n != 14060*mib || w.Kept != nil || w.OutOfMemory != No {
		t.Errorf("%d MiB, exact %v, out of memory %s", n/mib, exact, w.OutOfMemory)
	}
	o.Capacity = 8 << 30
	if w, err = recorded.WhatIf(context.Background(), o); err != nil || w.OutOfMemory != No || w.PeakReserved.Low() > 8<<30 {
		t.Errorf("on half the card, releases make room: %s, %d MiB, %v", w.OutOfMemory, w.PeakReserved.Low()/mib, err)
	}
}

// What lived before the first event is there from the start; a failure in the
// recording fails again and releases what is cached, an emptied cache is empty.
func TestSimulateEvents(t *testing.T) {
	tl := &timeline.Timeline{Failures: []timeline.Failure{{Requested: 50 * mib}}}
	tl.Allocs = []timeline.Alloc{{Requested: 30 * mib}, {Requested: 1000, Space: timeline.PrivatePool}, {Requested: 12 * mib, Space: timeline.Pinned}, {}}
	tl.Before = []uint32{0, 1, 2, 3}
	tl.Events = []timeline.Event{
		{Kind: timeline.FreeRequested, Alloc: 0},
		{Kind: timeline.FreeCompleted, Alloc: 0},
		{Kind: timeline.OutOfMemory, Alloc: 0},
		{Kind: timeline.EmptyCache},
		{Kind: timeline.Mark},
	}
	o := DefaultOptions()
	o.Capacity = 50 * mib
	run := simulate(t, tl, o)
	want := []Levels{{Requested: 30*mib + 1000, Active: 30*mib + 1024, Allocated: 1024, Reserved: 32 * mib}, {1000, 1024, 1024, 32 * mib},
		{1000, 1024, 1024, 2 * mib}, {1000, 1024, 1024, 2 * mib}, {1000, 1024, 1024, 2 * mib}}
	for i := range want {
		if run.Curve[i] != want[i] {
			t.Errorf("after event %d: %+v, want %+v", i, run.Curve[i], want[i])
		}
	}
	if run.Start != (Levels{30*mib + 1000, 30*mib + 1024, 30*mib + 1024, 32 * mib}) {
		t.Errorf("it starts at %+v", run.Start)
	}
	if run.Peaks.Reserved != (Peak{32 * mib, -1}) || run.Peaks.Allocated != (Peak{30*mib + 1024, -1}) {
		t.Errorf("peaks %+v", run.Peaks)
	}
	if f := run.Failure(); f == nil || f.Moment != 2 || f.Reserved != 2*mib || run.Stopped != nil {
		t.Errorf("it failed at %+v and stopped at %+v", f, run.Stopped)
	}
}

// A failure that is served ends the run: its bytes are held, in every scope, and
// what the program would have done with them is not recorded.
func TestServedFailureEndsTheRun(t *testing.T) {
	tl := &timeline.Timeline{Failures: []timeline.Failure{{Requested: 50 * mib}}}
	birth(tl, 30*mib, timeline.NoTerm, timeline.Caching)
	tl.Events = append(tl.Events, timeline.Event{Kind: timeline.OutOfMemory})
	birth(tl, 30*mib, timeline.NoTerm, timeline.Caching)
	run := simulate(t, tl, DefaultOptions())
	if run.Stopped == nil || !run.Stopped.Served() || run.Stopped.Moment != 1 || run.Failure() != nil || len(run.Curve) != 2 {
		t.Errorf("stopped %+v after %d events, failed %+v", run.Stopped, len(run.Curve), run.Failure())
	}
	if p := run.Peaks; p.Allocated.Bytes != 80*mib || p.Requested.Bytes != 80*mib || p.Reserved.Bytes != 80*mib {
		t.Errorf("peaks %+v", p)
	}
	if got, err := SmallestCapacity(context.Background(), tl, DefaultOptions()); err != nil || got != 80*mib {
		t.Errorf("it needs %d MiB, %v", got/mib, err)
	}
}

// A request that does not fit ends the run, which keeps what it reached.
func TestSimulateStops(t *testing.T) {
	o := DefaultOptions()
	o.Capacity = 200 * mib
	run := simulate(t, leak(1), o)
	if run.Stopped == nil || run.Stopped.Moment != 2 || run.Stopped.Reserved != 156*mib || !errors.Is(run.Stopped.Err, allocator.ErrOutOfMemory) || len(run.Curve) != 2 {
		t.Errorf("stopped at %+v", run.Stopped)
	}
	tl := leak(0)
	tl.Before, tl.Events = []uint32{0}, nil
	o.Capacity = 1
	if run = simulate(t, tl, o); run.Stopped == nil || run.Stopped.Moment != -1 {
		t.Errorf("what lived before does not fit: %+v", run.Stopped)
	}
}

func TestSimulateRefuses(t *testing.T) {
	broken := []*timeline.Timeline{
		{Before: []uint32{0}},
		{Events: []timeline.Event{{Kind: timeline.Born, Alloc: 3}}},
		{Events: []timeline.Event{{Kind: timeline.OutOfMemory}}},
	}
	for i, tl := range broken {
		if _, err := Simulate(context.Background(), tl, DefaultOptions()); err == nil {
			t.Errorf("broken timeline %d was run", i)
		}
	}
	o := DefaultOptions()
	o.Settings.Backend = allocator.CudaMallocAsync
	if _, err := Simulate(context.Background(), leak(1), o); !errors.Is(err, ErrBackend) {
		t.Errorf("another backend: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Simulate(ctx, leak(1), DefaultOptions()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}

func TestSmallestCapacity(t *testing.T) {
	for conf, want := range map[string]int64{"": 422, "max_split_size_mb:128,expandable_segments:True": 420} {
		o := DefaultOptions()
		o.Settings, _ = allocator.ParseConf(conf)
		got, err := SmallestCapacity(context.Background(), leak(101), o)
		if err != nil {
			t.Fatal(err)
		}
		o.Capacity = got
		enough := simulate(t, leak(101), o)
		o.Capacity = got - 2*mib
		short := simulate(t, leak(101), o)
		if enough.Stopped != nil || short.Stopped == nil || got > want*mib {
			t.Errorf("%q: %d MiB is the smallest capacity; with it %v, with less %v", conf, got/mib, enough.Stopped, short.Stopped)
		}
	}
	if got, err := SmallestCapacity(context.Background(), &timeline.Timeline{}, DefaultOptions()); err != nil || got != 0 {
		t.Errorf("nothing needs %d, %v", got, err)
	}
	impossible := &timeline.Timeline{}
	birth(impossible, -5, timeline.NoTerm, timeline.Caching)
	if _, err := SmallestCapacity(context.Background(), impossible, DefaultOptions()); err == nil {
		t.Error("an impossible request has a capacity")
	}
}

// The capacity of a recording is exact where a request failed: what was reserved
// then, and what the driver still had.
func TestCapacityOfARecording(t *testing.T) {
	tr := newTracer(100*mib, allocator.DefaultSettings())
	tr.malloc(60*mib, 0)
	s := tr.snapshot(100)
	if c := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Capacity(); c.Known() || c.Low() != 60*mib {
		t.Errorf("without a failure: %d, known %v", c.Low(), c.Known())
	}
	tr.malloc(50*mib, 0)
	tr.trace.Addr[len(tr.trace.Addr)-1] = 40 * mib // what cudaMemGetInfo said
	s = tr.snapshot(100)
	recorded := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	if n, exact := recorded.Capacity().IsExact(); !exact || n != 100*mib || !recorded.Certificate.Holds() {
		t.Errorf("after a failure: %d, exact %v; %s", n, exact, recorded.Certificate)
	}
	w, err := recorded.WhatIf(context.Background(), Options{Settings: allocator.DefaultSettings(), Rules: allocator.LatestRules(), Capacity: 200 * mib})
	if err != nil || !has(w.Warnings, "what_if_failure_served") {
		t.Errorf("on a larger card: %v, %v", w, err)
	}
}

// Two steps of training with everything that an account tells apart.
func TestAccount(t *testing.T) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Allocated}
	tl := &timeline.Timeline{Ranks: []int{0}, Device: 0, Terms: []account.Term{
		{ID: account.TermWeights, Category: account.CategoryParameter, Provenance: p},
		{ID: account.TermActivations, Category: account.CategoryActivation, Provenance: p},
		{ID: account.TermCommunication, Category: account.CategoryCommunication, Provenance: p},
		{ID: account.TermContext, Category: account.CategoryContext, Provenance: p},
	}}
	birth(tl, 10*mib-100, 0, timeline.Caching)
	birth(tl, 7*mib, 2, timeline.Driver)
	activation := birth(tl, 40*mib, 1, timeline.Caching)
	birth(tl, 500, timeline.NoTerm, timeline.Caching)
	free(tl, activation)
	tl.Phases = []timeline.Span{
		{Phase: account.PhaseModelLoad, First: 0, Last: 2},
		{Phase: account.PhaseForward, Step: 1, First: 2, Last: 6},
		{Phase: account.PhaseSave, First: 6, Last: 6},
	}
	process := account.Provenance{Origin: account.Fitted, Scope: account.Process}
	tl.Bounds = []timeline.Bound{{Term: 3, From: 0, To: 2, Figure: account.Between(300*mib, 500*mib, process)},
		{Term: 1, From: 1, To: 1, Figure: account.Between(0, mib, p)}}
	got := Account(tl, simulate(t, tl, DefaultOptions()), account.Calculated)

	forward := got.Phases[1]
	type row struct{ low, high, moment int64 }
	for scope, want := range map[account.Scope]row{
		account.Requested: {50*mib + 400, 50*mib + 400, 3},
		account.Allocated: {50*mib + 512, 51*mib + 512, 3},
		account.Active:    {50*mib + 512, 51*mib + 512, 3},
		account.Reserved:  {52 * mib, 53 * mib, 3},
		account.Process:   {(52 + 7 + 300) * mib, (53 + 7 + 500) * mib, 3},
	} {
		peak := forward.Peak(scope)
		high, known := peak.Figure.High()
		if g := (row{peak.Figure.Low(), high, peak.Moment}); g != want || !known {
			t.Errorf("%s peaks at %+v, want %+v", scope, g, want)
		}
	}
	sum, high := allocatedRows(forward)
	if sum != 50*mib+512 || high != 51*mib+512 || got.Terms[forward.AtPeak[0].Term].ID != account.TermWeights {
		t.Errorf("the rows of the peak sum to %d to %d: %v", sum, high, forward.AtPeak)
	}
	if n, ok := forward.Start.Allocated.IsExact(); !ok || n != 10*mib {
		t.Errorf("forward starts with %d allocated", n)
	}
	if n := forward.End.Reserved.Low(); n != 52*mib {
		t.Errorf("forward ends with %d reserved", n)
	}
	if forward.Start.Host.Known() || forward.ID != account.PhaseForward || forward.Step != 1 {
		t.Errorf("forward is %+v", forward)
	}
	// A phase without events keeps the levels that it found.
	if save := got.Phases[2]; save.Peak(account.Process).Figure.Low() != (52+7+300)*mib || save.Peak(account.Allocated).Figure.Low() != 10*mib+512 {
		t.Errorf("save peaks at %+v", save.Peaks)
	}
}

// A run that ended early keeps its peaks as lower bounds, and says which phases
// it did not reach.
func TestAccountOfARunThatStopped(t *testing.T) {
	tl := leak(2)
	tl.Phases = []timeline.Span{{Phase: account.PhaseModelLoad, Last: 1}, {Phase: account.PhaseForward, First: 1, Last: 8}, {Phase: account.PhaseBackward, First: 8, Last: len(tl.Events)}}
	o := DefaultOptions()
	o.Capacity = 160 * mib
	got := Account(tl, simulate(t, tl, o), account.Calculated)
	load, forward, backward := got.Phases[0], got.Phases[1], got.Phases[2]
	if load.Failed != "" || !load.Peak(account.Reserved).Figure.Known() {
		t.Errorf("model_load: %+v", load)
	}
	if f := forward.Peak(account.Reserved).Figure; forward.Failed == "" || f.Known() || f.Low() != 156*mib {
		t.Errorf("forward: %q %d", forward.Failed, f.Low())
	}
	if len(backward.Peaks) != 0 || backward.Failed == "" {
		t.Errorf("backward: %+v", backward)
	}
}

// Without spans there is one phase; the rows of a recording sum to its peak.
func TestAccountOfARecording(t *testing.T) {
	s, r := one(t, "assignment2-magma.pickle")
	recorded := Replay(s, r, allocator.LatestRules(), 0)
	tl := r.Timeline
	tl.Phases = nil
	got := Account(&tl, recorded.Run, account.Observed)
	phase := got.Phases[0]
	if len(got.Phases) != 1 || phase.ID != account.PhaseRecorded || phase.Peak(account.Allocated).Figure.Low() != 13927832064 {
		t.Fatalf("%+v", got.Phases)
	}
	if sum, _ := allocatedRows(phase); sum != 13927832064 || phase.Peak(account.Process).Figure.Known() {
		t.Errorf("rows sum to %d; process %v", sum, phase.Peak(account.Process))
	}
}

// allocatedRows sums the rows of a phase that are allocated bytes.
func allocatedRows(phase account.Phase) (low, high int64) {
	for _, share := range phase.AtPeak {
		if share.Bytes.Scope == account.Allocated {
			h, _ := share.Bytes.High()
			low, high = low+share.Bytes.Low(), high+h
		}
	}
	return low, high
}

// What lies outside the allocator, what it caches, and what is zero or unknown
// because of something keep rows of their own, in the order of the terms. Main
// memory has none.
func TestRowsBesideTheAllocated(t *testing.T) {
	process := account.Provenance{Origin: account.Calculated, Scope: account.Process}
	requested := account.Provenance{Origin: account.Calculated, Scope: account.Requested}
	tl := &timeline.Timeline{Terms: []account.Term{
		{ID: account.TermWeights}, {ID: account.TermGraphPools}, {ID: account.TermActivations}, {ID: account.TermContext}, {ID: account.TermCommunication},
	}}
	birth(tl, 5*mib, 4, timeline.Driver)
	birth(tl, 2*mib, 0, timeline.Pinned)
	birth(tl, 3*mib, 0, timeline.Caching)
	tl.Phases = []timeline.Span{{Phase: account.PhaseModelLoad, Last: 3}}
	tl.Bounds = []timeline.Bound{
		{Term: 1, Figure: account.Zero("nothing is captured", requested)},
		{Term: 2, Figure: account.Unknown("not modelled", requested)},
		{Term: 3, Figure: account.Between(mib, 2*mib, process)},
	}
	got := Account(tl, simulate(t, tl, DefaultOptions()), account.Calculated)
	type row struct {
		term   account.TermID
		scope  account.Scope
		low    int64
		status account.Status
		reason string
	}
	want := []row{
		{account.TermWeights, account.Allocated, 3 * mib, account.StatusCounted, ""},
		{account.TermGraphPools, account.Allocated, 0, account.StatusZero, "nothing is captured"},
		{account.TermActivations, account.Allocated, 0, account.StatusUnknown, "not modelled"},
		{account.TermContext, account.Process, mib, account.StatusCounted, ""},
		{account.TermCommunication, account.Process, 5 * mib, account.StatusCounted, ""},
		{account.TermAllocatorCache, account.Reserved, 17 * mib, account.StatusCounted, ""},
	}
	var rows []row
	for _, s := range got.Phases[0].AtPeak {
		rows = append(rows, row{got.Terms[s.Term].ID, s.Bytes.Scope, s.Bytes.Low(), s.Bytes.Status(), s.Bytes.Reason()})
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are\n%v, want\n%v", rows, want)
	}
}
