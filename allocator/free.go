package allocator

import "slices"

// Free is what the program does: it lets go of an allocation, and its bytes
// are reusable at once unless other streams used them ([Allocator.RecordStream]).
// It reports whether the handle named a live allocation.
func (a *Allocator) Free(h Handle) bool {
	i := a.resolve(h)
	if i == none || a.blocks[i].state != allocated {
		return false
	}
	a.letGo(i)
	if len(a.uses) > 0 && len(a.uses[i]) > 0 {
		a.await(i)
		return true
	}
	a.complete(i)
	return true
}

// FreeRequested is the first half of a free, as a trace records it: allocated
// falls, and the block stays active until [Allocator.FreeCompleted] or until
// everything cached is released.
func (a *Allocator) FreeRequested(h Handle) bool {
	i := a.resolve(h)
	if i == none || a.blocks[i].state != allocated {
		return false
	}
	a.letGo(i)
	a.await(i)
	return true
}

// FreeCompleted is the second half of a free: active falls, and the block
// merges with unused neighbours. It does both halves of a free that was not
// requested before, and nothing for a free that is already completed.
func (a *Allocator) FreeCompleted(h Handle) bool {
	i := a.resolve(h)
	if i == none {
		return false
	}
	if a.blocks[i].state == allocated {
		a.letGo(i)
	} else {
		a.waiting--
		if n := len(a.queue); n > 0 && a.queue[n-1] == h {
			a.queue = a.queue[:n-1]
		}
	}
	a.complete(i)
	return true
}

func (a *Allocator) letGo(i int32) {
	b := &a.blocks[i]
	a.countAllocated(b, -1)
	b.state = pending
}

// await queues a pending block.
func (a *Allocator) await(i int32) {
	h := handleOf(i, a.blocks[i].generation)
	a.waiting++
	if a.captures > 0 {
		a.deferred = append(a.deferred, h)
		return
	}
	if len(a.queue) >= 2*a.waiting+16 {
		a.queue = slices.DeleteFunc(a.queue, func(h Handle) bool { return a.resolve(h) == none })
	}
	a.queue = append(a.queue, h)
}

// complete makes a pending block reusable and merges it with its neighbours.
func (a *Allocator) complete(i int32) {
	if len(a.uses) > 0 {
		delete(a.uses, i)
	}
	a.blocks[i].generation++
	a.countActive(&a.blocks[i], -1)
	isSmall, classic := small(a.blocks[i].pool), a.blocks[i].virtual == none
	var count, bytes int64
	for _, n := range [2]int32{a.blocks[i].previous, a.blocks[i].next} {
		if gained := a.absorb(i, n, unused); gained > 0 {
			count--
			bytes -= gained
		}
	}
	a.insertUnused(i)
	if !classic {
		return
	}
	if a.blocks[i].isSplit() {
		count++
		bytes += a.blocks[i].size
	}
	a.stats.InactiveSplit.add(isSmall, count)
	a.stats.InactiveSplitBytes.add(isSmall, bytes)
}

// RecordStream says that work on another stream uses an allocation, as
// Tensor.record_stream does: its free is completed only after that stream has
// come so far.
func (a *Allocator) RecordStream(h Handle, stream uint64) {
	i := a.resolve(h)
	if i == none || a.blocks[i].stream == stream || slices.Contains(a.uses[i], stream) {
		return
	}
	a.uses[i] = append(a.uses[i], stream)
}

// StreamReached says that a stream has done all work that was queued on it.
// Frees that waited for it alone are completed at the next Malloc, which is
// when the allocator looks.
func (a *Allocator) StreamReached(stream uint64) {
	for _, h := range a.queue {
		i := a.resolve(h)
		if i == none {
			continue
		}
		at := slices.Index(a.uses[i], stream)
		if at < 0 {
			continue
		}
		a.uses[i] = slices.Delete(a.uses[i], at, at+1)
		if len(a.uses[i]) == 0 {
			a.ready = append(a.ready, h)
		}
	}
}

// completeReady completes the frees whose streams are done.
func (a *Allocator) completeReady() {
	for _, h := range a.ready {
		a.FreeCompleted(h)
	}
	a.ready = a.ready[:0]
}

// synchronize waits for all streams: every free that was put off is completed.
func (a *Allocator) synchronize() {
	a.stats.NumSyncAllStreams++
	for _, h := range a.queue {
		if i := a.resolve(h); i != none {
			a.waiting--
			a.complete(i)
		}
	}
	a.queue = a.queue[:0]
	a.ready = a.ready[:0]
}
