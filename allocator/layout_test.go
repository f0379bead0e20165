package allocator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What Segments shows of a classic allocator, Restore takes back: the copy has
// the same segments and serves the next request at the same address.
func TestRestoreIsTheInverseOfSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(NewCard(0, 0), DefaultSettings(), LatestRules())
		var live []Handle
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				a.Free(live[0])
				live = live[1:]
				continue
			}
			h, err := a.Malloc(anySize(t), rapid.Uint64Range(0, 1).Draw(t, "stream"), 0)
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, h)
		}
		b := New(NewCard(0, 0), DefaultSettings(), LatestRules())
		for _, s := range a.Segments() {
			if _, err := b.Restore(s); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(a.Segments(), b.Segments()); d != "" {
			t.Fatal(d)
		}
		if got, want := b.Stats().InactiveSplitBytes.All.Current, a.Stats().InactiveSplitBytes.All.Current; got != want {
			t.Fatalf("inactive_split_bytes is %d, was %d", got, want)
		}
		size := anySize(t)
		ha, _ := a.Malloc(size, 0, 0)
		hb, _ := b.Malloc(size, 0, 0)
		ba, _ := a.Lookup(ha)
		bb, _ := b.Lookup(hb)
		if ba.Size != bb.Size || (a.Stats().NumDeviceAlloc == 0 && ba.Addr != bb.Addr) {
			t.Fatalf("the next request got %+v, and %+v from the copy", ba, bb)
		}
	})
}

// An expandable segment is restored whole, with the addresses that are not
// mapped; a hole of it is used before new addresses are.
func TestRestoreExpandable(t *testing.T) {
	conf := with(func(s *Settings) { s.ExpandableSegments = true })
	a := New(NewCard(0, 0), conf, LatestRules())
	const base, mib = 0x7000_0000_0000, 1 << 20
	handles, err := a.Restore(Segment{Addr: base, Size: 200 * mib, Expandable: true, Blocks: []Block{
		{Addr: base, Size: 15 * mib, Requested: 15 * mib, State: ActiveAllocated},
		{Addr: base + 15*mib, Size: 5 * mib, State: Inactive},
		{Addr: base + 20*mib, Size: 40 * mib, State: Unmapped},
		{Addr: base + 60*mib, Size: 20 * mib, Requested: 20 * mib, State: ActivePendingFree},
		{Addr: base + 80*mib, Size: 120 * mib, State: Unmapped},
	}})
	if err != nil || len(handles) != 2 {
		t.Fatal(handles, err)
	}
	if a.Reserved() != 40*mib || a.Stats().ActiveBytes.All.Current != 35*mib || a.Stats().AllocatedBytes.All.Current != 15*mib {
		t.Errorf("restored as %+v", *a.Stats())
	}
	h, err := a.Malloc(30*mib, 0, 0)
	if b, _ := a.Lookup(h); err != nil || b.Addr != base+15*mib || a.Reserved() != 80*mib {
		t.Errorf("30 MiB lie at base+%d with %d reserved, %v", b.Addr-base, a.Reserved(), err)
	}
	if !a.FreeCompleted(handles[1]) {
		t.Error("the pending free cannot be completed")
	}
}

func TestRestoreRefuses(t *testing.T) {
	block := func(addr uint64, size int64, s BlockState) Block { return Block{Addr: addr, Size: size, State: s} }
	for _, c := range []struct {
		name string
		in   Segment
		want string
	}{
		{"a gap", Segment{Addr: 0, Size: 1024, Blocks: []Block{block(0, 512, Inactive)}}, "belong to no block"},
		{"a block at the wrong place", Segment{Size: 1024, Blocks: []Block{block(8, 1024, Inactive)}}, "does not continue"},
		{"a block beyond the end", Segment{Size: 1024, Blocks: []Block{block(0, 2048, Inactive)}}, "does not continue"},
		{"no bytes", Segment{}, "belong to no block"},
		{"an unknown pool", Segment{Pool: 7, Size: 512}, "pool 7 does not exist"},
		{"more requested than there is", Segment{Size: 512, Blocks: []Block{{Size: 512, Requested: 513, State: ActiveAllocated}}}, "requested with 513"},
		{"unmapped memory of cudaMalloc", Segment{Size: 512, Blocks: []Block{block(0, 512, Unmapped)}}, "not whole pages"},
		{"too much", Segment{Size: 1 << 62, Blocks: []Block{block(0, 1<<62, Inactive)}}, "would be reserved"},
	} {
		a := New(NewCard(0, 0), DefaultSettings(), LatestRules())
		if _, err := a.Restore(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if len(a.Segments()) != 0 {
			t.Errorf("%s: something was restored", c.name)
		}
	}
}

// Handles of nothing, and of what is gone, do nothing.
func TestStaleHandles(t *testing.T) {
	a := New(NewCard(0, 0), DefaultSettings(), LatestRules())
	h, err := a.Malloc(4096, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.Free(h)
	again, _ := a.Malloc(4096, 0, 0)
	if a.Free(h) || a.FreeRequested(h) || a.FreeCompleted(h) || a.Free(0) || a.Free(^Handle(0)) {
		t.Error("a handle was freed that names nothing")
	}
	a.RecordStream(h, 3)
	if _, ok := a.Lookup(h); ok {
		t.Error("a handle that was freed can be looked up")
	}
	if _, ok := a.Lookup(again); !ok {
		t.Error("the block that took its place is gone")
	}
	if _, err := a.Malloc(1, 0, 5); err == nil {
		t.Error("an unknown pool was accepted")
	}
}

// A million actions take few allocations of our own memory: blocks live in one
// slice, and sets reuse their chunks.
func TestAllocationsOfTheHotPath(t *testing.T) {
	a := New(NewCard(0, 0), DefaultSettings(), LatestRules())
	sizes := []int64{700, 90 << 10, 3 << 20, 33 << 20}
	step := func() {
		var live [4]Handle
		for i, size := range sizes {
			live[i], _ = a.Malloc(size, 0, 0)
		}
		for _, h := range live {
			a.Free(h)
		}
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n > 0 {
		t.Errorf("eight actions take %v allocations", n)
	}
}

// BenchmarkMallocFree keeps a thousand allocations of many sizes alive.
func BenchmarkMallocFree(b *testing.B) {
	a := New(NewCard(0, 0), DefaultSettings(), LatestRules())
	var live [1024]Handle
	seed := uint64(1)
	for b.Loop() {
		seed = seed*6364136223846793005 + 1442695040888963407
		at := seed >> 54
		a.Free(live[at])
		size := int64(1) << (9 + seed>>32%16)
		live[at], _ = a.Malloc(size+int64(seed>>40%uint64(size)), 0, 0)
	}
}
