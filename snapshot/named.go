package snapshot

import (
	"cmp"
	"slices"
	"sort"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// Named is all intervals of a trace with one name.
type Named struct {
	Name      string
	Phase     account.PhaseID // recorded when the name means none
	Intervals int
	Peak      Peak // the highest requested bytes within them
}

// Named adds up the intervals by name, the highest first. An interval without an
// entry has no level; a name with no other is left out.
func (r *Recording) Named() []Named {
	if len(r.Intervals) == 0 {
		return nil
	}
	index := map[string]int{}
	var list []Named
	for i, peak := range r.highest() {
		name := r.Intervals[i].Name
		at, known := index[name]
		switch {
		case peak.Entry == never:
			continue
		case !known:
			at = len(list)
			index[name] = at
			list = append(list, Named{Name: name, Phase: phaseNamed(name), Peak: peak})
		}
		list[at].Intervals++
		if peak.Bytes > list[at].Peak.Bytes {
			list[at].Peak = peak
		}
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[j].Peak.Bytes, list[i].Peak.Bytes) })
	return list
}

// highest is the peak of requested bytes within each interval, parallel to
// Intervals; the entry is −1 for one without entries. Intervals may overlap as
// they like, so the trace is followed from its end: the records that it sets
// from an entry on are a list in which each interval finds its peak.
func (r *Recording) highest() []Peak {
	levels := make([]int64, r.Trace.Len())
	r.Walk(func(entry int, l Levels) {
		if entry >= 0 && entry < len(levels) {
			levels[entry] = l.Requested
		}
	})
	peaks := make([]Peak, len(r.Intervals))
	var records []int // entries, latest first, each higher than those before it
	from := len(levels)
	for i, interval := range slices.Backward(r.Intervals) {
		for ; from > interval.First; from-- {
			for n := len(records); n > 0 && levels[records[n-1]] <= levels[from-1]; n-- {
				records = records[:n-1]
			}
			records = append(records, from-1)
		}
		at := sort.Search(len(records), func(k int) bool { return records[k] < interval.Last })
		if peaks[i] = (Peak{Entry: never}); interval.First < interval.Last && at < len(records) {
			peaks[i] = Peak{Bytes: levels[records[at]], Entry: records[at]}
		}
	}
	return peaks
}
