package floodmark

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// snapshotEvidence is a PyTorch memory snapshot, what each of its devices
// recorded, and what each allocation is for.
type snapshotEvidence struct {
	snapshot     *snapshot.Snapshot
	recordings   []*snapshot.Recording
	explanations []*snapshot.Explanation
}

func newSnapshotEvidence(s *snapshot.Snapshot) snapshotEvidence {
	e := snapshotEvidence{snapshot: s, recordings: s.Recordings()}
	e.explanations = s.ExplainAll(e.recordings)
	for _, x := range e.explanations {
		x.Attribute()
	}
	return e
}

// Accounts is one account a device, with a term for each category.
func (e snapshotEvidence) Accounts() []account.Account {
	var accounts []account.Account
	for _, r := range e.recordings {
		accounts = append(accounts, r.Timeline.Account())
	}
	return accounts
}

// Record is the snapshot as a document.
func (e snapshotEvidence) Record(tool record.Tool) any {
	warnings := append(slices.Clone(e.snapshot.Warnings), unknownKeys(e.snapshot.Unknown)...)
	r := &record.Snapshot{Source: e.snapshot.Name}
	for i, recording := range e.recordings {
		exact, notes := e.exact(recording)
		warnings = append(append(append(warnings, recording.Timeline.Warnings...), notes...), e.waiting(i)...)
		r.Devices = append(r.Devices, e.device(i, exact))
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindSnapshot, tool, warnings)}
	return r
}

// exactPeak is a peak of allocated bytes that is known to the byte, rounding
// included, and the entry after which it is reached.
type exactPeak struct {
	bytes    int64
	entry    int
	active   int64 // the peak of active bytes
	failures []replay.Failed
}

// mostReplayed is how many trace entries are replayed for the sake of an exact
// peak of allocated bytes: half a second a million, which is as long again as
// reading them.
const mostReplayed = 250_000

// exact replays what a device recorded. Where the simulation reproduces it, the
// peak of allocated bytes is known with its rounding; else the notes say why it
// is only bounded.
func (e snapshotEvidence) exact(r *snapshot.Recording) (*exactPeak, []account.Warning) {
	device := fmt.Sprintf("cuda:%d: ", r.Timeline.Device)
	switch n := r.Trace.Len(); {
	case !slices.Contains(r.Trace.Action, snapshot.Alloc):
		return nil, []account.Warning{{Code: "no_history", Text: device + "no allocation was recorded, so these are the levels at the dump, and the run may have stood higher before it; " +
			"record with torch.cuda.memory._record_memory_history() before the work begins"}}
	case n > mostReplayed:
		return nil, []account.Warning{{Code: "not_replayed", Text: fmt.Sprintf(
			"%swith %d events the allocated peak is bounded from below; floodmark replay gives it to the byte", device, n)}}
	}
	replayed := replay.Replay(e.snapshot, r, allocator.LatestRules(), 0)
	if c := replayed.Certificate; !c.Holds() {
		return nil, []account.Warning{{Code: "not_reproducible", Text: fmt.Sprintf(
			"%sthe allocator cannot have produced this recording as it stands (%s), so its figures contradict each other", device, c)}}
	}
	peak := exactPeak{bytes: replayed.Run.Peaks.Allocated.Bytes, entry: -1, active: replayed.Run.Peaks.Active.Bytes, failures: replayed.Failures}
	if m := replayed.Run.Peaks.Allocated.Moment; m >= 0 {
		peak.entry = int(r.Entries[m])
	}
	return &peak, nil
}

// device is one device as a document. The composition is of the exact peak of
// allocated bytes where there is one, else of the peak of requested bytes, or of
// the dump where no history was recorded.
func (e snapshotEvidence) device(i int, exact *exactPeak) record.SnapshotDevice {
	r, x := e.recordings[i], e.explanations[i]
	d := levelsOf(r)
	scope, entry := account.Requested, x.PeakEntry()
	if exact != nil {
		scope, entry = account.Allocated, exact.entry
		d.PeakAllocatedBytes, d.PeakAllocatedLowBytes = &exact.bytes, nil
		d.PeakActiveBytes, d.PeakActiveLowBytes = &exact.active, nil
	}
	c := x.Compose(entry, scope)
	d.Composition, d.CompositionEvent = sharesOf(c, exact), int64(entry)
	d.Failures = e.failures(i, exact, 0)
	level := c.Bytes
	if exact != nil {
		level = exact.bytes
	}
	summary := x.Summary(c, level)
	d.Summary, d.SummaryParts, d.History = summary.String(), partsOfSentence(summary), x.History()
	if c.Phase != account.PhaseRecorded {
		phase := string(c.Phase)
		d.PeakPhase = &phase
	}
	for _, reason := range c.Reasons {
		d.Reasons = append(d.Reasons, record.Reason{
			Category: string(reason.Category), Evidence: reason.Evidence.String(), Why: reason.Why,
			Bytes: reason.Bytes, Count: reason.Count,
		})
	}
	d.Top = topOf(x.ByStack(c))
	d.Files, d.Modules = placesOf(x.ByFile(c)), placesOf(x.ByModule(c))
	d.Named = namedOf(r.Named())
	if r.EndKnown {
		d.Streams, d.Fragmentation = holdingsOf(e.snapshot.Holdings(r), r.End)
	}
	return d
}

// levelsOf is the counts, peaks and ends of a recording. Of a file without
// segments all levels are lower bounds. Ends that cannot be, because the blocks
// are larger than their segments, are not known.
func levelsOf(r *snapshot.Recording) record.SnapshotDevice {
	peaks := r.Peaks()
	event := int64(peaks.Requested.Entry)
	blocks := 0
	for _, s := range r.Segments {
		blocks += s.Count
	}
	d := record.SnapshotDevice{
		Device: r.Timeline.Device, Events: r.Trace.Len(), Segments: len(r.Segments), Blocks: blocks,
		PeakAllocatedLowBytes: &peaks.Allocated.Bytes,
		PeakActiveLowBytes:    &peaks.Active.Bytes,
		PeakEvent:             &event,
		Truncated:             r.Timeline.Truncated,
	}
	if !r.EndKnown {
		d.PeakRequestedLowBytes, d.PeakReservedLowBytes = &peaks.Requested.Bytes, &peaks.Reserved.Bytes
		d.EndRequestedLowBytes, d.EndAllocatedLowBytes = &r.End.Requested, &r.End.Allocated
		d.EndActiveLowBytes, d.EndReservedLowBytes = &r.End.Active, &r.End.Reserved
		return d
	}
	d.PeakRequestedBytes, d.PeakReservedBytes = &peaks.Requested.Bytes, &peaks.Reserved.Bytes
	d.EndReservedBytes = &r.End.Reserved
	if r.End.Nest() {
		d.EndRequestedBytes, d.EndAllocatedBytes, d.EndActiveBytes = &r.End.Requested, &r.End.Allocated, &r.End.Active
	}
	return d
}

// sharesOf is the rows of a composition. Under an exact peak of allocated bytes
// one more row is what the allocator rounded up, so that they sum to it.
func sharesOf(c snapshot.Composition, exact *exactPeak) []record.Share {
	var rows []record.Share
	for _, share := range c.Shares {
		rows = append(rows, record.Share{
			Category: string(share.Category), Term: string(snapshot.TermOf(share.Category)), Bytes: &share.Bytes,
		})
	}
	if exact != nil {
		rounding := exact.bytes - c.Bytes
		rows = append(rows, record.Share{
			Category: string(account.CategoryAllocatorRounding), Term: string(account.TermAllocatorRounding), Bytes: &rounding,
		})
	}
	return rows
}

// frames spells a stack as records and pages show it, innermost first.
func frames(table *timeline.StackTable, stack uint32) []string {
	return snapshot.Spell(table, stack, snapshot.MaxFrames)
}

// topRows is how many rows of each grouping a record lists.
const topRows = 10

func topOf(groups []snapshot.Group) []record.TopStack {
	var rows []record.TopStack
	for _, g := range groups[:min(topRows, len(groups))] {
		row := record.TopStack{
			Bytes: g.Bytes, Count: g.Count, Stack: g.Stack, Where: g.Where, Category: string(g.Category), AtEndBytes: g.AtEnd,
			FirstBirth: int64(g.First), LastBirth: int64(g.Last),
		}
		if g.Freed >= 0 {
			freed := int64(g.Freed)
			row.LastFree = &freed
		}
		rows = append(rows, row)
	}
	return rows
}

func placesOf(groups []snapshot.Group) []record.Place {
	var rows []record.Place
	for _, g := range groups[:min(topRows, len(groups))] {
		row := record.Place{Bytes: g.Bytes, Count: g.Count, AtEndBytes: g.AtEnd}
		if category := string(g.Category); category != "" {
			row.Category = &category
		}
		if g.Name != "" {
			row.Name = &g.Name
		}
		rows = append(rows, row)
	}
	return rows
}

// namedOf is the names that the program gave to parts of the trace.
func namedOf(names []snapshot.Named) []record.NamedPart {
	var rows []record.NamedPart
	for _, n := range names[:min(topRows, len(names))] {
		row := record.NamedPart{Name: n.Name, Intervals: n.Intervals, PeakRequestedBytes: &n.Peak.Bytes, PeakEvent: int64(n.Peak.Entry)}
		if phase := string(n.Phase); n.Phase != account.PhaseRecorded {
			row.Phase = &phase
		}
		rows = append(rows, row)
	}
	return rows
}

// partsOfSentence copies a sentence.
func partsOfSentence(s snapshot.Sentence) []record.SentencePart {
	var parts []record.SentencePart
	for _, p := range s {
		parts = append(parts, record.SentencePart{Text: p.Text, Bytes: p.Bytes})
	}
	return parts
}

// unknownKeys tells which keys of the file nothing was read from.
func unknownKeys(keys []snapshot.UnknownKey) []account.Warning {
	if len(keys) == 0 {
		return nil
	}
	var list []string
	for _, k := range keys[:min(topRows, len(keys))] {
		list = append(list, fmt.Sprintf("%q of %s (%d times)", k.Key, k.In, k.Count))
	}
	text := fmt.Sprintf("%d keys of the file are unknown to this version and were not read: %s", len(keys), strings.Join(list, ", "))
	if len(keys) == 1 {
		text = "one key of the file is unknown to this version and was not read: " + list[0]
	}
	return []account.Warning{{Code: "unknown_keys", Text: text}}
}

// holdingsOf is what streams and pools hold at the end, and what of it nobody
// uses. Where the blocks are not those of their segments, both are not known.
func holdingsOf(holdings []snapshot.Holding, end snapshot.Levels) ([]record.StreamPool, *record.Fragmentation) {
	var rows []record.StreamPool
	stranded, largest, fit := int64(0), int64(0), end.Nest()
	for _, h := range holdings {
		stranded, largest, fit = stranded+h.Stranded, max(largest, h.LargestFree), fit && h.Fits()
		row := record.StreamPool{Stream: strconv.FormatUint(h.Stream, 10), Pool: h.Pool.Name(), ReservedBytes: &h.Reserved}
		if h.Fits() {
			row.ActiveBytes, row.StrandedBytes, row.LargestFreeBytes = &h.Active, &h.Stranded, &h.LargestFree
		}
		rows = append(rows, row)
	}
	if !fit {
		return rows, &record.Fragmentation{}
	}
	cached, rounding := end.Reserved-end.Active, end.Active-end.Requested
	return rows, &record.Fragmentation{
		CachedBytes: &cached, UnreleasableBytes: &stranded, RoundingBytes: &rounding, LargestFreeBytes: &largest,
	}
}
