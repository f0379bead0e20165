package floodmark

import (
	"strings"
	"testing"

	"floodmark/allocator"
	"floodmark/enginelog"
	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// Why a request failed, by what the driver had, what was cached, and what is
// known of it.
func TestWhyARequestFailed(t *testing.T) {
	const mib = 1 << 20
	fraction := allocator.DefaultSettings()
	fraction.MemoryFraction = 0.5
	for _, c := range []struct {
		name                      string
		request, free             int64
		reserved, active, largest int64
		exact                     bool
		settings                  allocator.Settings
		class                     enginelog.Class
		says                      string
	}{
		{"too much at any rate", 512 * mib, 300 * mib, 220 * mib, 205 * mib, 15 * mib, true, allocator.DefaultSettings(),
			enginelog.Exhaustion, "even in one piece that is 197.00 MiB short"},
		{"too much even with all that may be cached", 512 * mib, 300 * mib, 220 * mib, 205 * mib, 0, false, allocator.DefaultSettings(),
			enginelog.Exhaustion, "at most 15.00 MiB were cached"},
		{"enough in one piece", 512 * mib, 300 * mib, 900 * mib, 500 * mib, 60 * mib, true, allocator.DefaultSettings(),
			enginelog.FragmentationPlausible, "the largest cached block was 60.00 MiB"},
		{"perhaps enough", 512 * mib, 300 * mib, 900 * mib, 500 * mib, 0, false, allocator.DefaultSettings(),
			enginelog.CannotTell, "not known to the byte"},
		{"the driver had it", 512 * mib, 600 * mib, 900 * mib, 500 * mib, 0, true, allocator.DefaultSettings(),
			enginelog.LimitOutsideAllocator, "something outside the allocator refused them"},
		{"no memory has it", 1 << 50, 600 * mib, 900 * mib, 500 * mib, 0, true, allocator.DefaultSettings(),
			enginelog.AbsurdSize, "1024.00 TiB were asked for"},
		{"a fraction can have forbidden it", 512 * mib, 600 * mib, 900 * mib, 500 * mib, 0, true, fraction,
			enginelog.CannotTell, "memory_fraction of 0.5"},
	} {
		d := denied{failed: timeline.Failure{Requested: c.request, DeviceFree: c.free}, settings: c.settings, capacity: c.reserved + c.free,
			levels: replay.Levels{Reserved: c.reserved, Active: c.active}}
		if c.exact {
			d.exact = &replay.Failed{LargestFree: c.largest}
		}
		if class, because := d.judge(); class != c.class || !strings.Contains(because.String(), c.says) {
			t.Errorf("%s: %s, because %s", c.name, class, because)
		}
	}
	// Whatever a file claims to have asked for is judged.
	for _, request := range []int64{-1 << 63, -1, 0, 1 << 62, 1<<63 - 1} {
		for _, free := range []int64{0, mib, 1<<63 - 1 - mib} {
			d := denied{failed: timeline.Failure{Requested: request, DeviceFree: free}, settings: allocator.DefaultSettings(), capacity: free + mib,
				levels: replay.Levels{Reserved: mib, Active: -1 << 63}}
			if row := d.record(&timeline.StackTable{}); row.Because == "" || row.ShortfallBytes != nil && *row.ShortfallBytes < 0 {
				t.Errorf("%d of %d: %+v", request, free, row)
			}
		}
	}
	unknown := denied{failed: timeline.Failure{Requested: mib, DeviceFree: -1}, settings: allocator.DefaultSettings(), capacity: -1}
	row := unknown.record(&timeline.StackTable{})
	if row.Class != string(enginelog.CannotTell) || row.DeviceFreeBytes != nil || row.CapacityBytes != nil || row.ShortfallBytes != nil {
		t.Errorf("without the driver's free bytes: %+v", row)
	}
}

// pending is a file in which the free of 3 KiB waits for another stream while
// 4 KiB more are asked for.
const pending = `{"segments": [{"device": 0, "address": 1099511627776, "total_size": 2097152, "allocated_size": 4096, "active_size": 4096, "stream": 0, "segment_type": "small",
  "blocks": [{"address": 1099511627776, "size": 3072, "requested_size": 0, "state": "inactive"}, {"address": 1099511630848, "size": 4096, "requested_size": 4096, "state": "active_allocated"},
    {"address": 1099511634944, "size": 2089984, "requested_size": 0, "state": "inactive"}]}],
  "device_traces": [[{"action": "segment_alloc", "addr": 1099511627776, "size": 2097152, "stream": 0}, {"action": "alloc", "addr": 1099511627776, "size": 3072, "stream": 0},
    {"action": "free_requested", "addr": 1099511627776, "size": 3072, "stream": 0}, {"action": "alloc", "addr": 1099511630848, "size": 4096, "stream": 0},
    {"action": "free_completed", "addr": 1099511627776, "size": 3072, "stream": 0}]]}`

// A peak of requested above that of allocated is explained, and the active peak
// is the replay's.
func TestPendingFreesAreExplained(t *testing.T) {
	s, err := snapshot.Read(source.Bytes("pending.json", []byte(pending)))
	if err != nil {
		t.Fatal(err)
	}
	r := newSnapshotEvidence(s).Record(record.Tool{}).(*record.Snapshot)
	text := ""
	for _, w := range r.Warnings {
		if w.Code == "pending_frees" {
			text = w.Text
		}
	}
	if !strings.HasPrefix(text, "cuda:0: at the requested peak 3.00 KiB in 1 block waits for other streams") {
		t.Errorf("warnings: %v", r.Warnings)
	}
	if d := r.Devices[0]; d.PeakActiveBytes == nil || *d.PeakActiveBytes != 7168 || *d.PeakAllocatedBytes != 4096 || d.PeakActiveLowBytes != nil {
		t.Errorf("%+v", d)
	}
}
