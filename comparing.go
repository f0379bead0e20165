package floodmark

import (
	"errors"
	"fmt"

	"floodmark/account"
	"floodmark/record"
	"floodmark/snapshot"
)

// ErrNotComparable says that two pieces of evidence have no like scope in
// common.
var ErrNotComparable = errors.New("two estimates can be compared, two measurements, or two memory snapshots")

// Compare sets two pieces of evidence side by side. Of two measurements: what
// changed, and which phases moved in which scope. Of two estimates: the same, the
// terms that moved in each phase, and what the thing that changed can reach. Of two snapshots: for each
// device, which categories and which places of the program explain the
// difference of the peaks of requested bytes.
func Compare(a, b Evidence, names [2]string, o CompareOptions, tool record.Tool) (*record.Comparison, error) {
	if m, ok := measured(a, tool); ok {
		if n, ok := measured(b, tool); ok {
			return compareMeasurements(m, n, names, o, tool)
		}
	}
	if m, ok := estimatedBy(a, tool); ok {
		if n, ok := estimatedBy(b, tool); ok {
			return compareEstimates(m, n, names, o, tool)
		}
	}
	x, okA := a.(snapshotEvidence)
	y, okB := b.(snapshotEvidence)
	if !okA || !okB {
		return nil, ErrNotComparable
	}
	r := &record.Comparison{A: x.snapshot.Name, B: y.snapshot.Name, Changed: changedSettings(x.snapshot, y.snapshot), Comparable: true}
	var warnings []account.Warning
	for i, recording := range x.recordings {
		j := y.at(recording.Timeline.Device)
		if j < 0 {
			warnings = append(warnings, x.peakOf("a", i).alone())
			continue
		}
		c := comparedDevice{a: x.peakOf("a", i), b: y.peakOf("b", j), device: recording.Timeline.Device}
		warnings = append(append(warnings, c.a.doubts()...), c.b.doubts()...)
		c.add(r)
	}
	for j, recording := range y.recordings {
		if x.at(recording.Timeline.Device) < 0 {
			warnings = append(warnings, y.peakOf("b", j).alone())
		}
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindComparison, tool, warnings)}
	return r, nil
}

// at is the index of a device's recording, −1 when there is none.
func (e snapshotEvidence) at(device int) int {
	for i, r := range e.recordings {
		if r.Timeline.Device == device {
			return i
		}
	}
	return -1
}

// changedSettings lists the allocator settings that differ.
func changedSettings(a, b *snapshot.Snapshot) []record.ChangedField {
	text := func(s *snapshot.Snapshot) string {
		if s.Settings == nil {
			return "not recorded"
		}
		return fmt.Sprintf("%q, max_split_size %d, expandable_segments %v", s.Settings.Conf, s.Settings.MaxSplitSize, s.Settings.ExpandableSegments)
	}
	if text(a) == text(b) {
		return nil
	}
	return []record.ChangedField{{Field: "allocator_settings", A: text(a), B: text(b)}}
}
