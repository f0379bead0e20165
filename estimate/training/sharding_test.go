package training_test

import (
	"context"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/training"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/replay"
	"floodmark/workload"
)

// sharded is training over so many ranks.
func sharded(t testing.TB, layout string, s workload.Sharding, ranks int) workload.Workload {
	t.Helper()
	w := work(t, layout, "adamw", "fused")
	w.Mesh.DataParallel = ranks
	w.Training.Sharding = &s
	return w
}

const mixed = "bf16-params-bf16-grads-fp32-master-fp32-moments"

// What each kind divides between ranks is one copy together, and what it does not
// is whole on each: ZeRO changes where a state lies, not the state.
func TestShardingDividesStates(t *testing.T) {
	checklist.Covers(t, 206)
	m := llama(t)
	for _, c := range []struct {
		kind                                 workload.ShardingKind
		weights, gradients, masters, moments bool // divided
	}{
		{workload.DDP, false, false, false, false},
		{workload.ZeRO1, false, true, true, true}, // of gradients the rank keeps its part after backward
		{workload.ZeRO2, false, true, true, true},
		{workload.ZeRO3, true, true, true, true},
		{workload.FSDP1, true, true, true, true},
		{workload.FSDP2, true, true, true, true},
	} {
		for _, ranks := range []int{2, 16, 64} {
			a := accountOf(t, m, sharded(t, mixed, workload.Sharding{Kind: c.kind}, ranks))
			load, step := phase(t, a, account.PhaseModelLoad, 0), phase(t, a, account.PhaseOptimizerStep, 2)
			for _, s := range []struct {
				name    string
				got     int64
				divided bool
				want    int64
			}{
				{"weights", bytesOf(a, load, account.TermWeights), c.weights, 2 * parameters},
				{"master copies", bytesOf(a, step, account.TermMasterCopy), c.masters, 4 * parameters},
				{"moments", bytesOf(a, step, account.TermOptimizerState), c.moments, 8 * parameters},
			} {
				want := s.want
				if s.divided {
					want /= int64(ranks)
				}
				if slack := s.got - want; slack < 0 || slack > 4096 { // counters of steps, and padding
					t.Errorf("%s over %d ranks: %s are %d bytes, want %d", c.kind, ranks, s.name, s.got, want)
				}
			}
		}
	}
}

// A layer of Llama-3.2-1B, and its table of tokens, which is its head too.
const (
	layerElements = 60_821_504
	tableElements = 262_668_288 + 2048 // with the last norm
)

// FSDP1 moves what a unit has to the device, copies it into one flat parameter and
// its part out of that: at the peak of loading the parts of all layers stand beside
// the outermost unit moved, whole and in part. It is the same where the parts go to
// main memory, without those of the layers.
func TestFlatParametersAreMadeOnTheDevice(t *testing.T) {
	m := llama(t)
	for _, c := range []struct {
		offload []workload.OffloadedState
		layers  int64
	}{{nil, 16 * layerElements / 2}, {[]workload.OffloadedState{workload.OffloadParameters}, 0}} {
		a := accountOf(t, m, sharded(t, "bf16-params", workload.Sharding{Kind: workload.FSDP1, Offload: c.offload}, 2))
		want := 2*(c.layers+2*tableElements+tableElements/2) + 256 // frequencies of positions
		if got := phase(t, a, account.PhaseModelLoad, 0).Peak(account.Requested).Figure.Low(); got != want {
			t.Errorf("offloaded %v: loading peaks at %d bytes, want %d", c.offload, got, want)
		}
	}
}

// FSDP2 gathers the outermost unit for the whole pass, and a layer twice: as the
// ranks sent it and as operators read it; in backward the next one comes beside it.
func TestFullyShardedGathers(t *testing.T) {
	checklist.Covers(t, 205)
	m := llama(t)
	gathered := func(s workload.Sharding, id account.PhaseID) int64 {
		a := accountOf(t, m, sharded(t, mixed, s, 8))
		return bytesOf(a, phase(t, a, id, 2), account.TermGatheredParameters)
	}
	// What the ranks sent of the last layer stays until the outermost module ends,
	// which is behind the loss.
	const root, layer = int64(2 * tableElements), int64(2 * layerElements)
	for _, c := range []struct {
		kind  workload.ShardingKind
		keeps bool
		want  int64
	}{
		{workload.FSDP1, false, root}, {workload.FSDP2, false, root + layer},
		{workload.FSDP1, true, 2 * parameters}, {workload.FSDP2, true, 2*parameters + layer},
	} {
		if got := gathered(workload.Sharding{Kind: c.kind, KeepsGathered: c.keeps}, account.PhaseLoss); got != c.want {
			t.Errorf("%s, keeps %v: beside the loss %d bytes are gathered, want %d", c.kind, c.keeps, got, c.want)
		}
	}
}

// Beside the part of all ranks, the third stage keeps a part of a second copy over
// groups of ranks: from when it divides the parameters until the step ends, and from
// when forward releases them in the steps behind it. Nothing else changes.
func TestSecondCopyOfParameters(t *testing.T) {
	m := llama(t)
	at := func(second int64, offload []workload.OffloadedState, id account.PhaseID, n int) (weights, others, host int64) {
		a := accountOf(t, m, sharded(t, mixed, workload.Sharding{Kind: workload.ZeRO3, Secondary: second, Offload: offload}, 16))
		p := phase(t, a, id, n)
		for _, term := range []account.TermID{account.TermMasterCopy, account.TermOptimizerState, account.TermGradients} {
			others += bytesOf(a, p, term)
		}
		if len(offload) > 0 {
			a.Ranks = a.Ranks[:1]
			need, _ := fit.HostNeed([]account.Account{a}, p.ID)
			host = need.Low()
		}
		return bytesOf(a, p, account.TermWeights), others, host
	}
	away := []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters}
	_, _, parts := at(0, away, account.PhaseBackward, 2)
	for _, c := range []struct {
		second  int64
		offload []workload.OffloadedState
		phase   account.PhaseID
		step    int
		parts   int64 // of the parameters, in sixteenths of a copy
		host    int64
	}{
		{0, nil, account.PhaseModelLoad, 0, 1, 0},
		{1, nil, account.PhaseBackward, 2, 1, 0},
		{8, nil, account.PhaseModelLoad, 0, 1 + 2, 0},
		{8, nil, account.PhaseOptimizerStep, 1, 1 + 2, 0},
		{8, nil, account.PhaseBackward, 2, 1 + 2, 0},
		{2, nil, account.PhaseOptimizerStep, 2, 1 + 8, 0},
		{32, nil, account.PhaseModelLoad, 0, 1 + 1, 0}, // no more than there are
		{8, away, account.PhaseBackward, 2, 0, parts + 2*parameters/8},
	} {
		got, others, host := at(c.second, c.offload, c.phase, c.step)
		_, want, _ := at(0, c.offload, c.phase, c.step)
		if others != want {
			t.Errorf("%+v: states of %d bytes, want the %d that there are without a second copy", c, others, want)
		}
		norms := int64(0)
		if c.step == 2 {
			norms = got - 2*parameters*c.parts/16 // those that always stay have no second part after the first step
			if norms > 0 || -norms > 2*1_000_000 {
				t.Errorf("%+v: %d bytes too few", c, -norms)
			}
		} else if got != 2*parameters*c.parts/16 {
			t.Errorf("%+v: %d bytes of parts, want %d", c, got, 2*parameters*c.parts/16)
		}
		if host != c.host {
			t.Errorf("%+v: main memory has %d bytes, want %d", c, host, c.host)
		}
	}
}

// The peak of a step with DeepSpeed's third stage is where 10⁹ elements of
// gradients are joined and brought to 32 bits: 6 bytes each.
func TestSubgroupOfTheStep(t *testing.T) {
	m := llama(t)
	a := accountOf(t, m, sharded(t, mixed, workload.Sharding{Kind: workload.ZeRO3}, 4))
	p := phase(t, a, account.PhaseOptimizerStep, 2)
	if got := bytesOf(a, p, account.TermTemporaries); got != 6*parameters/4+4 { // and the loss
		t.Errorf("the step makes %d bytes beside its states, want %d", got, 6*parameters/4)
	}
	if got := bytesOf(a, p, account.TermGradients); got != 2*parameters/4 {
		t.Errorf("the gradients of the parts are %d bytes, want %d", got, 2*parameters/4)
	}
}

// DDP's buckets are a second copy of the gradients, unless gradients are views.
func TestBucketsOfDDP(t *testing.T) {
	m := llama(t)
	yes := true
	for _, c := range []struct {
		view *bool
		want int64
	}{{nil, 4 * parameters}, {&yes, 2 * parameters}} {
		a := accountOf(t, m, sharded(t, "bf16-params", workload.Sharding{Kind: workload.DDP, BucketView: c.view}, 2))
		p := phase(t, a, account.PhaseOptimizerStep, 2)
		if got := bytesOf(a, p, account.TermGradients) + bytesOf(a, p, account.TermBuckets); got != c.want {
			t.Errorf("gradients and buckets are %d bytes, want %d", got, c.want)
		}
	}
}

// What is offloaded is counted in main memory, and not on the device.
func TestOffloadedStates(t *testing.T) {
	m := llama(t)
	for _, c := range []struct {
		kind    workload.ShardingKind
		offload []workload.OffloadedState
		host    int64 // bytes a parameter of the part
	}{
		{workload.ZeRO3, []workload.OffloadedState{workload.OffloadOptimizer}, 2 + 4 + 4 + 8},
		{workload.ZeRO3, []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters}, 2 + 2 + 4 + 4 + 8},
		{workload.FSDP2, []workload.OffloadedState{workload.OffloadParameters}, 2 + 4 + 4 + 8},
	} {
		a := accountOf(t, m, sharded(t, mixed, workload.Sharding{Kind: c.kind, Offload: c.offload}, 8))
		p := phase(t, a, account.PhaseOptimizerStep, 2)
		a.Ranks = a.Ranks[:1]
		if got, _ := fit.HostNeed([]account.Account{a}, p.ID); got.Low() != c.host*parameters/8 {
			t.Errorf("%s %v: main memory holds %d bytes, want %d", c.kind, c.offload, got.Low(), c.host*parameters/8)
		}
		if n := bytesOf(a, p, account.TermOptimizerState) + bytesOf(a, p, account.TermMasterCopy); n != 0 {
			t.Errorf("%s %v: the device holds %d bytes of states", c.kind, c.offload, n)
		}
	}
}

// Releases 0.14.1 to 0.16 of DeepSpeed bring what was updated in main memory back in
// 32 bits.
func TestOffloadedPartReturnsWide(t *testing.T) {
	m := llama(t)
	peak := func(release string) int64 {
		a := accountOf(t, m, sharded(t, mixed, workload.Sharding{Kind: workload.ZeRO2, Offload: []workload.OffloadedState{workload.OffloadOptimizer}, Release: release}, 1))
		return phase(t, a, account.PhaseOptimizerStep, 2).Peak(account.Requested).Figure.Low()
	}
	narrow := peak("0.14.0")
	for release, wide := range map[string]bool{"": false, "0.14.4": true, "0.15.1": true, "0.16.9": true, "0.17.0": false} {
		want := narrow
		if wide {
			want += 4 * parameters
		}
		if got := peak(release); got != want {
			t.Errorf("%q: a step peaks at %d bytes, want %d", release, got, want)
		}
	}
}

// DeepSpeed's second stage has its master copy and buckets on one rank too. Releases before
// 0.13.2 make the moments before anything has run, and from the second micro-batch on
// gradients stand beside the sum of those before until backward ends.
func TestDeepSpeedOnOneRank(t *testing.T) {
	m := llama(t)
	for release, early := range map[string]bool{"0.12": true, "0.13.1": true, "0.13.2": false, "": false} {
		w := sharded(t, mixed, workload.Sharding{Kind: workload.ZeRO2, Release: release}, 1)
		w.Training.Accumulation = 2
		a := accountOf(t, m, w)
		load := phase(t, a, account.PhaseModelLoad, 0)
		moments := int64(0)
		if early {
			moments = 8 * parameters
		}
		if got := load.End.Requested.Low() - bytesOf(a, load, account.TermWeights) - bytesOf(a, load, account.TermMasterCopy); got < moments || got > moments+1<<22 {
			t.Errorf("%q: beside weights and master copy stand %d bytes after loading, want moments of %d", release, got, moments)
		}
		if f := held(a, load, account.TermCommunication); f.Low() != 0 || !f.Known() || f.Status() == account.StatusZero {
			t.Errorf("%q: its communicator is %+v", release, f)
		}
		var kept []int64
		for _, p := range a.Phases {
			if p.ID == account.PhaseBackward && p.Step == 2 {
				kept = append(kept, bytesOf(a, p, account.TermGradients))
			}
		}
		if len(kept) != 2 || kept[1]-kept[0] < 2*parameters {
			t.Errorf("%q: at the peaks of backward stand %d bytes of gradients", release, kept)
		}
	}
}

// Parameters of 32 bits that are gathered in bfloat16, as torchtitan trains: the
// parts stay wide.
func TestGatheredInAnotherFormat(t *testing.T) {
	m := llama(t)
	w := sharded(t, "fp32-params", workload.Sharding{Kind: workload.FSDP2, ReduceFormat: dtype.F32}, 8)
	w.Precision.Compute = dtype.BF16
	a := accountOf(t, m, w)
	load, loss := phase(t, a, account.PhaseModelLoad, 0), phase(t, a, account.PhaseLoss, 2)
	if got := bytesOf(a, load, account.TermWeights); got != 4*parameters/8 {
		t.Errorf("the parts are %d bytes, want %d", got, 4*parameters/8)
	}
	if got := bytesOf(a, loss, account.TermGatheredParameters); got != 2*(tableElements+layerElements) {
		t.Errorf("gathered are %d bytes, want %d", got, 2*(tableElements+layerElements))
	}
}

// Where operators are not predicted, states and what is gathered are counted all
// the same, and activations are unknown.
func TestShardingWithoutOperators(t *testing.T) {
	m := llama(t)
	for _, kind := range workload.ShardingKinds() {
		for _, offload := range [][]workload.OffloadedState{nil, {workload.OffloadOptimizer}, {workload.OffloadParameters}, {workload.OffloadActivations}} {
			s := workload.Sharding{Kind: kind, Offload: offload}
			if s.Check() != nil {
				continue
			}
			w := sharded(t, mixed, s, 3)
			w.Features = []workload.Feature{workload.TorchCompile}
			a := accountOf(t, m, w)
			p := phase(t, a, account.PhaseOptimizerStep, 2)
			if kind == workload.FSDP2 && offload == nil {
				if got := bytesOf(a, p, account.TermOptimizerState); got < 8*parameters/3 {
					t.Errorf("moments are %d bytes", got)
				}
				forward := phase(t, a, account.PhaseForward, 2)
				if got := bytesOf(a, forward, account.TermGatheredParameters); got < 2*(tableElements+layerElements) {
					t.Errorf("%d bytes are gathered in forward", got)
				}
				if held(a, forward, account.TermActivations).Known() {
					t.Error("activations are known")
				}
			}
		}
	}
}

// An adapter on a packed base: words are divided, scales are on every rank, and
// what is trained is the adapter alone.
func TestShardedAdapter(t *testing.T) {
	m := llama(t)
	packed, err := m.WithFormat("nf4")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []workload.ShardingKind{workload.DDP, workload.FSDP1, workload.FSDP2, workload.ZeRO2, workload.ZeRO3} {
		w := sharded(t, "bf16-params", workload.Sharding{Kind: kind}, 2)
		tune(t, packed, &w, workload.Tuning{Kind: "lora", Rank: 64, Targets: []string{"all-linear"}})
		alone := w
		alone.Mesh = workload.Single()
		one, two := accountOf(t, packed, alone), accountOf(t, packed, w)
		load, whole := phase(t, two, account.PhaseModelLoad, 0), phase(t, one, account.PhaseModelLoad, 0)
		if kind != workload.ZeRO3 && bytesOf(two, load, account.TermQuantisationMetadata) != bytesOf(one, whole, account.TermQuantisationMetadata) {
			t.Errorf("%s: a rank holds %d bytes of scales, want all %d", kind, bytesOf(two, load, account.TermQuantisationMetadata), bytesOf(one, whole, account.TermQuantisationMetadata))
		}
		if kind == workload.FSDP2 || kind == workload.FSDP1 {
			got, want := bytesOf(two, load, account.TermWeights), (bytesOf(one, whole, account.TermWeights)+bytesOf(one, whole, account.TermAdapters))/2
			if got < want || got > want+4096 {
				t.Errorf("%s: a rank holds %d bytes of weights, want %d", kind, got, want)
			}
		}
	}
}

// A full copy that is gathered at save stands on the ranks that keep it; on the
// others a unit of it at a time; in main memory where it is put together there.
func TestSaveGathers(t *testing.T) {
	m := llama(t)
	const unit = int64(4 * tableElements)
	for _, c := range []struct {
		kind             workload.ShardingKind
		on               workload.SaveOn
		offload          bool
		rank             int
		device, mainMemo int64
	}{
		{workload.FSDP1, "", false, 0, 4 * parameters, 0},
		{workload.FSDP2, workload.OnRankZero, false, 0, 4 * parameters, 0},
		{workload.FSDP2, workload.OnRankZero, false, 3, unit, 0},
		{workload.FSDP2, workload.OnRankZero, true, 0, unit, 4 * parameters},
		{workload.FSDP2, workload.OnRankZero, true, 3, unit, 0},
		{workload.ZeRO3, workload.OnRankZero, false, 0, unit, 4 * parameters},
		{workload.FSDP2, workload.InParts, false, 0, 0, 0},
		{workload.DDP, workload.OnRankZero, false, 3, 0, 0},
		{workload.ZeRO2, workload.OnRankZero, false, 0, 4 * parameters, 0},
	} {
		w := sharded(t, mixed, workload.Sharding{Kind: c.kind}, 4)
		w.Training.Save = &workload.Save{Copy: dtype.F32, On: c.on, Offload: c.offload}
		a := accountOfRank(t, m, w, c.rank)
		p := phase(t, a, account.PhaseSave, 0)
		if got := bytesOf(a, p, account.TermGathered); got != c.device {
			t.Errorf("%s %s offload %v, rank %d: %d bytes on the device, want %d", c.kind, c.on, c.offload, c.rank, got, c.device)
		}
		if got, _ := fit.HostNeed([]account.Account{a}, p.ID); got.Low() != c.mainMemo {
			t.Errorf("%s %s offload %v, rank %d: %d bytes in main memory, want %d", c.kind, c.on, c.offload, c.rank, got.Low(), c.mainMemo)
		}
	}
}

// The optimizer's states are put together when the copy of the weights has gone: one
// moment of a unit on the device, beside the rank's own part, and both of all in main
// memory of rank 0.
func TestSaveGathersStates(t *testing.T) {
	m := llama(t)
	for rank, mainMemory := range map[int]int64{0: 8 * parameters, 3: 0} {
		w := sharded(t, mixed, workload.Sharding{Kind: workload.FSDP2}, 4)
		w.Training.Save = &workload.Save{Copy: dtype.F32, On: workload.OnRankZero, Offload: true, States: true}
		a := accountOfRank(t, m, w, rank)
		p := phase(t, a, account.PhaseSave, 0)
		if got := bytesOf(a, p, account.TermGathered); got != 4*tableElements+tableElements {
			t.Errorf("rank %d: %d bytes on the device", rank, got)
		}
		if got, _ := fit.HostNeed([]account.Account{a}, p.ID); got.Low() != mainMemory {
			t.Errorf("rank %d: %d bytes in main memory, want %d", rank, got.Low(), mainMemory)
		}
	}
}

// accountOfRank is the account of one rank by itself.
func accountOfRank(t testing.TB, m *model.Model, w workload.Workload, rank int) account.Account {
	t.Helper()
	held, err := m.WithFormat(workload.FormatName(w.Precision.Parameters))
	if err != nil {
		t.Fatal(err)
	}
	plans, err := parallel.Plan(held, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	plans[0].Ranks = []int{rank}
	r, err := training.Engine{}.Estimate(context.Background(), estimate.Input{Model: held, Plan: plans[0], Workload: &w})
	if err != nil {
		t.Fatal(err)
	}
	run, err := replay.Simulate(context.Background(), r.Timeline, replay.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return replay.Account(r.Timeline, run, account.Calculated)
}

// A program that does not tell when its parts begin is not run on weights that
// come and go: its activations are unknown, and never those of missing weights.
func TestShardingOfOtherPrograms(t *testing.T) {
	m := llama(t)
	w := sharded(t, "bf16-params", workload.Sharding{Kind: workload.FSDP2}, 2)
	w.Engine = workload.Engine{Name: "litgpt", Version: "0.4"}
	a := accountOf(t, m, w)
	p := phase(t, a, account.PhaseBackward, 2)
	if held(a, p, account.TermActivations).Known() {
		t.Error("activations of litgpt over two ranks are known")
	}
}

// Gradients that lie in a buffer of the division, or in main memory, are counted once
// also where operators are not predicted: each step begins at no more than with them.
func TestGradientsAreCountedOnce(t *testing.T) {
	m := llama(t)
	view := true
	for _, s := range []workload.Sharding{
		{Kind: workload.DDP}, {Kind: workload.DDP, BucketView: &view}, {Kind: workload.ZeRO1}, {Kind: workload.ZeRO2}, {Kind: workload.ZeRO3}, {Kind: workload.FSDP1}, {Kind: workload.FSDP2},
		{Kind: workload.ZeRO2, Offload: []workload.OffloadedState{workload.OffloadOptimizer}},
		{Kind: workload.ZeRO3, Offload: []workload.OffloadedState{workload.OffloadOptimizer}},
		{Kind: workload.FSDP2, Offload: []workload.OffloadedState{workload.OffloadParameters}},
	} {
		begins := func(features ...workload.Feature) int64 {
			w := sharded(t, mixed, s, 4)
			w.Features = features
			return phase(t, accountOf(t, m, w), account.PhaseOptimizerStep, 2).Start.Allocated.Low()
		}
		if with, without := begins(), begins(workload.TorchCompile); without > with {
			t.Errorf("%s %v: the step begins at %d bytes at least without operators, with them at %d", s.Kind, s.Offload, without, with)
		}
	}
}
