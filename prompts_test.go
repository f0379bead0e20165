package floodmark_test

import (
	"context"
	"strings"
	"testing"

	"floodmark"
	"floodmark/dtype"
	"floodmark/workload"
)

// Prompts stand before the attention of all layers but two of a Llama 2 of 7 B, and
// their program is litgpt's alone.
func TestPrompts(t *testing.T) {
	w := workload.Workload{Operation: workload.FineTuning, Training: &workload.Train{
		Optimizer: workload.Optimizer{Name: workload.AdamW}, Tuning: &workload.Tuning{Kind: workload.AdaptionPrompt, Rank: 10, Format: dtype.BF16},
	}}
	request := floodmark.Request{ModelPath: "internal/accuracy/testdata/models/llama-2-7b.json", Workload: w}
	if _, err := floodmark.Estimate(context.Background(), request); err == nil || !strings.Contains(err.Error(), "litgpt") {
		t.Errorf("without an engine: %v", err)
	}
	request.Workload.Engine = workload.Engine{Name: "litgpt", Version: "0.4"}
	p, err := floodmark.Estimate(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	trained := int64(0)
	for _, m := range p.Request.Workload.Training.Tuning.Modules {
		for _, shape := range m.Shapes {
			n := int64(1)
			for _, size := range shape {
				n *= size
			}
			trained += n
		}
	}
	if trained != 1229760 { // as tutorials/resource-tables.md of litgpt prints it
		t.Errorf("%d parameters are trained, want 1229760", trained)
	}
}
