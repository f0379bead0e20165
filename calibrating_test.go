package floodmark

import (
	"context"
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/record"
)

// ranOn is a run of billion's training on a card, with 900 MiB outside its
// allocator.
func ranOn(change func(*record.Measurement)) Evidence {
	word := func(s string) *string { return &s }
	zero := 0
	m := &record.Measurement{Subject: "program", Complete: true, Outcome: &record.Outcome{}}
	m.Environment.PyTorch = word("2.11.0+cu130")
	m.Environment.Devices = []record.MeasuredDevice{{Name: word("NVIDIA GeForce RTX 4090")}}
	for step := range 2 {
		reserved, process := int64(step+10)<<30, int64(step+10)<<30+900<<20
		m.Phases = append(m.Phases, record.MeasuredPhase{Name: "backward", Step: step + 1, Rank: &zero, Device: &zero, Status: "completed",
			Inputs: &record.Input{Configured: map[string]int64{"context": 512, "micro_batch": 4}},
			End:    record.MeasuredCounters{ReservedBytes: &reserved, ProcessBytes: &process}})
	}
	if change != nil {
		change(m)
	}
	return openMeasurement(m)
}

// What a run held outside of its allocator takes the place of intervals that were
// measured elsewhere, and says so; nothing else moves.
func TestCalibrate(t *testing.T) {
	checklist.Covers(t, 160, 161)
	r := billion(t, "fp32-params", "adamw", "foreach", "rtx-4090")
	plain, err := Estimate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	of, err := r.Calibrated(ranOn(nil), "run.json")
	if err != nil {
		t.Fatal(err)
	}
	calibrated, err := Estimate(context.Background(), of)
	if err != nil {
		t.Fatal(err)
	}
	phase, _ := highest(calibrated.Accounts()[0])
	before, _ := highest(plain.Accounts()[0])
	for _, s := range phase.AtPeak {
		if term := calibrated.Accounts()[0].Terms[s.Term]; term.ID == account.TermContext {
			if n, exact := s.Bytes.IsExact(); !exact || n != 900<<20 || term.Origin != account.Observed || term.Source != "run.json" {
				t.Errorf("%+v of %+v", s.Bytes, term)
			}
		}
	}
	if interval(phase.Peak(account.Allocated).Figure) != interval(before.Peak(account.Allocated).Figure) {
		t.Error("what is allocated is no matter of what lies outside the allocator")
	}
	if d := calibrated.Record(record.Tool{}).(*record.Estimate); !hasWarning(d.Warnings, "calibrated", "for PyTorch 2.11.0+cu130, NVIDIA GeForce RTX 4090 and this shape only") {
		t.Errorf("%+v", d.Warnings)
	}
	other, err := calibrated.Request.set("micro_batch", "8")
	if err != nil {
		t.Fatal(err)
	}
	what, err := Estimate(context.Background(), other)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := highest(what.Accounts()[0])
	for _, s := range a.AtPeak {
		if what.Accounts()[0].Terms[s.Term].ID == account.TermContext {
			if _, exact := s.Bytes.IsExact(); exact {
				t.Error("an observation does not hold for another shape")
			}
		}
	}
}

func hasWarning(list []record.Warning, code, text string) bool {
	for _, w := range list {
		if w.Code == code && strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

// A run of another card, shape or layout, one that failed, the lab, and evidence
// without the bytes of the process are refused.
func TestNotCalibrated(t *testing.T) {
	r := billion(t, "fp32-params", "adamw", "foreach", "rtx-4090")
	card := "NVIDIA H100 80GB HBM3"
	for want, change := range map[string]func(*record.Measurement){
		"the run was on NVIDIA H100":        func(m *record.Measurement) { m.Environment.Devices[0].Name = &card },
		"context was 4096 in the run":       func(m *record.Measurement) { m.Phases[0].Inputs.Configured["context"] = 4096 },
		"the run has 2 ranks":               func(m *record.Measurement) { one := 1; m.Phases[1].Rank = &one },
		"only a measurement of a program":   func(m *record.Measurement) { m.Subject = "lab" },
		"only a measurement of a program t": func(m *record.Measurement) { m.Outcome.Status = 1 },
		"the card has at most 23.99 GiB": func(m *record.Measurement) {
			for i := range m.Phases {
				held := int64(1) << 50
				m.Phases[i].End.ProcessBytes = &held
			}
		},
		"in which what the process holds": func(m *record.Measurement) { m.Phases[0].End.ProcessBytes, m.Phases[1].End.ProcessBytes = nil, nil },
	} {
		if _, err := r.Calibrated(ranOn(change), "run.json"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := r.Calibrated(logEvidence{}, "x"); err == nil {
		t.Error("a log calibrates")
	}
	r.Card = nil
	var settings *SettingsError
	if _, err := r.Calibrated(ranOn(nil), "run.json"); !errors.As(err, &settings) {
		t.Errorf("%v", err)
	}
}
