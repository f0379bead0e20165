package replay

import (
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/timeline"
)

// allocatorSource is where the rules come from by which a run is calculated.
const allocatorSource = "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp"

// counterOf is PyTorch's statistic for a scope.
func counterOf(s account.Scope) string { return string(s) + "_bytes.all" }

// Account makes an account of a timeline and its run: for each span the levels
// at its start and end, the peak of each scope with its moment, and what is
// alive at the peak of allocated bytes. The rows of that are in the order of the
// timeline's terms: requested bytes by term and one row of allocator rounding,
// which sum to the peak, and beside them rows of wider scopes. A term that is
// zero or unknown because of something keeps its row and the reason. A timeline
// without spans is one phase, recorded. Origin says whether the timeline was
// observed or calculated.
//
// Bounds count in their scope and every wider one. The process scope is known
// only where the timeline says what lies outside the allocator. The run must
// have kept its curve; without one every figure is unknown.
func Account(tl *timeline.Timeline, run *Run, origin account.Origin) account.Account {
	b := &accounting{tl: tl, run: run, origin: origin}
	b.terms()
	b.outside()
	spans := tl.Phases
	if len(spans) == 0 {
		spans = []timeline.Span{{Phase: account.PhaseRecorded, Last: len(tl.Events)}}
	}
	result := account.Account{Ranks: tl.Ranks, Device: tl.Device, Warnings: tl.Warnings}
	for i, span := range spans {
		result.Phases = append(result.Phases, b.phase(i, span))
	}
	b.compose(result.Phases)
	result.Terms = b.list
	return result
}

// accounting is an account in the making.
type accounting struct {
	tl     *timeline.Timeline
	run    *Run
	origin account.Origin

	list         []account.Term // the timeline's, and the three below
	unattributed int
	rounding     int
	cache        int

	driver []int64 // bytes outside the allocator, see follow
	host   []int64
}

func (b *accounting) terms() {
	b.list = slices.Clone(b.tl.Terms)
	b.unattributed = b.term(account.TermUnattributed, account.CategoryUnattributed, account.Allocated)
	b.rounding = b.term(account.TermAllocatorRounding, account.CategoryAllocatorRounding, account.Allocated)
	b.cache = b.term(account.TermAllocatorCache, account.CategoryAllocatorCache, account.Reserved)
}

func (b *accounting) term(id account.TermID, category account.Category, s account.Scope) int {
	if i := slices.IndexFunc(b.list, func(t account.Term) bool { return t.ID == id }); i >= 0 {
		return i
	}
	p := account.Provenance{Origin: b.origin, Scope: s, Source: allocatorSource}
	b.list = append(b.list, account.Term{ID: id, Category: category, Provenance: p})
	return len(b.list) - 1
}

// outside follows the allocations that do not go through the allocator.
func (b *accounting) outside() {
	b.driver = b.follow(func(s timeline.Space) bool { return s == timeline.Driver })
	b.host = b.follow(func(s timeline.Space) bool { return s == timeline.Pinned || s == timeline.Host })
}

// follow gives the bytes of some spaces before the first event and after each;
// nil when nothing is allocated there.
func (b *accounting) follow(in func(timeline.Space) bool) []int64 {
	if !slices.ContainsFunc(b.tl.Allocs, func(a timeline.Alloc) bool { return in(a.Space) }) {
		return nil
	}
	var level int64
	for _, a := range b.tl.Before {
		if in(b.tl.Allocs[a].Space) {
			level += b.tl.Allocs[a].Requested
		}
	}
	levels := []int64{level}
	for _, e := range b.tl.Events {
		if (e.Kind == timeline.Born || e.Kind == timeline.FreeCompleted) && in(b.tl.Allocs[e.Alloc].Space) {
			level += b.tl.Delta(e)
		}
		levels = append(levels, level)
	}
	return levels
}

// bytesAt is the level of a scope at a moment, without bounds; false when that
// scope is not known or the moment was not reached.
func (b *accounting) bytesAt(s account.Scope, moment int) (int64, bool) {
	if moment < -1 || moment >= len(b.run.Curve) || (b.run.Curve == nil && len(b.tl.Events) > 0) {
		return 0, false
	}
	l := b.run.Start
	if moment >= 0 {
		l = b.run.Curve[moment]
	}
	switch s {
	case account.Requested:
		return l.Requested, true
	case account.Allocated:
		return l.Allocated, true
	case account.Active:
		return l.Active, true
	case account.Reserved:
		return l.Reserved, true
	case account.Process:
		if b.driver != nil {
			return l.Reserved + b.driver[moment+1], true
		}
		return l.Reserved, b.bounded(account.Process)
	case account.Host:
		if b.host != nil {
			return b.host[moment+1], true
		}
		return 0, b.bounded(account.Host)
	}
	return 0, false
}

// bounded reports whether some bound is of a scope.
func (b *accounting) bounded(s account.Scope) bool {
	return slices.ContainsFunc(b.tl.Bounds, func(x timeline.Bound) bool { return x.Figure.Scope == s })
}

// scopes that a run can say something of.
func scopes() []account.Scope {
	return []account.Scope{account.Requested, account.Allocated, account.Active, account.Reserved, account.Process, account.Host}
}

func (b *accounting) phase(i int, span timeline.Span) account.Phase {
	p := account.Phase{ID: span.Phase, Step: span.Step, Micro: span.Micro, Input: -1}
	for _, s := range scopes() {
		if f := b.level(s, b.start(span), i); f != nil {
			p.Start.Set(*f)
		}
		if f := b.level(s, span.Last-1, i); f != nil {
			p.End.Set(*f)
		}
		if peak, ok := b.peak(s, span, i); ok {
			p.Peaks = append(p.Peaks, peak)
		}
	}
	if stop := b.run.Stopped; stop != nil && stop.Moment < span.Last {
		p.Failed = stop.Err.Error()
		if stop.Moment < span.First {
			p.Failed = fmt.Sprintf("not reached, because an earlier phase failed: %v", stop.Err)
		}
	}
	return p
}

func (b *accounting) provenance(s account.Scope) account.Provenance {
	return account.Provenance{Origin: b.origin, Scope: s, Counter: counterOf(s), Source: allocatorSource}
}

// start is the moment at which a span begins: the one before its first event, or
// that of the mark which says that it begins, when nothing has moved yet and the
// bounds of the span before have ended.
func (b *accounting) start(span timeline.Span) int {
	if len(b.tl.Bounds) > 0 && span.First < span.Last && b.tl.Events[span.First].Kind == timeline.Mark {
		return span.First
	}
	return span.First - 1
}

// level is the figure of a scope at a moment, bounds included; nil when it is
// not known.
func (b *accounting) level(s account.Scope, moment, phase int) *account.Figure {
	bytes, ok := b.bytesAt(s, moment)
	if !ok {
		return nil
	}
	figures := []account.Figure{account.Exact(bytes, b.provenance(s))}
	for _, x := range b.tl.Bounds {
		if inside(x.Figure.Scope, s) && b.holds(x, moment, phase) {
			figures = append(figures, x.Figure)
		}
	}
	sum := b.limited(account.Sum(b.provenance(s), figures...))
	return &sum
}

// limited is a figure of a process that never exceeds what its timeline says.
func (b *accounting) limited(f account.Figure) account.Figure {
	if high, known := f.High(); f.Scope == account.Process && b.tl.Most > 0 && known && high > b.tl.Most {
		return account.Between(min(f.Low(), b.tl.Most), b.tl.Most, f.Provenance)
	}
	return f
}

// holds reports whether a bound is held at a moment of a phase. A phase without
// events has no moments of its own; its place among the phases tells.
func (b *accounting) holds(x timeline.Bound, moment, phase int) bool {
	first, last := b.reach(x)
	if phase < len(b.tl.Phases) && b.tl.Phases[phase].First == b.tl.Phases[phase].Last {
		return int(x.From) <= phase && phase <= int(x.To)
	}
	return moment >= first && moment < last
}

// reach is the moments first ≤ moment < last at which a bound is held.
func (b *accounting) reach(x timeline.Bound) (first, last int) {
	n := len(b.tl.Phases)
	if n == 0 {
		return 0, len(b.tl.Events)
	}
	from := min(max(int(x.From), 0), n-1)
	to := min(max(int(x.To), 0), n-1)
	return b.tl.Phases[from].First, b.tl.Phases[to].Last
}

// inside reports whether bytes of one scope also count in another: the scopes
// nest, and host memory lies outside the nest.
func inside(inner, outer account.Scope) bool {
	nest := account.Scopes()
	i, o := slices.Index(nest, inner), slices.Index(nest, outer)
	if inner == account.Host || outer == account.Host {
		return inner == outer
	}
	return i >= 0 && i <= o
}

// peak is the highest level of a scope between the start of a span and its end.
// Bounds do not change within a span unless one begins or ends there, so the
// highest moment is sought without them; one that is held for a part of the
// span counts from zero to its high.
func (b *accounting) peak(s account.Scope, span timeline.Span, phase int) (account.Peak, bool) {
	moment := b.start(span)
	best, ok := b.bytesAt(s, moment)
	if !ok {
		return account.Peak{}, false
	}
	for m := span.First; m < span.Last; m++ {
		bytes, reached := b.bytesAt(s, m)
		if !reached {
			break
		}
		if bytes > best {
			best, moment = bytes, m
		}
	}
	best, moment = b.within(s, span, best, moment)
	figures := []account.Figure{account.Between(b.certain(s, span, best), best, b.provenance(s))}
	for _, x := range b.tl.Bounds {
		if f, ok := b.bound(x, s, moment, phase); ok {
			figures = append(figures, f)
		}
	}
	figure := b.limited(account.Sum(b.provenance(s), figures...))
	if stop := b.run.Stopped; stop != nil && stop.Moment < span.Last {
		figure = account.AtLeast(figure.Low(), "the phase did not end: "+stop.Err.Error(), b.provenance(s))
	}
	return account.Peak{Figure: figure, Moment: int64(moment)}, true
}

// certain is what of the peak of a scope in a span is certain: all of it, or of what is
// reserved what is allocated where the timeline says that no more is.
func (b *accounting) certain(s account.Scope, span timeline.Span, best int64) int64 {
	if !b.tl.Loose || s != account.Reserved && s != account.Process {
		return best
	}
	var most int64
	for m := b.start(span); m < span.Last; m++ {
		bytes, _ := b.bytesAt(account.Allocated, m)
		if b.driver != nil && s == account.Process {
			bytes += b.driver[m+1]
		}
		most = max(most, bytes)
	}
	return min(most, best)
}

// bound is what a bound adds to the peak of a scope in a phase: all of it where
// it is held at the peak's moment, perhaps nothing where it is held in another
// part of the phase.
func (b *accounting) bound(x timeline.Bound, s account.Scope, moment, phase int) (account.Figure, bool) {
	if !inside(x.Figure.Scope, s) {
		return account.Figure{}, false
	}
	if b.holds(x, moment, phase) {
		return x.Figure, true
	}
	if phase >= len(b.tl.Phases) {
		return account.Figure{}, false
	}
	first, last := b.reach(x)
	span := b.tl.Phases[phase]
	return possibly(x.Figure), first < span.Last && span.First < last
}

// within also counts a peak that rose and fell inside one event.
func (b *accounting) within(s account.Scope, span timeline.Span, best int64, moment int) (int64, int) {
	if p := b.run.Peaks.Reserved; s == account.Reserved && p.Bytes > best && p.Moment >= span.First-1 && p.Moment < span.Last {
		return p.Bytes, p.Moment
	}
	return best, moment
}

// possibly is bytes that may be there or not.
func possibly(f account.Figure) account.Figure {
	high, known := f.High()
	if need, gives := f.Need(); gives && !known {
		return account.Yielding(0, need, f.Reason(), f.Provenance)
	}
	if !known {
		return account.Unknown(f.Reason(), f.Provenance)
	}
	return account.Between(0, high, f.Provenance)
}
