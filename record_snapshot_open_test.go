package floodmark

import (
	"strings"
	"testing"

	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/snapshot"
)

// A snapshot of traces alone says nothing of what was held before: its levels
// are null in the record, with the bytes that are certain beside them.
func TestRecordOfASnapshotWithoutSegments(t *testing.T) {
	text := `{"device_traces": [[
		{"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0},
		{"action": "alloc", "addr": 4096, "size": 500, "stream": 0}]]}`
	s, err := snapshot.Read(source.Bytes("traces.json", []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	r := newSnapshotEvidence(s).Record(record.Tool{}).(*record.Snapshot)
	d := r.Devices[0]
	for name, c := range map[string]struct {
		exact, low *int64
		want       int64
	}{
		"requested peak": {d.PeakRequestedBytes, d.PeakRequestedLowBytes, 500},
		"reserved peak":  {d.PeakReservedBytes, d.PeakReservedLowBytes, 2 << 20},
		"requested end":  {d.EndRequestedBytes, d.EndRequestedLowBytes, 500},
		"allocated end":  {d.EndAllocatedBytes, d.EndAllocatedLowBytes, 512},
		"active end":     {d.EndActiveBytes, d.EndActiveLowBytes, 512},
		"reserved end":   {d.EndReservedBytes, d.EndReservedLowBytes, 2 << 20},
	} {
		if c.exact != nil || c.low == nil || *c.low != c.want {
			t.Errorf("%s: exact %v, low %v, want unknown and at least %d", name, c.exact, c.low, c.want)
		}
	}
	if d.Fragmentation != nil || len(d.Streams) != 0 {
		t.Errorf("what streams hold is known: %+v %+v", d.Streams, d.Fragmentation)
	}
	var warned strings.Builder
	for _, w := range r.Warnings {
		warned.WriteString(w.Code + " ")
	}
	if !strings.Contains(warned.String(), "no_segments") {
		t.Errorf("warnings %s", warned.String())
	}
}

// Counters of segments that their blocks contradict are not shown; nor is
// anything that follows from blocks larger than their segment.
func TestRecordOfASnapshotThatContradictsItself(t *testing.T) {
	device := func(segment string) record.SnapshotDevice {
		text := `{"segments": [{"address": 4096, "total_size": 2097152, "stream": 0, ` + segment + `}]}`
		s, err := snapshot.Read(source.Bytes("segments.json", []byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		return newSnapshotEvidence(s).Record(record.Tool{}).(*record.Snapshot).Devices[0]
	}
	d := device(`"allocated_size": 1125899906842624, "active_size": 0, "blocks": [
		{"size": 2097152, "requested_size": 2000000, "state": "active_allocated"}]`)
	if *d.EndAllocatedBytes != 2<<20 || *d.EndActiveBytes != 2<<20 || *d.Fragmentation.RoundingBytes != 97152 || *d.Fragmentation.CachedBytes != 0 {
		t.Errorf("of counters that its block contradicts: %d allocated, %d active, %+v", *d.EndAllocatedBytes, *d.EndActiveBytes, d.Fragmentation)
	}
	d = device(`"blocks": [{"size": 4194304, "requested_size": 4000000, "state": "active_allocated"}]`)
	if *d.EndReservedBytes != 2<<20 || d.EndAllocatedBytes != nil || d.EndActiveBytes != nil || d.EndRequestedBytes != nil {
		t.Errorf("of a block larger than its segment: %+v", d)
	}
	if *d.Fragmentation != (record.Fragmentation{}) || d.Streams[0].ActiveBytes != nil || *d.Streams[0].ReservedBytes != 2<<20 {
		t.Errorf("of a block larger than its segment: %+v, %+v", d.Fragmentation, d.Streams)
	}
}
