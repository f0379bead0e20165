// Package sorting sorts lists.
//
// In: a list and how two of its elements compare. Out: the list in order, equal
// elements as they were. One sort, of places in the list, does it for every type of
// element: the standard library's slices.SortFunc is compiled anew for each, 13 kB of
// program a time.
//
// It knows nothing of what is sorted.
package sorting
