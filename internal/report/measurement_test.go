package report

import (
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

func bytesOf(n int64) *int64 { return &n }

// aRun is a training whose second update ran out of memory.
func aRun() *record.Measurement {
	zero, seven := 0, int64(7<<30)
	message := "OutOfMemoryError: CUDA out of memory."
	phase := func(name string, step int, peak int64) record.MeasuredPhase {
		return record.MeasuredPhase{Name: name, Step: step, Device: &zero, Status: "completed",
			Start: record.MeasuredCounters{AllocatedBytes: bytesOf(1 << 30), ReservedBytes: bytesOf(2 << 30)},
			Peak:  record.MeasuredPeak{AllocatedBytes: bytesOf(peak), ReservedBytes: bytesOf(4 << 30)},
			End:   record.MeasuredCounters{AllocatedBytes: bytesOf(1 << 30), ReservedBytes: bytesOf(4 << 30)}}
	}
	failed := phase("optimizer_step", 2, 0)
	failed.Status, failed.Error = "failed", &message
	failed.Peak = record.MeasuredPeak{AllocatedLowBytes: bytesOf(3 << 30), ReservedLowBytes: bytesOf(4 << 30)}
	failed.End.DeviceBytes, failed.End.OutsideBytes = &seven, bytesOf(3<<30)
	return &record.Measurement{Head: record.Head{Envelope: record.NewEnvelope(record.KindMeasurement, record.Tool{}, nil)}, Subject: "program",
		Outcome: &record.Outcome{Status: 1}, Series: record.MeasuredSeries{Policy: record.MeasuredPolicy{Instrumented: true}},
		Processes: []record.MeasuredProcess{{Status: "ended"}}, Phases: []record.MeasuredPhase{phase("optimizer_step", 1, 3<<30), failed}}
}

func measurementText(t *testing.T, d *record.Measurement) string {
	t.Helper()
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 2000}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A run that failed is told as what it is: partial. What would tell more is
// named with what it can see, and no remedy that cannot help.
func TestFailedMeasurement(t *testing.T) {
	checklist.Covers(t, 130, 131, 134, 135, 138, 139)
	text := measurementText(t, aRun())
	for _, want := range []string{
		"optimizer_step 2             1.00  ≥ 3.00  1.00            2.00  ≥ 4.00  4.00",
		"FAILED; OutOfMemoryError: CUDA out of memory.",
		"optimizer_step 2 did not complete: its last readings are partial, a lower bound, and not what a full run needs.",
		"A low allocated peak does not exclude that something else held the card (outside the allocator: 3.00 GiB).",
		"empty_cache would have freed no live tensor, and the cached blocks that nothing uses the allocator gives back itself before it fails.",
		"it sees what PyTorch allocates, and nothing else",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	silent := aRun()
	silent.Phases[1].End.OutsideBytes = nil
	if text := measurementText(t, silent); !strings.Contains(text, "(outside the allocator: not measured)") {
		t.Errorf("what was not measured is not said:\n%s", text)
	}
}

// A long run shows the first, the highest and the last of each kind, and all
// that failed; the rest is counted.
func TestLongMeasurement(t *testing.T) {
	d := aRun()
	first := d.Phases[0]
	d.Phases = nil
	for step := range 1000 {
		p := first
		p.Step = step + 1
		p.Peak.AllocatedBytes = bytesOf(3<<30 + int64(step%500))
		d.Phases = append(d.Phases, p)
	}
	text := measurementText(t, d)
	for _, want := range []string{"\noptimizer_step 1 ", "\noptimizer_step 500 ", "\noptimizer_step 1000 ", "and 997 further phases in the record"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// The two counters are two columns, and no figure is their sum or the
// difference of their peaks.
func TestCountersAreNotAdded(t *testing.T) {
	checklist.Covers(t, 55, 56, 57, 64, 65)
	d := aRun()
	d.Phases = d.Phases[:1]
	d.Phases[0].Start = record.MeasuredCounters{AllocatedBytes: bytesOf(8 << 30), ReservedBytes: bytesOf(10 << 30)}
	d.Phases[0].Peak = record.MeasuredPeak{AllocatedBytes: bytesOf(8 << 30), ReservedBytes: bytesOf(12 << 30)}
	d.Phases[0].End = record.MeasuredCounters{AllocatedBytes: bytesOf(6 << 30), ReservedBytes: bytesOf(12 << 30)}
	text := measurementText(t, d)
	if !strings.Contains(text, "reserved − allocated is 6.00 GiB: a counter gap at that instant") {
		t.Errorf("the gap of the last checkpoint is missing:\n%s", text)
	}
	for _, never := range []string{"4.00", "18.00", "20.00"} {
		if strings.Contains(text, never) {
			t.Errorf("%s is in the report:\n%s", never, text)
		}
	}
}

// Decode peaks 3 GiB above prefill: two peaks of two phases, and no figure or word
// makes a cache of what lies between them.
func TestPhasesAreNotSubtracted(t *testing.T) {
	checklist.Covers(t, 53)
	d := aRun()
	d.Phases = append(d.Phases[:1], d.Phases[0])
	for i, name := range []string{"prefill", "decode"} {
		p := &d.Phases[i]
		p.Name, p.Step = name, 0
		p.Start = record.MeasuredCounters{AllocatedBytes: bytesOf(21 << 30), ReservedBytes: bytesOf(40 << 30)}
		p.Peak = record.MeasuredPeak{AllocatedBytes: bytesOf(int64(30+3*i) << 30), ReservedBytes: bytesOf(40 << 30)}
		p.End = record.MeasuredCounters{AllocatedBytes: bytesOf(21 << 30), ReservedBytes: bytesOf(40 << 30)}
	}
	text := measurementText(t, d)
	for _, want := range []string{"30.00", "33.00", "It is no KV cache"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, " 3.00") || strings.Count(text, "KV") != 1 {
		t.Errorf("the difference is in the report, or a cache:\n%s", text)
	}
}

// A small program on a card that holds gigabytes: each table has one unit, named
// once in its title, and that of the counters is one that fits the counters.
func TestSmallProgramHasItsOwnUnit(t *testing.T) {
	checklist.Covers(t, 22)
	d := aRun()
	d.Phases = d.Phases[:1]
	p := &d.Phases[0]
	p.Start = record.MeasuredCounters{AllocatedBytes: bytesOf(1 << 20), ReservedBytes: bytesOf(2 << 20)}
	p.Peak = record.MeasuredPeak{AllocatedBytes: bytesOf(3 << 20), ReservedBytes: bytesOf(4 << 20)}
	p.End = record.MeasuredCounters{AllocatedBytes: bytesOf(1 << 20), ReservedBytes: bytesOf(4 << 20), DeviceBytes: bytesOf(20 << 30), OutsideBytes: bytesOf(20 << 30)}
	text := measurementText(t, d)
	for _, want := range []string{
		"phase, MiB ", "1.00  3.00  1.00            2.00  4.00  4.00", "at its end, GiB ", "20.00",
		"reserved − allocated is 3.00 MiB", "in use on the device outside this allocator: 20.00 GiB",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if title := strings.HasPrefix(line, "phase, ") || strings.HasPrefix(line, "at its end, "); title && strings.Count(line, "iB") != 1 {
			t.Errorf("a table has one unit: %s", line)
		}
	}
}
