package floodmark

import (
	"context"
	"testing"

	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/workload"
)

// The answer is the boundary: it fits there, and one more is not known to.
func TestSolveIsTheBoundary(t *testing.T) {
	checklist.Covers(t, 191, 192, 194, 196)
	card, err := FindCard("h100-sxm5-80gb")
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	ask := SolveRequest{Field: workload.Sequences, Request: Request{Model: m, Card: &card, Workload: workload.Workload{
		Mesh:   workload.Mesh{TensorParallel: 8},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 8192, workload.Generated: 1024}}},
	}}}
	solved, err := Solve(context.Background(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if solved.Solution.Value == nil || *solved.Solution.Value < 1 {
		t.Fatalf("no sequences fit: %+v", solved.Solution)
	}
	for _, c := range []struct {
		step int64
		want bool
	}{{0, true}, {1, false}} {
		ask.Workload.Operation = workload.Generation
		p, err := Estimate(context.Background(), ask.with(*solved.Solution.Value+c.step))
		if err != nil {
			t.Fatal(err)
		}
		if fits := p.Verdict.Value == fit.Fits; fits != c.want {
			t.Errorf("%d sequences: %s", *solved.Solution.Value+c.step, p.Verdict.Value)
		}
	}
}

// An engine is told to take what is asked about, and no more than the model
// declares or the workload itself allows.
func TestLengthened(t *testing.T) {
	for _, c := range []struct{ context, generated, declared, allowed, want int64 }{
		{1000, 24, 8192, 0, 1024},
		{10000, 24, 8192, 0, 8192},
		{10000, 24, 8192, 16384, 10024},
		{10000, 24, 0, 0, 10024},
		{1<<63 - 1, 24, 8192, 0, 8192},
	} {
		w := workload.Workload{Engine: workload.Engine{Name: "vllm"}}
		if c.allowed > 0 {
			w.Serving = &workload.Serving{MaxLength: c.allowed}
		}
		s := lengthened(w, c.declared, map[workload.Dimension]int64{workload.Context: c.context, workload.Generated: c.generated})
		if s.MaxLength != c.want {
			t.Errorf("%+v: %d", c, s.MaxLength)
		}
	}
}
