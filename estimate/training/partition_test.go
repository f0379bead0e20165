package training

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"floodmark/internal/checklist"

	"floodmark/workload"
)

// The numbers that each way to cut is documented with.
func TestPartitions(t *testing.T) {
	padded, own := chunk([]int64{50257, 768}, 8, 7)
	if !slices.Equal(padded, []int64{6283, 768}) || !slices.Equal(own, []int64{6276, 768}) {
		t.Errorf("the last of 8 ranks has %v of [50257, 768], and allocates %v", own, padded)
	}
	if _, own := chunk([]int64{3}, 8, 7); own[0] != 0 {
		t.Errorf("the last of 8 ranks has %d of 3 rows", own[0])
	}
	if n := flatten([]int64{10, 7}, 8, 2); n != 24 {
		t.Errorf("a flat parameter of 10 and 7 elements has %d, want 24", n)
	}
	if n := alignedRun(1001, 4); n != 1008 {
		t.Errorf("a run of 1,001 elements over 4 ranks is %d, want 1,008", n)
	}
	if n := partitioned(4097, 4); n != 1025 {
		t.Errorf("a part of 4,097 elements over 4 ranks is %d, want 1,025", n)
	}
	if g := subgroups([]int64{6, 6, 6, 2}, 10); !slices.Equal(g, []int64{12, 8}) {
		t.Errorf("groups of 10 elements are %v, want 12 and 8", g)
	}
	if b := bucketed([]int64{40, 30, 5, 2}, 1, 32); !slices.Equal(b, []int64{2, 35, 40}) {
		t.Errorf("buckets are %v, from the last parameter to the first", b)
	}
}

// However a state is cut, the parts of all ranks together are one copy of it, and
// what they allocate beyond it is less than the unit to which each is padded.
func TestAggregateStateIsInvariant(t *testing.T) {
	checklist.Covers(t, 206)
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.Int64Range(1, 300).Draw(t, "ranks")
		shape := rapid.SliceOfN(rapid.Int64Range(1, 5000), 1, 2).Draw(t, "shape")
		elements := product(shape)
		var together, allocated int64
		for rank := range ranks {
			padded, own := chunk(shape, ranks, rank)
			together, allocated = together+product(own), allocated+product(padded)
		}
		if together != elements || allocated-elements >= ranks*product(shape[1:]) {
			t.Errorf("fully_shard: %d ranks hold %d of %d elements in %d", ranks, together, elements, allocated)
		}
		if over := ranks*partitioned(elements, ranks) - elements; over < 0 || over >= ranks {
			t.Errorf("the third stage: %d ranks hold %d elements too many", ranks, over)
		}
		if over := alignedRun(elements, ranks) - elements; over < 0 || over >= 2*ranks || alignedRun(elements, ranks)%ranks != 0 {
			t.Errorf("stages 1 and 2: %d ranks hold %d elements too many", ranks, over)
		}
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 5000), 1, 9).Draw(t, "sizes")
		if over := flatten(sizes, 8, ranks) - sum(sizes); over < 0 || over >= ranks+8*int64(len(sizes)) || flatten(sizes, 8, ranks)%ranks != 0 {
			t.Errorf("a flat parameter: %d ranks hold %d elements too many", ranks, over)
		}
		if sum(bucketed(sizes, 100, 1000)) != sum(sizes) || sum(subgroups(sizes, 1000)) != sum(sizes) {
			t.Error("buckets or groups hold another number of elements than their parameters")
		}
	})
}

func product(list []int64) int64 {
	n := int64(1)
	for _, x := range list {
		n *= x
	}
	return n
}

func sum(list []int64) int64 {
	var n int64
	for _, x := range list {
		n += x
	}
	return n
}

// A bucket or a threshold that was told 0 is 0, and one that nobody said the default.
func TestZeroIsNoDefault(t *testing.T) {
	s := sharing{Sharding: workload.Sharding{ReduceBucket: -1, Persistence: -1, Prefetch: 7}}
	s.defaults()
	if s.ReduceBucket != 0 || s.Persistence != 0 || s.Prefetch != 7 || s.MostLive != 1_000_000_000 {
		t.Errorf("%+v", s.Sharding)
	}
}
