package allocator

// virtual is an expandable segment: reserved addresses, of which some pages
// have memory behind them.
type virtual struct {
	base uint64
	size int64
	page int64
	live bool
}

// growExpandable gives a block of at least the wanted size by mapping pages
// behind the addresses of a place that was found or is newly reserved. The
// block is in no set. When the driver refuses, what was mapped so far stays
// cached, and the result is none.
func (a *Allocator) growExpandable(w want) int32 {
	i := a.findAddresses(w)
	if i == none {
		if i = a.reserve(w); i == none {
			return none
		}
	}
	if a.blocks[i].state == unmapped {
		if i = a.mapFront(i, min(a.blocks[i].size, w.size)); i == none {
			return none
		}
	}
	for a.blocks[i].size < w.size {
		next := a.blocks[i].next
		if next == none || a.blocks[next].state != unmapped {
			return none
		}
		if i = a.mapFront(next, min(w.size-a.blocks[i].size, a.blocks[next].size)); i == none {
			return none
		}
	}
	a.withdraw(i)
	a.blocks[i].state = taken
	return i
}

// findAddresses looks in address order for the first run of unused and
// unmapped blocks that is long enough. A run begins at an unmapped block, or at
// the unused block just before it.
func (a *Allocator) findAddresses(w want) int32 {
	set := &a.pools[w.pool].unmapped
	for at := set.ceil(entry{stream: w.stream, block: none}); ; at = set.next(at) {
		e, ok := set.at(at)
		if !ok || e.stream != w.stream {
			return none
		}
		start := e.block
		if before := a.blocks[start].previous; before != none && a.blocks[before].state == unused {
			start = before
		}
		var bytes int64
		for i := start; i != none && bytes < w.size; i = a.blocks[i].next {
			if s := a.blocks[i].state; s != unused && s != unmapped {
				break
			}
			bytes += a.blocks[i].size
		}
		if bytes >= w.size {
			return start
		}
	}
}

// reserve makes an expandable segment of 9/8 of the card's memory, and returns
// its one unmapped block; none when the request would not fit even there.
func (a *Allocator) reserve(w want) int32 {
	page := a.settings.pageSize(small(w.pool))
	total := a.driver.TotalMemory()
	size := roundUp(total+total/8, page)
	if size < w.size {
		return none
	}
	base, ok := a.driver.Reserve(size, w.stream)
	if !ok {
		return none
	}
	v := a.addVirtual(virtual{base: base, size: size, page: page, live: true})
	i := a.newBlock(block{addr: base, size: size, stream: w.stream, pool: w.pool, virtual: v})
	a.insertUnmapped(i)
	return i
}

func (a *Allocator) addVirtual(v virtual) int32 {
	for i := range a.virtuals {
		if !a.virtuals[i].live {
			a.virtuals[i] = v
			return int32(i)
		}
	}
	a.virtuals = append(a.virtuals, v)
	return int32(len(a.virtuals) - 1)
}

// mapFront maps at least size bytes at the front of an unmapped block, in whole
// pages, and merges them with unused neighbours. It returns the unused block
// that holds them; none when the driver refuses.
func (a *Allocator) mapFront(i int32, size int64) int32 {
	b := &a.blocks[i]
	v := &a.virtuals[b.virtual]
	size = min(roundUp(size, v.page), b.size)
	if !a.driver.Map(b.addr, size, b.stream) {
		return none
	}
	a.withdraw(i)
	b.state = taken
	if rest := b.size - size; rest > 0 {
		tail := a.newBlock(block{addr: b.addr + uint64(size), size: rest, stream: b.stream, pool: b.pool, virtual: b.virtual})
		a.blocks[i].size = size
		a.linkAfter(tail, i)
		a.insertUnmapped(tail)
	}
	isSmall := small(a.blocks[i].pool)
	a.absorb(i, a.blocks[i].previous, unused)
	a.absorb(i, a.blocks[i].next, unused)
	a.insertUnused(i)
	a.stats.ReservedBytes.add(isSmall, size)
	a.stats.NumDeviceAlloc++
	return i
}

// unmapPages takes the memory behind the whole pages of an unused block away.
// Partial pages at its ends stay unused. An expandable segment without any
// memory left is given up.
func (a *Allocator) unmapPages(i int32) {
	b := &a.blocks[i]
	v := a.virtuals[b.virtual]
	offset := int64(b.addr - v.base)
	first := roundUp(offset, v.page)
	last := (offset + b.size) / v.page * v.page
	if first >= last {
		return
	}
	a.withdraw(i)
	before, after := first-offset, offset+b.size-last
	b.addr, b.size = v.base+uint64(first), last-first
	part := block{stream: b.stream, pool: b.pool, virtual: b.virtual}
	if before > 0 {
		part.addr, part.size = a.blocks[i].addr-uint64(before), before
		front := a.newBlock(part)
		a.linkBefore(front, i)
		a.insertUnused(front)
	}
	if after > 0 {
		part.addr, part.size = v.base+uint64(last), after
		tail := a.newBlock(part)
		a.linkAfter(tail, i)
		a.insertUnused(tail)
	}
	isSmall := small(a.blocks[i].pool)
	a.driver.Unmap(a.blocks[i].addr, last-first)
	a.stats.ReservedBytes.add(isSmall, first-last)
	a.stats.NumDeviceFree++
	a.blocks[i].state = taken
	a.absorb(i, a.blocks[i].previous, unmapped)
	a.absorb(i, a.blocks[i].next, unmapped)
	if a.blocks[i].isSplit() {
		a.insertUnmapped(i)
		return
	}
	a.driver.Release(v.base, v.size)
	a.virtuals[a.blocks[i].virtual].live = false
	a.drop(i)
}
