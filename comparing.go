package floodmark

import (
	"errors"
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/record"
	"floodmark/snapshot"
)

// ErrNotComparable says that two pieces of evidence have no like scope in
// common.
var ErrNotComparable = errors.New("only two memory snapshots can be compared by this version")

// comparedStacks is how many stacks a comparison lists for a device.
const comparedStacks = 20

// Compare sets two snapshots side by side: for each device, which stacks
// explain the difference of the peaks of requested bytes.
func Compare(a, b Evidence, tool record.Tool) (*record.Comparison, error) {
	x, okA := a.(snapshotEvidence)
	y, okB := b.(snapshotEvidence)
	if !okA || !okB {
		return nil, ErrNotComparable
	}
	r := &record.Comparison{A: x.snapshot.Name, B: y.snapshot.Name, Changed: changedSettings(x.snapshot, y.snapshot)}
	var warnings []account.Warning
	matched := 0
	for i, recording := range x.recordings {
		device := recording.Timeline.Device
		j := y.at(device)
		if j < 0 {
			warnings = append(warnings, account.Warning{Code: "device_missing", Text: fmt.Sprintf("cuda:%d is in the first snapshot alone", device)})
			continue
		}
		matched++
		compareDevice(r, device, x.atPeak(i), y.atPeak(j))
	}
	if len(y.recordings) > matched {
		warnings = append(warnings, account.Warning{Code: "device_missing", Text: "the second snapshot has devices that the first one lacks"})
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

// compareDevice adds the rows of one device: the stacks with the largest
// differences, what the others differ by, and the totals.
func compareDevice(r *record.Comparison, device int, a, b []snapshot.Group) {
	stacks := map[string][]string{}
	groupsA, groupsB := stackGroups(a, stacks), stackGroups(b, stacks)
	rows, residual := compare.Groups(groupsA, groupsB, comparedStacks)
	row := func(term string, c compare.Row) record.ComparisonRow {
		difference := c.Difference()
		return record.ComparisonRow{Term: term, Scope: string(account.Requested), Device: &device, Stack: stacks[c.Key],
			ABytes: &c.A, BBytes: &c.B, DifferenceBytes: &difference, ACount: &c.CountA, BCount: &c.CountB}
	}
	total := residual
	for _, c := range rows {
		r.Rows = append(r.Rows, row("stack", c))
		total.A, total.B = total.A+c.A, total.B+c.B
		total.CountA, total.CountB = total.CountA+c.CountA, total.CountB+c.CountB
	}
	r.Residual = append(r.Residual, row("all other stacks", residual))
	r.Totals = append(r.Totals, row("peak", total))
}

// atPeak groups what is alive at the peak of requested bytes by stack.
func (e snapshotEvidence) atPeak(i int) []snapshot.Group {
	x := e.explanations[i]
	return x.ByStack(x.Compose(e.recordings[i].Peaks().Requested.Entry, account.Requested))
}

// stackGroups gives each stack a key that means the same in both snapshots, how
// it is spelled, and notes the spelling.
func stackGroups(groups []snapshot.Group, stacks map[string][]string) []compare.Group {
	var list []compare.Group
	for _, g := range groups {
		key := strings.Join(g.Stack, "\n")
		stacks[key] = g.Stack
		list = append(list, compare.Group{Key: key, Bytes: g.Bytes, Count: g.Count})
	}
	return list
}
