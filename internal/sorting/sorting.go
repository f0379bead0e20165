package sorting

import "sort"

// By puts a list in order by a comparison that is below 0 where a comes first.
func By[T any](list []T, compare func(a, b T) int) { sort.Stable(&comparison[T]{list, compare}) }

type comparison[T any] struct {
	list    []T
	compare func(a, b T) int
}

func (b *comparison[T]) Len() int           { return len(b.list) }
func (b *comparison[T]) Less(i, j int) bool { return b.compare(b.list[i], b.list[j]) < 0 }
func (b *comparison[T]) Swap(i, j int)      { b.list[i], b.list[j] = b.list[j], b.list[i] }
