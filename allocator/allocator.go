package allocator

import (
	"errors"
	"fmt"
)

// Allocator is the caching allocator of one device. It is not safe for
// concurrent use.
type Allocator struct {
	driver   Driver
	settings Settings
	rules    Rules

	blocks   []block
	spare    []int32 // places of dead blocks
	pools    []pool
	groups   []group
	virtuals []virtual

	queue    []Handle           // frees that wait for streams, oldest first; some may be completed by now
	waiting  int                // how many of the queue still wait
	uses     map[int32][]uint64 // streams that a block waits for, or that used it
	ready    []Handle           // frees whose streams are done, completed at the next malloc
	deferred []Handle           // frees requested under a capture
	captures int

	scratch []int32
	stats   Statistics
}

// New is an empty allocator.
func New(driver Driver, settings Settings, rules Rules) *Allocator {
	a := &Allocator{driver: driver, rules: rules, uses: map[int32][]uint64{}}
	a.Configure(settings)
	a.addGroup(PoolOptions{})
	return a
}

// Configure changes the settings, as torch.cuda.memory._set_allocator_settings
// does. Blocks that exist stay as they are.
func (a *Allocator) Configure(s Settings) { a.settings = a.rules.Effective(s) }

// Settings are those in effect, the ones that the release does not know left
// out with a warning.
func (a *Allocator) Settings() Settings { return a.settings }

// Stats are the statistics so far. The caller may reset the peaks.
func (a *Allocator) Stats() *Statistics { return &a.stats }

// ErrOutOfMemory is what every [OutOfMemoryError] wraps.
var ErrOutOfMemory = errors.New("out of memory")

// OutOfMemoryError is a request that could not be served.
type OutOfMemoryError struct {
	Requested int64 // bytes, as the program asked
	Size      int64 // rounded: what an "oom" entry of a trace records
	Reserved  int64 // bytes held from the driver when it failed, all caches released
	Rejected  bool  // by throw_on_cudamalloc_oom, before the driver was asked
}

// Error gives the request and the level.
func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("%v: %d bytes requested with %d bytes reserved", ErrOutOfMemory, e.Requested, e.Reserved)
}

// Unwrap is ErrOutOfMemory.
func (e *OutOfMemoryError) Unwrap() error { return ErrOutOfMemory }

// want is a request on its way to a block.
type want struct {
	request int64
	size    int64 // rounded
	segment int64 // what cudaMalloc would be asked for
	stream  uint64
	pool    int32
}

// Malloc allocates at least request bytes (1 to [MaxRequest]) for work on a
// stream, from the default pools (pool 0) or a private one. The error is an
// [OutOfMemoryError], or says what is wrong with the request.
func (a *Allocator) Malloc(request int64, stream uint64, id PoolID) (Handle, error) {
	if request < 1 || request > MaxRequest {
		return 0, fmt.Errorf("a request of %d bytes is outside 1 to %d", request, int64(MaxRequest))
	}
	if !a.knows(id) {
		return 0, fmt.Errorf("pool %d does not exist", id)
	}
	if a.captures == 0 {
		a.completeReady()
	}
	w := want{request: request, stream: stream, size: a.settings.RoundSize(request)}
	w.segment = a.settings.SegmentSize(w.size)
	w.pool = poolIndex(id, w.size <= SmallSize)
	i, rejected := a.find(w), false
	if i == none {
		i, rejected = a.obtain(w)
	}
	if i == none {
		if !rejected {
			a.stats.NumOOMs++
		}
		return 0, &OutOfMemoryError{Requested: request, Size: w.size, Reserved: a.Reserved(), Rejected: rejected}
	}
	return a.handOut(i, w), nil
}

// Reserved is the bytes held from the driver.
func (a *Allocator) Reserved() int64 { return a.stats.ReservedBytes.All.Current }

// Cached reports whether cached memory would serve a request, so that the driver
// is not asked. It changes nothing.
func (a *Allocator) Cached(request int64, stream uint64, id PoolID) bool {
	if request < 1 || request > MaxRequest || !a.knows(id) {
		return false
	}
	w := want{stream: stream, size: a.settings.RoundSize(request)}
	w.pool = poolIndex(id, w.size <= SmallSize)
	if _, ok := a.best(w); ok || !a.settings.ExpandableSegments || a.groups[id].options.CustomAllocator {
		return ok
	}
	// The limits of max_split_size do not hold for a block that is found as the
	// place to map pages at.
	i := a.findAddresses(w)
	return i != none && a.blocks[i].state == unused && a.blocks[i].size >= w.size
}

// find takes the best cached block for a request out of its free set; none
// when there is none. The best is the smallest that is large enough, and of
// those the one at the lowest address.
func (a *Allocator) find(w want) int32 {
	p := &a.pools[w.pool]
	if a.settings.GarbageCollectionThreshold > 0 {
		p.searches++
	}
	at, ok := a.best(w)
	if !ok {
		return none
	}
	e, _ := p.free.at(at)
	p.free.removeAt(at)
	a.blocks[e.block].state = taken
	return e.block
}

// best is the place of the best cached block for a request.
func (a *Allocator) best(w want) (place, bool) {
	p := &a.pools[w.pool]
	at := p.free.ceil(entry{stream: w.stream, size: w.size, block: none})
	e, ok := p.free.at(at)
	if !ok || e.stream != w.stream {
		return at, false
	}
	if a.blocks[e.block].virtual != none {
		if at, ok = a.bestExpandable(p, at, w.stream); !ok {
			return at, false
		}
		e, _ = p.free.at(at)
	}
	return at, a.withinOversize(w, e)
}

// bestExpandable chooses among expandable blocks. While the option is on, a
// block before unmapped addresses counts with what it could grow to, so that
// holes are filled before the tail is used up. When it was turned off, blocks
// of expandable segments are passed over.
func (a *Allocator) bestExpandable(p *pool, at place, stream uint64) (place, bool) {
	expandable := func(at place) (entry, bool) {
		e, ok := p.free.at(at)
		return e, ok && e.stream == stream && a.blocks[e.block].virtual != none
	}
	if !a.settings.ExpandableSegments {
		for {
			at = p.free.next(at)
			if _, ok := expandable(at); !ok {
				break
			}
		}
		e, ok := p.free.at(at)
		return at, ok && e.stream == stream
	}
	for {
		e, ok := expandable(at)
		if !ok {
			return at, true
		}
		next := p.free.next(at)
		n, ok := p.free.at(next)
		if !ok || n.stream != stream || a.extended(n.block) >= a.extended(e.block) {
			return at, true
		}
		at = next
	}
}

// extended is what a block could grow to by mapping what follows it.
func (a *Allocator) extended(i int32) int64 {
	b := &a.blocks[i]
	if b.next != none && a.blocks[b.next].state == unmapped {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

// withinOversize applies max_split_size: small requests keep off oversize
// blocks, and oversize requests off blocks that would waste too much. A miss
// here is a miss; the next block is not tried.
func (a *Allocator) withinOversize(w want, e entry) bool {
	if a.blocks[e.block].virtual != none && !a.rules.OversizeCheckExpandable {
		return true
	}
	limit := a.settings.MaxSplitSize
	if w.size < limit {
		return e.size < limit
	}
	return e.size < w.size+a.settings.MaxNonSplitRounding
}

// obtain gets new memory for a request, giving back cached memory when the
// driver refuses.
func (a *Allocator) obtain(w want) (i int32, rejected bool) {
	if a.limited() && a.settings.GarbageCollectionThreshold > 0 {
		a.collectGarbage()
	}
	if a.settings.ThrowOnOOM && a.overLimit(w.segment) {
		a.stats.NumOOMRejections++
		return none, true
	}
	if i := a.newMemory(w); i != none {
		return i, false
	}
	if a.releaseAvailable(w) {
		if i := a.newMemory(w); i != none {
			return i, false
		}
	}
	if a.captures == 0 {
		a.EmptyCache()
		a.stats.NumAllocRetries++
		if i := a.newMemory(w); i != none {
			return i, false
		}
	}
	return a.lastResort(w), false
}

// limited reports whether a memory fraction limits this allocator.
func (a *Allocator) limited() bool { return a.settings.MemoryFraction < 1 }

// limit is the most bytes that the allocator may hold.
func (a *Allocator) limit() int64 {
	return int64(a.settings.MemoryFraction * float64(a.driver.TotalMemory()))
}

func (a *Allocator) overLimit(more int64) bool {
	return more > maxReserved-a.Reserved() || (a.limited() && a.Reserved()+more > a.limit())
}

// newMemory asks the driver, and gives a block of at least the wanted size that
// is in no set; none when the driver or the limit refuses.
func (a *Allocator) newMemory(w want) int32 {
	if a.overLimit(w.segment) {
		return none
	}
	if a.settings.ExpandableSegments && !a.groups[w.pool/2].options.CustomAllocator {
		return a.growExpandable(w)
	}
	addr, ok := a.driver.Alloc(w.segment, w.stream)
	if !ok {
		return none
	}
	i := a.newBlock(block{addr: addr, size: w.segment, stream: w.stream, pool: w.pool, virtual: none, state: taken})
	a.stats.Segment.add(small(w.pool), 1)
	a.stats.ReservedBytes.add(small(w.pool), w.segment)
	a.stats.NumDeviceAlloc++
	if w.segment >= a.settings.MaxSplitSize {
		a.stats.OversizeSegments.add(1)
	}
	return i
}

// handOut gives the front of a taken block to the program; what is left over
// becomes a free block when the split rules say so.
func (a *Allocator) handOut(i int32, w want) Handle {
	wasSplit, classic := a.blocks[i].isSplit(), a.blocks[i].virtual == none
	isSmall := small(w.pool)
	if a.shouldSplit(i, w) {
		whole := &a.blocks[i]
		front := a.newBlock(block{addr: whole.addr, size: w.size, stream: whole.stream, pool: whole.pool, virtual: whole.virtual})
		a.linkBefore(front, i)
		rest := &a.blocks[i]
		rest.addr += uint64(w.size)
		rest.size -= w.size
		a.insertUnused(i)
		switch {
		case classic && wasSplit:
			a.stats.InactiveSplitBytes.add(isSmall, -w.size)
		case classic:
			a.stats.InactiveSplitBytes.add(isSmall, rest.size)
			a.stats.InactiveSplit.add(isSmall, 1)
		}
		i = front
	} else if wasSplit && classic {
		a.stats.InactiveSplitBytes.add(isSmall, -a.blocks[i].size)
		a.stats.InactiveSplit.add(isSmall, -1)
	}
	b := &a.blocks[i]
	b.state, b.requested = allocated, w.request
	a.countAllocated(b, 1)
	a.countActive(b, 1)
	return handleOf(i, b.generation)
}

// shouldSplit says whether the part of a block beyond the request is worth a
// block of its own.
func (a *Allocator) shouldSplit(i int32, w want) bool {
	b := &a.blocks[i]
	rest := b.size - w.size
	switch {
	case a.groups[b.pool/2].options.NoSplit:
		return false
	case small(b.pool) || a.settings.ExpandableSegments:
		return rest >= MinBlockSize
	}
	return w.size < a.settings.MaxSplitSize && rest > SmallSize
}

// countAllocated moves what a tensor holds, by a block in or out.
func (a *Allocator) countAllocated(b *block, n int64) {
	a.stats.Allocation.add(small(b.pool), n)
	a.stats.AllocatedBytes.add(small(b.pool), n*b.size)
	if b.size >= a.settings.MaxSplitSize {
		a.stats.OversizeAllocations.add(n)
	}
}

// countActive moves what is not reusable, by a block in or out.
func (a *Allocator) countActive(b *block, n int64) {
	a.stats.Active.add(small(b.pool), n)
	a.stats.ActiveBytes.add(small(b.pool), n*b.size)
	a.stats.RequestedBytes.add(small(b.pool), n*b.requested)
}
