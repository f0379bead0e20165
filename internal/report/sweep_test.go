package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"floodmark/record"
)

// swept is a sweep of batches around a card of 24 GB, with everything that can
// happen to a value.
func swept() *record.Sweep {
	number := func(n int64) *int64 { return &n }
	word := func(s string) *string { return &s }
	return &record.Sweep{
		Head:    record.Head{Envelope: record.NewEnvelope(record.KindSweep, record.Tool{}, nil)},
		Varied:  "batch",
		Command: []string{"python", "train.py", "--batch={batch}"},
		Folder:  "runs/batch",
		Series:  record.SweepSeries{Order: "descending", Process: "process"},
		Points: []record.SweepPoint{
			{Value: 1, Attempt: 1, Status: "passed", PeakBytes: number(5 << 30), Scope: word("allocated"), DurationNS: 61_234_000_000},
			{Value: 2, Attempt: 2, Status: "passed", PeakBytes: number(9 << 30), Scope: word("allocated"), DurationNS: 72_000_000_000},
			{Value: 4, Attempt: 1, Status: "lost", Error: word("the task left no result; Slurm says NODE_FAIL, on n7")},
			{Value: 8, Attempt: 1, Status: "passed", PeakBytes: number(18 << 30), Scope: word("allocated"), DurationNS: 91_000_000_000},
			{Value: 16, Attempt: 1, Status: "out_of_memory", Error: word("backward: tried to allocate 2.00 GiB"), PeakBytes: number(22 << 30), Scope: word("allocated"), DurationNS: 3_100_000_000},
			{Value: 32, Attempt: 1, Status: "failed", Error: word("KeyError: 'labels' <script>"), DurationNS: 900_000_000},
		},
		Missing:  []int64{64},
		Boundary: record.SweepBoundary{LargestPass: number(8), SmallestFail: number(16), Monotone: true},
	}
}

func TestSweepText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, swept(), Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"batch 8 passed · 16 ran out of memory",
		"≥ 22.00", "(attempt 2)", "1m12s", "NODE_FAIL",
		"not run yet: 1 value of batch 64; go on with --resume runs/batch",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

func TestSweepSaysWhatItDoesNotKnow(t *testing.T) {
	one := int64(1)
	for want, boundary := range map[string]record.SweepBoundary{
		"lies above":     {LargestPass: &one, Monotone: true},
		"lies below":     {SmallestFail: &one, Monotone: true},
		"nothing passed": {Monotone: true},
		"no boundary":    {LargestPass: &one, SmallestFail: &one},
	} {
		d := swept()
		d.Boundary = boundary
		var b bytes.Buffer
		if err := Text(&b, d, Style{Width: 80}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%+v lacks %q:\n%s", boundary, want, b.String())
		}
	}
}

func TestSweepPlot(t *testing.T) {
	var b bytes.Buffer
	if err := SweepPlot(&b, swept()); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("KEEP_PLOT"); path != "" {
		os.WriteFile(path, b.Bytes(), 0o644)
	}
	text := b.String()
	if n := strings.Count(text, "<circle"); n != 4 {
		t.Errorf("%d circles, want the 4 that read something", n)
	}
	if n := strings.Count(text, `fill="#1a56b0"`); n != 3 {
		t.Errorf("%d points are filled, want the 3 that passed", n)
	}
	if !strings.Contains(text, "boundary: between 8 and 16") || strings.Contains(text, "<script") {
		t.Error(text)
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("no XML: %v", err)
		}
	}
	if err := SweepPlot(io.Discard, &record.Sweep{}); err == nil {
		t.Error("nothing was drawn without an error")
	}
}
