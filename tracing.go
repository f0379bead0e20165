package floodmark

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// Trace is a memory snapshot held open for views: levels of detail, single
// allocations, segments, and other allocator settings beside what was recorded.
// Its methods may be called by several at once.
type Trace struct {
	Name     string
	snapshot *snapshot.Snapshot
	devices  []*tracedDevice
}

type tracedDevice struct {
	*snapshot.Recording
	categories []account.Category
	peaks      snapshot.Peaks
	// reserved is parallel to the events: the level after each.
	reserved []int64
	moments  []int32 // of each allocation: born and completed, -1 for before and never
}

// ErrNoTrace says that a file is no memory snapshot.
var ErrNoTrace = errors.New("only a memory snapshot has a trace")

// OpenTrace reads a snapshot and holds it.
func OpenTrace(path string) (*Trace, error) {
	e, err := Open(path)
	if err != nil {
		return nil, err
	}
	t := TraceOf(e)
	if t == nil {
		return nil, source.OfFile(path, ErrNoTrace)
	}
	return t, nil
}

// TraceOf is the trace of evidence; nil where it has none.
func TraceOf(e Evidence) *Trace {
	s, ok := e.(snapshotEvidence)
	if !ok {
		return nil
	}
	t := &Trace{Name: s.snapshot.Name, snapshot: s.snapshot}
	for _, r := range s.recordings {
		t.devices = append(t.devices, traced(r))
	}
	return t
}

func traced(r *snapshot.Recording) *tracedDevice {
	d := &tracedDevice{Recording: r, peaks: r.Peaks(), categories: r.Timeline.Envelope(0, 0, 0).Categories}
	d.reserved = make([]int64, len(r.Timeline.Events))
	k, level := 0, int64(0)
	r.Walk(func(entry int, l snapshot.Levels) {
		for ; k < len(r.Entries) && int(r.Entries[k]) <= entry; k++ {
			d.reserved[k] = l.Reserved
		}
		level = l.Reserved
	})
	for ; k < len(d.reserved); k++ {
		d.reserved[k] = level
	}
	d.moments = make([]int32, 2*len(r.Timeline.Allocs))
	for i := range d.moments {
		d.moments[i] = -1
	}
	for m, e := range r.Timeline.Events {
		switch e.Kind {
		case timeline.Born:
			d.moments[2*e.Alloc] = int32(m)
		case timeline.FreeCompleted:
			d.moments[2*e.Alloc+1] = int32(m)
		}
	}
	return d
}

// TracedDevice is what a view must know of a device before it draws. Moments are
// events; moment −1 is before the first.
type TracedDevice struct {
	Device     int                `json:"device"`
	Moments    int                `json:"moments"`
	Entries    int                `json:"entries"`
	Categories []account.Category `json:"categories"`
	Places     []int              `json:"places"` // of the categories among all of them, for their colours
	Phases     []TracedPhase      `json:"phases"`
	PeakMoment int                `json:"peak_moment"` // of requested
	PeakBytes  int64              `json:"peak_requested_bytes"`
	Reserved   int64              `json:"peak_reserved_bytes"`
	Truncated  bool               `json:"truncated"`
}

// TracedPhase is a named run of moments First ≤ moment < Last.
type TracedPhase struct {
	Name  string `json:"name"`
	Step  int    `json:"step"`
	First int    `json:"first"`
	Last  int    `json:"last"`
}

// Devices describes the devices.
func (t *Trace) Devices() []TracedDevice {
	list := []TracedDevice{}
	for _, d := range t.devices {
		tl := &d.Timeline
		v := TracedDevice{Device: tl.Device, Moments: len(tl.Events), Entries: d.Recording.Trace.Len(), Categories: d.categories, Places: []int{}, Phases: []TracedPhase{},
			PeakMoment: d.momentOf(d.peaks.Requested.Entry), PeakBytes: d.peaks.Requested.Bytes, Reserved: d.peaks.Reserved.Bytes, Truncated: tl.Truncated}
		for _, c := range d.categories {
			v.Places = append(v.Places, slices.Index(account.Categories(), c))
		}
		for _, s := range tl.Phases {
			if s.Phase != account.PhaseRecorded && s.First < s.Last {
				v.Phases = append(v.Phases, TracedPhase{string(s.Phase), s.Step, s.First, s.Last})
			}
		}
		list = append(list, v)
	}
	return list
}

// momentOf is the last event of an entry, −1 for before the first.
func (d *tracedDevice) momentOf(entry int) int {
	i, _ := slices.BinarySearch(d.Entries, int32(entry)+1)
	return i - 1
}

func (t *Trace) device(i int) (*tracedDevice, error) {
	if i < 0 || i >= len(t.devices) {
		return nil, fmt.Errorf("there is no device %d among the %d of %s", i, len(t.devices), t.Name)
	}
	return t.devices[i], nil
}

// TraceLevels is a run of moments at a level of detail. Bucket i begins at First[i];
// Shares has a row of categories a bucket, which sums to High.
type TraceLevels struct {
	First, High, Low, Reserved []int64
	Shares                     []int64
}

// Levels divides the moments from ≤ m < to of the i-th device into at most n
// buckets, of which no peak is lost.
func (t *Trace) Levels(i, from, to, n int) (TraceLevels, error) {
	d, err := t.device(i)
	if err != nil {
		return TraceLevels{}, err
	}
	var l TraceLevels
	for _, b := range d.Timeline.Envelope(from, to, n).Buckets {
		l.First = append(l.First, int64(b.First))
		l.High = append(l.High, b.High)
		l.Low = append(l.Low, b.Low)
		l.Reserved = append(l.Reserved, slices.Max(d.reserved[b.First:b.Last]))
		l.Shares = append(l.Shares, b.AtHigh...)
	}
	return l, nil
}

// TracedAllocation is one allocation. Born −1 lived before the trace, Freed −1
// outlives it.
type TracedAllocation struct {
	Index    int              `json:"index"`
	Bytes    int64            `json:"bytes"`
	Born     int              `json:"born"`
	Freed    int              `json:"freed"`
	Category account.Category `json:"category"`
	Stream   string           `json:"stream"`
	Address  string           `json:"address"`
	Stack    []string         `json:"stack"` // innermost first; empty when none was recorded
}

// Allocations lists the n largest allocations that live at some moment of
// from ≤ m < to, the largest first.
func (t *Trace) Allocations(i, from, to, n int) ([]TracedAllocation, error) {
	d, err := t.device(i)
	if err != nil {
		return nil, err
	}
	var largest allocationHeap
	largest.allocs = d.Timeline.Allocs
	for a := range d.Timeline.Allocs {
		born, freed := int(d.moments[2*a]), int(d.moments[2*a+1])
		if born >= to || freed >= 0 && freed <= from {
			continue
		}
		if largest.Len() < n {
			heap.Push(&largest, uint32(a))
		} else if n > 0 && largest.smaller(largest.kept[0], uint32(a)) {
			largest.kept[0] = uint32(a)
			heap.Fix(&largest, 0)
		}
	}
	sorting.By(largest.kept, func(i, j int) int {
		x, y := largest.kept[i], largest.kept[j]
		return cmp.Or(cmp.Compare(largest.allocs[y].Requested, largest.allocs[x].Requested), cmp.Compare(x, y))
	})
	list := []TracedAllocation{}
	for _, a := range largest.kept {
		list = append(list, d.allocation(a))
	}
	return list, nil
}

func (d *tracedDevice) allocation(a uint32) TracedAllocation {
	tl := &d.Timeline
	alloc := tl.Allocs[a]
	v := TracedAllocation{Index: int(a), Bytes: alloc.Requested, Born: int(d.moments[2*a]), Freed: int(d.moments[2*a+1]), Category: account.CategoryUnattributed,
		Stream: tl.Streams[alloc.Stream], Address: fmt.Sprintf("0x%x", d.Addresses[a]), Stack: []string{}}
	if int(alloc.Term) < len(tl.Terms) {
		v.Category = tl.Terms[alloc.Term].Category
	}
	for _, f := range frames(&tl.Stacks, alloc.Stack) {
		v.Stack = append(v.Stack, source.Visible(f))
	}
	return v
}

// allocationHeap keeps the largest allocations, the smallest of them on top.
type allocationHeap struct {
	allocs []timeline.Alloc
	kept   []uint32
}

func (h *allocationHeap) smaller(x, y uint32) bool {
	return cmp.Or(cmp.Compare(h.allocs[x].Requested, h.allocs[y].Requested), cmp.Compare(y, x)) < 0
}
func (h *allocationHeap) Len() int           { return len(h.kept) }
func (h *allocationHeap) Less(i, j int) bool { return h.smaller(h.kept[i], h.kept[j]) }
func (h *allocationHeap) Swap(i, j int)      { h.kept[i], h.kept[j] = h.kept[j], h.kept[i] }
func (h *allocationHeap) Push(x any)         { h.kept = append(h.kept, x.(uint32)) }
func (h *allocationHeap) Pop() any {
	last := h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return last
}

// TracedSegment is memory that the driver had given, and what lies in it at a
// moment.
type TracedSegment struct {
	Address string         `json:"address"`
	Bytes   int64          `json:"bytes"`
	Blocks  []TracedPlaced `json:"blocks"` // by address
}

// TracedPlaced is one allocation in a segment; what lies between is free.
type TracedPlaced struct {
	Index    int              `json:"index"`
	Offset   int64            `json:"offset"`
	Bytes    int64            `json:"bytes"`
	Category account.Category `json:"category"`
}

// Segments lists what the driver had given at a moment, and the allocations in
// it: the segments of the end, with what the trace did after that moment undone.
func (t *Trace) Segments(i, moment int) ([]TracedSegment, error) {
	d, err := t.device(i)
	if err != nil {
		return nil, err
	}
	spans := d.spansAt(moment)
	var alive []uint32
	for a := range d.Timeline.Allocs {
		born, freed := int(d.moments[2*a]), int(d.moments[2*a+1])
		if born <= moment && (freed < 0 || freed > moment) {
			alive = append(alive, uint32(a))
		}
	}
	sorting.By(alive, func(i, j int) int { return cmp.Compare(d.Addresses[alive[i]], d.Addresses[alive[j]]) })
	list := []TracedSegment{}
	next := 0
	for _, s := range spans {
		segment := TracedSegment{Address: fmt.Sprintf("0x%x", s.address), Bytes: s.bytes, Blocks: []TracedPlaced{}}
		for next < len(alive) && d.Addresses[alive[next]] < s.address {
			next++
		}
		for ; next < len(alive) && d.Addresses[alive[next]]-s.address < uint64(s.bytes); next++ {
			v := d.allocation(alive[next])
			segment.Blocks = append(segment.Blocks, TracedPlaced{v.Index, int64(d.Addresses[alive[next]] - s.address), d.Sizes[alive[next]], v.Category})
		}
		list = append(list, segment)
	}
	return list, nil
}

// ReplayedCurve is what the device would have reserved under other settings: the
// highest of each bucket, for an allocator that began empty and, where segments
// were held before the trace, for one that began with those.
type ReplayedCurve struct {
	Settings    string  `json:"settings"`
	Peak        *int64  `json:"peak_reserved_bytes"`
	PeakLow     *int64  `json:"peak_reserved_low_bytes,omitempty"`
	PeakHigh    *int64  `json:"peak_reserved_high_bytes,omitempty"`
	OutOfMemory string  `json:"out_of_memory"` // yes, no, cannot_tell
	Fresh       []int64 `json:"fresh"`
	Kept        []int64 `json:"kept"`
}

// ReplayUnder runs the i-th device under settings as PYTORCH_ALLOC_CONF spells
// them, and gives the curve in at most n buckets of moments from ≤ m < to. It is
// refused where the simulation does not reproduce the recording.
func (t *Trace) ReplayUnder(ctx context.Context, i int, conf string, from, to, n int) (*ReplayedCurve, error) {
	d, err := t.device(i)
	if err != nil {
		return nil, err
	}
	rules, settings, err := ReplayRequest{Confs: []string{conf}}.parse()
	if err != nil {
		return nil, err
	}
	recorded := replay.Replay(t.snapshot, d.Recording, rules, 0)
	w, err := recorded.WhatIf(ctx, replay.Options{Settings: settings[0], Rules: rules, Capacity: recorded.Limit(), Curve: true})
	if err != nil {
		return nil, err
	}
	c := &ReplayedCurve{Settings: w.Settings.String(), OutOfMemory: string(w.OutOfMemory), Fresh: buckets(w.Fresh, from, to, n), Kept: buckets(w.Kept, from, to, n)}
	c.Peak, c.PeakLow, c.PeakHigh = record.Interval(w.PeakReserved)
	return c, nil
}

// buckets is the highest reserved bytes of each of at most n runs of moments, as
// [timeline.Timeline.Envelope] divides them. A run that ended early has less.
func buckets(run *replay.Run, from, to, n int) []int64 {
	list := []int64{}
	if run == nil {
		return list
	}
	from, to = max(from, 0), min(to, len(run.Curve))
	n = min(n, to-from)
	for i := range n {
		most := int64(0)
		for _, l := range run.Curve[from+i*(to-from)/n : from+(i+1)*(to-from)/n] {
			most = max(most, l.Reserved)
		}
		list = append(list, most)
	}
	return list
}

// span is memory that the driver had given.
type span struct {
	address uint64
	bytes   int64
}

// spansAt goes back from the segments of the end to a moment.
func (d *tracedDevice) spansAt(moment int) []span {
	var list []span
	for _, s := range d.Recording.Segments {
		list = append(list, span{s.Address, s.Total})
	}
	entry := -1
	if moment >= 0 && moment < len(d.Entries) {
		entry = int(d.Entries[moment])
	}
	trace := d.Recording.Trace
	for e := trace.Len() - 1; e > entry; e-- {
		s := span{trace.Addr[e], trace.Size[e]}
		switch trace.Action[e] {
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			list = without(list, s)
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			list = append(list, s)
		}
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[i].address, list[j].address) })
	return list
}

// without takes a span out of those that hold it; what is left on either side
// stays. Mapped pages of an expandable segment come and go in pieces.
func without(list []span, gone span) []span {
	var left []span
	for _, s := range list {
		end, goneEnd := s.address+uint64(s.bytes), gone.address+uint64(gone.bytes)
		if gone.address >= end || goneEnd <= s.address {
			left = append(left, s)
			continue
		}
		if s.address < gone.address {
			left = append(left, span{s.address, int64(gone.address - s.address)})
		}
		if goneEnd < end {
			left = append(left, span{goneEnd, int64(end - goneEnd)})
		}
	}
	return left
}
