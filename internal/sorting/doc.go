// Package sorting sorts lists.
//
// In: a slice and how the elements at two of its places compare. Out: the slice in order,
// equal elements as they were. One sort, of places, does it for every type of element: the
// standard library's slices.SortFunc is compiled anew for each, 13 kB of program a time.
//
// It knows nothing of what is sorted.
package sorting
