package floodmark

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

// changedPlan is a prediction of small training with some settings changed.
func changedPlan(t *testing.T, settings ...string) Evidence {
	t.Helper()
	r := billion(t, "fp32-params", "adamw", "foreach", "rtx-4090")
	for _, s := range settings {
		field, value, _ := strings.Cut(s, "=")
		var err error
		if r, err = r.set(field, value); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Estimate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func comparedPlans(t *testing.T, a, b Evidence) *record.Comparison {
	t.Helper()
	c, err := Compare(a, b, [2]string{"a.json", "b.json"}, CompareOptions{}, record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A switch is one variable, whatever follows from it; what it can touch where the
// peak is bounds what it can give.
func TestReachOfASwitch(t *testing.T) {
	checklist.Covers(t, 144, 149, 221)
	for setting, want := range map[string]struct {
		field   string
		touches string
		text    string
	}{
		"optimizer=sgd":                  {"optimizer", "optimizer_state", "optimizer can only touch"},
		"checkpointing=full":             {"checkpointing", "", "checkpointing can"},
		"optimizer_implementation=fused": {"optimizer_implementation", "", "keeps the same states"},
		"precision=bf16-params":          {"precision", "weights", "precision can only touch"},
		"micro_batch=2":                  {"micro_batch", "", "micro batch can"},
		"lora_rank=8":                    {"adapter", "optimizer_state", "adapter can only touch"},
	} {
		c := comparedPlans(t, changedPlan(t), changedPlan(t, setting))
		if len(c.Changed) != 1 || c.Changed[0].Field != want.field {
			t.Errorf("%s changed %+v", setting, c.Changed)
			continue
		}
		r := c.Reach
		if r == nil || !strings.Contains(r.Text, want.text) || want.touches != "" && !slices.Contains(r.Terms, want.touches) {
			t.Errorf("%s reaches %+v", setting, r)
			continue
		}
		if *r.BytesLow > *r.PeakLowBytes {
			t.Errorf("%s reaches %d of %d", setting, *r.BytesLow, *r.PeakLowBytes)
		}
		if !strings.Contains(r.Text, "the allocator keeps") {
			t.Errorf("%s reaches what is cached too, and it is not said: %s", setting, r.Text)
		}
		if setting != "micro_batch=2" && r.Cost == nil {
			t.Errorf("%s costs nothing", setting)
		}
	}
}

// Rows of a phase are of one scope each, and a term that does not move is in none.
func TestTermsThatMove(t *testing.T) {
	c := comparedPlans(t, changedPlan(t), changedPlan(t, "optimizer=sgd"))
	moved := map[string]bool{}
	for _, r := range c.Rows {
		if r.Phase != nil && *r.Phase == "optimizer_step" && r.Step == 2 && r.Term != "peak" {
			moved[r.Term] = true
		}
	}
	if !moved["optimizer_state"] || moved["weights"] || moved["gradients"] || moved["context"] {
		t.Errorf("moved in the step: %v", moved)
	}
	if total := c.Totals[0]; total.DifferenceBytes == nil && (total.DifferenceHigh == nil || *total.DifferenceHigh >= 0) {
		t.Errorf("without states the process is smaller: %+v", total)
	}
	same := comparedPlans(t, changedPlan(t), changedPlan(t))
	for _, r := range same.Rows {
		if r.DifferenceBytes == nil || *r.DifferenceBytes != 0 {
			t.Errorf("nothing changed, and %s of %v differs", r.Term, r.Phase)
		}
	}
}

// Two changes are refused, and shown as what they are.
func TestTwoChangesOfAPlan(t *testing.T) {
	checklist.Covers(t, 144, 145)
	a, b := changedPlan(t), changedPlan(t, "optimizer=sgd", "micro_batch=2")
	_, err := Compare(a, b, [2]string{"a", "b"}, CompareOptions{}, record.Tool{})
	if !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), "2 things differ (micro batch, optimizer)") {
		t.Errorf("%v", err)
	}
	c, err := Compare(a, b, [2]string{"a", "b"}, CompareOptions{Force: true}, record.Tool{})
	if err != nil || c.Comparable || c.Reach != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// Several are one table against the first, which ranks nothing and says what a
// choice would need.
func TestSeveralRecords(t *testing.T) {
	checklist.Covers(t, 151)
	list := []Evidence{changedPlan(t), changedPlan(t, "micro_batch=2"), changedPlan(t, "micro_batch=8")}
	names := []string{"one", "two", "eight"}
	c, err := CompareSeveral(list, names, CompareOptions{}, record.Tool{})
	if err != nil || len(c.Records) != 3 || !c.Comparable {
		t.Fatalf("%+v, %v", c, err)
	}
	for i, r := range c.Records {
		if r.Name != names[i] || !slices.Contains(r.Missing, "quality") || (i > 0) != (len(r.Changed) == 1) || (i > 0) != (r.DifferenceLow != nil) {
			t.Errorf("%+v", r)
		}
	}
	list[2] = changedPlan(t, "micro_batch=8", "optimizer=sgd")
	if _, err := CompareSeveral(list, names, CompareOptions{}, record.Tool{}); !errors.Is(err, ErrNotComparable) {
		t.Errorf("%v", err)
	}
	c, err = CompareSeveral(list, names, CompareOptions{Force: true}, record.Tool{})
	if err != nil || c.Comparable || c.Records[2].DifferenceLow != nil || len(c.Records[2].Why) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := CompareSeveral([]Evidence{list[0], measuredRun(nil)}, names[:2], CompareOptions{}, record.Tool{}); !errors.Is(err, ErrNotComparable) {
		t.Errorf("%v", err)
	}
}

// torch.cuda is the name of two backends: a comparison across them says so.
func TestTwoBackends(t *testing.T) {
	checklist.Covers(t, 159)
	hip := "hip 6.2"
	c, err := compared(t, func(m *record.Measurement) { m.Environment.Backend = &hip }, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(c.Warnings, func(w record.Warning) bool {
		return w.Code == "another_backend" && strings.Contains(w.Text, "no equal kernels, precisions or results")
	}) {
		t.Errorf("%+v", c.Warnings)
	}
}
