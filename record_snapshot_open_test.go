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
