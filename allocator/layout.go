package allocator

import (
	"cmp"
	"fmt"

	"floodmark/internal/sorting"
)

// BlockState says what a block of a layout is.
type BlockState string

// The states of blocks, under the names that snapshots use. Unmapped
// addresses of an expandable segment never appear in a snapshot.
const (
	ActiveAllocated   BlockState = "active_allocated"
	ActivePendingFree BlockState = "active_pending_free"
	Inactive          BlockState = "inactive"
	Unmapped          BlockState = "unmapped"
)

// Block is one block of a layout. Sizes are bytes.
type Block struct {
	Addr      uint64
	Size      int64
	Requested int64 // 0 where nobody holds the block
	State     BlockState
}

// Segment is a run of bytes from the driver and the blocks that tile it. Of an
// expandable segment, [Allocator.Segments] gives each mapped range as one.
type Segment struct {
	Addr       uint64
	Size       int64
	Stream     uint64
	Pool       PoolID
	Small      bool
	Expandable bool
	Page       int64 // of an expandable segment, 0 for the settings' own
	Blocks     []Block
}

// Lookup is the block of a live handle.
func (a *Allocator) Lookup(h Handle) (Block, bool) {
	i := a.resolve(h)
	if i == none {
		return Block{}, false
	}
	return a.describe(i), true
}

func (a *Allocator) describe(i int32) Block {
	b := &a.blocks[i]
	d := Block{Addr: b.addr, Size: b.size, Requested: b.requested}
	switch b.state {
	case allocated:
		d.State = ActiveAllocated
	case pending:
		d.State = ActivePendingFree
	case unmapped:
		d.State = Unmapped
	default:
		d.State = Inactive
	}
	return d
}

// Segments lists what is held from the driver, by address, as
// torch.cuda.memory_snapshot does.
func (a *Allocator) Segments() []Segment {
	var segments []Segment
	for i := range a.blocks {
		if b := &a.blocks[i]; b.state != dead && b.previous == none {
			segments = a.appendRanges(segments, int32(i))
		}
	}
	sorting.By(segments, func(i, j int) int { return cmp.Compare(segments[i].Addr, segments[j].Addr) })
	return segments
}

// appendRanges walks the blocks of one segment and appends its mapped ranges.
func (a *Allocator) appendRanges(segments []Segment, first int32) []Segment {
	open := false
	for i := first; i != none; i = a.blocks[i].next {
		b := &a.blocks[i]
		if b.state == unmapped {
			open = false
			continue
		}
		if !open {
			s := Segment{Addr: b.addr, Stream: b.stream, Pool: PoolID(b.pool / 2), Small: small(b.pool)}
			if b.virtual != none {
				s.Expandable, s.Page = true, a.virtuals[b.virtual].page
			}
			segments = append(segments, s)
			open = true
		}
		s := &segments[len(segments)-1]
		s.Size += b.size
		s.Blocks = append(s.Blocks, a.describe(i))
	}
	return segments
}

// Restore adds a segment with its blocks, as a snapshot describes it: the way
// to begin in the middle of a run. An expandable segment is given whole, from
// its base, with its unmapped blocks. It returns a handle for each block in
// use, in order. The statistics count what is restored as if it had just been
// allocated. The error says which block breaks which rule; nothing is added
// then.
func (a *Allocator) Restore(s Segment) ([]Handle, error) {
	if err := a.checkSegment(&s); err != nil {
		return nil, err
	}
	v := none
	if s.Expandable {
		v = a.addVirtual(virtual{base: s.Addr, size: s.Size, page: s.Page, live: true})
	}
	var handles []Handle
	last := none
	for _, b := range joinFree(s.Blocks) {
		i := a.newBlock(block{addr: b.Addr, size: b.Size, stream: s.Stream, pool: poolIndex(s.Pool, s.Small), virtual: v})
		if last != none {
			a.linkAfter(i, last)
		}
		last = i
		a.restoreState(i, b)
		if b.State == ActiveAllocated || b.State == ActivePendingFree {
			handles = append(handles, handleOf(i, a.blocks[i].generation))
		}
		if s.Expandable && b.State != Unmapped {
			a.stats.ReservedBytes.add(s.Small, b.Size)
		}
		if !s.Expandable && b.State == Inactive && b.Size < s.Size {
			a.stats.InactiveSplit.add(s.Small, 1)
			a.stats.InactiveSplitBytes.add(s.Small, b.Size)
		}
	}
	if !s.Expandable {
		a.stats.ReservedBytes.add(s.Small, s.Size)
		a.stats.Segment.add(s.Small, 1)
		if s.Size >= a.settings.MaxSplitSize {
			a.stats.OversizeSegments.add(1)
		}
	}
	return handles, nil
}

// restoreState puts a restored block where its state belongs.
func (a *Allocator) restoreState(i int32, b Block) {
	switch b.State {
	case Unmapped:
		a.insertUnmapped(i)
	case Inactive:
		a.insertUnused(i)
	default:
		r := &a.blocks[i]
		r.state, r.requested = allocated, b.Requested
		a.countAllocated(r, 1)
		a.countActive(r, 1)
		if b.State == ActivePendingFree {
			a.letGo(i)
			a.await(i)
		}
	}
}

// joinFree merges neighbours that nobody uses: the allocator keeps none apart.
func joinFree(blocks []Block) []Block {
	var joined []Block
	for _, b := range blocks {
		if n := len(joined); n > 0 && joined[n-1].State == b.State && (b.State == Inactive || b.State == Unmapped) {
			joined[n-1].Size += b.Size
			continue
		}
		joined = append(joined, b)
	}
	return joined
}

// checkSegment refuses a layout that the allocator could not have made.
func (a *Allocator) checkSegment(s *Segment) error {
	if !a.knows(s.Pool) {
		return fmt.Errorf("segment at %#x: pool %d does not exist", s.Addr, s.Pool)
	}
	if s.Page == 0 {
		s.Page = a.settings.pageSize(s.Small)
	}
	addr, left := s.Addr, s.Size
	for i, b := range s.Blocks {
		switch {
		case b.Addr != addr || b.Size <= 0 || b.Size > left:
			return fmt.Errorf("segment at %#x: block %d at %#x with %d bytes does not continue at %#x with at most %d",
				s.Addr, i, b.Addr, b.Size, addr, left)
		case b.Requested < 0 || (b.Requested > b.Size && b.State != Inactive):
			return fmt.Errorf("segment at %#x: block %d of %d bytes was requested with %d", s.Addr, i, b.Size, b.Requested)
		case b.State == Unmapped && (!s.Expandable || int64(b.Addr-s.Addr)%s.Page != 0 || b.Size%s.Page != 0):
			return fmt.Errorf("segment at %#x: block %d is unmapped, but not whole pages of an expandable segment", s.Addr, i)
		}
		addr += uint64(b.Size)
		left -= b.Size
	}
	if left != 0 || s.Size <= 0 {
		return fmt.Errorf("segment at %#x: %d of %d bytes belong to no block", s.Addr, left, s.Size)
	}
	if s.Size > maxReserved-a.Reserved() {
		return fmt.Errorf("segment at %#x: with %d bytes more than %d would be reserved", s.Addr, s.Size, int64(maxReserved))
	}
	return nil
}

// State is a number for the large blocks of the default pools: where they lie, how
// large they are and whether they are held. Two states of one allocator with the same
// number serve the same requests for large blocks in the same way, unless the age of
// blocks counts (garbage_collection_threshold).
func (a *Allocator) State() uint64 {
	var sum uint64
	for i := range a.blocks {
		if b := &a.blocks[i]; b.state != dead && b.pool == poolIndex(0, false) {
			sum += mixed(mixed(mixed(b.addr)+uint64(b.size)) + uint64(b.state))
		}
	}
	return sum
}

// mixed spreads a number over all its bits (the last step of SplitMix64).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
