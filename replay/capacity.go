package replay

import (
	"context"
	"errors"
	"fmt"

	"floodmark/allocator"
	"floodmark/timeline"
)

// capacityStep is the grain in which the smallest capacity is sought: that of
// the driver's segments, 2 MiB.
const capacityStep = allocator.RoundLarge

// ErrNeverRuns is a timeline that does not run to its end even without a limit:
// a memory fraction forbids it, or a request that no allocator serves.
var ErrNeverRuns = errors.New("the timeline does not run to its end even without a limit")

// SmallestCapacity is the least that a driver must be able to give so that the
// timeline still runs to its end, in steps of 2 MiB: with it the timeline runs,
// with one step less it does not. Options.Capacity is not looked at. A smaller
// capacity still may work by chance, because a release in time can leave a
// better layout. Requests that failed in the recording are among those that must
// be served: up to the first of them the timeline is looked at, and with it. The
// error is one of [Simulate], or wraps [ErrNeverRuns].
func SmallestCapacity(ctx context.Context, tl *timeline.Timeline, o Options) (int64, error) {
	return smallestCapacity(o, func(o Options) ([]*Run, error) {
		run, err := Simulate(ctx, tl, o)
		return []*Run{run}, err
	})
}

// SmallestCapacity is the least with which the recorded program still runs
// under other settings; see the function of that name. It runs whether what
// lived before the recording is allocated anew or lies as it lay. The error may
// be a [NotCertifiedError].
func (r *Recorded) SmallestCapacity(ctx context.Context, o Options) (int64, error) {
	if err := r.certified(); err != nil {
		return 0, err
	}
	return smallestCapacity(o, func(o Options) ([]*Run, error) { return r.runs(ctx, o) })
}

// smallestCapacity looks for the capacity with which all of the runs succeed.
func smallestCapacity(o Options, run func(Options) ([]*Run, error)) (int64, error) {
	o.Capacity, o.Curve = 0, false
	free, err := run(o)
	if err != nil {
		return 0, err
	}
	if f := failure(free); f != nil {
		return 0, fmt.Errorf("%w: %w", ErrNeverRuns, f.Err)
	}
	peak := int64(0)
	for _, r := range free {
		peak = max(peak, r.Peaks.Reserved.Bytes)
	}
	// Invariant: it runs with high steps, and does not with low.
	low, high := int64(-1), (peak+capacityStep-1)/capacityStep
	for high-low > 1 {
		mid := low + (high-low)/2
		o.Capacity = mid * capacityStep
		if mid == 0 {
			o.Capacity = 1 // nothing at all: 0 would mean no limit
		}
		limited, err := run(o)
		if err != nil {
			return 0, err
		}
		if failure(limited) == nil {
			high = mid
		} else {
			low = mid
		}
	}
	return high * capacityStep, nil
}

// failure is where the first of the runs that fail does.
func failure(runs []*Run) *Stop {
	for _, r := range runs {
		if f := r.Failure(); f != nil {
			return f
		}
	}
	return nil
}
