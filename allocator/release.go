package allocator

// EmptyCache gives every byte back that no block in use holds fast, as
// torch.cuda.empty_cache does: whole unused segments, and whole unused pages
// of expandable segments. The allocator does the same when the driver refuses
// memory.
func (a *Allocator) EmptyCache() {
	if a.captures == 0 {
		a.synchronize()
	}
	a.releasePool(poolIndex(0, false))
	a.releasePool(poolIndex(0, true))
	for id := range a.groups {
		if id > 0 && a.groups[id].uses == 0 {
			a.releasePool(poolIndex(PoolID(id), true))
			a.releasePool(poolIndex(PoolID(id), false))
		}
	}
}

// releasePool gives back what is unused in one pool: segments first, then pages.
func (a *Allocator) releasePool(p int32) {
	a.scratch = a.pools[p].free.blocks(a.scratch[:0])
	for _, i := range a.scratch {
		if a.blocks[i].virtual == none && !a.blocks[i].isSplit() {
			a.releaseSegment(i)
		}
	}
	// Unmapping may make new free blocks of partial pages; those have no whole
	// page to give, so the list taken above is complete.
	for _, i := range a.scratch {
		if a.blocks[i].state == unused && a.blocks[i].virtual != none {
			a.unmapPages(i)
		}
	}
}

// releaseSegment is cudaFree of an unused block that is a whole segment.
func (a *Allocator) releaseSegment(i int32) {
	a.withdraw(i)
	b := &a.blocks[i]
	isSmall := small(b.pool)
	a.driver.Free(b.addr, b.size)
	a.stats.Segment.add(isSmall, -1)
	a.stats.ReservedBytes.add(isSmall, -b.size)
	a.stats.NumDeviceFree++
	if b.size >= a.settings.MaxSplitSize {
		a.stats.OversizeSegments.add(-1)
	}
	a.drop(i)
}

// releaseAvailable gives back just enough oversize blocks of the request's
// stream to serve it, and reports whether they suffice. It is only done where
// max_split_size is set. Blocks of expandable segments are passed over, as
// since PyTorch 2.5; earlier releases handed them to cudaFree, which fails.
func (a *Allocator) releaseAvailable(w want) bool {
	if a.settings.MaxSplitSize == Unlimited {
		return false
	}
	free := &a.pools[w.pool].free
	need := max(w.size, a.settings.MaxSplitSize)
	at := free.ceil(entry{stream: w.stream, size: need, block: none})
	if e, ok := free.at(at); ok && e.stream == w.stream && a.wholeSegment(e.block) {
		a.releaseSegment(e.block)
		return true
	}
	a.scratch = a.scratch[:0]
	var released int64
	for at, ok := free.previous(at); ok && released < need; at, ok = free.previous(at) {
		e, _ := free.at(at)
		if e.stream != w.stream || e.size < a.settings.MaxSplitSize {
			break
		}
		if a.wholeSegment(e.block) {
			a.scratch = append(a.scratch, e.block)
			released += e.size
		}
	}
	for _, i := range a.scratch {
		a.releaseSegment(i)
	}
	return released >= need
}

// wholeSegment reports a block that cudaFree can take.
func (a *Allocator) wholeSegment(i int32) bool {
	return a.blocks[i].virtual == none && !a.blocks[i].isSplit()
}

// collectGarbage gives back old cached segments of the default large pool once
// more than garbage_collection_threshold of the limit is reserved: those at
// least as old as the average, again and again until enough is free. A block's
// age is how often its pool was searched since it became unused.
func (a *Allocator) collectGarbage() {
	threshold := int64(a.settings.GarbageCollectionThreshold * float64(a.limit()))
	target := a.Reserved() - threshold
	if target <= 0 {
		return
	}
	p := &a.pools[poolIndex(0, false)]
	a.scratch = p.free.blocks(a.scratch[:0])
	var total, count uint64
	kept := a.scratch[:0]
	for _, i := range a.scratch {
		if a.wholeSegment(i) {
			kept = append(kept, i)
			total += p.searches - a.blocks[i].inserted
			count++
		}
	}
	for freed := true; freed && target > 0 && count > 0; {
		freed = false
		mean := float64(total) / float64(count)
		rest := kept[:0]
		for _, i := range kept {
			age := p.searches - a.blocks[i].inserted
			if float64(age) < mean {
				rest = append(rest, i)
				continue
			}
			freed = true
			target -= a.blocks[i].size
			total -= age
			count--
			a.releaseSegment(i)
		}
		kept = rest
	}
}
