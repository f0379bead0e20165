package training_test

import (
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/model"
	"floodmark/workload"
)

// The modules of torchtune are a program of their own: what a step makes is known,
// and differs from what transformers makes of the same model.
func TestTorchtune(t *testing.T) {
	m := llama(t)
	of := func(engine workload.Engine, with func(*workload.Train)) int64 {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine = engine
		with(w.Training)
		f := phase(t, accountOf(t, m, w), account.PhaseBackward, 2).Peak(account.Allocated).Figure
		if _, known := f.High(); !known {
			t.Fatalf("%+v: %s", engine, f.Reason())
		}
		return f.Low()
	}
	plain := func(l *workload.Train) { l.Loss = workload.PlainLoss }
	own := of(workload.Engine{Name: "torchtune", Version: "0.5"}, plain)
	for name, other := range map[string]int64{
		"transformers":      of(workload.Engine{}, plain),
		"torchtune 0.1":     of(workload.Engine{Name: "torchtune", Version: "0.1"}, plain),
		"a loss in chunks":  of(workload.Engine{Name: "torchtune", Version: "0.5"}, func(l *workload.Train) { l.Loss = workload.ChunkedLoss }),
		"packed sequences":  of(workload.Engine{Name: "torchtune", Version: "0.5"}, func(l *workload.Train) { l.Loss, l.Packed = workload.PlainLoss, true }),
		"steps in backward": of(workload.Engine{Name: "torchtune", Version: "0.5"}, func(l *workload.Train) { l.Loss, l.InBackward = workload.PlainLoss, true }),
	} {
		if other == own {
			t.Errorf("%s peaks where torchtune 0.5 does: %d", name, own)
		}
	}
	unsaid := of(workload.Engine{Name: "torchtune", Version: "0.5"}, func(*workload.Train) {})
	if chunked := of(workload.Engine{Name: "torchtune", Version: "0.5"}, func(l *workload.Train) { l.Loss = workload.ChunkedLoss }); unsaid != chunked {
		t.Errorf("torchtune 0.5 computes its loss in chunks unless told otherwise: %d, want %d", unsaid, chunked)
	}
}

// Each software evaluates with its own modules, after it trained with them.
func TestSoftwareEvaluates(t *testing.T) {
	m := llama(t)
	for _, e := range []workload.Engine{{}, {Name: "torchtune", Version: "0.5"}, {Name: "litgpt", Version: "0.4"}, {Name: "torchtitan", Version: "0.1.0.dev20240616"}} {
		w := work(t, "bf16-params", "adamw", "foreach")
		w.Engine = e
		w.Phases = []account.PhaseID{account.PhaseEvaluation}
		w.Training.Evaluation = &workload.EvaluationLoop{Batch: 2, Batches: 3}
		p := phase(t, accountOf(t, m, w), account.PhaseEvaluation, 0)
		if f := p.Peak(account.Allocated).Figure; !f.Known() || f.Low() <= p.Start.Allocated.Low() {
			t.Errorf("%s: %v from %v: %s", e.Name, f, p.Start.Allocated, f.Reason())
		}
	}
}

// Heads of an odd width cannot be turned by rotary positions: what an operator
// refuses ends the program and not the estimate.
func TestRefusedOperators(t *testing.T) {
	for _, attention := range []workload.Feature{workload.FlashAttention, ""} {
		m := *llama(t)
		m.Stacks = slices.Clone(m.Stacks)
		s := &m.Stacks[0]
		s.Layers = slices.Clone(s.Layers)
		for i := range s.Layers {
			a := s.Layers[i].Mixers[0].(model.Attention)
			a.KeyDim, a.ValueDim, a.RotaryDim = 3, 3, 3
			s.Layers[i].Mixers = []model.Mixer{a}
		}
		w := work(t, "bf16-params", "adamw", "foreach")
		if attention != "" {
			w.Features = []workload.Feature{attention}
		}
		p := phase(t, accountOf(t, &m, w), account.PhaseForward, 1)
		if f := p.Peak(account.Allocated).Figure; f.Known() {
			t.Errorf("%q: %v", attention, f)
		}
	}
}

// litgpt's adapters on query, key and value are convolutions: what a library works
// with beside them takes what is free, and needs little of it.
func TestLitGPT(t *testing.T) {
	m := llama(t)
	w := work(t, "bf16-params", "adamw", "foreach")
	w.Engine = workload.Engine{Name: "litgpt", Version: "0.4"}
	full := phase(t, accountOf(t, m, w), account.PhaseBackward, 2).Peak(account.Allocated).Figure
	if _, known := full.High(); !known {
		t.Fatalf("training of all weights: %s", full.Reason())
	}
	tune(t, m, &w, workload.Tuning{Kind: "lora", Rank: 8, Targets: []string{"q_proj", "v_proj"}})
	a := accountOf(t, m, w)
	p := phase(t, a, account.PhaseBackward, 2)
	if f := held(a, p, account.TermActivations); !f.Known() {
		t.Errorf("activations are unknown: %s", f.Reason())
	}
	f := held(a, p, account.TermWorkspace)
	if need, known := f.Need(); f.Known() || !known || need <= 0 {
		t.Errorf("the workspace of convolutions is %v, of which %d is needed", f, need)
	}
	// An optimizer convolves nothing.
	if f := held(a, phase(t, a, account.PhaseOptimizerStep, 2), account.TermWorkspace); !f.Known() {
		t.Errorf("in the optimizer's step the workspace is %v: %s", f, f.Reason())
	}
}

// A release of transformers that was recorded has a program, whose peak is not that
// of another; of one that nobody recorded the most is not known.
func TestTransformersReleases(t *testing.T) {
	m := llama(t)
	peak := func(version string) account.Figure {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine = workload.Engine{Name: "transformers", Version: version}
		return phase(t, accountOf(t, m, w), account.PhaseLoss, 2).Peak(account.Allocated).Figure
	}
	newest := peak("5.24")
	for _, version := range []string{"4.31", "4.36.2", "4.38", "4.40.2", "4.44", "4.48.3"} {
		if f := peak(version); !f.Known() || f.Low() <= newest.Low() {
			t.Errorf("transformers %s copies its logits for the loss: %v beside %v", version, f, newest)
		}
	}
	if f := peak("4.57"); !f.Known() {
		t.Errorf("transformers 4.57: %s", f.Reason())
	}
	if _, known := peak("4.27").High(); known {
		t.Error("the most of a release that nobody recorded is said to be known")
	}
}

// A release without fused attention makes the scores of all pairs; flash-attn, where
// the class has it, makes none.
func TestAttentionOfEarlierReleases(t *testing.T) {
	m := llama(t)
	peak := func(version, attention string) account.Figure {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine = workload.Engine{Name: "transformers", Version: version}
		w.Training.Attention = attention
		return phase(t, accountOf(t, m, w), account.PhaseForward, 1).Peak(account.Allocated).Figure
	}
	scores, flash := peak("4.35", ""), peak("4.35", "flash_attention_2")
	if !scores.Known() || !flash.Known() || flash.Low() >= scores.Low() {
		t.Errorf("flash-attn takes %v, the scores %v", flash, scores)
	}
	if asked := peak("4.35", "eager"); asked.Low() != scores.Low() {
		t.Errorf("scores that were asked for take %v, those that nobody asked for %v", asked, scores)
	}
	if _, known := peak("4.31", "flash_attention_2").High(); known {
		t.Error("a class has flash-attn before its release had it")
	}
}

// Outputs that live as long as the step are gone when the next begins.
func TestOutputsOfTheStep(t *testing.T) {
	m := llama(t)
	peak := func(id account.PhaseID, step int, kept, dropped bool) int64 {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Training.KeepsOutputs, w.Training.DropsOutputs = kept, dropped
		return phase(t, accountOf(t, m, w), id, step).Peak(account.Allocated).Figure.Low()
	}
	if kept, dropped := peak(account.PhaseBackward, 1, true, false), peak(account.PhaseBackward, 1, true, true); kept != dropped {
		t.Errorf("the first step's backward takes %d, and %d where the outputs end with it", kept, dropped)
	}
	if kept, dropped := peak(account.PhaseForward, 2, true, false), peak(account.PhaseForward, 2, true, true); dropped >= kept {
		t.Errorf("the second forward takes %d, and %d where the outputs ended with the first step", kept, dropped)
	}
}

// Of a release that nobody has read, and of what is none, nobody can say the most.
func TestUnreadReleases(t *testing.T) {
	m := llama(t)
	for engine, known := range map[workload.Engine]bool{
		{}: true, {Name: "eager"}: true, {Name: "transformers"}: true, {Name: "transformers", Version: "5.24.0"}: true,
		{Name: "litgpt", Version: "0.4"}: true, {Name: "torchtune", Version: "0.6.1"}: true,
		{Name: "transformers", Version: "0"}: false, {Name: "transformers", Version: "4.x"}: false, {Name: "transformers", Version: "2026-01-01"}: false,
		{Name: "transformers", Version: "999"}: false, {Name: "litgpt", Version: "0.5"}: false, {Name: "torchtune", Version: "999"}: false,
		{Name: "torchtitan", Version: "0.1.0.dev19990101"}: false, {Name: "torchtitan", Version: "0.1.0.dev20241399"}: false, {Name: "vllm"}: false,
	} {
		w := work(t, "bf16-params", "adamw", "foreach")
		w.Engine = engine
		if f := phase(t, accountOf(t, m, w), account.PhaseForward, 1).Peak(account.Allocated).Figure; f.Known() != known {
			t.Errorf("%+v: known %v, want %v: %s", engine, f.Known(), known, f.Reason())
		}
	}
}

// What the order of a compiled backward leaves open, and copies in 8 bits more of, counts
// where blocks stand highest; where the logits do, the peak is known.
func TestCompiledBackwardIsOpenInItsBlocks(t *testing.T) {
	m := llama(t)
	open := func(length int64, features ...workload.Feature) int64 {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine = workload.Engine{Name: "torchtitan", Version: "0.1.0.dev20250320"}
		w.Training.Checkpointing.Kind = workload.FullCheckpointing
		w.Inputs[0].Dimensions[workload.Context] = length
		w.Features = append(features, workload.TorchCompile)
		f := held(accountOf(t, m, w), phase(t, accountOf(t, m, w), account.PhaseBackward, 2), account.TermTemporaries)
		high, known := f.High()
		if !known {
			t.Fatal(f.Reason())
		}
		return high - f.Low()
	}
	if plain, narrow := open(128), open(128, workload.FP8Compute); plain == 0 || narrow <= plain {
		t.Errorf("open are %d bytes, in FP8 %d", plain, narrow)
	}
	if plain, narrow := open(8192), open(8192, workload.FP8Compute); plain != 0 || narrow != 0 {
		t.Errorf("where logits stand highest %d and %d bytes are open", plain, narrow)
	}
}
