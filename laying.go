package floodmark

import (
	"context"
	"slices"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/replay"
	"floodmark/timeline"
	"floodmark/workload"
)

// lay runs a timeline through the allocator. What it caches is no need: where it
// would hold more than the card has, it gives back what it caches before it
// fails, so the run is made again within the least that the card can have, and
// else within the most. Where it fails in both, a run without a limit that gives
// back what it caches before each phase says what each phase needs.
func lay(ctx context.Context, tl *timeline.Timeline, m estimate.Memory, o replay.Options) (*replay.Run, error) {
	unlimited := o
	free, err := replay.Simulate(ctx, tl, o)
	most, known := m.Total.High()
	if err != nil || !known {
		return free, err
	}
	outside := outsideLow(tl)
	for _, capacity := range []int64{m.Total.Low(), most} {
		if limit := capacity - outside; limit > 0 && free.Peaks.Reserved.Bytes > limit {
			o.Capacity, o.TotalMemory = limit, capacity
			run, err := replay.Simulate(ctx, tl, o)
			if err != nil {
				return nil, err
			}
			if run.Stopped == nil {
				return run, nil
			}
		}
	}
	if free.Peaks.Reserved.Bytes <= most-outside {
		return free, nil
	}
	apart(tl)
	return replay.Simulate(ctx, tl, unlimited)
}

// replayOptions are the allocator's, as the workload declares them.
func replayOptions(w workload.Workload) replay.Options {
	o := replay.DefaultOptions()
	o.Settings.ExpandableSegments = slices.Contains(w.Features, workload.ExpandableSegments)
	return o
}

// apart puts between the phases that begin with a mark a moment at which the
// allocator gives back what it caches.
func apart(tl *timeline.Timeline) {
	for i, s := range tl.Phases {
		if s.First < s.Last && tl.Events[s.First].Kind == timeline.Mark {
			tl.Events[s.First] = timeline.Event{Kind: timeline.EmptyCache}
			tl.Phases[i].First = s.First + 1
		}
	}
}

// outsideLow is the least that a process holds outside of its allocator.
func outsideLow(tl *timeline.Timeline) int64 {
	sum := account.Exact(0, account.Provenance{})
	for _, b := range tl.Bounds {
		if b.Figure.Scope == account.Process {
			sum = account.Sum(account.Provenance{}, sum, account.Exact(b.Figure.Low(), account.Provenance{}))
		}
	}
	return sum.Low()
}
