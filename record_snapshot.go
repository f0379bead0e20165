package floodmark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/record"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// snapshotEvidence is a PyTorch memory snapshot and what each of its devices
// recorded.
type snapshotEvidence struct {
	snapshot   *snapshot.Snapshot
	recordings []*snapshot.Recording
}

func newSnapshotEvidence(s *snapshot.Snapshot) snapshotEvidence {
	return snapshotEvidence{snapshot: s, recordings: s.Recordings()}
}

// Accounts is one account a device.
func (e snapshotEvidence) Accounts() []account.Account {
	var accounts []account.Account
	for _, r := range e.recordings {
		accounts = append(accounts, r.Timeline.Account())
	}
	return accounts
}

// Record is the snapshot as a document.
func (e snapshotEvidence) Record(tool record.Tool) any {
	warnings := slices.Clone(e.snapshot.Warnings)
	r := &record.Snapshot{Source: e.snapshot.Name}
	for _, recording := range e.recordings {
		warnings = append(warnings, recording.Timeline.Warnings...)
		r.Devices = append(r.Devices, deviceOf(recording))
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindSnapshot, tool, warnings)}
	return r
}

// topStacks is how many stacks of the peak a record lists.
const topStacks = 10

func deviceOf(r *snapshot.Recording) record.SnapshotDevice {
	peaks := r.Peaks()
	event := int64(peaks.Requested.Entry)
	blocks := 0
	for _, s := range r.Segments {
		blocks += s.Count
	}
	d := record.SnapshotDevice{
		Device: r.Timeline.Device, Events: r.Trace.Len(), Segments: len(r.Segments), Blocks: blocks,
		PeakRequestedBytes:    &peaks.Requested.Bytes,
		PeakAllocatedLowBytes: &peaks.Allocated.Bytes,
		PeakReservedBytes:     &peaks.Reserved.Bytes,
		PeakEvent:             &event,
		EndRequestedBytes:     &r.End.Requested,
		EndAllocatedBytes:     &r.End.Allocated,
		EndActiveBytes:        &r.End.Active,
		EndReservedBytes:      &r.End.Reserved,
		Truncated:             r.Timeline.Truncated,
		Top:                   top(&r.Timeline),
	}
	cached, rounding := r.End.Reserved-r.End.Active, r.End.Active-r.End.Requested
	d.Fragmentation = &record.Fragmentation{CachedBytes: &cached, RoundingBytes: &rounding}
	return d
}

// top groups what is alive at the peak of requested bytes by stack.
func top(tl *timeline.Timeline) []record.TopStack {
	_, moment := tl.PeakRequested()
	groups := map[string]*record.TopStack{}
	var list []*record.TopStack
	for _, a := range tl.AliveAt(moment) {
		alloc := tl.Allocs[a]
		stack := frames(&tl.Stacks, alloc.Stack)
		key := strings.Join(stack, "\n")
		g, seen := groups[key]
		if !seen {
			g = &record.TopStack{Stack: stack}
			groups[key] = g
			list = append(list, g)
		}
		g.Bytes += alloc.Requested
		g.Count++
	}
	slices.SortStableFunc(list, func(a, b *record.TopStack) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var rows []record.TopStack
	for _, g := range list[:min(topStacks, len(list))] {
		rows = append(rows, *g)
	}
	return rows
}

// maxFrames is how many frames of a stack a record keeps.
const maxFrames = 12

// frames spells the Python frames of a stack, innermost first; a stack without
// any keeps its other frames. C++ frames have no file of their own worth naming.
func frames(s *timeline.StackTable, stack uint32) []string {
	var python, other []string
	for _, f := range s.Stack(stack) {
		if file := s.File(f); strings.HasSuffix(file, ".py") {
			python = append(python, fmt.Sprintf("%s (%s:%d)", s.Function(f), shortPath(file), s.Line(f)))
		} else if name := s.Function(f); name != "" {
			other = append(other, name)
		}
	}
	if len(python) == 0 {
		python = other
	}
	return python[:min(maxFrames, len(python))]
}

// shortPath keeps the last two parts of a path: enough to recognise a module.
func shortPath(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}
