package replay

import (
	"slices"

	"floodmark/account"
	"floodmark/timeline"
)

// compose adds to each phase what is alive at its peak of allocated bytes, in
// one pass over the events.
func (b *accounting) compose(phases []account.Phase) {
	var wanted []int // phases that have such a peak, by its moment
	for i := range phases {
		if phases[i].Peak(account.Allocated).Figure.Scope == account.Allocated {
			wanted = append(wanted, i)
		}
	}
	slices.SortFunc(wanted, func(x, y int) int {
		return int(phases[x].Peak(account.Allocated).Moment - phases[y].Peak(account.Allocated).Moment)
	})
	held := make([]int64, len(b.list))
	gone := make([]bool, len(b.tl.Allocs)) // its free was requested
	for _, a := range b.tl.Before {
		b.hold(held, a, 1)
	}
	moment := -1
	for _, i := range wanted {
		for at := int(phases[i].Peak(account.Allocated).Moment); moment < at; {
			moment++
			b.apply(b.tl.Events[moment], held, gone)
		}
		phases[i].AtPeak = b.shares(held, moment, i)
	}
}

// apply moves what the terms hold of allocated blocks, in requested bytes.
func (b *accounting) apply(e timeline.Event, held []int64, gone []bool) {
	switch e.Kind {
	case timeline.Born:
		gone[e.Alloc] = false
		b.hold(held, e.Alloc, 1)
	case timeline.FreeRequested, timeline.FreeCompleted:
		if !gone[e.Alloc] {
			gone[e.Alloc] = true
			b.hold(held, e.Alloc, -1)
		}
	}
}

// hold adds an allocation to its term, if it goes through the allocator.
func (b *accounting) hold(held []int64, a uint32, sign int64) {
	alloc := &b.tl.Allocs[a]
	if alloc.Space > timeline.PrivatePool {
		return
	}
	term := b.unattributed
	if int64(alloc.Term) < int64(len(b.tl.Terms)) {
		term = int(alloc.Term)
	}
	held[term] += sign * alloc.Requested
}

// shares are what each term holds, largest first; the rest of the level is
// rounding.
func (b *accounting) shares(held []int64, moment, phase int) []account.Share {
	p := b.provenance(account.Allocated)
	level, _ := b.bytesAt(account.Allocated, moment)
	figures := make([]account.Figure, len(held))
	for term, bytes := range held {
		level -= bytes
		figures[term] = account.Exact(bytes, p)
	}
	figures[b.rounding] = account.Exact(held[b.rounding]+level, p)
	for _, x := range b.tl.Bounds {
		if f, ok := b.bound(x, account.Allocated, moment, phase); ok && int64(x.Term) < int64(len(held)) {
			figures[x.Term] = account.Sum(p, figures[x.Term], f)
		}
	}
	var shares []account.Share
	for term, f := range figures {
		if bytes, exact := f.IsExact(); !exact || bytes != 0 {
			shares = append(shares, account.Share{Term: term, Bytes: f})
		}
	}
	slices.SortStableFunc(shares, func(x, y account.Share) int {
		switch a, b := x.Bytes.Low(), y.Bytes.Low(); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return shares
}
