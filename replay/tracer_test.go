package replay

import (
	"slices"

	"floodmark/allocator"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// tracer runs a program on an allocator and records it, as
// torch.cuda.memory._record_memory_history does.
type tracer struct {
	*allocator.Card
	a     *allocator.Allocator
	s     *snapshot.Snapshot
	trace snapshot.Trace
	live  []held
	waits []held // requested, waiting for streams

	pool           allocator.PoolID // of the present action
	poolsOfEntries []uint32
}

// held is an allocation of the program.
type held struct {
	allocator.Handle
	addr    uint64
	request int64
	stream  uint64
	pool    allocator.PoolID
}

func newTracer(capacity int64, settings allocator.Settings) *tracer {
	t := &tracer{Card: allocator.NewCard(capacity, 80<<30),
		s: &snapshot.Snapshot{Streams: []uint64{0, 1, 7 << 40}, Pools: []snapshot.Pool{{}, {A: 0, B: 1}}}}
	t.a = allocator.New(t, settings, allocator.LatestRules())
	t.a.NewPool(allocator.PoolOptions{})
	t.s.Settings = &snapshot.Settings{Conf: settings.String(), MaxSplitSize: settings.MaxSplitSize,
		GarbageCollectionThreshold: settings.GarbageCollectionThreshold, ExpandableSegments: settings.ExpandableSegments}
	for i, d := range settings.RoundupPower2Divisions {
		t.s.Settings.Roundups = append(t.s.Settings.Roundups, snapshot.Roundup{FromMiB: 1 << i, Divisions: d})
	}
	return t
}

func (t *tracer) entry(a snapshot.Action, addr uint64, size int64, stream uint64) {
	t.trace.Action = append(t.trace.Action, a)
	t.trace.Addr = append(t.trace.Addr, addr)
	t.trace.Size = append(t.trace.Size, size)
	t.trace.Stream = append(t.trace.Stream, uint32(slices.Index(t.s.Streams, stream)))
	t.trace.Stack = append(t.trace.Stack, timeline.NoStack)
	t.poolsOfEntries = append(t.poolsOfEntries, uint32(t.pool))
}

func (t *tracer) Alloc(size int64, stream uint64) (uint64, bool) {
	addr, ok := t.Card.Alloc(size, stream)
	if ok {
		t.completed()
		t.entry(snapshot.SegmentAlloc, addr, size, stream)
	}
	return addr, ok
}

func (t *tracer) Map(addr uint64, size int64, stream uint64) bool {
	ok := t.Card.Map(addr, size, stream)
	if ok {
		t.completed()
		t.entry(snapshot.SegmentMap, addr, size, stream)
	}
	return ok
}

func (t *tracer) Free(addr uint64, size int64) {
	t.completed()
	t.Card.Free(addr, size)
	t.pool = t.poolAt(addr)
	t.entry(snapshot.SegmentFree, addr, size, t.streamOf(addr))
}

func (t *tracer) Unmap(addr uint64, size int64) {
	t.completed()
	t.Card.Unmap(addr, size)
	t.entry(snapshot.SegmentUnmap, addr, size, t.streamOf(addr))
}

// streamOf is the stream for which memory came from the driver.
func (t *tracer) streamOf(addr uint64) uint64 {
	for i := len(t.trace.Action) - 1; i >= 0; i-- {
		first, last := t.trace.Addr[i], t.trace.Addr[i]+uint64(t.trace.Size[i])
		if grants(t.trace.Action[i]) && addr >= first && addr < last {
			return t.s.Streams[t.trace.Stream[i]]
		}
	}
	return 0
}

// poolAt is the pool for which the driver gave the segment at an address last.
func (t *tracer) poolAt(addr uint64) allocator.PoolID {
	for i := len(t.trace.Action) - 1; i >= 0; i-- {
		if grants(t.trace.Action[i]) && t.trace.Addr[i] == addr {
			return allocator.PoolID(t.poolsOfEntries[i])
		}
	}
	return 0
}

// completed records the frees that the allocator has completed by itself.
func (t *tracer) completed() {
	t.waits = slices.DeleteFunc(t.waits, func(h held) bool {
		if _, waiting := t.a.Lookup(h.Handle); waiting {
			return false
		}
		t.entry(snapshot.FreeCompleted, h.addr, h.request, h.stream)
		return true
	})
}

// malloc records an allocation from the default pools, or that it failed.
func (t *tracer) malloc(request int64, stream uint64) { t.mallocIn(request, stream, 0) }

func (t *tracer) mallocIn(request int64, stream uint64, pool allocator.PoolID) {
	t.pool = pool
	h, err := t.a.Malloc(request, stream, pool)
	if err != nil {
		t.completed()
		s := t.a.Settings()
		t.entry(snapshot.OutOfMemory, 0, s.RoundSize(request), stream)
		return
	}
	b, _ := t.a.Lookup(h)
	t.completed()
	t.entry(snapshot.Alloc, b.Addr, request, stream)
	t.live = append(t.live, held{h, b.Addr, request, stream, pool})
}

// free lets go of a live allocation; wait: after another stream used it.
func (t *tracer) free(i int, wait bool) {
	h := t.live[i]
	t.live = slices.Delete(t.live, i, i+1)
	t.pool = h.pool
	t.entry(snapshot.FreeRequested, h.addr, h.request, h.stream)
	if wait {
		t.a.RecordStream(h.Handle, 99)
		// Something between the halves of the free shows that it had to wait.
		t.entry(snapshot.Dumped, 0, t.a.Stats().ActiveBytes.All.Current, 0)
		t.waits = append(t.waits, h)
	} else {
		t.entry(snapshot.FreeCompleted, h.addr, h.request, h.stream)
	}
	t.a.Free(h.Handle)
}

// reached completes the frees that wait; PyTorch does at the next allocation.
func (t *tracer) reached() {
	for _, h := range t.waits {
		t.a.FreeCompleted(h.Handle)
	}
	t.completed()
}

func (t *tracer) emptyCache() {
	t.a.EmptyCache()
	t.completed()
}

// snapshot dumps the state, keeping the newest entries as a ring buffer does.
func (t *tracer) snapshot(newest int) *snapshot.Snapshot {
	s := *t.s
	drop := max(len(t.trace.Action)-newest, 0)
	trace := snapshot.Trace{Action: slices.Clone(t.trace.Action[drop:]), Addr: slices.Clone(t.trace.Addr[drop:]),
		Size: slices.Clone(t.trace.Size[drop:]), Stream: slices.Clone(t.trace.Stream[drop:]), Stack: slices.Clone(t.trace.Stack[drop:])}
	s.Traces = []snapshot.Trace{trace}
	for _, g := range t.a.Segments() {
		segment := snapshot.Segment{Address: g.Addr, Total: g.Size, Stream: uint32(slices.Index(s.Streams, g.Stream)),
			Pool: uint32(g.Pool), Stack: timeline.NoStack, Small: g.Small, Expandable: g.Expandable, First: len(s.Blocks), Count: len(g.Blocks)}
		for _, b := range g.Blocks {
			block := snapshot.Block{Address: b.Addr, Size: b.Size, Requested: b.Requested, Stack: timeline.NoStack}
			switch b.State {
			case allocator.ActiveAllocated:
				block.State = snapshot.Allocated
			case allocator.ActivePendingFree:
				block.State = snapshot.PendingFree
			}
			s.Blocks = append(s.Blocks, block)
		}
		s.Segments = append(s.Segments, segment)
	}
	count(&s)
	return &s
}

// count gives each segment the counters of its blocks.
func count(s *snapshot.Snapshot) {
	for i := range s.Segments {
		g := &s.Segments[i]
		g.Allocated, g.Active, g.Requested = 0, 0, 0
		for _, b := range s.Blocks[g.First : g.First+g.Count] {
			g.Requested += b.Requested
			if b.State != snapshot.Inactive {
				g.Active += b.Size
			}
			if b.State == snapshot.Allocated {
				g.Allocated += b.Size
			}
		}
	}
}
