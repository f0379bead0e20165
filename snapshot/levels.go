package snapshot

import "floodmark/timeline"

// Levels are bytes of one device at one moment. Requested counts an allocation
// until its free is completed, as PyTorch's requested_bytes does; Allocated
// until its free is requested. Allocated and Active are lower bounds before the
// end: see [Recording.Sizes]. Requested and Reserved are exact.
type Levels struct {
	Requested, Allocated, Active, Reserved int64
}

// Peak is the highest level of one scope and the first entry after which it is
// reached, −1 for before the first.
type Peak struct {
	Bytes int64
	Entry int
}

// Peaks are the peaks of each scope. They may be of different moments and are
// never subtracted.
type Peaks struct {
	Requested, Allocated, Active, Reserved Peak
}

// Walk visits the levels before the first entry (−1), after each entry, and, when
// events follow the last entry, after those (Trace.Len()).
func (r *Recording) Walk(visit func(entry int, l Levels)) {
	tl := &r.Timeline
	l := Levels{Requested: tl.Start(), Reserved: r.reserved}
	for _, a := range tl.Before {
		l.Allocated += r.Sizes[a]
		l.Active += r.Sizes[a]
	}
	requested := make([]bool, len(tl.Allocs))
	k := 0
	for entry := -1; entry <= r.Trace.Len(); entry++ {
		if entry >= 0 && entry < r.Trace.Len() {
			l.Reserved += r.Trace.Action[entry].reserves() * r.Trace.Size[entry]
		}
		if entry == r.Trace.Len() && k == len(tl.Events) {
			return
		}
		for ; k < len(tl.Events) && int(r.Entries[k]) == entry; k++ {
			r.move(&l, tl.Events[k], requested)
		}
		visit(entry, l)
	}
}

// move applies one event.
func (r *Recording) move(l *Levels, e timeline.Event, requested []bool) {
	switch e.Kind {
	case timeline.Born:
		l.Requested += r.Timeline.Allocs[e.Alloc].Requested
		l.Allocated += r.Sizes[e.Alloc]
		l.Active += r.Sizes[e.Alloc]
	case timeline.FreeRequested:
		requested[e.Alloc] = true
		l.Allocated -= r.Sizes[e.Alloc]
	case timeline.FreeCompleted:
		l.Requested -= r.Timeline.Allocs[e.Alloc].Requested
		l.Active -= r.Sizes[e.Alloc]
		if !requested[e.Alloc] {
			l.Allocated -= r.Sizes[e.Alloc]
		}
	}
}

// Peaks are the highest levels over the whole trace, the levels before its
// first entry included.
func (r *Recording) Peaks() Peaks {
	var p Peaks
	r.Walk(func(entry int, l Levels) {
		if entry == -1 {
			p = Peaks{Peak{l.Requested, -1}, Peak{l.Allocated, -1}, Peak{l.Active, -1}, Peak{l.Reserved, -1}}
			return
		}
		p.Requested.raise(l.Requested, entry)
		p.Allocated.raise(l.Allocated, entry)
		p.Active.raise(l.Active, entry)
		p.Reserved.raise(l.Reserved, entry)
	})
	return p
}

func (p *Peak) raise(bytes int64, entry int) {
	if bytes > p.Bytes {
		*p = Peak{bytes, entry}
	}
}
