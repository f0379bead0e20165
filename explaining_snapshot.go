package floodmark

import (
	"slices"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/record"
	"floodmark/snapshot"
)

// snapshot sets the peak of each device of a memory snapshot beside that of the
// estimate, category by category. A snapshot sees the allocator alone.
func (b *beside) snapshot(d *record.Snapshot) (any, error) {
	for i, device := range d.Devices {
		if device.Events == 0 && len(device.Composition) == 0 {
			continue
		}
		b.device = &d.Devices[i].Device
		rank := b.rankOf(nil)
		if len(b.estimate.Ranks) > 1 && i < len(b.estimate.Ranks) {
			rank = &b.estimate.Ranks[i]
		}
		if rank == nil || rank.Peak == nil {
			continue
		}
		b.recorded(rank, device)
	}
	b.device = nil
	if len(b.against.Rows) == 0 {
		return nil, ErrNotAgainst
	}
	copied := *d
	copied.Warnings = append(slices.Clone(d.Warnings), b.warnings...)
	copied.Against = b.against
	return &copied, nil
}

// recorded is the rows of one device.
func (b *beside) recorded(rank *record.Rank, d record.SnapshotDevice) {
	if d.PeakPhase != nil && *d.PeakPhase != rank.Peak.Phase {
		b.warn("another_phase", "cuda:%d peaks in %s, and the estimate in %s: each is set beside the other at its own peak", d.Device, spacedTerm(*d.PeakPhase), spacedTerm(rank.Peak.Phase))
	}
	if !d.History {
		b.warn("no_history", "cuda:%d: no allocation was recorded, so the level at the dump stands beside the peak of the estimate", d.Device)
	}
	var parts []compare.Pair
	for _, c := range account.Categories() {
		p := compare.Pair{Term: string(c), Predicted: foreseenOf(rank, c), Observed: recordedOf(d, c)}
		if interval(p.Predicted) == [3]int64{0, 0, 1} && interval(p.Observed) == [3]int64{0, 0, 1} || c == account.CategoryUnattributed || c == account.CategoryOther {
			continue
		}
		parts = append(parts, p)
		b.against.Rows = append(b.against.Rows, b.categoryRow(p, d))
	}
	total := compare.Pair{Term: "peak", Predicted: sumOfPredicted(parts), Observed: sumOfComposition(d)}
	b.cancelling(parts, total)
	b.against.Rows = append(b.against.Rows, b.at(total, account.Allocated, "the highest moment of each side"))
	if phase, found := peakPhase(rank); found {
		reserved := compare.Pair{Term: "peak", Predicted: figureOf(phase.PeakReservedBytes, phase.PeakReservedLowBytes, phase.PeakReservedHighBytes), Observed: figureOf(d.PeakReservedBytes, d.PeakReservedLowBytes, nil)}
		b.against.Rows = append(b.against.Rows, b.at(reserved, account.Reserved, "the highest moment of each side, which may be another one than that of allocated"))
	}
	outside := compare.Pair{Term: "outside_the_allocator", Predicted: scopeSum(rank, account.Process), Observed: account.Unknown("a snapshot does not see it", account.Provenance{})}
	b.against.Rows = append(b.against.Rows, b.at(outside, account.Process, "a snapshot sees the allocator alone"), b.unexplained(d))
	if b.against.Checkpoint == nil {
		b.against.Checkpoint = b.checkpointOf("the end of the recording", levelFigures{
			account.Reserved: figureOf(d.EndReservedBytes, d.EndReservedLowBytes, nil), account.Allocated: figureOf(d.EndAllocatedBytes, d.EndAllocatedLowBytes, nil)})
	}
}

// categoryRow is one category, with the evidence by which the snapshot has it.
func (b *beside) categoryRow(p compare.Pair, d record.SnapshotDevice) record.AgainstRow {
	row := b.at(p, account.Requested, "")
	for _, r := range d.Reasons {
		if r.Category == p.Term {
			row.Cause += "; recorded as " + snapshot.CategoryWords(account.Category(p.Term)) + " because " + r.Why
			break
		}
	}
	return row
}

// foreseenOf is what an estimate holds of a category inside the allocator where it
// stands highest.
func foreseenOf(rank *record.Rank, c account.Category) account.Figure {
	scopes := map[string]account.Scope{}
	for _, t := range rank.Terms {
		scopes[t.ID] = account.Scope(t.Scope)
	}
	sum := account.Exact(0, account.Provenance{Origin: account.Calculated})
	for _, s := range rank.Peak.Composition {
		if scope := scopes[s.Term]; s.Category == string(c) && (scope == account.Requested || scope == account.Allocated) {
			sum = account.Sum(sum.Provenance, sum, figureOf(s.Bytes, s.LowBytes, s.HighBytes))
		}
	}
	return sum
}

// recordedOf is what a snapshot holds of a category at its peak. It counts every
// allocation, so that a category without any is 0.
func recordedOf(d record.SnapshotDevice, c account.Category) account.Figure {
	sum := account.Exact(0, account.Provenance{Origin: account.Observed})
	for _, s := range d.Composition {
		if s.Category == string(c) {
			sum = account.Sum(sum.Provenance, sum, figureOf(s.Bytes, s.LowBytes, s.HighBytes))
		}
	}
	return sum
}

func sumOfPredicted(parts []compare.Pair) account.Figure {
	sum := account.Exact(0, account.Provenance{Origin: account.Calculated})
	for _, p := range parts {
		sum = account.Sum(sum.Provenance, sum, p.Predicted)
	}
	return sum
}

func sumOfComposition(d record.SnapshotDevice) account.Figure {
	sum := account.Exact(0, account.Provenance{Origin: account.Observed})
	for _, s := range d.Composition {
		sum = account.Sum(sum.Provenance, sum, figureOf(s.Bytes, s.LowBytes, s.HighBytes))
	}
	return sum
}

// peakPhase is the phase in which a rank stands highest.
func peakPhase(rank *record.Rank) (record.Phase, bool) {
	for _, p := range rank.Phases {
		if p.Name == rank.Peak.Phase && p.Step == rank.Peak.Step {
			return p, true
		}
	}
	return record.Phase{}, false
}

// unexplained is what the snapshot itself cannot name.
func (b *beside) unexplained(d record.SnapshotDevice) record.AgainstRow {
	nobody := account.Sum(account.Provenance{}, recordedOf(d, account.CategoryUnattributed), recordedOf(d, account.CategoryOther))
	p := compare.Pair{Term: "residual", Predicted: account.Exact(0, account.Provenance{}), Observed: nobody}
	row := b.at(p, account.Requested, "")
	row.Cause = "no frame, phase or size says what these allocations are"
	if n, exact := nobody.IsExact(); exact && n == 0 {
		row.Cause = "nothing: every allocation of the peak has a category"
	}
	return row
}
