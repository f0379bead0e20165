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
	return smallestCapacity(o, func(o Options) (*Run, error) { return Simulate(ctx, tl, o) })
}

// SmallestCapacity is the least with which the recorded program still runs
// under other settings; see the function of that name. What lived before the
// recording is allocated anew. The error may be a [NotCertifiedError].
func (r *Recorded) SmallestCapacity(ctx context.Context, o Options) (int64, error) {
	if err := r.certified(); err != nil {
		return 0, err
	}
	return smallestCapacity(o, func(o Options) (*Run, error) {
		return r.fresh(ctx, o)
	})
}

func smallestCapacity(o Options, run func(Options) (*Run, error)) (int64, error) {
	o.Capacity, o.Curve = 0, false
	free, err := run(o)
	if err != nil {
		return 0, err
	}
	if f := free.Failure(); f != nil {
		return 0, fmt.Errorf("%w: %w", ErrNeverRuns, f.Err)
	}
	// Invariant: it runs with high steps, and does not with low.
	low, high := int64(-1), (free.Peaks.Reserved.Bytes+capacityStep-1)/capacityStep
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
		if limited.Failure() == nil {
			high = mid
		} else {
			low = mid
		}
	}
	return high * capacityStep, nil
}
