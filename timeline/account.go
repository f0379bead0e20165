package timeline

import (
	"slices"

	"floodmark/account"
)

// Account reduces the timeline to levels, peaks and shares of requested bytes,
// and to lower bounds in the wider scopes: what lies inside a scope is the
// least that the scope can hold. Package replay replaces those bounds by what
// the allocator makes of the events.
func (t *Timeline) Account() account.Account {
	a := account.Account{
		Ranks:    t.Ranks,
		Device:   t.Device,
		Terms:    t.terms(),
		Warnings: t.Warnings,
	}
	spans := t.Phases
	if len(spans) == 0 {
		spans = []Span{{Phase: account.PhaseRecorded, Last: len(t.Events)}}
	}
	levels := newLevels(t)
	for i, s := range spans {
		a.Phases = append(a.Phases, t.phase(i, s, levels))
	}
	return a
}

// terms is the timeline's terms, and one for the allocations that have none.
func (t *Timeline) terms() []account.Term {
	for _, a := range t.Allocs {
		if a.Term == NoTerm {
			return append(slices.Clone(t.Terms), account.Term{
				ID: account.TermUnattributed, Category: account.CategoryUnattributed, Provenance: t.provenance(account.Requested)})
		}
	}
	return t.Terms
}

// levels walks the events once, span after span.
type levels struct {
	total  int64
	byTerm []int64 // by term; the last is NoTerm
	next   int     // the first event not yet walked
}

func newLevels(t *Timeline) *levels {
	l := &levels{byTerm: make([]int64, len(t.Terms)+1)}
	for _, a := range t.Before {
		l.add(t, a, 1)
	}
	return l
}

func (l *levels) add(t *Timeline, alloc uint32, sign int64) {
	a := t.Allocs[alloc]
	l.total += sign * a.Requested
	l.byTerm[min(int(a.Term), len(t.Terms))] += sign * a.Requested
}

// walk takes the events up to last, and calls peak whenever the level is higher
// than before within this call.
func (l *levels) walk(t *Timeline, last int, peak func(moment int)) {
	highest := l.total
	peak(l.next - 1)
	for ; l.next < last; l.next++ {
		e := t.Events[l.next]
		switch e.Kind {
		case Born:
			l.add(t, e.Alloc, 1)
		case FreeCompleted:
			l.add(t, e.Alloc, -1)
		}
		if l.total > highest {
			highest = l.total
			peak(l.next)
		}
	}
}

func (t *Timeline) phase(index int, s Span, l *levels) account.Phase {
	l.walk(t, s.First, func(int) {})
	start := l.total
	var peak int64
	moment := -1
	atPeak := make([]int64, len(l.byTerm))
	l.walk(t, s.Last, func(m int) {
		peak, moment = l.total, m
		copy(atPeak, l.byTerm)
	})
	requested := func(bytes int64) account.Figure {
		return account.Sum(t.provenance(account.Requested), append(t.boundsIn(index, account.Requested), account.Exact(bytes, account.Provenance{}))...)
	}
	p := account.Phase{ID: s.Phase, Step: s.Step, Micro: s.Micro, Input: -1}
	p.Start.Set(requested(start))
	p.End.Set(requested(l.total))
	p.Peaks = append(p.Peaks, account.Peak{Figure: requested(peak), Moment: int64(moment)})
	p.Peaks = append(p.Peaks, t.outer(index, requested(peak))...)
	p.AtPeak = t.shares(index, atPeak)
	return p
}

// outer is the least that the wider scopes hold when requested is inside them.
func (t *Timeline) outer(span int, inner account.Figure) []account.Peak {
	var peaks []account.Peak
	for _, scope := range []account.Scope{account.Allocated, account.Reserved, account.Process} {
		own := t.boundsIn(span, scope)
		inner = account.Sum(t.provenance(scope), append(own, inner)...)
		if scope == account.Allocated && inner.Known() {
			inner = account.AtLeast(inner.Low(), "the allocator's rounding is not in this figure", t.provenance(scope))
		}
		peaks = append(peaks, account.Peak{Figure: inner.As(t.provenance(scope)), Moment: -1})
	}
	return peaks
}

func (t *Timeline) provenance(scope account.Scope) account.Provenance {
	p := account.Provenance{Origin: account.Observed, Scope: scope}
	if len(t.Terms) > 0 {
		p.Origin = t.Terms[0].Origin
	}
	return p
}

// boundsIn lists the figures of one scope that hold in a span.
func (t *Timeline) boundsIn(span int, scope account.Scope) []account.Figure {
	var figures []account.Figure
	for _, b := range t.Bounds {
		if b.Figure.Scope == scope && int(b.From) <= span && span <= int(b.To) {
			figures = append(figures, b.Figure)
		}
	}
	return figures
}

// shares is what each term holds at the peak: its allocations and its bounds.
func (t *Timeline) shares(span int, allocated []int64) []account.Share {
	var shares []account.Share
	for term := range allocated {
		p := t.provenance(account.Requested)
		if term < len(t.Terms) {
			p = t.Terms[term].Provenance
		}
		var parts []account.Figure
		if allocated[term] != 0 {
			parts = append(parts, account.Exact(allocated[term], p))
		}
		for _, b := range t.Bounds {
			if int(b.Term) == term && int(b.From) <= span && span <= int(b.To) {
				parts = append(parts, b.Figure)
			}
		}
		switch len(parts) {
		case 0:
		case 1:
			shares = append(shares, account.Share{Term: term, Bytes: parts[0]})
		default:
			shares = append(shares, account.Share{Term: term, Bytes: account.Sum(p, parts...)})
		}
	}
	return shares
}
