package floodmark

import (
	"fmt"
	"strings"

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
		Stack: frames(stacks, d.failed.Stack), Where: whereOf(stacks, d.failed.Stack),
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
	row.Class, row.Because = string(class), because
	return row
}

// cached is held from the driver and not in use; at most, without a certificate.
func (d *denied) cached() int64 { return max(d.levels.Reserved-d.levels.Active, 0) }

// missing is what the request lacks of all that is free and cached together.
func (d *denied) missing() int64 {
	together, fits := bytesize.Add(d.failed.DeviceFree, d.cached())
	if !fits {
		return 0
	}
	return max(d.failed.Requested-together, 0)
}

// judge names the class of the failure, as enginelog names those of a log, and
// says why.
func (d *denied) judge() (enginelog.Class, string) {
	if d.capacity < 0 {
		return enginelog.CannotTell, fmt.Sprintf("%s were asked for with %s reserved; what the driver had free was not recorded",
			amountOf(d.failed.Requested), amountOf(d.levels.Reserved))
	}
	asked, free := amountOf(d.failed.Requested), amountOf(d.failed.DeviceFree)
	missing := d.missing()
	switch {
	case missing > 0:
		return enginelog.Exhaustion, fmt.Sprintf("%s were asked for; the driver had %s free and %s were cached unused: even in one piece that is %s short. %s",
			asked, free, d.cachedText(), amountOf(missing), d.room())
	case d.settings.MemoryFraction < 1:
		return enginelog.CannotTell, fmt.Sprintf("%s were asked for and the driver had %s free; the recorded per_process_memory_fraction of %g can have forbidden them",
			asked, free, d.settings.MemoryFraction)
	case d.needed() <= d.failed.DeviceFree:
		return enginelog.LimitOutsideAllocator, fmt.Sprintf("%s were asked for and the driver had %s free: something outside the allocator refused them", asked, free)
	case d.exact == nil:
		return enginelog.CannotTell, fmt.Sprintf("%s were asked for, the driver had %s free, and %s were cached: it is not known to the byte whether that would be enough in one piece",
			asked, free, d.cachedText())
	}
	return enginelog.FragmentationPlausible, fmt.Sprintf("%s were asked for and the driver had only %s free, but with the %s that were cached unused it would be enough; the largest cached block was %s: fragmentation is plausible, not proven. %s",
		asked, free, d.cachedText(), amountOf(d.exact.LargestFree), d.room())
}

// needed is what the driver had to give: a segment, or whole pages of 20 MiB.
func (d *denied) needed() int64 {
	size := d.settings.RoundSize(d.failed.Requested)
	if !d.settings.ExpandableSegments || size <= allocator.SmallSize {
		return d.settings.SegmentSize(size)
	}
	const page = 20 << 20
	pages, fits := bytesize.Mul(bytesize.CeilDiv(size, page), page)
	if !fits {
		return d.failed.Requested
	}
	return pages
}

func (d *denied) cachedText() string {
	if d.exact == nil {
		return "at most " + amountOf(d.cached())
	}
	return amountOf(d.cached())
}

// room is what the allocator had of what it could have.
func (d *denied) room() string {
	return fmt.Sprintf("The allocator held %s of the %s that it could have; the rest of the card was in use outside it",
		amountOf(d.levels.Reserved), amountOf(d.capacity))
}

// amountOf is a count in a fitting unit, for a sentence.
func amountOf(n int64) string {
	unit := bytesize.Suggest(n)
	if unit == bytesize.B {
		return bytesize.Group(n) + " B"
	}
	return bytesize.Fixed(n, unit, 2) + " " + unit.String()
}

// whereOf is a stack in one line; empty without one.
func whereOf(table *timeline.StackTable, stack uint32) string {
	return strings.Join(snapshot.Spell(table, stack, 3), " ← ")
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
		r.Timeline.Device, amountOf(bytes), blocks, wait)}}
}
