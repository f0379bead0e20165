package floodmark

import (
	"context"
	"slices"
	"strings"
	"testing"

	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/workload"
)

// Where no switch suffices alone, several are named that do: each of them is
// needed, batches are as large as they can be, and as one what-if they give the
// same answer.
func TestTogether(t *testing.T) {
	checklist.Covers(t, 225)
	long := billion(t, "fp32-params-autocast", "adamw", "", "rtx-4090")
	long.Workload.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.Context: 4096, workload.MicroBatch: 8}
	tuned := billion(t, "bf16-params", "adamw", "", "rtx-4080")
	tuned.Workload.Training.Tuning = &workload.Tuning{Kind: "lora", Rank: 16, Targets: []string{"all-linear"}}
	tuned.Workload.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.Context: 4096, workload.MicroBatch: 8}
	for _, c := range []struct {
		name    string
		request Request
		want    []string
	}{
		{"all weights", long, []string{"micro_batch=1", "checkpointing=full", "optimizer=adamw_8bit"}},
		{"an adapter, of which shorter samples alone would do", tuned, []string{"micro_batch=1", "checkpointing=full"}},
	} {
		p, a := advised(t, c.request)
		if a == nil || a.Together == nil {
			t.Errorf("%s: nothing is advised together", c.name)
			continue
		}
		var got []string
		for _, part := range a.Together.Parts {
			got = append(got, part.Setting)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		answer := func(settings []string) string {
			change, err := WhatIf(context.Background(), p, strings.Join(settings, "+"))
			if err != nil {
				t.Fatal(err)
			}
			return change.Verdict.Value
		}
		if v := answer(got); v != string(fit.Fits) || a.Together.Verdict.Value != v || *a.Together.LowMovedBytes <= 0 {
			t.Errorf("%s: %s, and as a what-if %s", c.name, a.Together.Verdict.Value, v)
		}
		for i := range got {
			if v := answer(slices.Delete(slices.Clone(got), i, i+1)); v == string(fit.Fits) {
				t.Errorf("%s: %s is not needed", c.name, got[i])
			}
		}
	}
}

// Of what one switch mends alone, and of what nothing mends, no combination is named.
func TestNothingTogether(t *testing.T) {
	huge := seventy(t, 1, "rtx-3060-12gb")
	small := billion(t, "fp32-params", "adamw", "", "rtx-3060-12gb")
	huge.Workload = small.Workload
	for name, r := range map[string]Request{
		"one suffices":     billion(t, "bf16-params-bf16-grads-fp32-master-fp32-moments", "adamw", "", "rtx-4080"),
		"all are too much": huge,
	} {
		if _, a := advised(t, r); a == nil || a.Together != nil {
			t.Errorf("%s: something is advised together", name)
		}
	}
}

// A plus sign joins settings, and in a version it is a part of it.
func TestSeparate(t *testing.T) {
	for text, want := range map[string][]string{
		"a=1":                {"a=1"},
		"a=1+b=2":            {"a=1", "b=2"},
		"engine=x@1+cu1+b=2": {"engine=x@1+cu1", "b=2"},
		"+":                  {"+"},
	} {
		if got := separate(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
