package floodmark

import (
	"fmt"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/bytesize"
	"floodmark/enginelog"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// mostFailures is how many failures of a device a record describes; a program
// that fails again and again says no more than the first ones.
const mostFailures = 16

// failures are the requests of a device that failed, each with what was alive
// at that event. The total is of the card, 0 when it is not known.
func (e snapshotEvidence) failures(i int, exact *exactPeak, total int64) []record.SnapshotFailure {
	r := e.recordings[i]
	if len(r.Failures) == 0 {
		return nil
	}
	bounds := levelsAt(r)
	var list []record.SnapshotFailure
	for k, f := range r.Failures[:min(len(r.Failures), mostFailures)] {
		d := denied{failed: r.Timeline.Failures[k], settings: replay.RecordedSettings(e.snapshot, r), capacity: f.Capacity,
			levels: replay.Levels(bounds[f.Entry])}
		d.levels.Reserved = f.Reserved
		if exact != nil {
			for n := range exact.failures {
				if exact.failures[n].Entry == f.Entry {
					d.exact, d.levels = &exact.failures[n], exact.failures[n].Levels
				}
			}
		}
		row := d.record(&r.Timeline.Stacks)
		row.Event = int64(f.Entry)
		if outside, known := f.Outside(total); known {
			row.OutsideBytes = &outside
		}
		c := e.explanations[i].Compose(f.Entry, account.Allocated)
		var level *exactPeak
		if d.exact != nil {
			level = &exactPeak{bytes: d.levels.Allocated, entry: f.Entry}
		}
		row.Composition = sharesOf(c, level)
		if phase := string(c.Phase); c.Phase != account.PhaseRecorded {
			row.Phase = &phase
		}
		list = append(list, row)
	}
	return list
}

// levelsAt is the levels at the failures that are described, by entry; allocated
// and active are bounded from below.
func levelsAt(r *snapshot.Recording) map[int]snapshot.Levels {
	levels := map[int]snapshot.Levels{}
	for _, f := range r.Failures[:min(len(r.Failures), mostFailures)] {
		levels[f.Entry] = snapshot.Levels{}
	}
	r.Walk(func(entry int, l snapshot.Levels) {
		if _, wanted := levels[entry]; wanted {
			levels[entry] = l
		}
	})
	return levels
}

// denied is a request that failed and what is known of that moment.
type denied struct {
	failed   timeline.Failure
	settings allocator.Settings
	capacity int64          // −1 when not known
	levels   replay.Levels  // exact with the replay's; else allocated and active from below
	exact    *replay.Failed // nil without a certificate
}

func (d *denied) record(stacks *timeline.StackTable) record.SnapshotFailure {
	cached, missing := d.cached(), int64(0)
	row := record.SnapshotFailure{
		RequestBytes: &d.failed.Requested, ReservedBytes: &d.levels.Reserved,
		Stack: frames(stacks, d.failed.Stack), Where: snapshot.Where(stacks, d.failed.Stack),
	}
	if d.exact != nil {
		row.AllocatedBytes, row.CachedBytes = &d.levels.Allocated, &cached
		row.UnusableBytes, row.LargestFreeBytes = &d.exact.Stuck, &d.exact.LargestFree
	} else {
		row.AllocatedLowBytes, row.CachedHighBytes = &d.levels.Allocated, &cached
	}
	if d.capacity >= 0 {
		row.DeviceFreeBytes, row.CapacityBytes = &d.failed.DeviceFree, &d.capacity
		if missing = d.missing(); d.exact != nil || missing > 0 {
			row.ShortfallBytes = &missing
		}
	}
	class, because := d.judge()
	row.Class, row.Because, row.BecauseParts = string(class), because.String(), partsOfSentence(because)
	return row
}

// cached is held from the driver and not in use; at most, without a certificate.
func (d *denied) cached() int64 {
	if d.levels.Active < 0 || d.levels.Reserved < d.levels.Active {
		return 0 // a file that contradicts itself
	}
	return d.levels.Reserved - d.levels.Active
}

// missing is what the request lacks of all that is free and cached together.
func (d *denied) missing() int64 {
	together, fits := bytesize.Add(d.failed.DeviceFree, d.cached())
	if !fits || d.failed.Requested < together {
		return 0
	}
	return d.failed.Requested - together
}

// judge names the class of the failure, as enginelog names those of a log, and
// says why.
func (d *denied) judge() (enginelog.Class, snapshot.Sentence) {
	asked, free := d.failed.Requested, d.failed.DeviceFree
	if asked > allocator.MaxRequest {
		return enginelog.AbsurdSize, snapshot.Say(asked, " were asked for, which no memory holds: a shape or a count is corrupt")
	}
	if d.capacity < 0 {
		return enginelog.CannotTell, snapshot.Say(asked, " were asked for with ", d.levels.Reserved, " reserved; what the driver had free was not recorded")
	}
	had := snapshot.Say(asked, " were asked for; the driver had ", free, " free")
	missing := d.missing()
	switch {
	case missing > 0:
		return enginelog.Exhaustion, snapshot.Say(had, " and ", d.cachedWords(), " were cached unused: even in one piece that is ", missing, " short. ", d.room())
	case d.settings.MemoryFraction < 1:
		return enginelog.CannotTell, snapshot.Say(had, fmt.Sprintf("; the recorded per_process_memory_fraction of %g can have forbidden them", d.settings.MemoryFraction))
	case d.needed() <= free:
		return enginelog.LimitOutsideAllocator, snapshot.Say(had, ": something outside the allocator refused them")
	case d.exact == nil:
		return enginelog.CannotTell, snapshot.Say(had, " and ", d.cachedWords(), " were cached: it is not known to the byte whether that would be enough in one piece")
	}
	return enginelog.FragmentationPlausible, snapshot.Say(had, ", but with the ", d.cachedWords(), " that were cached unused it would be enough; the largest cached block was ",
		d.exact.LargestFree, ": fragmentation is plausible, not proven. ", d.room())
}

// needed is what the driver had to give: a segment, or whole pages of 20 MiB.
func (d *denied) needed() int64 {
	if d.failed.Requested < 1 || d.failed.Requested > allocator.MaxRequest {
		return d.failed.Requested // no allocator rounds that
	}
	size := d.settings.RoundSize(d.failed.Requested)
	if !d.settings.ExpandableSegments || size <= allocator.SmallSize {
		return d.settings.SegmentSize(size)
	}
	const page = 20 << 20
	return bytesize.CeilDiv(size, page) * page
}

func (d *denied) cachedWords() snapshot.Sentence {
	if d.exact == nil {
		return snapshot.Say("at most ", d.cached())
	}
	return snapshot.Say(d.cached())
}

// room is what the allocator had of what it could have.
func (d *denied) room() snapshot.Sentence {
	return snapshot.Say("The allocator held ", d.levels.Reserved, " of the ", d.capacity, " that it could have; the rest of the card was in use outside it")
}

// waiting notes how much of the requested peak only waits: a block whose free
// was requested counts as requested until the other streams are done with it,
// and as allocated no more. Nil where the scopes do not part.
func (e snapshotEvidence) waiting(i int) []account.Warning {
	r, x := e.recordings[i], e.explanations[i]
	peak := r.Peaks().Requested
	requested, allocated := x.Compose(peak.Entry, account.Requested), x.Compose(peak.Entry, account.Allocated)
	bytes, blocks := requested.Bytes-allocated.Bytes, len(requested.Allocs)-len(allocated.Allocs)
	if bytes <= 0 || blocks <= 0 || peak.Bytes <= r.Peaks().Allocated.Bytes {
		return nil
	}
	wait := "blocks wait"
	if blocks == 1 {
		wait = "block waits"
	}
	return []account.Warning{{Code: "pending_frees", Text: fmt.Sprintf(
		"cuda:%d: at the requested peak %s in %d %s for other streams: their tensors are gone, so they count as requested and active, and as allocated no more",
		r.Timeline.Device, snapshot.Say(bytes), blocks, wait)}}
}
