package replay

import (
	"fmt"

	"floodmark/allocator"
	"floodmark/snapshot"
)

// recordedDriver answers as the driver of a recording did: it grants what the
// trace grants next, and refuses while the trace gives memory back first.
// Whatever the allocator asks for and the trace does not have is a mismatch, and
// is granted at an address that no recording has.
type recordedDriver struct {
	trace   *snapshot.Trace
	streams []uint64 // handles, by the trace's indexes
	total   int64    // bytes of the card
	a       *allocator.Allocator
	note    func(entry int, text string)
	spare   *allocator.Card // for what the trace does not have

	at, end int   // the segment entries that the present action may still use
	refuse  bool  // beyond them: the request is recorded as failed
	retries int64 // of the allocator, when the action began
	run     releaseRun

	segments, releases Count
	request            request
	pools              map[uint64]allocator.PoolID // private pools, by address of the segment
}

// request is what the present action asks for; nothing, where it releases.
type request struct {
	size int64
	pool allocator.PoolID
}

// releaseRun is consecutive entries by which the driver got memory back.
type releaseRun struct {
	open    bool
	clean   bool           // no release beyond the recorded ones
	missing map[uint64]int // recorded and not replayed yet: address → entry
}

var _ allocator.Driver = (*recordedDriver)(nil)

func newRecordedDriver(sc *scene, note func(int, string)) *recordedDriver {
	trace := sc.r.Trace
	d := &recordedDriver{trace: trace, streams: sc.s.Streams, total: sc.total, note: note, spare: allocator.NewCard(0, 0),
		run: releaseRun{missing: map[uint64]int{}}, pools: map[uint64]allocator.PoolID{}}
	for i, action := range trace.Action {
		switch {
		case grants(action):
			d.segments.Total++
		case takes(action) && (i == 0 || !takes(trace.Action[i-1])):
			d.releases.Total++
		}
	}
	return d
}

// grants reports an entry by which the driver gave memory.
func grants(a snapshot.Action) bool { return a == snapshot.SegmentAlloc || a == snapshot.SegmentMap }

// takes reports an entry by which the driver got memory back.
func takes(a snapshot.Action) bool { return a == snapshot.SegmentFree || a == snapshot.SegmentUnmap }

// begin opens the entries from first to before last to one action of the
// program.
func (d *recordedDriver) begin(first, last int, refuse bool, r request) {
	d.at, d.end, d.refuse, d.request = first, last, refuse, r
	d.retries = d.a.Stats().NumAllocRetries
	d.openRun()
}

// openRun collects the releases at the present entry, if there are any and no
// run is open.
func (d *recordedDriver) openRun() {
	if d.run.open {
		return
	}
	for d.at < d.end && d.trace.Action[d.at] == snapshot.FreeCompleted {
		d.at++ // while it waited for all streams
	}
	if d.at >= d.end || !takes(d.trace.Action[d.at]) {
		return
	}
	d.run.open, d.run.clean = true, true
	for ; d.at < d.end && takes(d.trace.Action[d.at]); d.at++ {
		addr := d.trace.Addr[d.at]
		d.run.missing[addr] = d.at
		pool := d.pools[addr]
		if d.trace.Pool != nil {
			pool = allocator.PoolID(d.trace.Pool[d.at])
		}
		// Memory of a private pool is released only when nobody uses it any more.
		d.a.ReleasePool(pool)
	}
}

// closeRun ends a run of releases. Those that were not replayed are mismatches.
func (d *recordedDriver) closeRun() {
	if !d.run.open {
		return
	}
	d.run.open = false
	if len(d.run.missing) == 0 {
		if d.run.clean {
			d.releases.Matched++
		}
		return
	}
	first := d.trace.Len()
	for _, entry := range d.run.missing {
		first = min(first, entry)
	}
	d.note(first, fmt.Sprintf("%s of %d bytes at %#x is recorded and not replayed",
		d.trace.Action[first], d.trace.Size[first], d.trace.Addr[first]))
	clear(d.run.missing)
}

// finish ends the action: what the trace has and the allocator did not ask for
// is a mismatch.
func (d *recordedDriver) finish() {
	d.closeRun()
	for d.openRun(); d.at < d.end || d.run.open; d.openRun() {
		d.closeRun()
		if d.at < d.end && grants(d.trace.Action[d.at]) {
			d.note(d.at, fmt.Sprintf("%s of %d bytes at %#x is recorded and not replayed",
				d.trace.Action[d.at], d.trace.Size[d.at], d.trace.Addr[d.at]))
			d.at++
		}
	}
}

// grant answers a request for memory: the entry that grants it, −1 for memory
// that the trace does not have, false for a refusal.
func (d *recordedDriver) grant(action snapshot.Action, addr uint64, size int64, stream uint64) (int, bool) {
	for d.openRun(); d.run.open; d.openRun() {
		// While recorded releases are to come, the recorded driver had refused.
		// After the last attempt to make room, they will not come any more.
		if len(d.run.missing) > 0 && d.a.Stats().NumAllocRetries == d.retries {
			return -1, false
		}
		d.closeRun()
	}
	if d.at >= d.end {
		if !d.refuse {
			d.note(d.end, fmt.Sprintf("%s of %d bytes is replayed and not recorded", action, size))
		}
		return -1, !d.refuse
	}
	entry := d.at
	d.at++
	sameAddress := action == snapshot.SegmentAlloc || d.trace.Addr[entry] == addr
	if d.trace.Action[entry] != action || d.trace.Size[entry] != size || !sameAddress {
		d.note(entry, fmt.Sprintf("%s of %d bytes at %#x is recorded, %s of %d bytes at %#x is replayed",
			d.trace.Action[entry], d.trace.Size[entry], d.trace.Addr[entry], action, size, addr))
		return -1, true
	}
	if recorded := d.streams[d.trace.Stream[entry]]; recorded != stream {
		d.note(entry, fmt.Sprintf("%s at %#x is recorded on stream %d and replayed on stream %d", action, d.trace.Addr[entry], recorded, stream))
		return -1, true
	}
	d.segments.Matched++
	return entry, true
}

// give matches a release with the recorded ones.
func (d *recordedDriver) give(action snapshot.Action, addr uint64, size int64) {
	if len(d.run.missing) == 0 {
		d.closeRun()
		d.openRun()
	}
	entry, ok := d.run.missing[addr]
	if d.run.open && ok && d.trace.Action[entry] == action && d.trace.Size[entry] == size {
		delete(d.run.missing, addr)
		return
	}
	d.run.clean = false
	d.note(min(d.at, d.trace.Len()), fmt.Sprintf("%s of %d bytes at %#x is replayed and not recorded", action, size, addr))
}

// Alloc implements allocator.Driver.
func (d *recordedDriver) Alloc(size int64, stream uint64) (uint64, bool) {
	entry, ok := d.grant(snapshot.SegmentAlloc, 0, size, stream)
	if !ok {
		return 0, false
	}
	if entry < 0 {
		return d.spare.Alloc(size, stream)
	}
	addr := d.trace.Addr[entry]
	if d.request.pool != 0 {
		d.pools[addr] = d.request.pool
	}
	return addr, true
}

// Free implements allocator.Driver.
func (d *recordedDriver) Free(addr uint64, size int64) { d.give(snapshot.SegmentFree, addr, size) }

// Reserve implements allocator.Driver. A reservation is not recorded; its base
// is where it is mapped first, perhaps only later, when the driver refuses now.
func (d *recordedDriver) Reserve(size int64, stream uint64) (uint64, bool) {
	settings := d.a.Settings()
	small := settings.RoundSize(d.request.size) <= allocator.SmallSize
	for i := d.at; i < d.trace.Len(); i++ {
		if d.trace.Action[i] == snapshot.SegmentMap && d.streams[d.trace.Stream[i]] == stream &&
			mapsFor(d.trace, i, uint32(d.request.pool), small, &settings) {
			return d.trace.Addr[i], true
		}
	}
	return d.spare.Reserve(size, stream)
}

// Map implements allocator.Driver.
func (d *recordedDriver) Map(addr uint64, size int64, stream uint64) bool {
	_, ok := d.grant(snapshot.SegmentMap, addr, size, stream)
	return ok
}

// Unmap implements allocator.Driver.
func (d *recordedDriver) Unmap(addr uint64, size int64) { d.give(snapshot.SegmentUnmap, addr, size) }

// Release implements allocator.Driver.
func (d *recordedDriver) Release(uint64, int64) {}

// TotalMemory implements allocator.Driver.
func (d *recordedDriver) TotalMemory() int64 { return d.total }
