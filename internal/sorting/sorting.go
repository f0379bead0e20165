package sorting

import (
	"reflect"
	"slices"
)

// By puts a slice in order by a comparison of the elements at two places, which is below
// 0 where that at i comes first.
func By(list any, compare func(i, j int) int) {
	arrange(reflect.Swapper(list), order(reflect.ValueOf(list).Len(), compare))
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
