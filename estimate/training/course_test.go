package training_test

import (
	"slices"
	"testing"

	"floodmark/estimate"
	"floodmark/estimate/training"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// courseOf is the orders of a workload on one rank.
func courseOf(t *testing.T, m *model.Model, w workload.Workload) *timeline.Course {
	t.Helper()
	plans, err := parallel.Plain().Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Engine{}.Estimate(t.Context(), estimate.Input{Model: m, Plan: plans[0], Workload: &w})
	if err != nil {
		t.Fatal(err)
	}
	return r.Course
}

// Sequences of different lengths come in orders that differ: each length is a piece,
// and so is the step behind it.
func TestCourse(t *testing.T) {
	m := llama(t)
	w := work(t, "bf16-params", "adamw", "fused")
	if c := courseOf(t, m, w); c != nil {
		t.Errorf("sequences of one length have %d orders", len(c.Orders))
	}
	w.Training.Lengths = &workload.Lengths{Of: []int64{64, 128, 256}, Sequences: 32}
	c := courseOf(t, m, w)
	if len(c.Pieces) != 4 || len(c.Orders) < 2 || slices.Equal(c.Orders[0], c.Orders[1]) {
		t.Fatalf("%d pieces in %v", len(c.Pieces), c.Orders)
	}
	batch, _ := w.Dimension(workload.MicroBatch)
	for _, order := range c.Orders {
		if len(order) != 2*32/int(batch) || order[1] != 3 {
			t.Errorf("%d pieces of 32 sequences in batches of %d: %v", len(order), batch, order)
		}
	}
	if again := courseOf(t, m, w); !slices.EqualFunc(c.Orders, again.Orders, slices.Equal) {
		t.Error("two estimates have different orders")
	}
	// Trained whole, the micro-batches behind the first of a step find its gradients.
	w.Training.Accumulation = 4
	if c := courseOf(t, m, w); len(c.Pieces) != 7 || slices.Index(c.Orders[0], 6) != min(4, len(c.Orders[0])-1) {
		t.Errorf("%d pieces, accumulated %v", len(c.Pieces), c.Orders[0])
	}
	// The gradients of a small adapter lie among small blocks.
	tune(t, m, &w, workload.Tuning{Kind: "lora", Rank: 8, Targets: []string{"q_proj"}})
	if c := courseOf(t, m, w); len(c.Pieces) != 4 {
		t.Errorf("%d pieces with an adapter", len(c.Pieces))
	}
	w.Training.Lengths = &workload.Lengths{Of: []int64{1 << 40}, Drops: true}
	if courseOf(t, m, w) != nil {
		t.Error("sequences that are all left out have orders")
	}
}
