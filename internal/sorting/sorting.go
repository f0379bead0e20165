package sorting

import (
	"reflect"
	"slices"
)

// By puts a list in order by a comparison that is below 0 where a comes first.
func By[T any](list []T, compare func(a, b T) int) {
	arrange(reflect.Swapper(list), order(len(list), func(a, b int) int { return compare(list[a], list[b]) }))
}

// arrange brings to each place the element that order names for it, one circle of
// places after another; of a circle the first element is passed along to its end.
func arrange(swap func(i, j int), order []int) {
	for first := range order {
		place := first
		for order[place] != first {
			from := order[place]
			swap(place, from)
			order[place], place = place, from
		}
		order[place] = place
	}
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
