package replay

import (
	"cmp"
	"slices"

	"floodmark/allocator"
	"floodmark/internal/sorting"
	"floodmark/snapshot"
)

// undoSegments gives the regions before the first entry, by address: those of
// the end, with the segment entries of the trace undone from the last to the
// first.
func undoSegments(sc *scene) []region {
	u := undo{scene: sc}
	for _, g := range sc.r.Segments {
		u.regions = append(u.regions, region{addr: g.Address, end: g.Address + uint64(g.Total), stream: sc.s.Streams[g.Stream],
			pool: g.Pool, small: g.Small, expandable: g.Expandable})
	}
	u.sort()
	trace := sc.r.Trace
	for i := trace.Len() - 1; i >= 0; i-- {
		switch trace.Action[i] {
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			u.remove(trace.Addr[i], trace.Size[i])
		case snapshot.SegmentFree:
			u.add(i, false)
		case snapshot.SegmentUnmap:
			u.add(i, true)
		}
	}
	u.sort()
	return u.joined()
}

// undo is the regions while a trace is walked backwards, by address.
type undo struct {
	*scene
	regions []region
}

func (u *undo) sort() {
	sorting.By(u.regions, func(i, j int) int { return cmp.Compare(u.regions[i].addr, u.regions[j].addr) })
}

// find is the index of the region that holds an address, or of the first one
// above it.
func (u *undo) find(addr uint64) (int, bool) {
	i, found := slices.BinarySearchFunc(u.regions, addr, func(g region, a uint64) int { return cmp.Compare(g.addr, a) })
	if !found && i > 0 && u.regions[i-1].end > addr {
		return i - 1, true
	}
	return i, found
}

// remove takes bytes away that an entry added. Mapped ranges lie merged in a
// snapshot, so what is left on either side stays.
func (u *undo) remove(addr uint64, size int64) {
	end := addr + uint64(size)
	first, _ := u.find(addr)
	last := first
	var rest []region
	for ; last < len(u.regions) && u.regions[last].addr < end; last++ {
		g := u.regions[last]
		if g.addr < addr {
			left := g
			left.end = addr
			rest = append(rest, left)
		}
		if end < g.end {
			right := g
			right.addr = end
			rest = append(rest, right)
		}
	}
	u.regions = slices.Replace(u.regions, first, max(first, last), rest...)
}

// add puts bytes back that entry i gave to the driver.
func (u *undo) add(i int, expandable bool) {
	trace := u.r.Trace
	if trace.Size[i] <= 0 || trace.Addr[i]+uint64(trace.Size[i]) < trace.Addr[i] {
		return
	}
	g := region{addr: trace.Addr[i], end: trace.Addr[i] + uint64(trace.Size[i]), stream: u.s.Streams[trace.Stream[i]],
		small: trace.Size[i] == allocator.SmallSegmentSize, expandable: expandable}
	if trace.Pool != nil {
		g.pool = trace.Pool[i]
	}
	if expandable {
		g.small = u.smallPages(i, g)
	}
	at, _ := u.find(g.addr)
	u.regions = slices.Insert(u.regions, at, g)
}

// smallPages says of which pool pages are that were unmapped: of the one that
// touches them, else of the one whose pages they can be.
func (u *undo) smallPages(i int, g region) bool {
	at, _ := u.find(g.addr)
	for _, k := range []int{at - 1, at} {
		if k >= 0 && k < len(u.regions) {
			if n := u.regions[k]; n.expandable && n.stream == g.stream && (n.end == g.addr || n.addr == g.end) {
				return n.small
			}
		}
	}
	return u.r.Trace.Size[i]%u.settings.LargeSegmentSize != 0
}

// joined merges mapped ranges that touch and belong together.
func (u *undo) joined() []region {
	var list []region
	for _, g := range u.regions {
		if n := len(list); n > 0 {
			last := &list[n-1]
			if g.addr < last.end {
				continue // two claim the same bytes: a contradiction of the file
			}
			if g.expandable && last.expandable && last.end == g.addr && sameSegment(*last, g) {
				last.end = g.end
				continue
			}
		}
		list = append(list, g)
	}
	return list
}

// sameSegment reports ranges that one reservation can hold.
func sameSegment(a, b region) bool {
	return a.stream == b.stream && a.pool == b.pool && a.small == b.small
}

// virtualRange is one expandable segment at the start: the mapped ranges of one
// stream and pool, and the addresses around them.
type virtualRange struct {
	region // of the first mapped to the last mapped byte
	parts  []int
	mapped int64
}

// buildExpandable makes one segment of the mapped ranges of each stream and
// pool. Its base is the lowest address that it maps while it exists; beyond its
// last page lie addresses for 9/8 of the card.
func (st *start) buildExpandable(sc *scene, regions []region, placed [][]tenant) {
	var ranges []virtualRange
	for k, g := range regions {
		if !g.expandable {
			continue
		}
		i := slices.IndexFunc(ranges, func(v virtualRange) bool { return sameSegment(v.region, g) })
		if i < 0 {
			ranges = append(ranges, virtualRange{region: g})
			i = len(ranges) - 1
		}
		v := &ranges[i]
		v.end = g.end
		v.parts = append(v.parts, k)
		v.mapped += int64(g.end - g.addr)
	}
	for _, v := range ranges {
		page := int64(allocator.SmallSegmentSize)
		if !v.small {
			page = sc.settings.LargeSegmentSize
		}
		base := lowestMapped(sc, v)
		size := max(int64(v.end-base), int64(sc.reservation()))
		size = (size + page - 1) / page * page
		segment := allocator.Segment{Addr: base, Size: size, Stream: v.stream, Pool: allocator.PoolID(v.pool),
			Small: v.small, Expandable: true, Page: page}
		var owners []uint32
		at := base
		hole := func(to uint64) {
			if to > at {
				segment.Blocks = append(segment.Blocks, allocator.Block{Addr: at, Size: int64(to - at), State: allocator.Unmapped})
			}
		}
		for _, k := range v.parts {
			hole(regions[k].addr)
			segment.Blocks, owners = blocksOf(segment.Blocks, owners, regions[k], placed[k], sc.r)
			at = regions[k].end
		}
		hole(base + uint64(size))
		st.segments = append(st.segments, segment)
		st.owners = append(st.owners, owners)
	}
}

// lowestMapped is the lowest address that an expandable segment maps between
// the start and the moment at which nothing of it is mapped any more.
func lowestMapped(sc *scene, v virtualRange) uint64 {
	base, mapped := v.addr, v.mapped
	trace, reservation := sc.r.Trace, sc.reservation()
	for i, action := range trace.Action {
		addr, size := trace.Addr[i], trace.Size[i]
		switch {
		case action == snapshot.SegmentUnmap && addr >= base && addr < v.end:
			if mapped -= size; mapped <= 0 {
				return base
			}
		case action == snapshot.SegmentMap && v.stream == sc.s.Streams[trace.Stream[i]] && mapsFor(trace, i, v.pool, v.small, &sc.settings):
			if addr < v.end+reservation && v.end < addr+reservation {
				mapped += size
				base = min(base, addr)
				v.end = max(v.end, addr+uint64(size))
			}
		}
	}
	return base
}

// mapsFor reports whether a map entry serves the pool of an expandable segment:
// the allocation that follows it tells.
func mapsFor(trace *snapshot.Trace, i int, pool uint32, small bool, settings *allocator.Settings) bool {
	if trace.Pool != nil && trace.Pool[i] != pool {
		return false
	}
	for ; i < trace.Len(); i++ {
		switch trace.Action[i] {
		case snapshot.Alloc, snapshot.OutOfMemory:
			n := trace.Size[i]
			return n > 0 && n <= allocator.MaxRequest && (settings.RoundSize(n) <= allocator.SmallSize) == small
		}
	}
	return false
}
