package floodmark

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

// writtenRun is a measurement as a file.
func writtenRun(t *testing.T, name string, change func(*record.Measurement)) string {
	t.Helper()
	m := measuredRun(nil).Record(record.Tool{}).(*record.Measurement)
	outside := int64(1 << 30)
	m.Phases[0].End.OutsideBytes = &outside
	m.Phases[0].Inputs.Observed = map[string]int64{"context": 2048}
	m.Outcome = &record.Outcome{DurationNS: 6e10}
	m.Complete = true
	if change != nil {
		change(m)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := record.Create(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

func twoOptions(t *testing.T) DecisionRequest {
	return DecisionRequest{
		Options: []DecisionOption{
			{"batch 1", writtenRun(t, "b1.json", nil), "loss 2.131 on the validation set"},
			{"batch 2", writtenRun(t, "b2.json", batchTwo), "loss 2.129 on the validation set"},
		},
		Chosen: "batch 2", Reason: "the same quality in half the steps", Cards: []string{"rtx-4090", "h100-sxm5-80gb", "rtx-3060-12gb"},
	}
}

// The record has its six parts, four counters with units, and names its raw
// results by their content.
func TestDecision(t *testing.T) {
	checklist.Covers(t, 142, 143, 152, 153, 154, 155, 156, 157)
	request := twoOptions(t)
	request.OutOfScope = []string{"resume"}
	d, err := Decide(request, record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Counters) != 4 || *d.Counters[0].Value != 11<<30 || *d.Counters[1].Value != 12<<30 || d.Counters[0].Unit != "bytes" {
		t.Errorf("counters %+v", d.Counters)
	}
	if len(d.Evidence) != 2 || len(d.Evidence[0].SHA256) != 64 || d.Evidence[0].Name != "b1.json" {
		t.Errorf("evidence %+v", d.Evidence)
	}
	if d.Chosen.Basis != "measured" || len(d.Warnings) == 0 || !strings.Contains(d.Warnings[0].Text, "not verified") {
		t.Errorf("basis %q, %v", d.Chosen.Basis, d.Warnings)
	}
	if len(d.MaximumLoad) != 1 || d.MaximumLoad[0].Value != 2048 || d.Environment == nil || len(d.OutOfScope) != 1 {
		t.Errorf("load %+v, environment %+v", d.MaximumLoad, d.Environment)
	}
	verdicts := map[string]string{}
	for _, c := range d.Cards {
		verdicts[c.ID] = c.Verdict
	}
	// 13 GiB on the card that was measured, on another that is larger, on one
	// whose 12 GB hold the tensors but not what was reserved.
	if verdicts["rtx-4090"] != "fits" || verdicts["h100-sxm5-80gb"] != "cannot_tell" || verdicts["rtx-3060-12gb"] == "fits" {
		t.Errorf("verdicts %v", verdicts)
	}
	if o := d.Options[1]; !o.Complete || !o.Comparable || len(o.Changed) != 1 {
		t.Errorf("option %+v", o)
	}
}

func TestMarginIsNamed(t *testing.T) {
	checklist.Covers(t, 141)
	request := twoOptions(t)
	much := int64(11 << 30)
	request.Margin = []record.Variation{{Variation: "longest input", Bytes: &much, Origin: "assumed"}}
	d, err := Decide(request, record.Tool{})
	if err != nil || d.Cards[0].Verdict != "cannot_tell" || *d.Cards[0].MarginBytes != much {
		t.Errorf("%+v, %v", d.Cards[0], err)
	}
	request.Margin = []record.Variation{{Variation: "another library version", Origin: "assumed"}}
	if d, err = Decide(request, record.Tool{}); err != nil || d.Cards[0].Verdict != "cannot_tell" || d.Cards[0].MarginBytes != nil {
		t.Errorf("a variation without bytes counts as none: %+v, %v", d.Cards[0], err)
	}
}

// Room for what was run is no room for what the work declares beside it: a phase
// that nobody exercised, ranks that nobody measured, a load that nobody reached.
func TestWhatTheRunLeavesOut(t *testing.T) {
	checklist.Covers(t, 39, 85, 143, 199, 224)
	backward := record.Phase{Name: "backward", Step: 2}
	for want, change := range map[string]func(*record.Estimate){
		"": func(*record.Estimate) {},
		"evaluation was not exercised": func(e *record.Estimate) {
			e.Ranks[0].Phases = append(e.Ranks[0].Phases, record.Phase{Name: "evaluation"})
		},
		"export was not exercised": func(e *record.Estimate) {
			e.Ranks[0].Phases = append(e.Ranks[0].Phases, record.Phase{Name: "export"})
		},
		"prefill was not exercised; decode was not exercised": func(e *record.Estimate) {
			e.Ranks[0].Phases = []record.Phase{{Name: "prefill"}, {Name: "decode"}}
		},
		"1 of 2 ranks were measured": func(e *record.Estimate) { e.Ranks[0].Ranks = []int{0, 1} },
		"context 4096 was not run, only 2048": func(e *record.Estimate) {
			e.Settings = []record.NamedSetting{{Name: "context", Value: "1024, 4096"}}
		},
	} {
		e := &record.Estimate{Head: record.Head{Envelope: record.NewEnvelope(record.KindEstimate, record.Tool{}, nil)},
			Ranks: []record.Rank{{Ranks: []int{0}, Phases: []record.Phase{backward}}}, Settings: []record.NamedSetting{{Name: "context", Value: "2048"}}}
		change(e)
		request := twoOptions(t)
		request.Estimate = filepath.Join(t.TempDir(), "estimate.json")
		if err := record.Create(request.Estimate, e); err != nil {
			t.Fatal(err)
		}
		d, err := Decide(request, record.Tool{})
		if err != nil {
			t.Fatal(err)
		}
		if c := d.Cards[0]; (c.Verdict == "fits") != (want == "") || !strings.HasSuffix(c.Reason, want) {
			t.Errorf("%q: %s because %s", want, c.Verdict, c.Reason)
		}
	}
}

func TestVerified(t *testing.T) {
	checklist.Covers(t, 83)
	request := twoOptions(t)
	request.Verified = writtenRun(t, "verify.json", func(m *record.Measurement) { batchTwo(m); m.Series.Policy.Instrumented = false })
	if d, err := Decide(request, record.Tool{}); err != nil || d.Chosen.Basis != "verified" {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(*record.Measurement){
		"delimits phases":  batchTwo,
		"other conditions": func(m *record.Measurement) { m.Series.Policy.Instrumented = false },
		"verifies nothing": func(m *record.Measurement) {
			batchTwo(m)
			m.Series.Policy.Instrumented, m.Outcome.Status = false, 1
		},
	} {
		request.Verified = writtenRun(t, "v.json", change)
		if _, err := Decide(request, record.Tool{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatCannotBeChosen(t *testing.T) {
	checklist.Covers(t, 149, 151, 161)
	failure := "OutOfMemoryError: CUDA out of memory"
	for want, change := range map[string]func(*DecisionRequest){
		"nobody judged its quality": func(r *DecisionRequest) { r.Options[1].Quality = "" },
		"without a reason":          func(r *DecisionRequest) { r.Reason = "" },
		"not among":                 func(r *DecisionRequest) { r.Chosen = "batch 4" },
		"no such file":              func(r *DecisionRequest) { os.Remove(r.Options[0].File) },
		"cannot be chosen: backward": func(r *DecisionRequest) {
			r.Options[1].File = writtenRun(t, "failed.json", func(m *record.Measurement) { m.Phases[0].Error = &failure })
		},
		"no evidence for a workload": func(r *DecisionRequest) {
			r.Options[0].File = writtenRun(t, "lab.json", func(m *record.Measurement) { m.Subject = "lab" })
		},
		"is no measurement": func(r *DecisionRequest) { r.Options[0].File = "testdata/oom/exhaustion.txt" },
	} {
		request := twoOptions(t)
		change(&request)
		if _, err := Decide(request, record.Tool{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Two changed variables are shown as such.
	request := twoOptions(t)
	request.Options[1].File = writtenRun(t, "two.json", func(m *record.Measurement) { batchTwo(m); m.Tool.Command[8] = "--context=4096" })
	if d, err := Decide(request, record.Tool{}); err != nil || d.Options[1].Comparable {
		t.Errorf("two variables: %v", err)
	}
}
