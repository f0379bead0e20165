package training_test

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/workload"
)

// torch.compile of a whole model compiles its layers one by one where fully_shard has
// hooks on them: without them, or by the older wrapper, what it makes is not known.
func TestCompiledWholeModel(t *testing.T) {
	m := llama(t)
	compiled := func(version string, kind workload.ShardingKind, ranks int) account.Figure {
		w := sharded(t, "fp32-params", workload.Sharding{Kind: kind, ReduceFormat: dtype.F32}, ranks)
		w.Precision.Compute = dtype.BF16
		w.Engine = workload.Engine{Name: "torchtitan", Version: version}
		w.Features = []workload.Feature{workload.TorchCompile}
		return phase(t, accountOf(t, m, w), account.PhaseForward, 2).End.Allocated
	}
	const whole, blocks = "0.1.0.dev20240326", "0.1.0.dev20240521"
	if f := compiled(whole, workload.FSDP1, 8); f.Known() {
		t.Errorf("without hooks it is %v", f)
	}
	broken, each := compiled(whole, workload.FSDP2, 8), compiled(blocks, workload.FSDP2, 8)
	if !broken.Known() || !each.Known() {
		t.Fatalf("%s; %s", broken.Reason(), each.Reason())
	}
	if broken.Low() >= each.Low() {
		t.Errorf("with its last norm compiled it holds %d, without %d", broken.Low(), each.Low())
	}
}

// torchtitan packs no weights, compiled or not: an answer says so.
func TestTorchTitanPacksNothing(t *testing.T) {
	base, err := llama(t).WithFormat("nf4-double")
	if err != nil {
		t.Fatal(err)
	}
	for _, features := range [][]workload.Feature{nil, {workload.TorchCompile}} {
		w := work(t, "bf16-params", "adamw", "fused")
		tune(t, base, &w, workload.Tuning{Rank: 8, Targets: []string{"all-linear"}})
		w.Engine = workload.Engine{Name: "torchtitan", Version: "0.1.0.dev20250401"}
		w.Features = features
		f := phase(t, accountOf(t, base, w), account.PhaseBackward, 2).Peak(account.Allocated).Figure
		if f.Known() || !strings.Contains(f.Reason(), "packed in 4 bits") {
			t.Errorf("%v: %v, %q", features, f, f.Reason())
		}
	}
}

// torchtitan of 2026: embeddings are gathered by themselves and go again, the last norm
// and the head come when the layers are through, and no layer stays for backward. What was
// not read is not answered.
func TestTorchTitanOf2026(t *testing.T) {
	m := untied(llama(t))
	run := func(version string, features ...workload.Feature) account.Account {
		w := sharded(t, "fp32-params", workload.Sharding{Kind: workload.FSDP2, ReduceFormat: dtype.F32}, 8)
		w.Precision.Compute = dtype.BF16
		w.Training.Checkpointing.Kind = workload.SelectiveCheckpointing
		w.Inputs[0].Dimensions[workload.Context] = 8192
		w.Engine = workload.Engine{Name: "torchtitan", Version: version}
		w.Features = features
		return accountOf(t, m, w)
	}
	loss := func(a account.Account) account.Figure {
		return phase(t, a, account.PhaseLoss, 2).Peak(account.Allocated).Figure
	}
	whole := run("0.1.0.dev20260805", workload.TorchCompile)
	for _, p := range []account.PhaseID{account.PhaseForward, account.PhaseLoss, account.PhaseBackward} {
		if f := phase(t, whole, p, 2).Peak(account.Allocated).Figure; !f.Known() {
			t.Errorf("%s: %s", p, f.Reason())
		}
	}
	if eager := run("0.1.0.dev20260805", workload.TorchCompile, workload.EagerLoss); loss(eager).Low() <= loss(whole).Low() {
		t.Errorf("an eager loss holds %v, a compiled one %v", loss(eager), loss(whole))
	}
	before, after := gatheredAt(t, run("0.1.0.dev20250604", workload.TorchCompile)), gatheredAt(t, whole)
	if after >= before {
		t.Errorf("in forward %d bytes are gathered at the peak, with embeddings and head in one part %d", after, before)
	}
	for _, unread := range []string{"0.1.0.dev20250801", "0.1.0.dev20260818", "0.2.0"} {
		if f := loss(run(unread, workload.TorchCompile)); f.Known() {
			t.Errorf("%s is %v", unread, f)
		}
	}
	if f := loss(run("0.1.0.dev20260805")); f.Known() {
		t.Errorf("in eager mode it is %v", f)
	}
}

// gatheredAt is what is gathered at the peak of a forward pass.
func gatheredAt(t *testing.T, a account.Account) int64 {
	return bytesOf(a, phase(t, a, account.PhaseForward, 2), account.TermGatheredParameters)
}

// untied is a model whose head has a weight of its own.
func untied(m *model.Model) *model.Model {
	own := *m
	own.Tensors = slices.Clone(m.Tensors)
	for i := range own.Tensors {
		own.Tensors[i].TiedTo = model.NotTied
	}
	return &own
}
