package replay

import (
	"context"
	"errors"
	"fmt"

	"floodmark/allocator"
	"floodmark/timeline"
)

// Options say how a timeline is run.
type Options struct {
	Settings allocator.Settings
	Rules    allocator.Rules
	// Capacity is the bytes that the driver can give to the allocator: the card
	// less what is held outside of it. 0 or less: without a limit.
	Capacity int64
	// TotalMemory is the card's, of which memory fractions are taken; 0 or less:
	// the capacity.
	TotalMemory int64
	// Curve asks for the levels after each event: 32 bytes each.
	Curve bool
}

// DefaultOptions are the settings of an empty PYTORCH_ALLOC_CONF under the
// newest rules, without a limit, with a curve.
func DefaultOptions() Options {
	return Options{Settings: allocator.DefaultSettings(), Rules: allocator.LatestRules(), Curve: true}
}

// ErrBackend says that a backend other than the native one was asked for: its
// layout is the driver's and cannot be simulated.
var ErrBackend = errors.New("only the native allocator can be simulated")

// Simulate runs a timeline through an allocator that begins empty. What lived
// before the first event is allocated first, in the order of Before. A request
// that does not fit ends the run, and so does one that is served although it
// failed in the recording ([ErrServed]). Neither is an error; errors are a backend that
// cannot be simulated, a timeline whose events contradict each other, and the
// context's.
func Simulate(ctx context.Context, tl *timeline.Timeline, o Options) (*Run, error) {
	if err := check(tl, o); err != nil {
		return nil, err
	}
	s := newSimulation(tl, o, allocator.NewCard(o.Capacity, o.TotalMemory))
	if !s.allocateBefore() {
		return s.run.finish(), nil
	}
	return s.play(ctx)
}

// check refuses what cannot be run, so that no index is out of range later.
func check(tl *timeline.Timeline, o Options) error {
	if o.Settings.Backend != allocator.Native {
		return fmt.Errorf("backend %q: %w", o.Settings.Backend, ErrBackend)
	}
	for _, a := range tl.Before {
		if int(a) >= len(tl.Allocs) {
			return fmt.Errorf("timeline: allocation %d of %d lives before the first event", a, len(tl.Allocs))
		}
	}
	for i, e := range tl.Events {
		limit := len(tl.Allocs)
		switch e.Kind {
		case timeline.OutOfMemory:
			limit = len(tl.Failures)
		case timeline.Mark, timeline.EmptyCache:
			continue
		}
		if int(e.Alloc) >= limit {
			return fmt.Errorf("timeline: event %d is about number %d of %d", i, e.Alloc, limit)
		}
	}
	return nil
}

// simulation is a timeline on its way through an allocator.
type simulation struct {
	tl      *timeline.Timeline
	a       *allocator.Allocator
	handles []allocator.Handle // by allocation; 0 when it is not alive
	private allocator.PoolID   // one for all private pools; 0 when there are none
	empty   []int              // moments before which the program empties the cache, ascending
	run     recorder
}

func newSimulation(tl *timeline.Timeline, o Options, card allocator.Driver) *simulation {
	s := &simulation{tl: tl, a: allocator.New(card, o.Settings, o.Rules), handles: make([]allocator.Handle, len(tl.Allocs))}
	for _, a := range tl.Allocs {
		if a.Space == timeline.PrivatePool {
			s.private = s.a.NewPool(allocator.PoolOptions{})
			break
		}
	}
	s.run = newRecorder(s.a, len(tl.Events), o.Curve)
	return s
}

// allocateBefore allocates what lived before the first event; false when that
// does not fit.
func (s *simulation) allocateBefore() bool {
	var failed error
	var request int64
	for _, a := range s.tl.Before {
		if failed = s.born(a); failed != nil {
			request = s.tl.Allocs[a].Requested
			break
		}
	}
	s.run = newRecorder(s.a, len(s.tl.Events), s.run.keep)
	if failed != nil {
		s.stop(-1, request, failed)
	}
	return failed == nil
}

// play runs the events.
func (s *simulation) play(ctx context.Context) (*Run, error) {
	for moment, e := range s.tl.Events {
		if moment&0xffff == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for len(s.empty) > 0 && s.empty[0] <= moment {
			s.a.EmptyCache()
			s.empty = s.empty[1:]
		}
		if !s.step(moment, e) {
			return s.run.finish(), nil
		}
		s.run.after(moment)
	}
	return s.run.finish(), nil
}

// step does one event; false when the run ends there.
func (s *simulation) step(moment int, e timeline.Event) bool {
	switch e.Kind {
	case timeline.Born:
		if err := s.born(e.Alloc); err != nil {
			s.stop(moment, s.tl.Allocs[e.Alloc].Requested, err)
			return false
		}
	case timeline.FreeRequested:
		s.a.FreeRequested(s.handles[e.Alloc])
	case timeline.FreeCompleted:
		s.a.FreeCompleted(s.handles[e.Alloc])
		s.handles[e.Alloc] = 0
	case timeline.EmptyCache:
		s.a.EmptyCache()
	case timeline.OutOfMemory:
		return s.retry(moment, s.tl.Failures[e.Alloc])
	}
	return true
}

// retry asks for what was refused in the recording. The attempt releases caches.
// False when it is served: the request is held then, and nobody knows what the
// program would have done with it.
func (s *simulation) retry(moment int, f timeline.Failure) bool {
	_, err := s.a.Malloc(f.Requested, uint64(f.Stream), 0)
	if err == nil {
		s.run.after(moment)
		s.stop(moment, f.Requested, ErrServed)
		return false
	}
	s.run.refuse(moment, f.Requested, err)
	return true
}

// born allocates what goes through the caching allocator.
func (s *simulation) born(a uint32) error {
	alloc := &s.tl.Allocs[a]
	pool := allocator.PoolID(0)
	switch alloc.Space {
	case timeline.Caching:
	case timeline.PrivatePool:
		pool = s.private
	default:
		return nil
	}
	if alloc.Requested == 0 {
		return nil // a tensor without elements never reaches the allocator
	}
	h, err := s.a.Malloc(alloc.Requested, uint64(alloc.Stream), pool)
	if err != nil {
		return err
	}
	s.a.FreeCompleted(s.handles[a]) // of an allocation that is born twice the first is gone
	s.handles[a] = h
	return nil
}

func (s *simulation) stop(moment int, requested int64, err error) {
	s.run.Stopped = s.run.stopAt(moment, requested, err)
}
