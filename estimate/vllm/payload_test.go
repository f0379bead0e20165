package vllm

import (
	"context"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/workload"
)

// Payload and reservation of gpt-oss-20b, 32 sequences of 8,192 positions: 6.09
// and 12.00 GiB (https://github.com/alvarobartt/hf-mem/pull/70).
func TestPayload(t *testing.T) {
	m := facts(t, "openai/gpt-oss-20b")
	w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16},
		Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{}},
		Inputs:  []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 8192, workload.Sequences: 32}}}}
	plans, err := Rules(w).Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()})
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range r.Timeline.Warnings {
		if note.Code == "cache_payload" {
			if !strings.Contains(note.Text, "32 × 8,192 positions is 6.09 GiB") || !strings.Contains(note.Text, "reserves 12.01 GiB") {
				t.Error(note.Text)
			}
			return
		}
	}
	t.Error("payload and reservation are not told")
}
