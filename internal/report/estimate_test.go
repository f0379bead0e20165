package report

import (
	"strings"
	"testing"

	"floodmark/record"
)

// What tensors no longer hold is the allocator's where the process stands highest,
// and the table says where it came from.
func TestTensorsStoodHigher(t *testing.T) {
	gib := func(n int64) *int64 { n <<= 30; return &n }
	rank := func(peak *int64, held int64) record.Rank {
		return record.Rank{
			Peak: &record.RankPeak{Phase: "backward", Step: 2, Scope: "process", Bytes: gib(101), Composition: []record.Share{
				{Term: "weights", Bytes: gib(15)}, {Term: "activations", LowBytes: gib(held - 1), HighBytes: gib(held)}, {Term: "allocator_cache", Bytes: gib(83)}}},
			Terms: []record.Term{{ID: "weights", Scope: "requested", Status: "counted", Origin: "calculated"}, {ID: "activations", Scope: "requested", Status: "counted", Origin: "calculated"},
				{ID: "allocator_cache", Scope: "reserved", Status: "counted", Origin: "calculated"}},
			Phases: []record.Phase{{Name: "backward", Step: 1, PeakAllocatedBytes: gib(400)}, {Name: "backward", Step: 2, PeakAllocatedBytes: peak}},
		}
	}
	const says = "tensors stood higher at another moment of backward, step 2, at 99.00 GiB allocated"
	for _, c := range []struct {
		name string
		rank record.Rank
		want bool
	}{
		{"freed before", rank(gib(99), 2), true},
		{"held then", rank(gib(99), 84), false},
		{"nobody knows", rank(nil, 2), false},
	} {
		var b strings.Builder
		composition(&b, c.rank, Style{Width: 200})
		if got := strings.Contains(b.String(), says); got != c.want {
			t.Errorf("%s: %s", c.name, b.String())
		}
	}
}
