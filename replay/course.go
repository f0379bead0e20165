package replay

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"floodmark/allocator"
	"floodmark/timeline"
)

// Reach is how far an order of a course raised what is reserved.
type Reach struct {
	Reserved int64 // the peak, bytes
	Stopped  *Stop // nil where the order ran to its end; its moment is of the course's timeline
}

// Course runs each order of a course through an allocator of its own, which begins
// empty. A piece that found the cache in a state in which it ran before, and left it
// as it found it then, is not run again: it would do the same. The error says what
// contradicts itself, or is the context's.
func Course(ctx context.Context, c *timeline.Course, o Options) ([]Reach, error) {
	if err := check(c.Timeline, o); err != nil {
		return nil, err
	}
	score, err := scored(c)
	if err != nil {
		return nil, err
	}
	reached, errs := make([]Reach, len(c.Orders)), make([]error, len(c.Orders))
	var wait sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, order := range c.Orders {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			reached[i], errs[i] = newPlayer(score, o).play(ctx, order)
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return reached, nil
}

// score is a course as an allocator meets it.
type score struct {
	tl     *timeline.Timeline
	parts  []part // the beginning, and then the pieces
	births int    // the most of a part
}

// part is what one piece asks of the allocator.
type part struct {
	acts []act
	left []left // what it leaves, in the order of birth
	// small says that all it leaves and lets go of lies in the pool of small blocks.
	small bool
}

// act is one request.
type act struct {
	bytes  int64 // of a birth; 0 for a free
	stream uint32
	moment int32
	// place is of the allocation among the births of the part; else of what stood
	// open when the part began, by term and age.
	place int32
	term  int32 // −1 for a birth of the part itself
}

// left is a birth that outlives its part.
type left struct{ place, term int32 }

// emptied is the place of an act that empties the cache.
const emptied = -1

// scored follows the timeline once, and notes for each piece what it lets go of by
// its term and age among what stood open: in another order that is what another
// piece left.
func scored(c *timeline.Course) (*score, error) {
	s := &score{tl: c.Timeline}
	open := make([][]uint32, len(c.Timeline.Terms)+1)
	at := 0
	for _, p := range append([]timeline.Piece{{First: 0, Last: c.Begins}}, c.Pieces...) {
		if p.First < at || p.Last < p.First || p.Last > len(c.Timeline.Events) {
			return nil, fmt.Errorf("course: a piece has the events %d to %d, and %d came before it of %d", p.First, p.Last, at, len(c.Timeline.Events))
		}
		between, err := s.part(open, at, p.First)
		if err == nil {
			between.close(open)
			var one scoring
			if one, err = s.part(open, p.First, p.Last); err == nil {
				one.close(open)
				s.parts = append(s.parts, one.part)
				s.births = max(s.births, one.births)
			}
		}
		if err != nil {
			return nil, err
		}
		at = p.Last
	}
	for _, order := range c.Orders {
		for _, piece := range order {
			if piece < 0 || int(piece) >= len(c.Pieces) {
				return nil, fmt.Errorf("course: an order has the piece %d of %d", piece, len(c.Pieces))
			}
		}
	}
	return s, nil
}

// scoring is a part in the making.
type scoring struct {
	part
	births int
	alive  []uint32 // births of the part that live, in their order
	gone   map[uint32]bool
	tl     *timeline.Timeline
}

// part is the events first ≤ moment < last, before which some allocations stand open.
func (s *score) part(open [][]uint32, first, last int) (scoring, error) {
	made := scoring{tl: s.tl, gone: map[uint32]bool{}}
	made.small = true
	born := map[uint32]int32{}
	for moment := first; moment < last; moment++ {
		e := s.tl.Events[moment]
		if e.Kind == timeline.EmptyCache {
			made.acts = append(made.acts, act{place: emptied, term: -1, moment: int32(moment)})
			continue
		}
		if e.Kind != timeline.Born && e.Kind != timeline.FreeCompleted {
			continue
		}
		a := s.tl.Allocs[e.Alloc]
		if a.Space != timeline.Caching || a.Requested == 0 {
			continue
		}
		switch place, own := born[e.Alloc]; {
		case e.Kind == timeline.Born:
			born[e.Alloc] = int32(made.births)
			made.acts = append(made.acts, act{bytes: a.Requested, stream: a.Stream, place: int32(made.births), term: -1, moment: int32(moment)})
			made.alive = append(made.alive, e.Alloc)
			made.births++
		case own:
			made.acts = append(made.acts, act{place: place, term: -1, moment: int32(moment)})
			made.gone[e.Alloc] = true
		default:
			term := s.termOf(a)
			age := slices.Index(open[term], e.Alloc)
			if age < 0 {
				return made, fmt.Errorf("course: event %d lets go of allocation %d, which is not alive", moment, e.Alloc)
			}
			made.acts = append(made.acts, act{place: int32(age), term: int32(term), moment: int32(moment)})
			made.gone[e.Alloc] = true
			made.small = made.small && a.Requested <= allocator.SmallSize
		}
	}
	for _, a := range made.alive {
		if !made.gone[a] {
			made.left = append(made.left, left{place: born[a], term: int32(s.termOf(s.tl.Allocs[a]))})
			made.small = made.small && s.tl.Allocs[a].Requested <= allocator.SmallSize
		}
	}
	return made, nil
}

// termOf is the index of an allocation's term; the last is for none.
func (s *score) termOf(a timeline.Alloc) int { return min(int(a.Term), len(s.tl.Terms)) }

// close brings what stands open to where it is when the part has ended.
func (s *scoring) close(open [][]uint32) {
	for i := range open {
		open[i] = slices.DeleteFunc(open[i], func(a uint32) bool { return s.gone[a] })
	}
	for _, a := range s.alive {
		if !s.gone[a] {
			term := min(int(s.tl.Allocs[a].Term), len(open)-1)
			open[term] = append(open[term], a)
		}
	}
}

// player is one order on its way through an allocator.
type player struct {
	*score
	a       *allocator.Allocator
	born    []allocator.Handle   // of the part that runs, by place
	open    [][]allocator.Handle // by term, the oldest first; 0 for what was not made, since its part was left out
	state   uint64
	settled map[visit]bool // parts that left the state as they found it
	ages    bool           // the allocator counts the age of blocks: no state comes again
}

// visit is a part that ran from a state of the cache.
type visit struct {
	state uint64
	part  int32
}

func newPlayer(s *score, o Options) *player {
	a := allocator.New(allocator.NewCard(o.Capacity, o.TotalMemory), o.Settings, o.Rules)
	return &player{
		score: s, a: a, born: make([]allocator.Handle, s.births), open: make([][]allocator.Handle, len(s.tl.Terms)+1),
		settled: map[visit]bool{}, ages: a.Settings().GarbageCollectionThreshold > 0,
	}
}

// patience is how often as many pieces as there are pass without a rise before an
// order is left.
const patience = 8

// play runs the beginning and an order, until it has not raised what is reserved for
// as long as it took to get there: rises become rare with the logarithm of what was
// met, as records do.
func (p *player) play(ctx context.Context, order []int32) (Reach, error) {
	stop, err := p.run(0)
	highest, grew := int64(0), 0
	for n, piece := range order {
		if reserved := p.a.Stats().ReservedBytes.All.Peak; reserved > highest {
			highest, grew = reserved, n
		}
		if err != nil || stop != nil || ctx.Err() != nil || n-grew > max(grew, patience*len(p.parts)) {
			break
		}
		v := visit{p.state, piece + 1}
		if !p.settled[v] {
			stop, err = p.run(piece + 1)
			p.settled[v] = !p.ages && p.parts[piece+1].small && p.state == v.state
			continue
		}
		err = p.leaveOut(piece + 1)
	}
	if err == nil {
		err = ctx.Err()
	}
	return Reach{Reserved: p.a.Stats().ReservedBytes.All.Peak, Stopped: stop}, err
}

// run plays a part. It stops at a request that is not served.
func (p *player) run(index int32) (*Stop, error) {
	part := &p.parts[index]
	for _, x := range part.acts {
		switch {
		case x.place == emptied:
			p.a.EmptyCache()
		case x.bytes > 0:
			h, err := p.a.Malloc(x.bytes, uint64(x.stream), 0)
			if err != nil {
				return &Stop{Moment: int(x.moment), Requested: x.bytes, Reserved: p.a.Reserved(), Err: err}, nil
			}
			p.born[x.place] = h
		case x.term < 0:
			p.a.FreeCompleted(p.born[x.place])
		default:
			if err := p.letGo(x); err != nil {
				return nil, err
			}
		}
	}
	p.end(part, func(place int32) allocator.Handle { return p.born[place] })
	p.state = p.a.State()
	return nil, nil
}

// leaveOut takes a part for played whose small blocks alone would move.
func (p *player) leaveOut(index int32) error {
	part := &p.parts[index]
	for _, x := range part.acts {
		if x.term >= 0 {
			if err := p.letGo(x); err != nil {
				return err
			}
		}
	}
	p.end(part, func(int32) allocator.Handle { return 0 })
	return nil
}

// freed stands for what was let go of until its part ends.
const freed = ^allocator.Handle(0)

func (p *player) letGo(x act) error {
	if int(x.place) >= len(p.open[x.term]) {
		return fmt.Errorf("course: event %d lets go of what no piece before it left in this order", x.moment)
	}
	p.a.FreeCompleted(p.open[x.term][x.place])
	p.open[x.term][x.place] = freed
	return nil
}

// end brings what stands open to where it is when a part has ended.
func (p *player) end(part *part, made func(place int32) allocator.Handle) {
	for i := range p.open {
		p.open[i] = slices.DeleteFunc(p.open[i], func(h allocator.Handle) bool { return h == freed })
	}
	for _, l := range part.left {
		p.open[l.term] = append(p.open[l.term], made(l.place))
	}
}
