package floodmark

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"floodmark/account"
	"floodmark/internal/report"
	"floodmark/record"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// ErrNoPage says that evidence of this kind has no page of its own.
var ErrNoPage = errors.New("only a memory snapshot has a page")

// WriteHTML writes evidence as one page that opens offline and fetches nothing;
// at most 5 MB, whatever the size of the evidence.
func WriteHTML(w io.Writer, e Evidence, tool record.Tool) error {
	s, ok := e.(snapshotEvidence)
	if !ok {
		return ErrNoPage
	}
	var text bytes.Buffer
	if err := report.Text(&text, s.Record(tool), report.Style{Width: 100}); err != nil {
		return err
	}
	trace := report.Trace{Title: path.Base(s.snapshot.Name) + " · memory snapshot", Text: text.String()}
	b := pageBudget(len(s.recordings))
	for _, r := range s.recordings {
		trace.Devices = append(trace.Devices, b.device(r))
	}
	return report.TraceHTML(w, trace)
}

// pageShare is how much of each device a page may show, so that the whole stays
// under 5 MB: figures take 11 bytes each as base64.
type pageShare struct {
	buckets int // of the finest level
	allocs  int // that are shown one by one
	text    int // bytes of distinct frames
}

func pageBudget(devices int) pageShare {
	devices = max(devices, 1)
	return pageShare{buckets: max(64, 8192/devices), allocs: max(16, 2000/devices), text: (1 << 20) / devices}
}

func (b pageShare) device(r *snapshot.Recording) report.TraceDevice {
	tl := &r.Timeline
	peaks := r.Peaks()
	_, moment := tl.PeakRequested()
	d := report.TraceDevice{
		Label:  fmt.Sprintf("cuda:%d, %d events", tl.Device, len(tl.Events)),
		Events: len(tl.Events),
		Top:    max(peaks.Requested.Bytes, peaks.Reserved.Bytes),
		Peak:   moment,
	}
	for n := min(512, b.buckets); ; n = min(n*4, b.buckets) {
		e := tl.Envelope(0, len(tl.Events), n)
		d.Categories = categoryNames(e.Categories)
		if len(e.Buckets) > 0 {
			d.Levels = append(d.Levels, traceLevel(r, e))
		}
		if n >= b.buckets || n >= len(tl.Events) {
			break
		}
	}
	b.largest(&d, tl)
	return d
}

func categoryNames(list []account.Category) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c)
	}
	return names
}

func traceLevel(r *snapshot.Recording, e timeline.Envelope) report.TraceLevel {
	n := len(e.Buckets)
	l := report.TraceLevel{Buckets: n, High: make(report.Figures, n), Reserved: make(report.Figures, n)}
	for i, b := range e.Buckets {
		l.High[i] = b.High
		l.Shares = append(l.Shares, b.AtHigh...)
	}
	// Segment entries are no events: a level belongs to the event before it.
	events, moment := len(r.Timeline.Events), 0
	r.Walk(func(entry int, levels snapshot.Levels) {
		for moment+1 < events && int(r.Entries[moment+1]) <= entry {
			moment++
		}
		i := bucketOf(moment, events, n)
		l.Reserved[i] = max(l.Reserved[i], levels.Reserved)
	})
	for i := 1; i < n; i++ {
		if l.Reserved[i] == 0 {
			l.Reserved[i] = l.Reserved[i-1]
		}
	}
	return l
}

// bucketOf is the bucket of a moment when so many events are in n buckets, the
// inverse of how [timeline.Timeline.Envelope] divides them.
func bucketOf(moment, events, n int) int {
	i := moment * n / events
	for i+1 < n && (i+1)*events/n <= moment {
		i++
	}
	return i
}

// largest adds the largest allocations with their stacks, each stack and frame
// once.
func (b pageShare) largest(d *report.TraceDevice, tl *timeline.Timeline) {
	order := make([]uint32, len(tl.Allocs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(x, y uint32) int { return cmp.Compare(tl.Allocs[y].Requested, tl.Allocs[x].Requested) })
	order = order[:min(b.allocs, len(order))]
	born, freed := lifetimes(tl, order)
	t := &frameTable{d: d, left: b.text, stacks: map[uint32]int{}, frames: map[string]int{}}
	for _, a := range order {
		alloc := tl.Allocs[a]
		category := account.CategoryUnattributed
		if int(alloc.Term) < len(tl.Terms) {
			category = tl.Terms[alloc.Term].Category
		}
		d.Largest = append(d.Largest, report.TraceAlloc{Bytes: alloc.Requested, Born: born[a], Freed: freed[a],
			Category: slices.Index(d.Categories, string(category)), Stack: t.stack(&tl.Stacks, alloc.Stack)})
	}
}

// lifetimes gives the moments at which allocations are born and freed; −1 is
// before the first event, or never.
func lifetimes(tl *timeline.Timeline, of []uint32) (born, freed map[uint32]int) {
	born, freed = map[uint32]int{}, map[uint32]int{}
	for _, a := range of {
		born[a], freed[a] = -1, -1
	}
	for m, e := range tl.Events {
		switch e.Kind {
		case timeline.Born:
			if _, wanted := born[e.Alloc]; wanted {
				born[e.Alloc] = m
			}
		case timeline.FreeCompleted:
			if _, wanted := freed[e.Alloc]; wanted {
				freed[e.Alloc] = m
			}
		}
	}
	return born, freed
}

// frameTable keeps each stack and frame of a page once, and stops keeping
// frames when their text has used up its share of the page.
type frameTable struct {
	d      *report.TraceDevice
	left   int
	stacks map[uint32]int
	frames map[string]int
}

func (t *frameTable) stack(s *timeline.StackTable, stack uint32) int {
	if i, seen := t.stacks[stack]; seen {
		return i
	}
	var list []int
	for _, f := range frames(s, stack) {
		if i, kept := t.frame(f); kept {
			list = append(list, i)
		}
	}
	i := -1
	if len(list) > 0 {
		t.d.Stacks = append(t.d.Stacks, list)
		i = len(t.d.Stacks) - 1
	}
	t.stacks[stack] = i
	return i
}

// maxFrameText is how much of one frame's text a page keeps.
const maxFrameText = 200

func (t *frameTable) frame(text string) (int, bool) {
	if len(text) > maxFrameText {
		text = text[:maxFrameText] + "…"
	}
	if i, seen := t.frames[text]; seen {
		return i, true
	}
	if t.left -= len(text); t.left < 0 {
		return 0, false
	}
	t.d.Frames = append(t.d.Frames, text)
	t.frames[text] = len(t.d.Frames) - 1
	return t.frames[text], true
}
