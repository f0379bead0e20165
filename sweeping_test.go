package floodmark

import (
	"testing"

	"floodmark/record"
)

// A point knows what the smallest device that it ran on reports; a device beside it
// says nothing.
func TestSweptPointKnowsItsDevice(t *testing.T) {
	n := func(b int64) *int64 { return &b }
	zero, one := 0, 1
	m := &record.Measurement{Outcome: &record.Outcome{}, Phases: []record.MeasuredPhase{{Device: &zero}, {Device: &one}, {}}}
	m.Environment.Devices = []record.MeasuredDevice{{Index: 0, ReportedBytes: n(24)}, {Index: 1, ReportedBytes: n(12)}, {Index: 2, ReportedBytes: n(6)}, {Index: 1}}
	if p := SweptMeasurement(m, nil); p.Total == nil || *p.Total != 12 {
		t.Errorf("%+v", p)
	}
	if p := SweptMeasurement(&record.Measurement{}, nil); p.Total != nil {
		t.Errorf("nobody asked a device: %+v", p)
	}
}
