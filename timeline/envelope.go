package timeline

import (
	"floodmark/account"
)

// Bucket is a run of moments as a view draws it.
type Bucket struct {
	First, Last int // moments First ≤ m < Last
	Low, High   int64
	// AtHigh is what each category holds at the bucket's highest moment, in the
	// order of Envelope.Categories; it sums to High.
	AtHigh []int64
}

// Envelope is a timeline at a level of detail: requested bytes, bucket by
// bucket, with nothing lost of the peaks.
type Envelope struct {
	Categories []account.Category
	Buckets    []Bucket
}

// Envelope divides the moments from ≤ m < to into at most n buckets. It is one
// pass over the events before to, whatever the level of detail.
func (t *Timeline) Envelope(from, to, n int) Envelope {
	from, to = max(from, 0), min(to, len(t.Events))
	e := Envelope{Categories: t.categories()}
	if n < 1 || from >= to {
		return e
	}
	n = min(n, to-from)
	w := newCategoryLevels(t, e.Categories)
	for m := range from {
		w.apply(t.Events[m])
	}
	for i := range n {
		first, last := from+i*(to-from)/n, from+(i+1)*(to-from)/n
		e.Buckets = append(e.Buckets, w.bucket(first, last))
	}
	return e
}

// categories lists the categories of the timeline's terms, and unattributed
// where an allocation has none, in the order of [account.Categories].
func (t *Timeline) categories() []account.Category {
	present := map[account.Category]bool{}
	for _, term := range t.terms() {
		present[term.Category] = true
	}
	var list []account.Category
	for _, c := range account.Categories() {
		if present[c] {
			list = append(list, c)
		}
	}
	return list
}

// categoryLevels follows the requested bytes of each category.
type categoryLevels struct {
	t      *Timeline
	total  int64
	levels []int64
	index  []int // by term; the last is for NoTerm
}

func newCategoryLevels(t *Timeline, categories []account.Category) *categoryLevels {
	position := map[account.Category]int{}
	for i, c := range categories {
		position[c] = i
	}
	w := &categoryLevels{t: t, levels: make([]int64, len(categories)), index: make([]int, len(t.Terms)+1)}
	for i, term := range t.Terms {
		w.index[i] = position[term.Category]
	}
	w.index[len(t.Terms)] = position[account.CategoryUnattributed]
	for _, a := range t.Before {
		w.add(a, t.Allocs[a].Requested)
	}
	return w
}

func (w *categoryLevels) add(alloc uint32, bytes int64) {
	w.total += bytes
	w.levels[w.index[min(int(w.t.Allocs[alloc].Term), len(w.t.Terms))]] += bytes
}

func (w *categoryLevels) apply(e Event) {
	if bytes := w.t.Delta(e); bytes != 0 {
		w.add(e.Alloc, bytes)
	}
}

// bucket applies the events first ≤ m < last.
func (w *categoryLevels) bucket(first, last int) Bucket {
	b := Bucket{First: first, Last: last, AtHigh: make([]int64, len(w.levels))}
	for m := first; m < last; m++ {
		w.apply(w.t.Events[m])
		if m == first || w.total < b.Low {
			b.Low = w.total
		}
		if m == first || w.total > b.High {
			b.High = w.total
			copy(b.AtHigh, w.levels)
		}
	}
	return b
}
