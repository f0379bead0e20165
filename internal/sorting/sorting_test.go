package sorting

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The order is that of the standard library's stable sort.
func TestBy(t *testing.T) {
	type pair struct{ key, place int }
	rapid.Check(t, func(t *rapid.T) {
		var list []pair
		for i, key := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "keys") {
			list = append(list, pair{key, i})
		}
		want := slices.Clone(list)
		compare := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
		slices.SortStableFunc(want, compare)
		if By(list, func(i, j int) int { return compare(list[i], list[j]) }); !slices.Equal(list, want) {
			t.Errorf("%v, want %v", list, want)
		}
	})
}
