package snapshot

import (
	"slices"

	"floodmark/account"
	"floodmark/timeline"
)

// never is the entry of what the trace does not show: a birth before its first
// entry.
const never = -1

// lives says when each allocation was made and let go. All slices are parallel
// to Timeline.Allocs.
//
// A pass is a stretch of the trace in which the program does one thing, as far
// as stacks and marked intervals say: a forward, a backward, an optimizer step.
// Passes are counted; the trace begins in pass 0.
type lives struct {
	birth    []int32 // entry, or never
	request  []int32 // entry of the free's request; after the last entry when there is none
	death    []int32 // entry after which the bytes are gone; as request
	freedBy  []uint32
	bornIn   []uint32 // pass
	freedIn  []uint32 // pass of the request
	marked   []mark   // activity of a marked interval at the birth, for stacks that say nothing
	unmarked []mark   // the same at the request

	passes   []mark    // what each pass is
	switches []int32   // the entry at which each pass begins
	did      [16]bool  // by activity: the trace shows it
	last     int32     // one after the last entry: what is alive there is alive at the end
	spans    []marking // intervals that name an activity and are still to come
	open     []marking // those around the entry that is being followed
}

// marking is an interval of entries whose name means an activity.
type marking struct {
	first, last int
	activity    mark
}

func (r *Recording) lives(m *marks) *lives {
	n := len(r.Timeline.Allocs)
	l := &lives{
		birth: make([]int32, n), request: make([]int32, n), death: make([]int32, n),
		freedBy: make([]uint32, n), bornIn: make([]uint32, n), freedIn: make([]uint32, n),
		marked: make([]mark, n), unmarked: make([]mark, n),
		passes: []mark{noMark}, switches: []int32{never},
		last: int32(r.Trace.Len()) + 1, spans: r.markings(),
	}
	for a := range n {
		l.birth[a], l.request[a], l.death[a], l.freedBy[a] = never, l.last, l.last, timeline.NoStack
	}
	k := 0
	for entry := -1; entry <= r.Trace.Len(); entry++ {
		stack, marked := uint32(timeline.NoStack), noMark
		if entry >= 0 && entry < r.Trace.Len() {
			stack, marked = r.Trace.Stack[entry], l.markedAt(entry)
			l.pass(entry, r.activityAt(m, entry, marked))
		}
		for ; k < len(r.Entries) && int(r.Entries[k]) == entry; k++ {
			l.event(r.Timeline.Events[k], int32(entry), stack, marked)
		}
	}
	return l
}

func (l *lives) event(e timeline.Event, entry int32, stack uint32, marked mark) {
	pass := uint32(len(l.passes) - 1)
	switch e.Kind {
	case timeline.Born:
		l.birth[e.Alloc], l.bornIn[e.Alloc], l.marked[e.Alloc] = entry, pass, marked
	case timeline.FreeRequested, timeline.FreeCompleted:
		if l.request[e.Alloc] == l.last {
			l.request[e.Alloc], l.freedIn[e.Alloc] = entry, pass
			l.freedBy[e.Alloc], l.unmarked[e.Alloc] = stack, marked
		}
		if e.Kind == timeline.FreeCompleted {
			l.death[e.Alloc] = entry
		}
	}
}

// pass begins another pass when an entry is known to do something else. The
// loss belongs to its forward.
func (l *lives) pass(entry int, activity mark) {
	l.did[activity] = true
	if activity == loss {
		activity = forward
	}
	if activity == noMark || activity == l.passes[len(l.passes)-1] {
		return
	}
	l.passes = append(l.passes, activity)
	l.switches = append(l.switches, int32(entry))
}

// activityAt is what an entry does: by its stack, by a marked interval, or, when
// only Python frames were recorded, the backward by having no stack.
func (r *Recording) activityAt(m *marks, entry int, marked mark) mark {
	if activity := m.of(r.Trace.Stack[entry]).activity; activity != noMark {
		return activity
	}
	if marked == noMark && m.offPython && r.located(entry) && r.stackless(entry) {
		return backward
	}
	return marked
}

// located reports whether an entry is the birth or the free of an allocation.
func (r *Recording) located(entry int) bool { return r.Trace.Action[entry] <= Free }

// stackless reports whether an entry has no frames at all.
func (r *Recording) stackless(entry int) bool {
	return len(r.Timeline.Stacks.Stack(r.Trace.Stack[entry])) == 0
}

// markings are the intervals whose name means an activity. Where they nest, the
// inner one is later in the list.
func (r *Recording) markings() []marking {
	var list []marking
	for _, i := range r.Intervals {
		if activity := activityOf(phaseNamed(i.Name)); activity != noMark {
			list = append(list, marking{i.First, i.Last, activity})
		}
	}
	return list
}

func activityOf(phase account.PhaseID) mark {
	switch phase {
	case account.PhaseForward, account.PhaseColdForward, account.PhaseWarmForward, account.PhaseEvaluation:
		return forward
	case account.PhaseLoss:
		return loss
	case account.PhaseBackward:
		return backward
	case account.PhaseOptimizerStep:
		return optimizerStep
	}
	return noMark
}

// markedAt is the activity of the innermost marked interval at an entry. Entries
// come in order, so an interval is opened once and closed once.
func (l *lives) markedAt(entry int) mark {
	for len(l.spans) > 0 && l.spans[0].first <= entry {
		if len(l.open) < maxNesting {
			l.open = append(l.open, l.spans[0])
		}
		l.spans = l.spans[1:]
	}
	l.open = slices.DeleteFunc(l.open, func(s marking) bool { return s.last <= entry })
	if len(l.open) == 0 {
		return noMark
	}
	return l.open[len(l.open)-1].activity
}

// aliveAt reports whether an allocation is alive after an entry.
func (l *lives) aliveAt(a, entry int) bool {
	return int(l.birth[a]) <= entry && entry < int(l.death[a])
}

// kept reports whether an allocation is alive at the end of the trace.
func (l *lives) kept(a int) bool { return l.request[a] == l.last }

// passAt is the pass of an entry, an index into passes.
func (l *lives) passAt(entry int) int {
	i, exact := slices.BinarySearch(l.switches, int32(entry))
	if !exact {
		i--
	}
	return max(i, 0)
}

// phaseAt is what the program does at an entry.
func (l *lives) phaseAt(entry int) account.PhaseID {
	switch l.passes[l.passAt(entry)] {
	case forward:
		return account.PhaseForward
	case backward:
		return account.PhaseBackward
	case optimizerStep:
		return account.PhaseOptimizerStep
	case loading:
		return account.PhaseModelLoad
	}
	return account.PhaseRecorded
}
