package replay

import (
	"fmt"

	"floodmark/allocator"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// window is the entries before one that asks for memory, which belong to it.
type window struct{ first, last int }

// follow walks the trace. What the driver gave or got back belongs to the
// action that follows it; so do frees that were completed meanwhile, when that
// action waited for all streams to make room.
func (c *certifier) follow() {
	trace := c.r.Trace
	c.handle(-1, nil)
	first := 0
	for i := 0; i <= trace.Len(); i++ {
		if i < trace.Len() && c.leadsOn(i) {
			continue
		}
		if i == trace.Len() || (trace.Action[i] != snapshot.Alloc && trace.Action[i] != snapshot.OutOfMemory) {
			c.apart(first, i)
			c.handle(i, nil)
			first = i + 1
			continue
		}
		if begin, made := c.madeRoom(first, i); made {
			c.makeRoom(begin, i)
		} else {
			asks := c.apart(begin, i)
			c.handle(i, &window{asks, i})
		}
		first = i + 1
	}
}

// makeRoom replays a request that released memory or waited for streams.
func (c *certifier) makeRoom(first, entry int) {
	c.noteRelease(first, entry)
	waited := c.postpone(entry)
	c.handle(entry, &window{first, entry})
	for _, a := range waited {
		c.a.FreeCompleted(c.handles[a])
		c.handles[a] = 0
	}
}

// leadsOn reports an entry that may belong to the action after it: the driver's,
// and completed frees that waited. A free that is completed right after it was
// requested looks the same whether it had to wait or not; see [Replay].
func (c *certifier) leadsOn(i int) bool {
	trace := c.r.Trace
	switch action := trace.Action[i]; {
	case grants(action), takes(action):
		return true
	case action == snapshot.FreeCompleted:
		return c.guess.allWait || i == 0 || trace.Action[i-1] != snapshot.FreeRequested || trace.Addr[i-1] != trace.Addr[i]
	}
	return false
}

// madeRoom reports that the entries from some on are what a request did to make
// room for itself: memory was released, or the request failed. Where cached
// memory would have served it, it had no need to; then the program emptied the
// cache. Completed frees are among them only where the request may have waited
// for them; the others are replayed, and the entries begin after them.
func (c *certifier) madeRoom(first, entry int) (begin int, made bool) {
	trace := c.r.Trace
	failed := trace.Action[entry] == snapshot.OutOfMemory
	released, granted, at := false, false, entry
	for i := entry - 1; i >= first; i-- {
		action := trace.Action[i]
		if grants(action) || takes(action) {
			at = i
		}
		released = released || takes(action)
		granted = granted || (!released && grants(action))
	}
	// In an expandable segment, the parts of pages that a release leaves can be
	// enough; it is more likely that the program emptied the cache.
	if !failed && (!released || !granted && (!c.settings.ExpandableSegments || !c.guess.enough)) {
		return first, false
	}
	// A driver that gave at first was not yet waited for. With nothing given after
	// the release, frees that were completed may be what served the request. With
	// max_split_size, it is likelier that blocks were released before anything
	// waited.
	partial := c.settings.MaxSplitSize != allocator.Unlimited && !c.guess.waited
	if at < entry && (grants(trace.Action[at]) || !failed && (partial || !granted)) {
		for ; first < at; first++ {
			c.handle(first, nil)
		}
	}
	return first, !c.a.Cached(trace.Size[entry], c.s.Streams[trace.Stream[entry]], c.poolOf(entry))
}

// noteRelease tells for a what-if whether a release was the program's, by
// torch.cuda.empty_cache, although a refusal of the driver looks the same: a
// driver that refused could not have given more at another time.
func (c *certifier) noteRelease(first, entry int) {
	trace := c.r.Trace
	if trace.Action[entry] != snapshot.Alloc {
		return
	}
	released := false
	for i := first; i < entry && (released || !grants(trace.Action[i])); i++ {
		released = released || takes(trace.Action[i])
		if grants(trace.Action[i]) {
			if c.a.Reserved()+trace.Size[i] <= c.out.Certificate.ReservedPeakRecorded {
				c.out.empty = append(c.out.empty, c.next)
			} else {
				c.out.unsure++
			}
			return
		}
	}
}

// postpone passes the events before an entry, which complete frees, and gives
// their allocations: the allocator completes them itself when it waits for all
// streams. The levels are told as they would be without it.
func (c *certifier) postpone(entry int) []uint32 {
	var waited []uint32
	l := levelsOf(c.a.Stats())
	for ; c.next < len(c.events) && int(c.r.Entries[c.next]) < entry; c.next++ {
		if e := c.events[c.next]; e.Kind == timeline.FreeCompleted {
			a := c.mended.alias(e.Alloc)
			if b, ok := c.a.Lookup(c.handles[a]); ok {
				l.Requested -= b.Requested
				l.Active -= b.Size
				if c.a.FreeRequested(c.handles[a]) { // before the trace began
					l.Allocated -= b.Size
				}
			}
			waited = append(waited, a)
		}
		c.run.put(l)
	}
	return waited
}

// apart replays entries one by one: completed frees as such, and memory that
// went back to the driver as an emptied cache. It returns where the grants begin
// that stand directly before the entry last.
func (c *certifier) apart(first, last int) int {
	trace := c.r.Trace
	asks := first
	for i := first; i < last; {
		end := i
		for end < last && takes(trace.Action[end]) {
			end++
		}
		if end > i {
			c.emptyCache(i, end)
			i, asks = end, end
			continue
		}
		if !grants(trace.Action[i]) {
			c.unasked(asks, i)
			c.handle(i, nil)
			asks = i + 1
		}
		i++
	}
	if last == trace.Len() || trace.Action[last] != snapshot.Alloc {
		c.unasked(asks, last)
		return last
	}
	return asks
}

// emptyCache replays a release that the program asked for.
func (c *certifier) emptyCache(first, last int) {
	c.d.begin(first, last, false, request{})
	c.a.EmptyCache()
	c.d.finish()
	c.out.empty = append(c.out.empty, c.next)
}

// unasked notes memory that the driver gave and nobody asked for.
func (c *certifier) unasked(first, last int) {
	c.d.begin(first, last, false, request{})
	c.d.finish()
}

// handle replays the events of one entry. The window is that of an entry that
// asks for memory.
func (c *certifier) handle(entry int, w *window) {
	for ; c.next < len(c.events) && int(c.r.Entries[c.next]) == entry; c.next++ {
		e := c.events[c.next]
		alloc := e.Alloc
		if e.Kind != timeline.Mark && e.Kind != timeline.OutOfMemory {
			if c.mended.skips(c.next) {
				c.run.after(c.next)
				continue
			}
			alloc = c.mended.alias(alloc)
		}
		switch e.Kind {
		case timeline.Born:
			c.born(alloc, entry, w)
		case timeline.FreeRequested:
			c.a.FreeRequested(c.handles[alloc])
		case timeline.FreeCompleted:
			c.a.FreeCompleted(c.handles[alloc])
			c.handles[alloc] = 0
		case timeline.OutOfMemory:
			c.failed(entry, w)
		}
		c.run.after(c.next)
	}
}

// born replays a birth. One that no "alloc" entry records is only replayed so
// that its free has something to free.
func (c *certifier) born(alloc uint32, entry int, w *window) {
	size := c.r.Timeline.Allocs[alloc].Requested
	stream := c.s.Streams[c.r.Timeline.Allocs[alloc].Stream]
	if w == nil {
		c.d.begin(max(entry, 0), max(entry, 0), false, request{size: size})
		c.handles[alloc], _ = c.a.Malloc(size, stream, 0)
		return
	}
	pool := c.poolOf(entry)
	c.d.begin(w.first, w.last, false, request{size, pool})
	h, err := c.a.Malloc(size, stream, pool)
	c.d.finish()
	if err != nil {
		c.note(entry, fmt.Sprintf("recorded at %#x; replayed: %v", c.r.Trace.Addr[entry], err))
		return
	}
	c.handles[alloc] = h
	if b, _ := c.a.Lookup(h); b.Addr != c.r.Trace.Addr[entry] {
		c.note(entry, fmt.Sprintf("recorded at %#x, replayed at %#x", c.r.Trace.Addr[entry], b.Addr))
		return
	}
	c.out.Certificate.Addresses.Matched++
}

// failed replays a request that the recorded driver could not serve.
func (c *certifier) failed(entry int, w *window) {
	pool, size, stream := c.poolOf(entry), c.r.Trace.Size[entry], c.s.Streams[c.r.Trace.Stream[entry]]
	c.d.begin(w.first, w.last, true, request{size, pool})
	h, err := c.a.Malloc(size, stream, pool)
	c.d.finish()
	if err == nil {
		c.note(entry, "the request is recorded as out of memory, and was served in the replay")
		c.a.Free(h)
		return
	}
	c.run.refuse(c.next, size, err)
	if len(c.out.Failures) < mostFailures {
		c.out.Failures = append(c.out.Failures, cacheOf(c.a, entry))
	}
}

// poolOf is the pool of an entry: as it says, or that of the segment in which
// its address lies at the end.
func (c *certifier) poolOf(entry int) allocator.PoolID {
	if c.r.Trace.Pool != nil {
		return allocator.PoolID(c.r.Trace.Pool[entry])
	}
	if len(c.s.Pools) <= 1 || c.r.Trace.Action[entry] != snapshot.Alloc {
		return 0
	}
	addr := c.r.Trace.Addr[entry]
	for _, g := range c.r.Segments {
		if addr >= g.Address && addr-g.Address < uint64(g.Total) {
			return allocator.PoolID(g.Pool)
		}
	}
	return 0
}
