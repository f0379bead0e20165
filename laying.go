package floodmark

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/replay"
	"floodmark/timeline"
	"floodmark/workload"
)

// laidOut is the run of a timeline that is shown, and the most that one that ends
// reserves.
type laidOut struct {
	run     *replay.Run
	highest int64
}

// only is a run beside which no other may be.
func only(run *replay.Run) laidOut { return laidOut{run, run.Peaks.Reserved.Bytes} }

// lay runs a timeline through the allocator. What it caches is no need: where it
// would hold more than the card has, it gives back what it caches before it fails, so
// the run is made again within what the card can leave to it. How little that is
// depends on what lies outside of the allocator, and within more a run mostly ends
// that ends within less, and need not: of the runs that end the one that reserves
// least is laid out, and what the others reserve above it is held beside it. Where all
// end, the process never has more than the card. Where none does, a run without a
// limit that gives back what it caches before each phase says what each phase needs.
func lay(ctx context.Context, tl *timeline.Timeline, m estimate.Memory, o replay.Options) (laidOut, error) {
	free, err := replay.Simulate(ctx, tl, o)
	if err != nil {
		return laidOut{}, err
	}
	least, most, known := room(m)
	if !known {
		return only(free), nil
	}
	runs, err := runsWithin(ctx, tl, free, o, m.Total.Low(), amountsLeft(tl, least))
	if err == nil && len(runs) == 0 {
		runs, err = runsWithin(ctx, tl, free, o, m.Total.Low(), []int64{most - outsideLow(tl)})
	}
	if err != nil {
		return laidOut{}, err
	}
	if len(runs) == 0 {
		if tl.Loose = free.Peaks.Allocated.Bytes+outsideLow(tl) <= most; tl.Loose {
			tl.Warn("blocks_lie_badly", "what is allocated has room on this card, and laid out within what it leaves a request failed, for the free bytes lay in pieces: another order or expandable segments may run")
		}
		apart(tl)
		free, err := replay.Simulate(ctx, tl, o)
		if err != nil {
			return laidOut{}, err
		}
		return only(free), nil
	}
	if len(runs) == amounts {
		tl.Most = least
	}
	return layBeside(tl, runs), nil
}

// room is the least and the most that the process may have: of the card, or of what is
// free of it.
func room(m estimate.Memory) (least, most int64, known bool) {
	most, known = m.Total.High()
	least = m.Total.Low()
	if free, said := m.Free.High(); said {
		if !known {
			return m.Free.Low(), free, true
		}
		least, most = min(least, m.Free.Low()), min(most, free)
	}
	return least, most, known
}

// runsWithin is the runs that end within amounts of bytes on a card of so many; free is
// the run without a limit, which is that within an amount that it does not reach. What
// is requested at once is the same in every run that ends, so that none ends within less.
func runsWithin(ctx context.Context, tl *timeline.Timeline, free *replay.Run, o replay.Options, card int64, left []int64) ([]*replay.Run, error) {
	var ended []*replay.Run
	for _, amount := range left {
		run := free
		switch {
		case amount <= 0 || free.Stopped == nil && amount < free.Peaks.Requested.Bytes:
			continue
		case run.Peaks.Reserved.Bytes > amount:
			o.Capacity, o.TotalMemory = amount, card
			var err error
			if run, err = replay.Simulate(ctx, tl, o); err != nil {
				return nil, err
			}
		}
		if run.Stopped == nil {
			ended = append(ended, run)
		}
	}
	return ended, nil
}

// amounts is how many are tried, from the least that a card leaves to the allocator to
// the most.
const amounts = 4

// amountsLeft is the bytes that a card can leave to the allocator; what it leaves at
// most alone where nobody can say how much lies outside.
func amountsLeft(tl *timeline.Timeline, card int64) []int64 {
	low := outsideLow(tl)
	high, known := besideHigh(tl)
	if !known {
		return []int64{card - low}
	}
	left := make([]int64, amounts)
	for i := range left {
		left[i] = card - high + (high-low)/(amounts-1)*int64(i)
	}
	return left
}

// layBeside lays out the run that reserves least, and holds in each phase what the
// highest of the others reserves there above it.
func layBeside(tl *timeline.Timeline, runs []*replay.Run) laidOut {
	reserved := func(a, b *replay.Run) int { return cmp.Compare(a.Peaks.Reserved.Bytes, b.Peaks.Reserved.Bytes) }
	laid := slices.MinFunc(runs, reserved)
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: "reserved_bytes.all", Source: allocatorSource}
	for i, span := range tl.Phases {
		own, highest := reservedIn(laid, span), int64(0)
		for _, run := range runs {
			if run != laid {
				highest = max(highest, reservedIn(run, span)-own)
			}
		}
		if highest > 0 {
			tl.Hold(account.TermAllocatorCache, account.CategoryAllocatorCache, i, int32(i), account.Between(0, highest, p))
		}
	}
	highest := slices.MaxFunc(runs, reserved).Peaks.Reserved.Bytes
	if least := laid.Peaks.Reserved.Bytes; highest > least {
		tl.Warn("cache_given_back", fmt.Sprintf("this is near the end of the card: the allocator gives back what it caches before a request fails, for which the step waits, and reserves %s to %s by how much lies outside of it",
			bytesize.Format(least, bytesize.GiB), bytesize.Format(highest, bytesize.GiB)))
	}
	return laidOut{laid, highest}
}

// reservedIn is the most that a run reserves in a span.
func reservedIn(run *replay.Run, span timeline.Span) int64 {
	var most int64
	for moment := span.First; moment < min(span.Last, len(run.Curve)); moment++ {
		most = max(most, run.Curve[moment].Reserved)
	}
	return most
}

// besideHigh is the most that a process holds in any phase beside what the timeline's
// events allocate; false where nobody can say.
func besideHigh(tl *timeline.Timeline) (int64, bool) {
	var most int64
	for i := range tl.Phases {
		sum := account.Exact(0, account.Provenance{})
		for _, b := range tl.Bounds {
			if b.Figure.Scope != account.Host && int(b.From) <= i && (i <= int(b.To) || b.To == timeline.ToEnd) {
				sum = account.Sum(account.Provenance{}, sum, b.Figure.Needed())
			}
		}
		high, known := sum.High()
		if !known {
			return 0, false
		}
		most = max(most, high)
	}
	return most, true
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
