// Package sorting sorts short lists.
//
// In: a list and how two of its elements compare. Out: the list in order, equal
// elements as they were. One sort does it for every type of element: the standard
// library's slices.SortFunc is compiled anew for each, 13 kB of program a time, and
// is for long lists, where its speed counts.
//
// It knows nothing of what is sorted.
package sorting
