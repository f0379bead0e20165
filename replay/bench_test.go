package replay

import (
	"context"
	"testing"

	"floodmark/allocator"
	"floodmark/snapshot"
)

// million is a recording of a million events: steps of training in which a
// thousand allocations of many sizes are born and freed.
func million() *snapshot.Snapshot {
	tr := newTracer(0, allocator.DefaultSettings())
	seed := uint64(1)
	random := func(n uint64) uint64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return seed >> 33 % n
	}
	for len(tr.trace.Action) < 1_000_000 {
		if n := len(tr.live); n > 0 && (n > 1000 || random(3) == 0) {
			tr.free(int(random(uint64(n))), false)
			continue
		}
		size := int64(1) << (9 + random(16))
		tr.malloc(size+int64(random(uint64(size))), 0)
	}
	return tr.snapshot(1 << 30)
}

func BenchmarkReplayOfAMillionEvents(b *testing.B) {
	s := million()
	r := s.Recordings()[0]
	b.ReportMetric(float64(r.Trace.Len()), "events")
	for b.Loop() {
		if c := Replay(s, r, allocator.LatestRules(), 0).Certificate; !c.Holds() {
			b.Fatal(c)
		}
	}
}

func BenchmarkSimulateAMillionEvents(b *testing.B) {
	s := million()
	tl := &s.Recordings()[0].Timeline
	o := DefaultOptions()
	for b.Loop() {
		if _, err := Simulate(context.Background(), tl, o); err != nil {
			b.Fatal(err)
		}
	}
}
