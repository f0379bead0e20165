package floodmark

import (
	"context"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/replay"
	"floodmark/timeline"
)

// courseFormula is the rule by which orders of sequences raise what is reserved.
const courseFormula = "training.lengths"

// allocatorSource is where the allocator's rules come from.
const allocatorSource = "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp"

// layCourse runs the orders in which sequences of different lengths can come, and
// holds beside the second step what the lowest and the highest of them reserve above
// the run of the timeline, whose inputs all have the longest length.
func layCourse(ctx context.Context, result estimate.Result, laid laidOut, m estimate.Memory) error {
	c, tl := result.Course, result.Timeline
	if c == nil || len(c.Orders) == 0 {
		return nil
	}
	from := slices.IndexFunc(tl.Phases, func(s timeline.Span) bool { return s.Step == 2 })
	if from < 0 {
		return nil
	}
	low, high, err := reserves(ctx, c, m, outsideHigh(tl))
	if err != nil {
		return err
	}
	above := max(0, high-laid.highest)
	least := min(above, max(0, low-laid.run.Peaks.Reserved.Bytes))
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: courseFormula, Source: allocatorSource}
	tl.Hold(account.TermAllocatorCache, account.CategoryAllocatorCache, from, int32(len(tl.Phases)-1), account.Between(least, above, p))
	tl.Warn("lengths_differ", fmt.Sprintf("sequences differ in length: what is allocated is of the longest, and in %d orders in which they can come the allocator reserves %s to %s, what it caches included; another order can reserve more or less",
		len(c.Orders), bytesize.Format(low, bytesize.Suggest(low)), bytesize.Format(high, bytesize.Suggest(high))))
	return nil
}

// reserves is the least and the most that an order reserves. Where that would be more
// than the card surely has for the allocator, it gives back what it caches before it
// fails, so that the orders are run within that; one that fails there counts as it is
// without a limit.
func reserves(ctx context.Context, c *timeline.Course, m estimate.Memory, outside int64) (low, high int64, err error) {
	o := replay.DefaultOptions()
	reached, err := replay.Course(ctx, c, o)
	if err != nil {
		return 0, 0, err
	}
	limit := m.Total.Low() - outside
	if m.Total.Known() && limit > 0 && slices.ContainsFunc(reached, func(r replay.Reach) bool { return r.Reserved > limit }) {
		o.Capacity, o.TotalMemory = limit, m.Total.Low()
		within, err := replay.Course(ctx, c, o)
		if err != nil {
			return 0, 0, err
		}
		for i, r := range within {
			if r.Stopped == nil {
				reached[i] = r
			}
		}
	}
	low = reached[0].Reserved
	for _, r := range reached {
		low, high = min(low, r.Reserved), max(high, r.Reserved)
	}
	return low, high, nil
}

// outsideHigh is the most that a process holds outside of its allocator; the least
// where nobody can say the most.
func outsideHigh(tl *timeline.Timeline) int64 {
	sum := account.Exact(0, account.Provenance{})
	for _, b := range tl.Bounds {
		if b.Figure.Scope == account.Process {
			sum = account.Sum(account.Provenance{}, sum, b.Figure)
		}
	}
	if high, known := sum.High(); known {
		return high
	}
	return outsideLow(tl)
}
