package replay

import (
	"testing"

	"floodmark/allocator"

	"github.com/google/go-cmp/cmp"
)

// A block of the large pool keeps up to 1 MiB beyond its request. When the trace
// begins after its birth, only the request is recorded; the rest of its size
// comes from what lies behind it.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(*tracer) // lost, because the ring buffer wrapped
		after   func(*tracer)
		entries int
		want    []int64 // sizes of the blocks at the start, in MiB halves
	}{
		{
			name:    "a gap of at most 1 MiB is its own",
			before:  func(tr *tracer) { tr.malloc(19*mib+mib/2, 0) },
			after:   func(tr *tracer) { tr.free(0, false) },
			entries: 2,
			want:    []int64{40},
		},
		{
			name: "of a larger gap it owns what lies before the next birth",
			before: func(tr *tracer) {
				tr.malloc(8*mib, 0)
				tr.malloc(6*mib, 0)
				tr.malloc(6*mib, 0)
				tr.free(0, false)
				tr.malloc(7*mib+mib/2, 0) // takes 8 MiB
				tr.free(0, false)
			},
			after: func(tr *tracer) {
				tr.malloc(6*mib, 0)
				tr.free(1, false)
			},
			entries: 3,
			want:    []int64{16, 12, 12},
		},
		{
			name: "without such a birth it owns its request",
			before: func(tr *tracer) {
				tr.malloc(8*mib, 0)
				tr.malloc(6*mib, 0)
				tr.malloc(6*mib, 0)
				tr.free(1, false)
			},
			after:   func(tr *tracer) { tr.free(0, false) },
			entries: 2,
			want:    []int64{16, 12, 12},
		},
		{
			name: "a block that is there at the end has the size that it has then",
			before: func(tr *tracer) {
				tr.malloc(8*mib, 0)
				tr.malloc(12*mib-512, 0)
				tr.free(0, false)
				tr.malloc(7*mib+mib/2, 0)
			},
			after:   func(*tracer) {},
			entries: 0,
			want:    []int64{16, 24},
		},
	} {
		tr := newTracer(0, allocator.DefaultSettings())
		c.before(tr)
		c.after(tr)
		s := tr.snapshot(c.entries)
		got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
		var sizes []int64
		for _, b := range got.start.segments[0].Blocks {
			sizes = append(sizes, b.Size*2/mib)
		}
		if d := cmp.Diff(c.want, sizes); d != "" || !got.Certificate.Holds() {
			t.Errorf("%s: %s\n(-want +got):\n%s", c.name, got.Certificate, d)
		}
	}
}

// Private pools are kept apart, and what the trace releases of them was released
// because nobody used them any more.
func TestPrivatePoolsAreReproduced(t *testing.T) {
	tr := newTracer(0, allocator.DefaultSettings())
	graph := allocator.PoolID(1)
	tr.malloc(4*mib, 0)
	tr.mallocIn(5*mib, 0, graph)
	tr.mallocIn(3*mib, 0, graph)
	tr.free(1, false)
	tr.mallocIn(5*mib, 0, graph)
	tr.emptyCache()
	tr.free(1, false)
	tr.free(1, false)
	tr.a.ReleasePool(graph)
	tr.emptyCache()
	tr.malloc(4*mib, 0)
	s := tr.snapshot(100)
	s.Traces[0].Pool = tr.poolsOfEntries
	got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0)
	if !got.Certificate.Holds() || got.Certificate.Releases != (Count{1, 1}) {
		t.Error(got.Certificate)
	}
}

// Garbage collection is reproduced where the card's memory is known: the limit is
// a fraction of it.
func TestGarbageCollectionIsReproduced(t *testing.T) {
	settings, err := allocator.ParseConf("garbage_collection_threshold:0.6,per_process_memory_fraction:0.01")
	if err != nil {
		t.Fatal(err)
	}
	tr := newTracer(0, settings)
	for _, size := range []int64{200, 150, 100, 30} {
		tr.malloc(size*mib, 0)
	}
	tr.free(0, false)
	tr.malloc(2*mib, 1)
	tr.malloc(2*mib, 1)
	tr.free(0, false)
	tr.malloc(220*mib, 0)
	s := tr.snapshot(1000)
	got := Replay(s, s.Recordings()[0], allocator.LatestRules(), tr.TotalMemory())
	if !got.Certificate.Holds() || got.Certificate.Releases != (Count{1, 1}) {
		t.Error(got.Certificate)
	}
	if got := Replay(s, s.Recordings()[0], allocator.LatestRules(), 0).Certificate; got.Holds() {
		t.Error("it was reproduced on a card of another size, too")
	}
}
