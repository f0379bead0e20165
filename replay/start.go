package replay

import (
	"cmp"
	"slices"

	"floodmark/allocator"
	"floodmark/internal/sorting"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// scene is a recording and what is known of the allocator that made it.
type scene struct {
	s        *snapshot.Snapshot
	r        *snapshot.Recording
	settings allocator.Settings
	total    int64 // bytes of the card; assumedMemory when nobody told
}

// assumedMemory is the total of a card that no file tells: more than any has.
const assumedMemory = 1 << 40

// reservation is the addresses that an expandable segment reserves.
func (sc *scene) reservation() uint64 { return uint64(sc.total) + uint64(sc.total)/8 }

// start is the state of a device before the first entry of its trace: the
// segments of the end, with what the trace did undone, and in them the
// allocations that lived before it.
type start struct {
	segments []allocator.Segment
	owners   [][]uint32 // parallel to segments: the allocation of each block in use, in order
	unplaced []uint32   // allocations that lie in no segment, or over another one
}

// region is memory from the driver at the start: a segment, or a mapped range
// of an expandable one.
type region struct {
	addr, end  uint64
	stream     uint64
	pool       uint32 // index into Snapshot.Pools
	small      bool
	expandable bool
}

// tenant is an allocation that lived before the first entry.
type tenant struct {
	alloc  uint32
	stream uint64
	addr   uint64
	size   int64
	room   uint64 // its block ends here at the latest
	exact  bool
	state  allocator.BlockState
}

// startOf rebuilds the state before the first entry.
func startOf(sc *scene, before []uint32) start {
	r, settings := sc.r, &sc.settings
	regions := undoSegments(sc)
	tenants := make([]tenant, 0, len(before))
	pending := requestedBefore(r)
	for _, a := range before {
		t := tenant{alloc: a, stream: sc.s.Streams[r.Timeline.Allocs[a].Stream], addr: r.Addresses[a], exact: r.Blocks[a] >= 0, size: r.Sizes[a], state: allocator.ActiveAllocated}
		if _, ok := pending[a]; ok {
			t.state = allocator.ActivePendingFree
		}
		if request := r.Timeline.Allocs[a].Requested; !t.exact && request >= 0 && request <= allocator.MaxRequest {
			t.size = settings.RoundSize(request)
		}
		tenants = append(tenants, t)
	}
	// Where two claim the same bytes, the one that the end confirms comes first.
	sorting.By(tenants, func(i, j int) int {
		a, b := tenants[i], tenants[j]
		if c := cmp.Compare(a.addr, b.addr); c != 0 || a.exact == b.exact {
			return cmp.Or(c, cmp.Compare(a.alloc, b.alloc))
		}
		if a.exact {
			return -1
		}
		return 1
	})
	placed, st := place(regions, tenants)
	settle(r, regions, placed, settings)
	st.build(sc, regions, placed)
	return st
}

// requestedBefore is the allocations whose free was requested before the first
// entry, and is completed later or never.
func requestedBefore(r *snapshot.Recording) map[uint32]struct{} {
	pending := map[uint32]struct{}{}
	for k, e := range r.Timeline.Events {
		if r.Entries[k] >= 0 {
			break
		}
		if e.Kind == timeline.FreeRequested {
			pending[e.Alloc] = struct{}{}
		}
	}
	return pending
}

// place sorts allocations into regions; both are in address order.
func place(regions []region, tenants []tenant) ([][]tenant, start) {
	placed := make([][]tenant, len(regions))
	var st start
	k := 0
	for _, t := range tenants {
		for k < len(regions) && regions[k].end <= t.addr {
			k++
		}
		free := k < len(regions) && t.stream == regions[k].stream && t.addr >= regions[k].addr && uint64(t.size) <= regions[k].end-t.addr
		if free && len(placed[k]) > 0 {
			last := &placed[k][len(placed[k])-1]
			free = t.addr-last.addr >= uint64(last.size)
			if free {
				last.room = t.addr
			}
		}
		if !free || t.size <= 0 {
			st.unplaced = append(st.unplaced, t.alloc)
			continue
		}
		t.room = regions[k].end
		placed[k] = append(placed[k], t)
	}
	return placed, st
}

// settle finds the sizes of blocks that the trace tells only the requests of.
// A block of the large pool keeps up to 1 MiB beyond its request, because that
// is not split off. So it owns a gap of that size behind it; of a larger gap, it
// owns what lies before the next block that is born there while it lives.
func settle(r *snapshot.Recording, regions []region, placed [][]tenant, settings *allocator.Settings) {
	var open []*tenant
	for k := range placed {
		if regions[k].small || settings.ExpandableSegments {
			continue
		}
		for i := range placed[k] {
			t := &placed[k][i]
			gap := t.room - t.addr - uint64(t.size)
			switch {
			case t.exact || gap == 0:
			case gap <= allocator.SmallSize || t.size >= settings.MaxSplitSize:
				t.size = int64(t.room - t.addr)
			default:
				open = append(open, t)
			}
		}
	}
	if len(open) == 0 {
		return
	}
	byAlloc := make(map[uint32]*tenant, len(open))
	for _, t := range open {
		byAlloc[t.alloc] = t
	}
	for _, e := range r.Timeline.Events {
		switch e.Kind {
		case timeline.FreeCompleted:
			if t := byAlloc[e.Alloc]; t != nil {
				t.exact = true // it is gone: what is born here later says nothing
			}
		case timeline.Born:
			if t := behind(open, r.Addresses[e.Alloc]); t != nil {
				t.size, t.exact = int64(r.Addresses[e.Alloc]-t.addr), true
			}
		}
	}
}

// behind is the open allocation whose block an allocation at that address ends.
func behind(open []*tenant, addr uint64) *tenant {
	i, found := slices.BinarySearchFunc(open, addr, func(t *tenant, a uint64) int { return cmp.Compare(t.addr, a) })
	if found || i == 0 {
		return nil
	}
	t := open[i-1]
	end := t.addr + uint64(t.size)
	if t.exact || addr < end || addr-end > allocator.SmallSize || addr >= t.room {
		return nil
	}
	return t
}

// build makes segments that an allocator can be restored with.
func (st *start) build(sc *scene, regions []region, placed [][]tenant) {
	for k, g := range regions {
		if g.expandable {
			continue
		}
		segment := allocator.Segment{Addr: g.addr, Size: int64(g.end - g.addr), Stream: g.stream,
			Pool: allocator.PoolID(g.pool), Small: g.small}
		var owners []uint32
		segment.Blocks, owners = blocksOf(nil, nil, g, placed[k], sc.r)
		st.segments = append(st.segments, segment)
		st.owners = append(st.owners, owners)
	}
	st.buildExpandable(sc, regions, placed)
}

// blocksOf tiles a region with the blocks of its allocations and what is free
// between them.
func blocksOf(blocks []allocator.Block, owners []uint32, g region, tenants []tenant, r *snapshot.Recording) ([]allocator.Block, []uint32) {
	at := g.addr
	free := func(to uint64) {
		if to > at {
			blocks = append(blocks, allocator.Block{Addr: at, Size: int64(to - at), State: allocator.Inactive})
		}
	}
	for _, t := range tenants {
		free(t.addr)
		blocks = append(blocks, allocator.Block{Addr: t.addr, Size: t.size,
			Requested: r.Timeline.Allocs[t.alloc].Requested, State: t.state})
		owners = append(owners, t.alloc)
		at = t.addr + uint64(t.size)
	}
	free(g.end)
	return blocks, owners
}
