package allocator

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever a program does, these hold after every action:
// blocks tile their segments, unused neighbours of a kind have merged, the sets
// hold exactly the unused and the unmapped blocks, what the card granted is the
// sum of the segments, and allocated ≤ active ≤ reserved.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		card := NewCard(rapid.Int64Range(64, 4096).Draw(t, "capacity in MiB")<<20, 4<<30)
		a := New(card, anySettings(t), LatestRules())
		private := a.NewPool(PoolOptions{NoSplit: rapid.Bool().Draw(t, "no_split"), UseOnOOM: rapid.Bool().Draw(t, "use_on_oom")})
		var live []Handle
		pick := func() Handle {
			if len(live) == 0 {
				return 0
			}
			return live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { checkInvariants(t, a, card) },
			"malloc": func(t *rapid.T) {
				pool := PoolID(0)
				if rapid.IntRange(0, 4).Draw(t, "private") == 0 {
					pool = private
				}
				h, err := a.Malloc(anySize(t), rapid.Uint64Range(0, 2).Draw(t, "stream"), pool)
				if err == nil {
					live = append(live, h)
				}
			},
			"free":            func(*rapid.T) { a.Free(pick()) },
			"free again":      func(*rapid.T) { a.FreeCompleted(pick()) },
			"free requested":  func(*rapid.T) { a.FreeRequested(pick()) },
			"record stream":   func(*rapid.T) { a.RecordStream(pick(), 2) },
			"stream reached":  func(*rapid.T) { a.StreamReached(2) },
			"empty cache":     func(*rapid.T) { a.EmptyCache() },
			"begin capture":   func(*rapid.T) { a.BeginCapture() },
			"end capture":     func(*rapid.T) { a.EndCapture() },
			"release pool":    func(*rapid.T) { a.ReleasePool(private) },
			"change settings": func(t *rapid.T) { a.Configure(anySettings(t)) },
		})
	})
}

// anySize favours the borders of the rules.
func anySize(t *rapid.T) int64 {
	base := rapid.SampledFrom([]int64{1, 512, 4096, 1 << 20, 2 << 20, 5 << 20, 10 << 20, 20 << 20, 64 << 20, 300 << 20}).Draw(t, "size")
	return max(base+rapid.Int64Range(-1024, 1024).Draw(t, "more"), 1)
}

func anySettings(t *rapid.T) Settings {
	s := DefaultSettings()
	s.ExpandableSegments = rapid.Bool().Draw(t, "expandable_segments")
	s.MaxSplitSize = rapid.SampledFrom([]int64{Unlimited, 20 << 20, 64 << 20}).Draw(t, "max_split_size")
	s.MemoryFraction = rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "fraction")
	s.GarbageCollectionThreshold = rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "garbage_collection_threshold")
	s.RoundupPower2Divisions[4] = rapid.SampledFrom([]int64{0, 4}).Draw(t, "divisions")
	return s
}

func checkInvariants(t *rapid.T, a *Allocator, card *Card) {
	var reserved, used, active int64
	var free, unmappedBlocks int
	for i := range a.blocks {
		b := &a.blocks[i]
		if b.state == dead {
			continue
		}
		if b.state == taken || b.size <= 0 || b.size%MinBlockSize != 0 {
			t.Fatalf("block %d has %d bytes in state %d", i, b.size, b.state)
		}
		if b.next != none {
			n := &a.blocks[b.next]
			if n.previous != int32(i) || n.addr != b.addr+uint64(b.size) || n.pool != b.pool || n.stream != b.stream {
				t.Fatalf("block %d and its neighbour %d do not fit together", i, b.next)
			}
			if n.state == b.state && (b.state == unused || b.state == unmapped) {
				t.Fatalf("blocks %d and %d did not merge", i, b.next)
			}
		}
		switch b.state {
		case unused:
			free++
		case unmapped:
			unmappedBlocks++
			continue
		case allocated:
			used += b.size
			active += b.size
		case pending:
			active += b.size
		}
		reserved += b.size
	}
	for p := range a.pools {
		free -= checkSet(t, a, &a.pools[p].free, unused)
		unmappedBlocks -= checkSet(t, a, &a.pools[p].unmapped, unmapped)
	}
	s := a.Stats()
	if free != 0 || unmappedBlocks != 0 {
		t.Fatalf("%d unused and %d unmapped blocks are in no set", free, unmappedBlocks)
	}
	if reserved != a.Reserved() || reserved != card.Used() {
		t.Fatalf("blocks hold %d, statistics say %d, the card granted %d", reserved, a.Reserved(), card.Used())
	}
	if used != s.AllocatedBytes.All.Current || active != s.ActiveBytes.All.Current {
		t.Fatalf("blocks: %d allocated, %d active; statistics: %d, %d", used, active,
			s.AllocatedBytes.All.Current, s.ActiveBytes.All.Current)
	}
	checkStatistics(t, a)
}

// checkSet compares a set with the blocks that it names, and returns how many.
func checkSet(t *rapid.T, a *Allocator, s *orderedSet, want state) int {
	list := s.blocks(nil)
	for k, i := range list {
		if a.blocks[i].state != want {
			t.Fatalf("block %d in state %d is in the set for %d", i, a.blocks[i].state, want)
		}
		if k > 0 && !a.setKey(list[k-1]).before(a.setKey(i)) {
			t.Fatalf("blocks %d and %d are out of order", list[k-1], i)
		}
	}
	if len(list) != s.len {
		t.Fatalf("a set of %d says that it has %d", len(list), s.len)
	}
	return len(list)
}

// checkStatistics compares what the statistics say with what the segments show.
func checkStatistics(t *rapid.T, a *Allocator) {
	var segments, splits, splitBytes int64
	for _, s := range a.Segments() {
		if s.Expandable {
			continue
		}
		segments++
		for _, b := range s.Blocks {
			if b.State == Inactive && len(s.Blocks) > 1 {
				splits++
				splitBytes += b.Size
			}
		}
	}
	st := a.Stats()
	got := []int64{st.Segment.All.Current, st.InactiveSplit.All.Current, st.InactiveSplitBytes.All.Current}
	if want := []int64{segments, splits, splitBytes}; !slices.Equal(got, want) {
		t.Fatalf("segments, inactive splits and their bytes are %v, statistics say %v", want, got)
	}
	for _, row := range st.ByPool() {
		v := row.Value
		if v.All.Current != v.Small.Current+v.Large.Current || v.All.Peak < v.All.Current ||
			v.All.Allocated-v.All.Freed != v.All.Current {
			t.Fatalf("%s contradicts itself: %+v", row.Name, v)
		}
	}
	if st.AllocatedBytes.All.Current > st.ActiveBytes.All.Current || st.ActiveBytes.All.Current > a.Reserved() ||
		st.RequestedBytes.All.Current > st.ActiveBytes.All.Current {
		t.Fatalf("requested, allocated, active and reserved do not nest: %+v", st)
	}
}

// The ordered set agrees with a sorted slice.
func TestOrderedSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s orderedSet
		var want []entry
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			e := entry{stream: rapid.Uint64Range(0, 2).Draw(t, "stream"), size: rapid.Int64Range(0, 5).Draw(t, "size"),
				addr: rapid.Uint64Range(0, 20).Draw(t, "addr")}
			at, found := slices.BinarySearchFunc(want, e, compareEntries)
			if found {
				if !s.remove(e) {
					t.Fatalf("%v is not there", e)
				}
				want = slices.Delete(want, at, at+1)
			} else {
				if s.remove(e) {
					t.Fatalf("%v is there", e)
				}
				s.insert(e)
				want = slices.Insert(want, at, e)
			}
			probe := entry{stream: rapid.Uint64Range(0, 3).Draw(t, "probe"), block: none}
			at, _ = slices.BinarySearchFunc(want, probe, compareEntries)
			got, ok := s.at(s.ceil(probe))
			if ok != (at < len(want)) || (ok && got != want[at]) {
				t.Fatalf("from %v on comes %v %v", probe, got, ok)
			}
		}
	})
}

func compareEntries(a, b entry) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}
