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

// The total below a table of terms is that of the table's phase, and of the micro-batch
// that stands highest; where another phase may need more, that is said.
func TestAnotherPhaseMayNeedMore(t *testing.T) {
	gib := func(n int64) *int64 { n <<= 30; return &n }
	rank := func(most int64) record.Rank {
		return record.Rank{
			Peak: &record.RankPeak{Phase: "backward", Step: 2, Scope: "process", LowBytes: gib(7), HighBytes: gib(10), Composition: []record.Share{{Term: "weights", LowBytes: gib(7), HighBytes: gib(8)}}},
			Phases: []record.Phase{{Name: "backward", Step: 2, MicroBatch: 1, ProcessBytes: gib(5)}, {Name: "backward", Step: 2, MicroBatch: 8, ProcessLowBytes: gib(7), ProcessHighBytes: gib(8)},
				{Name: "optimizer_step", Step: 2, ProcessLowBytes: gib(6), ProcessHighBytes: gib(most)}},
		}
	}
	for most, want := range map[int64]string{8: "the peak is in backward, step 2\n", 10: "the peak is in backward, step 2 by what is sure; optimizer_step, step 2 may need up to 10.00 GiB\n"} {
		var b strings.Builder
		composition(&b, rank(most), Style{Width: 200})
		if got := b.String(); !strings.Contains(got, want) || !strings.Contains(got, "process  7.00–8.00  together") {
			t.Errorf("%d GiB: %s, want %q", most, got, want)
		}
	}
}

// A term that is unknown in one phase only has a figure in the others, and is not
// called unknown beside it.
func TestKnownInThisPhase(t *testing.T) {
	gib := func(n int64) *int64 { n <<= 30; return &n }
	why := "what the allocator caches depends on activations"
	r := record.Rank{
		Peak:   &record.RankPeak{Phase: "backward", Scope: "process", LowBytes: gib(9), Composition: []record.Share{{Term: "allocator_cache", LowBytes: gib(1), HighBytes: gib(2)}, {Term: "activations"}}},
		Terms:  []record.Term{{ID: "allocator_cache", Scope: "reserved", Status: "unknown", Reason: &why, Origin: "calculated"}, {ID: "activations", Scope: "requested", Status: "unknown", Reason: &why, Origin: "calculated"}},
		Phases: []record.Phase{{Name: "backward", ProcessLowBytes: gib(9)}},
	}
	var b strings.Builder
	composition(&b, r, Style{Width: 200})
	if got := b.String(); !strings.Contains(got, "1.00–2.00  calculated\n") || !strings.Contains(got, "unknown: "+why+"\n") {
		t.Error(got)
	}
}
