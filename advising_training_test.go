package floodmark

import (
	"context"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/record"
	"floodmark/workload"
)

// billion trains Llama-3.2-1B on one card.
func billion(t *testing.T, layout, optimizer, implementation, card string) Request {
	t.Helper()
	c, err := FindCard(card)
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel("testdata/models/Llama-3.2-1B")
	if err != nil {
		t.Fatal(err)
	}
	precision, autocast, err := workload.ParseLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	o, err := workload.ParseOptimizer(optimizer, implementation)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: m, Card: &c, Workload: workload.Workload{
		Operation: workload.Training, Precision: precision, Training: &workload.Train{Optimizer: o, Autocast: autocast},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 512, workload.MicroBatch: 4}}},
	}}
}

func settings(r *record.Remedies) []string {
	var list []string
	for _, o := range r.Options {
		list = append(list, o.Setting)
	}
	return list
}

// Of a training that does not fit every switch that lowers the peak is listed,
// whether or not it reaches the term that binds: 1,235,814,400 parameters take 16
// bytes each, 18.4 GiB, and the temporaries of foreach come on top.
func TestAdviceForTraining(t *testing.T) {
	checklist.Covers(t, 147, 148, 150, 225)
	const full = "bf16-params-bf16-grads-fp32-master-fp32-moments"
	for _, c := range []struct {
		name                         string
		layout, optimizer, how, card string
		term                         account.TermID
		want                         []string
	}{
		{"states", full, "adamw", "", "rtx-4080", account.TermOptimizerState,
			[]string{"lora_rank=16", "optimizer=adamw_8bit", "optimizer=paged_adamw_8bit", "optimizer=sgd", "precision=bf16-params", "optimizer_implementation=fused"}},
		{"of a fused step the backward of the second step binds, which begins with the states", full, "adamw", "fused", "rtx-4080", account.TermOptimizerState,
			[]string{"lora_rank=16", "optimizer=adamw_8bit", "optimizer=sgd", "precision=bf16-params", "micro_batch=1"}},
	} {
		p, a := advised(t, billion(t, c.layout, c.optimizer, c.how, c.card))
		if p.Verdict.Value != fit.DoesNotFit || a == nil {
			t.Errorf("%s: %s", c.name, p.Verdict.Value)
			continue
		}
		if p.Verdict.Term != c.term {
			t.Errorf("%s: %s binds, want %s", c.name, p.Verdict.Term, c.term)
		}
		got := settings(a)
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not advised: %v", c.name, want, got)
			}
		}
		for _, o := range a.Options {
			change, err := WhatIf(context.Background(), p, o.Setting)
			if err != nil {
				t.Fatal(err)
			}
			if change.Verdict.Value != o.Verdict.Value || *o.LowMovedBytes <= 0 {
				t.Errorf("%s: %s moves %d to %s, and as a what-if is %s", c.name, o.Setting, *o.LowMovedBytes, o.Verdict.Value, change.Verdict.Value)
			}
		}
	}
}

// A change with which a term can no longer be bounded is not advised, however low
// its known bytes are: what is unknown does not count as nothing. The operators
// of matrices in int8 are not predicted, those of nf4 are.
func TestAdviceIsNotBlind(t *testing.T) {
	r := billion(t, "bf16-params", "adamw", "", "rtx-4080")
	r.Workload.Training.Tuning = &workload.Tuning{Kind: "lora", Rank: 16, Targets: []string{"all-linear"}}
	r.Workload.Inputs[0].Dimensions[workload.Context] = 8192
	_, a := advised(t, r)
	if a == nil || !slices.Contains(settings(a), "base_format=nf4-double") {
		t.Fatalf("%+v", a)
	}
	for _, o := range a.Options {
		if o.HighMovedBytes == nil {
			t.Errorf("%s is said to lower the peak by %d, and nobody knows what it holds then", o.Setting, *o.LowMovedBytes)
		}
	}
}

// What is changed of a training leaves the workload that it was asked of alone,
// and is refused where nothing is trained.
func TestTrainingSettings(t *testing.T) {
	r := billion(t, "bf16-params", "adamw", "fused", "rtx-4080")
	for _, s := range [][2]string{{"optimizer", "sgd"}, {"optimizer_implementation", "foreach"}, {"precision", "fp32-params"},
		{"checkpointing", "every 2"}, {"lora_rank", "8"}, {"zero_grad", "zero"}} {
		if _, err := r.set(s[0], s[1]); err != nil {
			t.Errorf("%s=%s: %v", s[0], s[1], err)
		}
	}
	if w := r.Workload; w.Training.Optimizer.Name != workload.AdamW || w.Training.Tuning != nil || w.Training.Reset != "" || w.Precision.Layout != "bf16-params" {
		t.Errorf("the request changed: %+v", w.Training)
	}
	for _, s := range [][2]string{{"optimizer", "best"}, {"precision", "mixed"}, {"checkpointing", "some"}, {"lora_rank", "0"}, {"lora_rank", "many"},
		{"zero_grad", "maybe"}, {"accumulation", "0"}, {"base_format", "nf4"}, {"optimizer_implementation", "quick"}} {
		if _, err := r.set(s[0], s[1]); err == nil {
			t.Errorf("%s=%s is taken", s[0], s[1])
		}
	}
	if _, err := seventy(t, 1, "h100-sxm5-80gb").set("optimizer", "sgd"); err == nil {
		t.Error("a generation takes an optimizer")
	}
}

// The formats that are shown are those that the optimizer keeps.
func TestShownMoments(t *testing.T) {
	for optimizer, want := range map[string][2]string{
		"adamw": {"bf16", "bf16"}, "adamw_8bit": {"8bit", "8bit"}, "paged_adamw_32bit": {"fp32", "fp32"},
		"lion_8bit": {"8bit", ""}, "sgd": {"", ""}, "sgd_momentum": {"bf16", ""}, "adafactor": {"", ""},
	} {
		r := billion(t, "bf16-params", optimizer, "", "rtx-4080")
		var got [2]string
		for _, f := range trainingFormats(r.Workload) {
			switch f.Tensor {
			case "first_moment":
				got[0] = f.Format
			case "second_moment":
				got[1] = f.Format
			}
		}
		if got != want {
			t.Errorf("%s keeps %q, want %q", optimizer, got, want)
		}
	}
}

// In 32 bits PyTorch has no fused kernel for groups of heads: the scores that it
// makes then are said to be why, and the format is the one that is computed in.
func TestScoresAreExplained(t *testing.T) {
	for layout, want := range map[string]bool{"fp32-params": true, "bf16-params": false, "fp32-params-autocast": false} {
		p := predicted(t, billion(t, layout, "adamw", "fused", "h100-sxm5-80gb"))
		var explained bool
		for _, w := range p.Accounts()[0].Warnings {
			explained = explained || w.Code == "attention_scores" && strings.Contains(w.Text, "32 heads of queries on 8 of keys")
		}
		format := "BF16"
		if want {
			format = "F32"
		}
		if got := p.modelFacts().ComputeFormat; explained != want || got == nil || *got != format {
			t.Errorf("%s: the scores are explained: %v; computed in %v", layout, explained, got)
		}
	}
}
