package training_test

import (
	"context"
	"testing"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/training"
	"floodmark/internal/checklist"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/workload"
)

// highest is the phase of an account that allocates most.
func highest(a account.Account) account.Phase {
	top := a.Phases[0]
	for _, p := range a.Phases {
		if p.Peak(account.Allocated).Figure.Low() > top.Peak(account.Allocated).Figure.Low() {
			top = p
		}
	}
	return top
}

// Each setting moves the terms that it can reach, and no other.
func TestSettingsMoveTheirTerms(t *testing.T) {
	checklist.Covers(t, 33, 35)
	m := llama(t)
	states := []account.TermID{account.TermWeights, account.TermGradients, account.TermOptimizerState}
	base := accountOf(t, m, work(t, "bf16-params", "adamw", "fused"))
	for _, c := range []struct {
		name   string
		change func(*workload.Workload)
		moves  bool // of states
		makes  bool // of what operators make
	}{
		{"twice the micro-batch", func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.MicroBatch] = 4 }, false, true},
		{"twice the length", func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.Context] = 256 }, false, true},
		{"checkpointing", func(w *workload.Workload) {
			w.Training.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
		}, false, true},
		{"8-bit states", func(w *workload.Workload) {
			w.Training.Optimizer, _ = workload.ParseOptimizer("adamw_8bit", "")
			w.Precision.FirstMoment, w.Precision.SecondMoment = workload.EightBit(), workload.EightBit()
		}, true, false},
	} {
		w := work(t, "bf16-params", "adamw", "fused")
		c.change(&w)
		a := accountOf(t, m, w)
		moved := false
		for _, id := range states {
			x, y := bytesOf(base, phase(t, base, account.PhaseOptimizerStep, 2), id), bytesOf(a, phase(t, a, account.PhaseOptimizerStep, 2), id)
			moved = moved || x != y
		}
		made := made(t, base) != made(t, a)
		if moved != c.moves || made != c.makes {
			t.Errorf("%s: states move %v, what operators make moves %v; want %v, %v", c.name, moved, made, c.moves, c.makes)
		}
	}
	for _, id := range []account.PhaseID{account.PhaseForward, account.PhaseLoss, account.PhaseBackward, account.PhaseOptimizerStep} {
		phase(t, base, id, 1)
		phase(t, base, id, 2)
	}
}

// made is what operators have made at the end of a forward pass and its loss.
func made(t *testing.T, a account.Account) int64 {
	first := phase(t, a, account.PhaseForward, 1)
	return phase(t, a, account.PhaseLoss, 1).End.Requested.Low() - first.Start.Requested.Low()
}

// Few trained parameters keep the whole base and the activations: gradients pass
// through frozen layers, whose linears keep no input, and adapted ones keep theirs.
func TestAdaptersKeepActivations(t *testing.T) {
	checklist.Covers(t, 41, 211, 215)
	m := llama(t)
	full := accountOf(t, m, work(t, "bf16-params", "adamw", "fused"))
	tuned := func(rank int, change func(*workload.Workload)) account.Account {
		w := work(t, "bf16-params", "adamw", "fused")
		tune(t, m, &w, workload.Tuning{Rank: rank, Targets: []string{"q_proj", "v_proj"}})
		change(&w)
		return accountOf(t, m, w)
	}
	same := func(*workload.Workload) {}
	lora := tuned(16, same)
	if got := bytesOf(lora, highest(lora), account.TermWeights); got != 2*parameters {
		t.Errorf("the base is %d bytes at the peak", got)
	}
	if some, all := made(t, lora), made(t, full); some <= all/4 || some >= all {
		t.Errorf("an adapter keeps %d bytes of a forward pass, full training %d", some, all)
	}
	// A verdict of it needs the length, the micro-batch, the adapter and the
	// strategy of activations: each moves the peak, or leaves it open.
	top := highest(lora).Peak(account.Allocated).Figure
	for name, a := range map[string]account.Account{
		"another rank":  tuned(64, same),
		"a length":      tuned(16, func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.Context] = 192 }),
		"a micro-batch": tuned(16, func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.MicroBatch] = 3 }),
		"checkpointing": tuned(16, func(w *workload.Workload) {
			w.Training.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
		}),
	} {
		if highest(a).Peak(account.Allocated).Figure.Low() == top.Low() {
			t.Errorf("%s moves nothing", name)
		}
	}
	for _, d := range []workload.Dimension{workload.Context, workload.MicroBatch} {
		a := tuned(16, func(w *workload.Workload) { delete(w.Inputs[0].Dimensions, d) })
		if phase(t, a, account.PhaseBackward, 2).Peak(account.Allocated).Figure.Known() {
			t.Errorf("without %s the peak is known", d)
		}
	}
}

// A diffusion pipeline is no decoder: its weights are exact, and what its
// operators make is unknown.
func TestDiffusionIsUnknown(t *testing.T) {
	m, err := load.Open("../../model/hfmodel/testdata/flux1_dev.json")
	if err != nil {
		t.Fatal(err)
	}
	w := work(t, "bf16-params", "adamw", "fused")
	a := accountOf(t, m, w)
	backward := phase(t, a, account.PhaseBackward, 2)
	if f := held(a, backward, account.TermActivations); f.Known() || f.Reason() == "" {
		t.Errorf("activations are %+v", f)
	}
	if n, exact := held(a, backward, account.TermWeights).IsExact(); !exact || n == 0 {
		t.Errorf("weights are %d bytes, exact %v", n, exact)
	}
}

// What cuBLAS keeps follows the card and the release of PyTorch that is said: a
// workspace for the thread that runs the program, and one for that of backward.
func TestWorkspaceOfACard(t *testing.T) {
	m := llama(t)
	for _, c := range []struct {
		arch, pytorch string
		low           int64
	}{{"", "", 2 * 8_519_680}, {"Hopper", "2.6", 2 * 33_554_432}, {"Blackwell", "2.11", 2 * 8_519_680}, {"Blackwell", "2.12", 2 * 33_554_432}, {"Blackwell", "", 2 * 33_554_432}} {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine.PyTorch = c.pytorch
		plans, err := parallel.Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		r, err := training.Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: &w, Memory: estimate.Memory{Arch: c.arch}})
		if err != nil {
			t.Fatal(err)
		}
		a := r.Timeline.Account()
		if got := bytesOf(a, phase(t, a, account.PhaseBackward, 2), account.TermWorkspace); got != c.low {
			t.Errorf("%q under PyTorch %q: %d bytes, want %d", c.arch, c.pytorch, got, c.low)
		}
	}
}
