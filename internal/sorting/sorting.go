package sorting

import "slices"

// By puts a list in order by a comparison that is below 0 where a comes first.
func By[T any](list []T, compare func(a, b T) int) {
	sorted := make([]T, len(list))
	for i, from := range order(len(list), func(a, b int) int { return compare(list[a], list[b]) }) {
		sorted[i] = list[from]
	}
	copy(list, sorted)
}

// order is where the elements of a list stand now, the first of the sorted list first.
func order(n int, compare func(a, b int) int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return a - b
	})
	return places
}
