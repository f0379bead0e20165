package floodmark

import (
	"context"
	"errors"
	"testing"

	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/workload"
)

// The fewest cards are the first layout that fits: the same estimate with a
// layout of fewer cards does not.
func TestFewestCards(t *testing.T) {
	checklist.Covers(t, 156)
	card, err := FindCard("h100-sxm5-80gb")
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	ask := SolveRequest{Field: GPUCount, Request: Request{Model: m, Card: &card, Workload: workload.Workload{
		Mesh:   workload.Single(),
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 2048, workload.Generated: 64, workload.Sequences: 4}}},
	}}}
	solved, err := Solve(context.Background(), ask)
	if err != nil {
		t.Fatal(err)
	}
	n := solved.Solution.Value
	if n == nil || *n < 2 || solved.Prediction.Verdict.Value != fit.Fits || !solved.Solution.Smallest {
		t.Fatalf("%+v, %+v", solved.Solution, solved.Prediction.Verdict)
	}
	if got := value(GPUCount, solved.Prediction.Request.Workload.Mesh); got != *n {
		t.Errorf("the estimate is of %d cards, the answer is %d", got, *n)
	}
	// 131.42 GiB of weights are more than one card, whatever stands beside them.
	ask.Workload.Mesh = workload.Single()
	ask.Workload.Operation = workload.Generation
	if p := predicted(t, ask.Request); p.Verdict.Value != fit.DoesNotFit {
		t.Errorf("one card: %s", p.Verdict.Value)
	}
}

func TestLayouts(t *testing.T) {
	list := layouts(GPUCount, workload.Single())
	last := int64(0)
	for _, m := range list {
		n := value(GPUCount, m)
		if n < last || n > mostRanks {
			t.Fatalf("%d cards after %d", n, last)
		}
		last = n
	}
	if list[0].Ranks() != 1 || list[1].TensorParallel != 2 || list[2].PipelineParallel != 2 {
		t.Errorf("begins with %+v", list[:3])
	}
	r := generation(t, "eager")
	_, err := Solve(context.Background(), SolveRequest{Request: r, Field: TensorParallel})
	var settings *SettingsError
	if !errors.As(err, &settings) {
		t.Errorf("no card: %v", err)
	}
}
