package replay

import (
	"fmt"

	"floodmark/allocator"
	"floodmark/snapshot"
)

// endOf is what the snapshot says of a device at the end, as the allocator
// would say it.
func endOf(s *snapshot.Snapshot, r *snapshot.Recording) []allocator.Segment {
	list := make([]allocator.Segment, 0, len(r.Segments))
	for _, g := range r.Segments {
		segment := allocator.Segment{Addr: g.Address, Size: g.Total, Stream: s.Streams[g.Stream], Small: g.Small}
		for _, b := range s.Blocks[g.First : g.First+g.Count] {
			block := allocator.Block{Addr: b.Address, Size: b.Size, State: allocator.Inactive}
			switch b.State {
			case snapshot.Allocated:
				block.State, block.Requested = allocator.ActiveAllocated, b.Requested
			case snapshot.PendingFree:
				block.State, block.Requested = allocator.ActivePendingFree, b.Requested
			}
			segment.Blocks = append(segment.Blocks, block)
		}
		list = append(list, segment)
	}
	return list
}

// compareEnds says where two states first differ; "" when they do not.
func compareEnds(recorded, replayed []allocator.Segment) string {
	for i := range min(len(recorded), len(replayed)) {
		a, b := recorded[i], replayed[i]
		if a.Addr != b.Addr || a.Size != b.Size || a.Stream != b.Stream || a.Small != b.Small {
			return fmt.Sprintf("segment %d is recorded with %d bytes at %#x, and replayed with %d bytes at %#x",
				i, a.Size, a.Addr, b.Size, b.Addr)
		}
		for k := range min(len(a.Blocks), len(b.Blocks)) {
			if x, y := a.Blocks[k], b.Blocks[k]; x != y {
				return fmt.Sprintf("block at %#x is recorded %s with %d bytes (%d requested), and replayed %s with %d at %#x (%d requested)",
					x.Addr, x.State, x.Size, x.Requested, y.State, y.Size, y.Addr, y.Requested)
			}
		}
		if len(a.Blocks) != len(b.Blocks) {
			return fmt.Sprintf("segment at %#x is recorded with %d blocks, and replayed with %d", a.Addr, len(a.Blocks), len(b.Blocks))
		}
	}
	if len(recorded) != len(replayed) {
		return fmt.Sprintf("%d segments are recorded, and %d replayed", len(recorded), len(replayed))
	}
	return ""
}
