package snapshot

import (
	"cmp"
	"sort"
	"strings"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/timeline"
)

// Interval is a part of a trace to which the program gave a name: between the
// two ends of an annotation, a run of entries with the same user metadata, or
// the one entry at which a live allocation was named. Intervals nest and
// overlap.
type Interval struct {
	Name        string
	First, Last int // entries First ≤ i < Last
}

// maxNesting bounds how many intervals are open at once.
const maxNesting = 64

// name finds the intervals of a device with those annotations, and makes phases of those whose name means one.
func (r *Recording) name(s *Snapshot, annotations []Annotation) {
	r.Intervals = append(r.Intervals, r.annotated(annotations)...)
	r.Intervals = append(r.Intervals, r.runs(s)...)
	sorting.By(r.Intervals, func(i, j int) int {
		a, b := r.Intervals[i], r.Intervals[j]
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Last, a.Last))
	})
	r.Timeline.Phases = r.phases()
}

// annotated pairs each START with the next END of the same name, the innermost
// first. One that never ends lasts to the end of the trace.
func (r *Recording) annotated(annotations []Annotation) []Interval {
	if r.Trace.Time == nil {
		return nil
	}
	var list []Interval
	open := map[string][]int{} // name → indexes into list, innermost last
	for _, a := range annotations {
		if a.Start {
			open[a.Name] = append(open[a.Name], len(list))
			list = append(list, Interval{Name: a.Name, First: r.entryAt(a.Time), Last: r.Trace.Len()})
			continue
		}
		if begun := open[a.Name]; len(begun) > 0 {
			i := &list[begun[len(begun)-1]]
			i.Last = max(r.entryAt(a.Time+1), i.First)
			open[a.Name] = begun[:len(begun)-1]
		}
	}
	return list
}

// entryAt is the first entry at or after a time.
func (r *Recording) entryAt(time int64) int {
	return sort.Search(r.Trace.Len(), func(i int) bool { return r.Trace.Time[i] >= time })
}

// runs makes an interval of each run of entries with the same metadata, and of
// each entry that names an allocation.
func (r *Recording) runs(s *Snapshot) []Interval {
	var list []Interval
	run, begun := uint32(0), 0
	for i, m := range r.Trace.Metadata {
		if r.Trace.Action[i] == Annotate {
			list = append(list, Interval{Name: s.text(m), First: i, Last: i + 1})
			continue
		}
		if m == run {
			continue
		}
		if run != 0 {
			list = append(list, Interval{Name: s.text(run), First: begun, Last: i})
		}
		run, begun = m, i
	}
	if run != 0 {
		list = append(list, Interval{Name: s.text(run), First: begun, Last: r.Trace.Len()})
	}
	return list
}

// phases cuts the timeline into spans that follow one another: each event is in
// the innermost interval whose name means a phase, and what is in none is
// recorded.
func (r *Recording) phases() []timeline.Span {
	var list []timeline.Span
	from := 0
	cut := func(entry int, phase account.PhaseID, step int) {
		at := len(r.Entries)
		if entry < r.Trace.Len() {
			at = sort.Search(len(r.Entries), func(k int) bool { return int(r.Entries[k]) >= entry })
		}
		if at > from {
			list = append(list, timeline.Span{Phase: phase, Step: step, First: from, Last: at})
			from = at
		}
	}
	steps := map[account.PhaseID]int{}
	open := []phaseInterval{{id: account.PhaseRecorded, last: r.Trace.Len()}}
	for _, i := range r.Intervals {
		id := phaseNamed(i.Name)
		if id == account.PhaseRecorded {
			continue
		}
		open = closeUntil(open, i.First, cut)
		steps[id]++
		if i.Last == i.First || len(open) > maxNesting {
			continue
		}
		top := open[len(open)-1]
		cut(i.First, top.id, top.step)
		open = append(open, phaseInterval{id: id, step: steps[id], last: min(i.Last, top.last)})
	}
	closeUntil(open, r.Trace.Len(), cut)
	if len(list) == 0 {
		list = []timeline.Span{{Phase: account.PhaseRecorded}}
	}
	return list
}

// phaseInterval is a phase that is open.
type phaseInterval struct {
	id   account.PhaseID
	step int
	last int
}

// closeUntil ends the phases that end at or before an entry, innermost first.
func closeUntil(open []phaseInterval, entry int, cut func(int, account.PhaseID, int)) []phaseInterval {
	for n := len(open) - 1; n >= 0 && open[n].last <= entry; n-- {
		cut(open[n].last, open[n].id, open[n].step)
		open = open[:n]
	}
	return open
}

// phaseNamed is the phase that PyTorch's own annotations and plain words mean.
// A name that means none of the phases is only an interval.
func phaseNamed(name string) account.PhaseID {
	if strings.HasPrefix(name, "Optimizer.step#") {
		return account.PhaseOptimizerStep
	}
	word := strings.ToLower(strings.Trim(name, "# "))
	for _, id := range account.Phases() {
		if word == string(id) {
			return id
		}
	}
	return account.PhaseRecorded
}
