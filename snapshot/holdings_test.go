package snapshot

import "testing"

// Free bytes are stranded where their segment, or of an expandable one their
// page, cannot go back.
func TestHoldings(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name              string
		segment           Segment
		blocks            []Block
		stranded, largest int64
	}{
		{"a segment in use", Segment{Total: 20 * mib, Active: 4 * mib}, []Block{{Size: 4 * mib, State: Allocated}, {Size: 16 * mib}}, 16 * mib, 16 * mib},
		{"one that waits for a stream", Segment{Total: 20 * mib, Active: 4 * mib}, []Block{{Size: 4 * mib, State: PendingFree}, {Size: 16 * mib}}, 16 * mib, 16 * mib},
		{"a free segment", Segment{Total: 20 * mib}, []Block{{Size: 20 * mib}}, 0, 20 * mib},
		{"small pages: half of the first is in use", Segment{Total: 8 * mib, Active: mib, Small: true, Expandable: true},
			[]Block{{Size: mib, State: Allocated}, {Address: mib, Size: 7 * mib}}, mib, 7 * mib},
		{"large pages: none is free as a whole", Segment{Total: 40 * mib, Active: 10 * mib, Expandable: true},
			[]Block{{Size: 15 * mib}, {Address: 15 * mib, Size: 10 * mib, State: Allocated}, {Address: 25 * mib, Size: 15 * mib}}, 30 * mib, 15 * mib},
		{"a block before its segment", Segment{Address: 64 * mib, Total: 2 * mib, Expandable: true}, []Block{{Address: mib, Size: 2 * mib}}, 2 * mib, 2 * mib},
	} {
		c.segment.Count = len(c.blocks)
		s := &Snapshot{Segments: []Segment{c.segment}, Blocks: c.blocks, Streams: []uint64{0}, Pools: []Pool{{}}}
		h := s.Holdings(&Recording{Segments: s.Segments})[0]
		if h.Stranded != c.stranded || h.LargestFree != c.largest || h.Reserved != c.segment.Total || h.Active != c.segment.Active {
			t.Errorf("%s: %+v, want %d stranded, %d the largest", c.name, h, c.stranded, c.largest)
		}
	}
	if name := (Pool{1, 2}).Name(); name != "1,2" {
		t.Errorf("a private pool is called %q", name)
	}
}

// Streams and pools are apart, the largest first.
func TestHoldingsByStreamAndPool(t *testing.T) {
	s := &Snapshot{Streams: []uint64{0, 1 << 63}, Pools: []Pool{{}, {0, 1}}}
	s.Segments = []Segment{{Total: 1}, {Total: 2, Stream: 1}, {Total: 4, Pool: 1}, {Total: 8}}
	list := s.Holdings(&Recording{Segments: s.Segments})
	if len(list) != 3 || list[0].Reserved != 9 || list[1].Pool != (Pool{0, 1}) || list[2].Stream != 1<<63 {
		t.Errorf("%+v", list)
	}
}
