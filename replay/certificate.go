package replay

import (
	"errors"
	"fmt"
	"slices"

	"floodmark/allocator"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// Count is how many of something were found again.
type Count struct {
	Matched, Total int
}

// All reports that nothing is missing.
func (c Count) All() bool { return c.Matched == c.Total }

// Certificate says how exactly the simulated allocator reproduces a recording
// under the settings of the recording.
type Certificate struct {
	Addresses Count // "alloc" entries whose block lies where it was recorded
	Segments  Count // segment_alloc and segment_map entries, with size and moment
	Releases  Count // runs of segment_free and segment_unmap entries, as sets

	ReservedPeakRecorded int64 // bytes
	ReservedPeakReplayed int64

	// EndStateEqual: every segment and block of the snapshot has the same
	// address, size and state at the end of the replay.
	EndStateEqual bool
	FirstMismatch *Mismatch // nil when there is none
}

// Mismatch is where a replay parts from the recording.
type Mismatch struct {
	Entry  int    // index into the trace; its length for the end state
	Action string // PyTorch's word, or "end"
	Text   string // what was recorded, and what was replayed
}

// Holds reports that everything was reproduced.
func (c Certificate) Holds() bool {
	return c.FirstMismatch == nil && c.EndStateEqual && c.Addresses.All() && c.Segments.All() && c.Releases.All() &&
		c.ReservedPeakRecorded == c.ReservedPeakReplayed
}

// String is one line, as in "2434/2434 addresses, 175/175 segments, 3/3 releases".
func (c Certificate) String() string {
	text := fmt.Sprintf("%d/%d addresses, %d/%d segments, %d/%d releases", c.Addresses.Matched, c.Addresses.Total,
		c.Segments.Matched, c.Segments.Total, c.Releases.Matched, c.Releases.Total)
	if m := c.FirstMismatch; m != nil {
		text += fmt.Sprintf("; first mismatch at entry %d (%s): %s", m.Entry, m.Action, m.Text)
	}
	return text
}

// ErrNothingRecorded is a device whose history was not recorded: there is
// nothing to certify.
var ErrNothingRecorded = errors.New("the snapshot records no allocation, so there is nothing to replay")

// NotCertifiedError is the refusal of a what-if on a recording that the
// simulation does not reproduce.
type NotCertifiedError struct {
	Device      int
	Certificate Certificate
}

// Error says what does not match.
func (e *NotCertifiedError) Error() string {
	if e.Certificate.Addresses.Total == 0 && e.Certificate.FirstMismatch == nil {
		return fmt.Sprintf("device %d: %v", e.Device, ErrNothingRecorded)
	}
	return fmt.Sprintf("device %d: the simulated allocator does not reproduce this recording (%s), so it cannot say what other settings would do",
		e.Device, e.Certificate)
}

// Unwrap is ErrNothingRecorded where that is the reason, and else nil.
func (e *NotCertifiedError) Unwrap() error {
	if e.Certificate.Addresses.Total == 0 && e.Certificate.FirstMismatch == nil {
		return ErrNothingRecorded
	}
	return nil
}

// Recorded is a recording and its replay under the settings of the recording.
type Recorded struct {
	Recording   *snapshot.Recording
	Certificate Certificate
	Run         *Run // moments are indexes into Recording.Timeline.Events
	// Failures are the first requests that failed, at most 16 of them; as the
	// recording has them only where the certificate holds.
	Failures []Failed
	// SettingsRecorded reports that the file says under which settings it was
	// recorded. Else the defaults are assumed.
	SettingsRecorded bool

	rules  allocator.Rules
	start  start
	empty  []int // events before which the program emptied the cache
	unsure int   // such that a retry of the driver may have done it
	pools  int
}

// guess is what a trace does not tell. A wrong one makes the replay part from the
// recording.
type guess struct {
	// allWait: a free that was completed right after its request was not
	// completed at once, but when the next action waited for all streams.
	allWait bool
	// waited: with max_split_size, frees that were completed before a release were
	// completed for the allocation after it.
	waited bool
	// enough: a release before an allocation for which the driver gave nothing
	// was made by that allocation, and not by torch.cuda.empty_cache.
	enough bool
}

// Replay runs what a device recorded through the allocator, under the settings
// of the recording, and compares. Where a trace can be read in two ways, the
// likelier one is taken for all of it, and the others are tried when it does not
// reproduce the recording.
//
// TotalMemory is the bytes of the card, 0 when they are not known. They matter
// only where a memory fraction was set, for garbage collection.
func Replay(s *snapshot.Snapshot, r *snapshot.Recording, rules allocator.Rules, totalMemory int64) *Recorded {
	sc := scene{s: s, r: r, settings: rules.Effective(RecordedSettings(s, r)), total: totalMemory}
	if totalMemory <= 0 || totalMemory > assumedMemory {
		sc.total = assumedMemory
	}
	likely := sc.replay(rules, guess{})
	if c := likely.Certificate; c.Holds() || len(r.Contradictions) > 0 || c.Segments.Total+c.Releases.Total+len(r.Failures) == 0 {
		return likely
	}
	for bits := 1; bits < 8; bits++ {
		g := guess{allWait: bits&1 > 0, waited: bits&2 > 0, enough: bits&4 > 0}
		if other := sc.replay(rules, g); other.Certificate.Holds() {
			return other
		}
	}
	return likely
}

// HasHistory reports whether a device recorded anything that can be replayed:
// an allocation, a free, a failure, or memory that the driver gave or got back.
func HasHistory(trace *snapshot.Trace) bool {
	return slices.ContainsFunc(trace.Action, func(a snapshot.Action) bool { return a <= snapshot.SegmentUnmap || a == snapshot.OutOfMemory })
}

// Unrecorded is what there is to say of a device without history, for which an
// outline of the recording is enough: nothing is replayed, and nothing holds.
func Unrecorded(s *snapshot.Snapshot, outline *snapshot.Recording, rules allocator.Rules) *Recorded {
	reserved := outline.End.Reserved
	return &Recorded{Recording: outline, rules: rules, SettingsRecorded: s.Settings != nil,
		Run:         &Run{Settings: rules.Effective(RecordedSettings(s, outline)), Start: Levels{Reserved: reserved}},
		Certificate: Certificate{ReservedPeakRecorded: reserved, ReservedPeakReplayed: reserved}}
}

func (sc scene) replay(rules allocator.Rules, g guess) *Recorded {
	c := &certifier{scene: sc, events: sc.r.Timeline.Events, guess: g,
		out: &Recorded{Recording: sc.r, rules: rules, pools: len(sc.s.Pools), SettingsRecorded: sc.s.Settings != nil}}
	c.mend()
	c.begin()
	c.follow()
	c.conclude()
	return c.out
}

// certifier replays one recording.
type certifier struct {
	scene
	a       *allocator.Allocator
	d       *recordedDriver
	run     recorder
	guess   guess
	handles []allocator.Handle
	events  []timeline.Event
	next    int       // event
	suspect *Mismatch // an entry that contradicts the rest of the file
	mended  mended
	out     *Recorded
}

// note keeps the first mismatch.
func (c *certifier) note(entry int, text string) {
	if m := c.out.Certificate.FirstMismatch; m == nil || entry < m.Entry {
		c.out.Certificate.FirstMismatch = c.mismatch(entry, text)
	}
}

func (c *certifier) mismatch(entry int, text string) *Mismatch {
	action := "end"
	if entry < c.r.Trace.Len() {
		action = c.r.Trace.Action[entry].String()
	}
	return &Mismatch{Entry: entry, Action: action, Text: text}
}

// begin restores the state before the first entry.
func (c *certifier) begin() {
	c.d = newRecordedDriver(&c.scene, c.note)
	c.a = allocator.New(c.d, c.settings, c.out.rules)
	c.d.a = c.a
	c.out.start = startOf(&c.scene, c.mended.before(c.r.Timeline.Before))
	c.handles = make([]allocator.Handle, len(c.r.Timeline.Allocs))
	if err := c.out.start.restore(c.a, c.out.pools, c.handles); err != nil {
		c.note(0, err.Error())
	}
	for _, segment := range c.out.start.segments {
		if segment.Pool != 0 {
			c.d.pools[segment.Addr] = segment.Pool
		}
	}
	c.suspectAllocs(c.out.start.unplaced, "lived before the first entry, but where it lay was no free memory of its stream")
	c.out.Certificate.ReservedPeakRecorded = c.r.Peaks().Reserved.Bytes
	for _, action := range c.r.Trace.Action {
		if action == snapshot.Alloc {
			c.out.Certificate.Addresses.Total++
		}
	}
	c.run = newRecorder(c.a, len(c.events), true)
}

// restore puts the state of the start into an empty allocator.
func (st *start) restore(a *allocator.Allocator, pools int, handles []allocator.Handle) error {
	for range pools - 1 {
		a.NewPool(allocator.PoolOptions{})
	}
	for i, segment := range st.segments {
		restored, err := a.Restore(segment)
		if err != nil {
			return fmt.Errorf("state before the first entry: %w", err)
		}
		for k, owner := range st.owners[i] {
			handles[owner] = restored[k]
		}
	}
	return nil
}

// conclude compares the end and fills the certificate in.
func (c *certifier) conclude() {
	out := &c.out.Certificate
	out.Segments, out.Releases = c.d.segments, c.d.releases
	out.ReservedPeakReplayed = c.a.Stats().ReservedBytes.All.Peak
	difference := compareEnds(endOf(c.s, c.r), c.a.Segments())
	out.EndStateEqual = difference == ""
	if difference != "" {
		c.note(c.r.Trace.Len(), difference)
	}
	if c.suspect != nil {
		out.FirstMismatch = c.suspect
	}
	if out.FirstMismatch == nil {
		c.noteContradictions()
	}
	c.out.Run = c.run.finish()
}

// noteContradictions keeps a file that contradicts itself from being certified,
// although the replay came out: what it says twice it says differently, and
// what an unknown action did to memory nobody knows.
func (c *certifier) noteContradictions() {
	for _, x := range c.r.Contradictions {
		c.note(x.Entry, x.Text)
	}
	for i, action := range c.r.Trace.Action {
		if action == snapshot.OtherAction && c.r.Trace.Size[i] > 0 {
			c.note(i, fmt.Sprintf("what this action, which is not known, did to %d bytes at %#x cannot be replayed", c.r.Trace.Size[i], c.r.Trace.Addr[i]))
			return
		}
	}
}
