package replay

import (
	"context"
	"errors"
	"fmt"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/timeline"
)

// Answer is yes, no, or that nobody can tell.
type Answer string

// The answers.
const (
	Yes        Answer = "yes"
	No         Answer = "no"
	CannotTell Answer = "cannot_tell"
)

// WhatIf is what a recorded program would have reserved under other settings,
// or on a card with less memory. It assumes that the program does the same.
type WhatIf struct {
	Settings allocator.Settings
	// Capacity is the bytes that the allocator could hold, a memory fraction
	// counted; 0: without a limit.
	Capacity int64
	Recorded bool // this is the recording itself, see [Recorded.AsRecorded]

	// The peaks are exact where the recording shows the program from its first
	// allocation; else they lie between Kept and Fresh. Of a program that ran out
	// of memory earlier than it was recorded to, or that is served what it was
	// refused, they are lower bounds.
	PeakReserved  account.Figure
	PeakAllocated account.Figure
	// OutOfMemory is Yes also where the recorded failure comes again. Where it
	// does not, within a limit, nobody can tell: what follows is not recorded.
	OutOfMemory Answer

	Fresh *Run // began with an empty allocator, into which what lived before was allocated first
	Kept  *Run // began with the segments as they were recorded; nil where there were none

	// ValidatedOnHardware is true of the recording alone: nobody has run the
	// program in another way.
	ValidatedOnHardware bool
	Warnings            []account.Warning
}

// WhatIf replays the recording under other settings. Options.Curve says whether
// the runs keep a curve. The error is a [NotCertifiedError] when the simulation
// does not reproduce the recording, or has no allocation to reproduce; else one
// of [Simulate].
func (r *Recorded) WhatIf(ctx context.Context, o Options) (*WhatIf, error) {
	if err := r.certified(); err != nil {
		return nil, err
	}
	tl := &r.Recording.Timeline
	w := &WhatIf{Settings: o.Rules.Effective(o.Settings), Capacity: o.limit()}
	if w.Settings.MemoryFraction < 1 && o.TotalMemory <= 0 {
		return nil, ErrTotalUnknown
	}
	noLimit := o.Capacity <= 0 && len(tl.Failures) == 0
	if noLimit && o.Rules == r.rules && w.Settings.String() == r.Run.Settings.String() {
		w.Fresh = r.Run // as it was recorded
	} else {
		runs, err := r.runs(ctx, o)
		if err != nil {
			return nil, err
		}
		if w.Fresh = runs[0]; len(runs) > 1 {
			w.Kept = runs[1]
		}
	}
	w.conclude()
	w.Warnings = append(r.warnings(tl, o, w), w.Settings.Warnings...)
	return w, nil
}

// ErrTotalUnknown refuses a share of a card whose size nobody told.
var ErrTotalUnknown = errors.New("per_process_memory_fraction is a share of the card's memory, which is not known")

// AsRecorded is the recording itself, in the form of a what-if: what others are
// compared with. Its capacity is that of the recording, as far as it is exact.
func (r *Recorded) AsRecorded() (*WhatIf, error) {
	if err := r.certified(); err != nil {
		return nil, err
	}
	w := &WhatIf{Settings: r.Run.Settings, Recorded: true, ValidatedOnHardware: true, Fresh: r.Run, Warnings: r.Run.Settings.Warnings}
	w.Capacity = r.Limit()
	w.conclude()
	return w, nil
}

// limit is the most bytes that the allocator can hold, 0 without a limit.
func (o Options) limit() int64 {
	limit := max(o.Capacity, 0)
	if s := o.Rules.Effective(o.Settings); s.MemoryFraction < 1 && o.TotalMemory > 0 {
		if share := int64(s.MemoryFraction * float64(o.TotalMemory)); limit == 0 || share < limit {
			limit = share
		}
	}
	return limit
}

func (r *Recorded) certified() error {
	if c := r.Certificate; !c.Holds() || c.Addresses.Total == 0 {
		return &NotCertifiedError{Device: r.Recording.Timeline.Device, Certificate: c}
	}
	return nil
}

// runs is the run that begins with an empty allocator, and the one that begins
// with what the recorded one held, if it held anything.
func (r *Recorded) runs(ctx context.Context, o Options) ([]*Run, error) {
	fresh, err := r.fresh(ctx, o)
	if err != nil || len(r.start.segments) == 0 {
		return []*Run{fresh}, err
	}
	kept, err := r.kept(ctx, o)
	return []*Run{fresh, kept}, err
}

// fresh begins with an empty allocator.
func (r *Recorded) fresh(ctx context.Context, o Options) (*Run, error) {
	tl := &r.Recording.Timeline
	if err := check(tl, o); err != nil {
		return nil, err
	}
	s := newSimulation(tl, o, allocator.NewCard(o.Capacity, o.TotalMemory))
	s.empty = r.empty
	if !s.allocateBefore() {
		return s.run.finish(), nil
	}
	return s.play(ctx)
}

// kept begins with the segments of the recording.
func (r *Recorded) kept(ctx context.Context, o Options) (*Run, error) {
	tl := &r.Recording.Timeline
	card := allocator.NewCard(o.Capacity, o.TotalMemory)
	s := newSimulation(tl, o, card)
	s.a = allocator.New(card, o.Settings, o.Rules)
	if err := r.start.restore(s.a, r.pools, s.handles); err != nil {
		return nil, err
	}
	if r.pools > 1 {
		s.private = 1
	}
	card.Take(s.a.Reserved())
	limit := o.limit()
	if limit > 0 && s.a.Reserved() > limit {
		s.a.EmptyCache() // as a refusal before the recording would have
	}
	s.empty = r.empty
	s.run = newRecorder(s.a, len(tl.Events), o.Curve)
	if held := s.a.Reserved(); limit > 0 && held > limit {
		s.stop(-1, 0, fmt.Errorf("%w: %d bytes were held before the first event", allocator.ErrOutOfMemory, held))
		return s.run.finish(), nil
	}
	return s.play(ctx)
}

// conclude puts the runs together.
func (w *WhatIf) conclude() {
	runs := []*Run{w.Fresh}
	if w.Kept != nil {
		runs = append(runs, w.Kept)
	}
	var reserved, allocated []int64
	var stop *Stop
	w.OutOfMemory = w.answer(runs[0])
	for _, run := range runs {
		if run.Stopped != nil {
			stop = run.Stopped
		}
		if w.answer(run) != w.OutOfMemory {
			w.OutOfMemory = CannotTell
		}
		reserved = append(reserved, run.Peaks.Reserved.Bytes)
		allocated = append(allocated, run.Peaks.Allocated.Bytes)
	}
	w.PeakReserved = peakFigure(reserved, stop, account.Reserved)
	w.PeakAllocated = peakFigure(allocated, stop, account.Allocated)
}

// answer says whether one run is out of memory. What follows a request that
// failed in the recording and is served here can fail within a limit.
func (w *WhatIf) answer(run *Run) Answer {
	switch {
	case run.Failure() != nil:
		return Yes
	case run.Stopped != nil && w.Capacity > 0:
		return CannotTell
	}
	return No
}

// Served is the request that failed in the recording and is served in every run
// of this what-if, nil where there is none.
func (w *WhatIf) Served() *Stop {
	for _, run := range []*Run{w.Kept, w.Fresh} {
		if run != nil && (run.Stopped == nil || !run.Stopped.Served() || run.Refused != nil) {
			return nil
		}
	}
	return w.Fresh.Stopped
}

func peakFigure(bytes []int64, stop *Stop, scope account.Scope) account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: scope, Counter: counterOf(scope) + ".peak", Source: allocatorSource}
	low, high := bytes[0], bytes[len(bytes)-1]
	switch {
	case stop == nil:
		return account.Between(low, high, p)
	case stop.Served():
		return account.AtLeast(min(low, high), ErrServed.Error(), p)
	}
	return account.AtLeast(min(low, high), "the program ran out of memory", p)
}

// warnings say what this what-if cannot know.
func (r *Recorded) warnings(tl *timeline.Timeline, o Options, w *WhatIf) []account.Warning {
	var list []account.Warning
	add := func(when bool, code, text string) {
		if when {
			list = append(list, account.Warning{Code: code, Text: text})
		}
	}
	add(true, "what_if_not_validated", "this is a simulation, not validated on hardware; it assumes that the program asks for the same bytes in the same order, "+
		"although some libraries choose workspaces by the memory that is free")
	add(len(r.start.segments) > 0, "what_if_start_assumed",
		"the recording begins in the middle of a run; what lived before it was once taken as it lay and once allocated anew, and the truth may be neither")
	add(r.unsure > 0, "what_if_release_unsure",
		fmt.Sprintf("%d releases of cached memory in the recording may be a refusal of the driver or torch.cuda.empty_cache; they are taken for refusals", r.unsure))
	add(r.unsure > 0 && o.Capacity <= 0, "what_if_without_capacity",
		"the driver refused memory in the recording, but this run has no capacity and releases nothing")
	served := w.Served()
	add(served != nil, "what_if_failure_served", "the request that failed in the recording is served here and held; "+
		"what the program would have done then is not recorded, so the peaks are lower bounds")
	add(r.pools > 1, "what_if_private_pools", "all private pools (CUDA graphs, MemPools) are taken for one that lives as long as the recording")
	add(waits(tl), "what_if_stream_timing", "some frees wait for other streams; how long they would under another layout is taken from the recording")
	return list
}

// waits reports a free that is completed later than it is requested.
func waits(tl *timeline.Timeline) bool {
	for k, e := range tl.Events {
		if e.Kind == timeline.FreeRequested && (k+1 == len(tl.Events) || tl.Events[k+1] != timeline.Event{Kind: timeline.FreeCompleted, Alloc: e.Alloc}) {
			return true
		}
	}
	return false
}

// Limit is [Recorded.Capacity] where that is exact, else 0: without a limit.
func (r *Recorded) Limit() int64 {
	if n, exact := r.Capacity().IsExact(); exact {
		return n
	}
	return 0
}

// Capacity is what the driver could give to the allocator in the recording.
// Where a request failed, it is exact: what was reserved then and what the
// driver still had; the smallest, where several failed. Else it is at least the
// recorded peak.
func (r *Recorded) Capacity() account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: account.Reserved, Counter: "device_free", Source: "out-of-memory entry of the trace"}
	least := int64(-1)
	for _, f := range r.Recording.Failures {
		if f.Capacity >= 0 && (least < 0 || f.Capacity < least) {
			least = f.Capacity
		}
	}
	if least >= 0 {
		return account.Exact(least, p)
	}
	p.Counter, p.Source = counterOf(account.Reserved)+".peak", "segment entries of the trace"
	return account.AtLeast(r.Certificate.ReservedPeakRecorded, "no request failed in the recording", p)
}
