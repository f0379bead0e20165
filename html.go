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
	"floodmark/bytesize"
	"floodmark/internal/report"
	"floodmark/internal/source"
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
	document := s.Record(tool).(*record.Snapshot)
	var text bytes.Buffer
	if err := report.Text(&text, document, report.Style{Width: 100}); err != nil {
		return err
	}
	trace := report.Trace{Title: source.Visible(path.Base(s.snapshot.Name)) + " · memory snapshot", Text: text.String(), Devices: []report.TraceDevice{}}
	for _, d := range document.Devices {
		trace.Summary = append(trace.Summary, fmt.Sprintf("cuda:%d: %s", d.Device, d.Summary))
	}
	for _, w := range document.Warnings {
		trace.Notes = append(trace.Notes, w.Text)
	}
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
	d := report.TraceDevice{
		Label:     fmt.Sprintf("cuda:%d, %s entries", tl.Device, bytesize.Group(int64(r.Trace.Len()))),
		Entries:   r.Trace.Len(),
		Top:       max(peaks.Requested.Bytes, peaks.Reserved.Bytes),
		Peak:      peaks.Requested.Entry,
		PeakBytes: peaks.Requested.Bytes,
		Levels:    []report.TraceLevel{}, Phases: tracePhases(r), Largest: []report.TraceAlloc{}, Stacks: [][]int{}, Frames: []string{},
	}
	categories := tl.Envelope(0, 0, 0).Categories
	d.Categories = pageCategories(categories)
	for n := min(512, b.buckets); d.Entries > 0 && len(tl.Events) > 0; n = min(n*4, b.buckets) {
		d.Levels = append(d.Levels, traceLevel(r, tl.Envelope(0, len(tl.Events), n)))
		if n >= b.buckets || n >= len(tl.Events) {
			break
		}
	}
	b.largest(&d, r, categories)
	return d
}

// pageCategories gives each category its place among all of them.
func pageCategories(list []account.Category) []report.Category {
	categories := []report.Category{}
	for _, c := range list {
		categories = append(categories, report.Category{Name: string(c), Place: slices.Index(account.Categories(), c)})
	}
	return categories
}

// tracePhases are the spans of a recording that have a name of their own.
func tracePhases(r *snapshot.Recording) []report.TracePhase {
	phases := []report.TracePhase{}
	for _, s := range r.Timeline.Phases {
		if s.Phase != account.PhaseRecorded && s.First < s.Last {
			phases = append(phases, report.TracePhase{Name: string(s.Phase), First: int(r.Entries[s.First]), Last: int(r.Entries[s.Last-1])})
		}
	}
	return phases
}

func traceLevel(r *snapshot.Recording, e timeline.Envelope) report.TraceLevel {
	n := len(e.Buckets)
	l := report.TraceLevel{First: make(report.Figures, n), High: make(report.Figures, n), Reserved: make(report.Figures, n)}
	for i, b := range e.Buckets {
		l.First[i] = max(0, int64(r.Entries[b.First]))
		l.High[i] = b.High
		l.Shares = append(l.Shares, b.AtHigh...)
	}
	// What was reserved before the first entry, and at each entry of a bucket.
	i, level := 0, int64(0)
	r.Walk(func(entry int, levels snapshot.Levels) {
		for i+1 < n && l.First[i+1] <= int64(entry) {
			i++
			l.Reserved[i] = level
		}
		level = levels.Reserved
		l.Reserved[i] = max(l.Reserved[i], level)
	})
	for i++; i < n; i++ {
		l.Reserved[i] = level
	}
	return l
}

// largest adds the largest allocations with their stacks, each stack and frame
// once.
func (b pageShare) largest(d *report.TraceDevice, r *snapshot.Recording, categories []account.Category) {
	tl := &r.Timeline
	order := make([]uint32, len(tl.Allocs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(x, y uint32) int { return cmp.Compare(tl.Allocs[y].Requested, tl.Allocs[x].Requested) })
	order = order[:min(b.allocs, len(order))]
	born, freed := lifetimes(r, order)
	t := &frameTable{d: d, left: b.text, stacks: map[uint32]int{}, frames: map[string]int{}}
	for _, a := range order {
		alloc := tl.Allocs[a]
		category := account.CategoryUnattributed
		if int(alloc.Term) < len(tl.Terms) {
			category = tl.Terms[alloc.Term].Category
		}
		d.Largest = append(d.Largest, report.TraceAlloc{Bytes: alloc.Requested, Born: born[a], Freed: freed[a],
			Category: slices.Index(categories, category), Stack: t.stack(&tl.Stacks, alloc.Stack)})
	}
}

// lifetimes gives the entries at which allocations are born and freed; −1 is
// before the first entry, or never.
func lifetimes(r *snapshot.Recording, of []uint32) (born, freed map[uint32]int) {
	born, freed = map[uint32]int{}, map[uint32]int{}
	for _, a := range of {
		born[a], freed[a] = -1, -1
	}
	for m, e := range r.Timeline.Events {
		switch e.Kind {
		case timeline.Born:
			if _, wanted := born[e.Alloc]; wanted {
				born[e.Alloc] = int(r.Entries[m])
			}
		case timeline.FreeCompleted:
			if _, wanted := freed[e.Alloc]; wanted && int(r.Entries[m]) < r.Trace.Len() {
				freed[e.Alloc] = int(r.Entries[m])
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
	text = source.Visible(text)
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
