package floodmark

import (
	"context"
	"slices"
	"strings"
	"testing"

	"floodmark/model"
	"floodmark/workload"
)

// An advice makes no prediction twice, and once its events are spent it makes no more:
// it says of which settings not every value was tried.
func TestAdviceIsBounded(t *testing.T) {
	ctx := context.Background()
	first, err := Estimate(ctx, billion(t, "bf16-params", "adamw", "", "rtx-4090"))
	if err != nil {
		t.Fatal(err)
	}
	p, trials := first.trying()
	if trials.left != mostEvents-first.events || first.events == 0 {
		t.Errorf("%d of %d events are left after %d", trials.left, mostEvents, first.events)
	}
	one, err := p.tried(ctx, "micro_batch", "1")
	if err != nil || one == nil {
		t.Fatal(one, err)
	}
	spent := mostEvents - trials.left
	if again, err := p.tried(ctx, "micro_batch", "1"); err != nil || again.after != one.after || mostEvents-trials.left != spent {
		t.Errorf("it was made again: %v", err)
	}
	trials.left = 1
	for _, c := range []struct {
		value string
		tried bool
	}{{"2", true}, {"3", false}, {"1", true}} {
		if after, err := p.tried(ctx, "micro_batch", c.value); err != nil || (after != nil) != c.tried {
			t.Errorf("micro_batch=%s: %v %v", c.value, after, err)
		}
	}
	if after, err := p.tried(ctx, "optimizer", "sgd"); after != nil || err != nil || !slices.Equal(trials.passed, []string{"micro_batch", "optimizer"}) {
		t.Errorf("%v %v: passed over %v", after, err, trials.passed)
	}
}

// A training of more layers than can be run is refused; loading it is not.
func TestDeepTrainingsAreRefused(t *testing.T) {
	m := &model.Model{Stacks: []model.Stack{{Layers: make([]model.Layer, deepest)}, {Layers: make([]model.Layer, 1)}}}
	err := shallow(m, workload.Workload{Operation: workload.Training})
	if err == nil || !strings.Contains(err.Error(), "1025 layers") {
		t.Errorf("%v", err)
	}
	if err := shallow(m, workload.Workload{Operation: workload.Load}); err != nil {
		t.Error(err)
	}
	m.Stacks = m.Stacks[:1]
	if err := shallow(m, workload.Workload{Operation: workload.Training}); err != nil {
		t.Error(err)
	}
}
