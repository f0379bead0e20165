package floodmark

import (
	"errors"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

// measuredRun is a record of a training program, one phase of one rank.
func measuredRun(change func(*record.Measurement)) Evidence {
	number := func(n int64) *int64 { return &n }
	word := func(s string) *string { return &s }
	zero := 0
	m := &record.Measurement{
		Head:    record.Head{Envelope: record.NewEnvelope(record.KindMeasurement, record.Tool{Command: []string{"measure", "--output", "a.json", "--", "python", "train.py", "--batch", "1", "--context=2048"}}, nil)},
		Subject: "program",
		Environment: record.MeasuredEnvironment{
			PyTorch: word("2.11.0+cu130"), Backend: word("cuda 13.0"), Allocator: record.MeasuredAllocator{Backend: word("native")},
			Devices: []record.MeasuredDevice{{Index: 0, Name: word("NVIDIA GeForce RTX 4090")}},
		},
		Series: record.MeasuredSeries{Policy: record.MeasuredPolicy{Instrumented: true, Warmup: &zero}, Order: 1, Process: "process"},
		Phases: []record.MeasuredPhase{{
			Name: "backward", Step: 2, Rank: &zero, Device: &zero, Status: "completed", DurationNS: number(4e8),
			Inputs: &record.Input{Name: "batch", SHA256: word("aa"), Configured: map[string]int64{}, Observed: map[string]int64{}},
			Start:  record.MeasuredCounters{AllocatedBytes: number(2 << 30), ReservedBytes: number(4 << 30)},
			Peak:   record.MeasuredPeak{AllocatedBytes: number(8 << 30), ReservedBytes: number(12 << 30)},
			End:    record.MeasuredCounters{AllocatedBytes: number(3 << 30), ReservedBytes: number(12 << 30), DeviceBytes: number(13 << 30)},
			Result: &record.Result{Loss: word("2.131")},
		}},
	}
	if change != nil {
		change(m)
	}
	return openMeasurement(m)
}

func batchTwo(m *record.Measurement) {
	m.Tool.Command[7] = "2"
	more, hash := int64(11<<30), "bb"
	m.Phases[0].Peak.AllocatedBytes, m.Phases[0].Inputs.SHA256 = &more, &hash
}

func compared(t *testing.T, b func(*record.Measurement), o CompareOptions) (*record.Comparison, error) {
	t.Helper()
	return Compare(measuredRun(nil), measuredRun(b), [2]string{"a.json", "b.json"}, o, record.Tool{})
}

// Batch 1 → 2 at a constant context is one variable: its contents differ because
// it does.
func TestOneVariable(t *testing.T) {
	checklist.Covers(t, 11, 144, 145, 218)
	c, err := compared(t, batchTwo, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Changed) != 1 || c.Changed[0] != (record.ChangedField{Field: "batch", A: "1", B: "2"}) || !c.Comparable {
		t.Errorf("changed %+v, comparable %v", c.Changed, c.Comparable)
	}
	scopes := map[string]int64{}
	for _, r := range c.Rows {
		scopes[r.Scope] = *r.DifferenceBytes
	}
	if len(scopes) != 3 || scopes["allocated"] != 3<<30 || scopes["reserved"] != 0 || scopes["device"] != 0 {
		t.Errorf("differences %v: like scopes, and nothing across them", scopes)
	}
}

func TestWhatIsNotComparable(t *testing.T) {
	checklist.Covers(t, 136, 137, 144, 145, 146)
	cleared, cut, hash, version := true, int64(3), "cc", "2.12.0"
	for want, change := range map[string]func(*record.Measurement){
		"2 things differ (batch, context)": func(m *record.Measurement) { batchTwo(m); m.Tool.Command[8] = "--context=4096" },
		"2 things differ (batch, pytorch)": func(m *record.Measurement) { batchTwo(m); m.Environment.PyTorch = &version },
		"under two policies":               func(m *record.Measurement) { m.Series.Policy.EmptyCacheBetweenRepeats = &cleared },
		"another task":                     func(m *record.Measurement) { m.Phases[0].TruncatedTokens = &cut },
		"the hashes differ":                func(m *record.Measurement) { m.Phases[0].Inputs.SHA256 = &hash },
		"lab network":                      func(m *record.Measurement) { m.Subject = "lab" },
	} {
		_, err := compared(t, change, CompareOptions{})
		if !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c, err := compared(t, change, CompareOptions{Force: true})
		if err != nil || c.Comparable || len(c.Warnings) == 0 {
			t.Errorf("%q, forced: %v", want, err)
		}
	}
}

// What was not read has no difference; a real zero has one.
func TestUnknownIsNotCompared(t *testing.T) {
	zero := int64(0)
	c, err := compared(t, func(m *record.Measurement) {
		m.Phases[0].Peak.AllocatedBytes, m.Phases[0].End.DeviceBytes = nil, &zero
	}, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Rows {
		switch {
		case r.Scope == "allocated" && r.DifferenceBytes != nil:
			t.Errorf("allocated was not read in b, and differs by %d", *r.DifferenceBytes)
		case r.Scope == "device" && (r.DifferenceBytes == nil || *r.DifferenceBytes != -13<<30):
			t.Errorf("device: %v", r.DifferenceBytes)
		}
	}
}

func TestPhasesOfOneSide(t *testing.T) {
	c, err := compared(t, func(m *record.Measurement) { m.Phases[0].Name = "evaluation" }, CompareOptions{})
	if err != nil || len(c.Rows) != 0 || len(c.Warnings) < 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Repetitions in one process benefit from its state: a run of each kind is not
// compared, and so never pooled.
func TestRepetitionsOfTwoKinds(t *testing.T) {
	checklist.Covers(t, 102)
	inProcess := func(m *record.Measurement) { m.Series.Process = "in_process" }
	if _, err := compared(t, inProcess, CompareOptions{}); !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), "two policies") {
		t.Errorf("%v", err)
	}
	if c, err := compared(t, inProcess, CompareOptions{Force: true}); err != nil || c.Comparable {
		t.Errorf("%+v, %v", c, err)
	}
}
