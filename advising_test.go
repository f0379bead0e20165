package floodmark

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/record"
	"floodmark/workload"
)

// seventy asks for Llama-3.1-70B with 32 sequences of 8,192 on H100s.
func seventy(t *testing.T, tensor int, card string) Request {
	t.Helper()
	c, err := FindCard(card)
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: m, Card: &c, Workload: workload.Workload{
		Operation: workload.Generation, Mesh: workload.Mesh{TensorParallel: tensor},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{
			workload.Context: 8192, workload.Generated: 1024, workload.Sequences: 32}}},
	}}
}

func advised(t *testing.T, r Request) (*Prediction, *record.Remedies) {
	t.Helper()
	p := predicted(t, r)
	a, err := Advise(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return p, a
}

func key(setting string) string {
	field, _, _ := strings.Cut(setting, "=")
	return field
}

// Each option is an estimate of its own: its setting given as a what-if leads to
// the same verdict. What fits stands first.
func TestAdviceIsEstimated(t *testing.T) {
	checklist.Covers(t, 147, 150, 221, 225)
	for _, r := range []Request{seventy(t, 1, "h100-sxm5-80gb"), seventy(t, 4, "h100-sxm5-80gb"), seventy(t, 2, "rtx-4090")} {
		p, a := advised(t, r)
		if a == nil || len(a.Options) == 0 {
			t.Fatalf("%s: no advice", p.Verdict.Value)
		}
		for i, o := range a.Options {
			c, err := WhatIf(context.Background(), p, o.Setting)
			if err != nil {
				t.Fatal(err)
			}
			if c.Verdict.Value != o.Verdict.Value {
				t.Errorf("%s: advised as %s, and is %s", o.Setting, o.Verdict.Value, c.Verdict.Value)
			}
			if i > 0 && o.Verdict.Value == string(fit.Fits) && a.Options[i-1].Verdict.Value != string(fit.Fits) {
				t.Errorf("%s fits and stands behind %s, which does not", o.Setting, a.Options[i-1].Setting)
			}
			if moved(o, p.Verdict.Value) <= 0 || len(o.Moves) == 0 || o.Cost == "" {
				t.Errorf("%s moves nothing or costs nothing: %+v", o.Setting, o)
			}
		}
	}
}

// The number that is advised is the boundary: one more does not fit.
func TestAdvisedNumberIsTheBoundary(t *testing.T) {
	p, a := advised(t, seventy(t, 4, "h100-sxm5-80gb"))
	for _, o := range a.Options {
		field, value, _ := strings.Cut(o.Setting, "=")
		if o.Verdict.Value != string(fit.Fits) || !slices.Contains(SolvableFields(workload.Generation), workload.Dimension(field)) {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		more, err := p.Request.sized(workload.Dimension(field), n+1)
		if err != nil {
			t.Fatal(err)
		}
		if v := predicted(t, more).Verdict; v.Value == fit.Fits {
			t.Errorf("%s is advised, and %d fits too", o.Setting, n+1)
		}
	}
}

// What cannot reach the binding term is named: replicas never, sequences not
// where the weights bind, the weights' format not where the cache does.
func TestUselessSwitchesAreNamed(t *testing.T) {
	checklist.Covers(t, 184, 192)
	_, weights := advised(t, seventy(t, 1, "h100-sxm5-80gb"))
	for _, want := range []string{"data_parallel", "sequences", "cache_format"} {
		if !slices.ContainsFunc(weights.CannotReach, func(u record.Useless) bool { return u.Setting == want && u.Reason != "" }) {
			t.Errorf("%s is not said to leave the weights alone: %+v", want, weights.CannotReach)
		}
	}
	// A length of one position that does not suffice is no advice: how much is
	// still lacking is.
	for _, o := range weights.Options {
		if o.Setting == "context=1" || o.Setting == "generated=1" {
			t.Errorf("%s is advised", o.Setting)
		}
	}
	if !slices.ContainsFunc(weights.CannotReach, func(u record.Useless) bool { return strings.HasPrefix(u.Reason, "even context=1 is short of ") }) {
		t.Errorf("nobody says that no length suffices: %+v", weights.CannotReach)
	}
	long := seventy(t, 8, "h100-sxm5-80gb")
	long.Workload.Inputs[0].Dimensions[workload.Sequences] = 300
	_, cache := advised(t, long)
	if cache.Term != "kv_cache" {
		t.Fatalf("%s binds", cache.Term)
	}
	// Eight ranks have a KV head each: more of them share no cache further.
	leave := []string{"weights", "tensor_parallel"}
	for _, o := range cache.Options {
		if o.ReachesTerm == slices.Contains(leave, key(o.Setting)) {
			t.Errorf("%s reaches the cache: %v", o.Setting, o.ReachesTerm)
		}
	}
}

// What fits needs no advice; what hangs on an unknown needs a reading, which is
// named.
func TestAdviceOnlyWhereItIsNeeded(t *testing.T) {
	if _, a := advised(t, seventy(t, 8, "h100-sxm5-80gb")); a != nil {
		t.Errorf("it fits, and this is advised: %+v", a)
	}
	load := seventy(t, 8, "h100-sxm5-80gb")
	load.Workload.Operation = workload.Load
	p, a := advised(t, load)
	if p.Verdict.Value != fit.CannotTell || !strings.Contains(p.Verdict.Reasons[0], "declares the operation load") || !strings.Contains(*a.Reading, "declares load") {
		t.Errorf("a load with lengths: %v, %+v", p.Verdict.Reasons, a)
	}
	r := seventy(t, 8, "h100-sxm5-80gb")
	delete(r.Workload.Inputs[0].Dimensions, workload.Generated)
	_, a = advised(t, r)
	if a == nil || a.Reading == nil || !strings.Contains(*a.Reading, "generated") || len(a.Options) != 0 {
		t.Errorf("without generated: %+v", a)
	}
	r.Workload.Inputs[0].Dimensions[workload.Generated] = 1024
	r.Workload.Features = []workload.Feature{workload.TorchCompile}
	if _, a := advised(t, r); a == nil || a.Reading == nil || !strings.Contains(*a.Reading, "rank 0") {
		t.Errorf("with torch.compile: %+v", a)
	}
}
