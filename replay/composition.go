package replay

import (
	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/timeline"
)

// compose adds to each phase what is alive at its peak of allocated bytes, in
// one pass over the events.
func (b *accounting) compose(phases []account.Phase) {
	wanted := b.wanted(phases)
	held := newHoldings(len(b.list))
	gone := make([]bool, len(b.tl.Allocs)) // its free was requested
	for _, a := range b.tl.Before {
		b.hold(held, a, 1)
	}
	moment := -1
	for _, w := range wanted {
		for moment < w.moment {
			moment++
			b.apply(b.tl.Events[moment], held, gone)
		}
		*w.into = b.shares(held, moment, w.phase)
	}
}

// moment is a point of a phase whose shares are wanted.
type moment struct {
	moment, phase int
	into          *[]account.Share
}

// wanted is the peak of allocated bytes of every phase that has one, and that of
// the process where it stands higher at another moment; by their moments.
func (b *accounting) wanted(phases []account.Phase) []moment {
	var list []moment
	for i := range phases {
		p := &phases[i]
		if p.Peak(account.Allocated).Figure.Scope != account.Allocated {
			continue
		}
		at := int(p.Peak(account.Allocated).Moment)
		list = append(list, moment{at, i, &p.AtPeak})
		if p.Peak(account.Process).Figure.Scope != account.Process {
			continue
		}
		highest := int(p.Peak(account.Process).Moment)
		here, _ := b.bytesAt(account.Process, at)
		if there, known := b.bytesAt(account.Process, highest); known && there > here {
			list = append(list, moment{highest, i, &p.AtProcess})
		}
	}
	sorting.By(list, func(i, j int) int { return list[i].moment - list[j].moment })
	return list
}

// apply moves what the terms hold.
func (b *accounting) apply(e timeline.Event, held *holdings, gone []bool) {
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

// holdings is what each term holds of a device at a moment: in requested bytes
// of blocks of the allocator, and of allocations beside it.
type holdings struct {
	blocks, driver []int64
}

func newHoldings(terms int) *holdings {
	return &holdings{make([]int64, terms), make([]int64, terms)}
}

// hold adds an allocation to its term.
func (b *accounting) hold(held *holdings, a uint32, sign int64) {
	alloc := &b.tl.Allocs[a]
	term := b.unattributed
	if int64(alloc.Term) < int64(len(b.tl.Terms)) {
		term = int(alloc.Term)
	}
	switch alloc.Space {
	case timeline.Driver:
		held.driver[term] += sign * alloc.Requested
	case timeline.Pinned, timeline.Host: // no memory of the device
	default:
		held.blocks[term] += sign * alloc.Requested
	}
}

// shares are what each term holds at the peak of allocated bytes, in the order
// of the terms. Rows of allocated bytes sum to that peak: what the terms do not
// hold of it is rounding. Rows of a wider scope stand beside them: what the
// allocator caches, and what lies outside of it. Main memory has its peak and no
// row: it is no part of what a device holds.
func (b *accounting) shares(held *holdings, moment, phase int) []account.Share {
	parts := make([][]account.Figure, len(b.list))
	add := func(term int, bytes int64, s account.Scope) {
		if bytes != 0 {
			parts[term] = append(parts[term], account.Exact(bytes, b.provenance(s)))
		}
	}
	level, _ := b.bytesAt(account.Allocated, moment)
	reserved, _ := b.bytesAt(account.Reserved, moment)
	active, _ := b.bytesAt(account.Active, moment)
	cached := reserved - max(level, active)
	for term, bytes := range held.blocks {
		level -= bytes
		add(term, bytes, account.Allocated)
		add(term, held.driver[term], account.Process)
	}
	add(b.rounding, level, account.Allocated)
	add(b.cache, cached, account.Reserved)
	for _, x := range b.tl.Bounds {
		if f, ok := b.bound(x, x.Figure.Scope, moment, phase); ok && x.Figure.Scope != account.Host && int64(x.Term) < int64(len(b.list)) {
			parts[x.Term] = append(parts[x.Term], b.widened(f))
		}
	}
	var shares []account.Share
	for term, figures := range parts {
		for _, f := range together(figures) {
			shares = append(shares, account.Share{Term: term, Bytes: f})
		}
	}
	return shares
}

// widened counts a bound of requested bytes among the rows of allocated ones.
func (b *accounting) widened(f account.Figure) account.Figure {
	if f.Scope == account.Requested {
		f.Scope = account.Allocated
	}
	return f
}

// together adds the figures of one term scope by scope. One alone keeps its
// provenance and its reason.
func together(figures []account.Figure) []account.Figure {
	if len(figures) < 2 {
		return figures
	}
	var sums []account.Figure
	for _, s := range account.Scopes() {
		var like []account.Figure
		for _, f := range figures {
			if f.Scope == s {
				like = append(like, f)
			}
		}
		switch len(like) {
		case 0:
		case 1:
			sums = append(sums, like[0])
		default:
			sums = append(sums, account.Sum(like[0].Provenance, like...))
		}
	}
	return sums
}
