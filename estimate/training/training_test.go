package training_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/training"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/replay"
	"floodmark/workload"
)

// parameters of Llama-3.2-1B; its embedding is tied to its head.
const parameters = 1_235_814_400

func llama(t testing.TB) *model.Model {
	t.Helper()
	m, err := load.Open("../../testdata/models/Llama-3.2-1B")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// work is training of one micro-batch of 2 × 128 positions.
func work(t testing.TB, layout, optimizer, implementation string) workload.Workload {
	t.Helper()
	p, autocast, err := workload.ParseLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	o, err := workload.ParseOptimizer(optimizer, implementation)
	if err != nil {
		t.Fatal(err)
	}
	return workload.Workload{Operation: workload.Training, Precision: p, Mesh: workload.Single(), Training: &workload.Train{Optimizer: o, Autocast: autocast},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 128, workload.MicroBatch: 2}}}}
}

// tune trains an adapter instead.
func tune(t testing.TB, m *model.Model, w *workload.Workload, tuning workload.Tuning) {
	t.Helper()
	a, err := load.NewAdapter(tuning.Kind, tuning.Rank, tuning.Targets, tuning.Saved).On(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range a.Tuned {
		tuning.Modules = append(tuning.Modules, workload.TunedModule{Module: x.Module, Tensor: x.Tensor, Saved: x.Saved, Shapes: x.Shapes})
	}
	w.Training.Tuning, w.Precision = &tuning, workload.Precision{}
}

// accountOf is the account of one rank.
func accountOf(t testing.TB, m *model.Model, w workload.Workload) account.Account {
	t.Helper()
	if f := w.Precision.Parameters; f != dtype.Unknown {
		var err error
		if m, err = m.WithFormat(workload.FormatName(f)); err != nil {
			t.Fatal(err)
		}
	}
	plans, err := parallel.Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: &w})
	if err != nil {
		t.Fatal(err)
	}
	run, err := replay.Simulate(context.Background(), r.Timeline, replay.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return replay.Account(r.Timeline, run, account.Calculated)
}

// phase is a phase of an account.
func phase(t testing.TB, a account.Account, id account.PhaseID, step int) account.Phase {
	t.Helper()
	for _, p := range a.Phases {
		if p.ID == id && p.Step == step {
			return p
		}
	}
	t.Fatalf("there is no phase %s of step %d", id, step)
	return account.Phase{}
}

// held is what a term holds at the peak of a phase; 0 where it holds nothing.
func held(a account.Account, p account.Phase, id account.TermID) account.Figure {
	for _, s := range p.AtPeak {
		if a.Terms[s.Term].ID == id {
			return s.Bytes
		}
	}
	return account.Exact(0, account.Provenance{})
}

func bytesOf(a account.Account, p account.Phase, id account.TermID) int64 {
	return held(a, p, id).Low()
}

// Each layout holds what its name says: no number of bytes a parameter is one
// for all.
func TestLayouts(t *testing.T) {
	checklist.Covers(t, 32, 201, 207, 209, 223)
	m := llama(t)
	for _, c := range []struct {
		layout, optimizer, implementation                string
		weights, gradients, master, moments, temporaries int64 // bytes
	}{
		{"bf16-params-bf16-grads-fp32-master-fp32-moments", "adamw", "fused", 2 * parameters, 2 * parameters, 4 * parameters, 8 * parameters, 0},
		{"bf16-params-fp32-grads-fp32-master-fp32-moments", "adamw", "fused", 2 * parameters, 4 * parameters, 4 * parameters, 8 * parameters, 0},
		{"fp32-params-autocast", "adamw", "fused", 4 * parameters, 4 * parameters, 0, 8 * parameters, 0},
		{"bf16-params", "adamw", "foreach", 2 * parameters, 2 * parameters, 0, 4 * parameters, 2 * parameters},
		{"fp32-params", "adamw", "foreach", 4 * parameters, 4 * parameters, 0, 8 * parameters, 4 * parameters},
		{"bf16-params-no-moments", "sgd", "fused", 2 * parameters, 2 * parameters, 0, 0, 0},
		{"fp32-params", "sgd_momentum", "fused", 4 * parameters, 4 * parameters, 0, 4 * parameters, 0},
		{"fp32-params", "lion", "", 4 * parameters, 4 * parameters, 0, 4 * parameters, 0},
	} {
		a := accountOf(t, m, work(t, c.layout, c.optimizer, c.implementation))
		step := phase(t, a, account.PhaseOptimizerStep, 2)
		counters := int64(0)
		if c.optimizer == "adamw" && c.implementation == "fused" && c.master == 0 {
			counters = 4 * 146 // a step counter on the device for each tensor
		}
		for _, x := range []struct {
			id   account.TermID
			want int64
		}{
			{account.TermWeights, c.weights}, {account.TermGradients, c.gradients}, {account.TermMasterCopy, c.master},
			{account.TermOptimizerState, c.moments + counters}, {account.TermTemporaries, c.temporaries + 4}, // with the loss, which has a name
		} {
			if got := bytesOf(a, step, x.id); got != x.want {
				t.Errorf("%s, %s: %s is %d bytes, want %d", c.layout, c.optimizer, x.id, got, x.want)
			}
		}
	}
}

// States of 8 bits: two bytes an element, a 32-bit maximum for each 256, 32 bits
// where a tensor has fewer than 4,096 elements, and two tables.
func TestBlockwiseStates(t *testing.T) {
	m := llama(t)
	norms := int64(33 * 2048)
	large := parameters - norms
	want := 2*large + 2*4*large/256 + 2*4*norms + 2*1024
	a := accountOf(t, m, work(t, "bf16-params", "adamw_8bit", ""))
	if got := bytesOf(a, phase(t, a, account.PhaseOptimizerStep, 1), account.TermOptimizerState); got != want {
		t.Errorf("8-bit states are %d bytes, want %d", got, want)
	}
	// Paged: the elements of large tensors are in managed memory, their maxima are
	// not.
	a = accountOf(t, m, work(t, "bf16-params", "paged_adamw_8bit", ""))
	step := phase(t, a, account.PhaseOptimizerStep, 1)
	if got := bytesOf(a, step, account.TermOptimizerState); got != want-2*large {
		t.Errorf("of paged states %d bytes are PyTorch's, want %d", got, want-2*large)
	}
	if high, known := held(a, step, account.TermPagedState).High(); !known || high != 2*large || held(a, step, account.TermPagedState).Low() != 0 {
		t.Errorf("paged states are %d to %d bytes, want 0 to %d", held(a, step, account.TermPagedState).Low(), high, 2*large)
	}
}

// Adafactor keeps a row and a column of each matrix in 32 bits, and makes its
// temporaries one parameter at a time.
func TestAdafactor(t *testing.T) {
	a := accountOf(t, llama(t), work(t, "fp32-params", "adafactor", ""))
	layer := int64(2*(2048+2048) + 2*(512+2048) + 3*(8192+2048) + 2*2048)
	want := 4 * (16*layer + 128256 + 2048 + 2048)
	step := phase(t, a, account.PhaseOptimizerStep, 1)
	if got := bytesOf(a, step, account.TermOptimizerState); got != want {
		// At the peak, the embedding's, later parameters have no state yet.
		if end := bytesOf(a, phase(t, a, account.PhaseOptimizerStep, 2), account.TermOptimizerState); end != want {
			t.Errorf("factored states are %d bytes, want %d", end, want)
		}
	}
	// The embedding's square and sum are alive together, and the update of the
	// parameter before it.
	if got, least := bytesOf(a, step, account.TermTemporaries), int64(2*4*262_668_288); got < least || got > 3*least/2 {
		t.Errorf("temporaries are %d bytes, want %d to %d", got, least, 3*least/2)
	}
}

// States are born in the first step, so that the second begins higher; gradients
// go after the step, or stay.
func TestStatesAreBornInTheFirstStep(t *testing.T) {
	checklist.Covers(t, 38)
	m := llama(t)
	w := work(t, "bf16-params", "adamw", "fused")
	a := accountOf(t, m, w)
	first, second := phase(t, a, account.PhaseForward, 1), phase(t, a, account.PhaseForward, 2)
	const workspaces, loss = 2 * 8_519_680, 4
	if got := second.Start.Requested.Low() - first.Start.Requested.Low() - workspaces - loss; got != 4*parameters+4*146 {
		t.Errorf("step 2 begins %d bytes higher, want %d", got, 4*parameters+4*146)
	}
	w.Training.Reset = workload.SetToZero
	kept := phase(t, accountOf(t, m, w), account.PhaseForward, 2)
	if got := kept.Start.Requested.Low() - second.Start.Requested.Low(); got != 2*parameters {
		t.Errorf("gradients that are kept make step 2 begin %d bytes higher, want %d", got, 2*parameters)
	}
	w.Training.Reset, w.Training.Accumulation = "", 4
	a = accountOf(t, m, w)
	micro := slices.IndexFunc(a.Phases, func(p account.Phase) bool { return p.ID == account.PhaseForward && p.Micro == 4 })
	if micro < 0 || bytesOf(a, a.Phases[micro], account.TermGradients) != 2*parameters {
		t.Error("the last micro-batch does not run beside the gradients of the first")
	}
}

// An adapter leaves the base frozen: no gradients, no states of it. Its count
// follows from rank and targets, and its ratio is a result.
func TestAdapters(t *testing.T) {
	checklist.Covers(t, 210, 212, 213, 225)
	m := llama(t)
	for _, c := range []struct {
		tuning workload.Tuning
		want   int64 // trained elements
		bytes  int64 // of the adapter, and of modules that are saved whole
	}{
		{workload.Tuning{Rank: 16, Targets: []string{"q_proj", "v_proj"}}, 16 * 16 * ((2048 + 2048) + (2048 + 512)), 4 * 16 * 16 * ((2048 + 2048) + (2048 + 512))},
		{workload.Tuning{Kind: "dora", Rank: 8, Targets: []string{"q_proj"}}, 16 * (8*4096 + 2048), 4 * 16 * (8*4096 + 2048)},
		{workload.Tuning{Rank: 8, Targets: []string{"all-linear"}, Format: dtype.BF16}, 16 * 8 * (2*4096 + 2*2560 + 3*10240), 2 * 16 * 8 * (2*4096 + 2*2560 + 3*10240)},
		// A module that is saved whole is a copy in its own format.
		{workload.Tuning{Rank: 8, Targets: []string{"q_proj"}, Saved: []string{"embed_tokens"}}, 16*8*4096 + 262_668_288, 4*16*8*4096 + 2*262_668_288},
		// The head is tied to the embedding, and a copy of it is not.
		{workload.Tuning{Rank: 8, Targets: []string{"q_proj"}, Saved: []string{"lm_head"}}, 16*8*4096 + 262_668_288, 4*16*8*4096 + 2*262_668_288},
	} {
		w := work(t, "bf16-params", "adamw", "for_loop")
		w.Operation = workload.FineTuning
		tune(t, m, &w, c.tuning)
		a := accountOf(t, m, w)
		step := phase(t, a, account.PhaseOptimizerStep, 2)
		if got := bytesOf(a, step, account.TermAdapters); got != c.bytes {
			t.Errorf("%+v: the adapter is %d bytes, want %d", c.tuning.Targets, got, c.bytes)
		}
		if got := bytesOf(a, step, account.TermGradients); got != c.bytes {
			t.Errorf("%v: gradients are %d bytes, want %d: those of the adapter alone", c.tuning.Targets, got, c.bytes)
		}
		if got := bytesOf(a, step, account.TermOptimizerState); got != 2*c.bytes {
			t.Errorf("%v: moments are %d bytes, want %d", c.tuning.Targets, got, 2*c.bytes)
		}
		if got := bytesOf(a, step, account.TermWeights); got != 2*parameters {
			t.Errorf("%v: the frozen base is %d bytes", c.tuning.Targets, got)
		}
	}
}

// A base in 4 bits changes the frozen weights and nothing else of the states.
func TestPackedBase(t *testing.T) {
	checklist.Covers(t, 214, 216)
	m := llama(t)
	packed, err := m.WithFormat("nf4-double")
	if err != nil {
		t.Fatal(err)
	}
	states := func(m *model.Model, prepared bool) (a account.Account, step account.Phase) {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Operation = workload.FineTuning
		tune(t, m, &w, workload.Tuning{Rank: 16, Targets: []string{"q_proj", "v_proj"}, Prepared: prepared})
		a = accountOf(t, m, w)
		return a, phase(t, a, account.PhaseOptimizerStep, 2)
	}
	a, plain := states(m, false)
	b, four := states(packed, false)
	for _, id := range []account.TermID{account.TermAdapters, account.TermGradients, account.TermOptimizerState} {
		if x, y := bytesOf(a, plain, id), bytesOf(b, four, id); x != y {
			t.Errorf("%s is %d bytes on 16 bits and %d on 4", id, x, y)
		}
	}
	const linear, rest = 973_078_528, parameters - 973_078_528
	blocks := int64(linear / 64)
	if got, want := bytesOf(b, four, account.TermWeights), int64(linear/2+2*rest); got != want {
		t.Errorf("weights are %d bytes, want %d", got, want)
	}
	if got, want := bytesOf(b, four, account.TermQuantisationMetadata), blocks+4*blocks/256+112*(64+1024+4); got != want {
		t.Errorf("scales and tables are %d bytes, want %d", got, want)
	}
	// Weights that are packed in another way have no program.
	bytes, err := m.WithFormat("int8")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := states(bytes, false)
	if f := held(e, phase(t, e, account.PhaseBackward, 2), account.TermActivations); f.Known() {
		t.Errorf("activations beside weights of 8 bits are %+v", f)
	}
	// What is not packed is cast to 32 bits by the preparation.
	c, cast := states(packed, true)
	if got, want := bytesOf(c, cast, account.TermWeights), int64(linear/2+4*rest); got != want {
		t.Errorf("prepared weights are %d bytes, want %d", got, want)
	}
	// The payload alone tells no fit: without a length nothing is known of what
	// operators make.
	w := work(t, "bf16-params", "adamw", "fused")
	tune(t, packed, &w, workload.Tuning{Rank: 16, Targets: []string{"q_proj", "v_proj"}})
	w.Inputs = nil
	d := accountOf(t, packed, w)
	if f := held(d, phase(t, d, account.PhaseBackward, 2), account.TermActivations); f.Known() || f.Reason() == "" {
		t.Errorf("activations are %+v", f)
	}
}

// What this engine does not run as operators never passes for plain eager.
func TestWhatIsNotModelledIsUnknown(t *testing.T) {
	checklist.Covers(t, 34)
	m := llama(t)
	for _, c := range []struct {
		name string
		with func(*workload.Workload)
		want string
	}{
		{"torch.compile", func(w *workload.Workload) { w.Features = append(w.Features, workload.TorchCompile) }, "torch.compile"},
		{"FP8", func(w *workload.Workload) { w.Features = append(w.Features, workload.FP8Compute) }, "FP8"},
		{"CUDA graphs", func(w *workload.Workload) { w.Features = append(w.Features, workload.CUDAGraphs) }, "private pool"},
		{"offloaded weights", func(w *workload.Workload) { w.Features = append(w.Features, workload.WeightOffload) }, "offload"},
		{"software without a program", func(w *workload.Workload) { w.Engine.Name = "autoawq" }, "the modules of autoawq"},
		{"a release that nobody can read", func(w *workload.Workload) { w.Engine = workload.Engine{Name: "torchtune", Version: "latest"} }, "is not a release"},
		{"no lengths", func(w *workload.Workload) { w.Inputs = nil }, "does not say how much is processed"},
	} {
		w := work(t, "bf16-params", "adamw", "fused")
		c.with(&w)
		a := accountOf(t, m, w)
		for _, id := range []account.PhaseID{account.PhaseForward, account.PhaseBackward} {
			for step := 1; step <= 2; step++ {
				f := held(a, phase(t, a, id, step), account.TermActivations)
				if f.Known() || !strings.Contains(f.Reason(), c.want) {
					t.Errorf("%s: activations in %s, step %d: known %v, %q", c.name, id, step, f.Known(), f.Reason())
				}
			}
		}
		if _, exact := held(a, phase(t, a, account.PhaseOptimizerStep, 2), account.TermWeights).IsExact(); !exact && c.name != "offloaded weights" {
			t.Errorf("%s: the weights are not exact", c.name)
		}
	}
}

// Every formula has a source and a worked number, and a short form for tables.
func TestFormulas(t *testing.T) {
	for _, f := range (training.Engine{}).Formulas() {
		if f.Source == "" || f.Worked == "" || f.Short == "" || len([]rune(f.Short)) > 60 {
			t.Errorf("%+v", f)
		}
	}
}

// Each row of an optimizer's states names the rule by which it was counted.
func TestStatesNameTheirRule(t *testing.T) {
	m := llama(t)
	for optimizer, want := range map[string]string{"adamw": "optimizer.moments", "lion": "optimizer.32_bits", "adamw_32bit": "optimizer.32_bits", "lion_8bit": "optimizer.blockwise", "adafactor": "optimizer.factored"} {
		a := accountOf(t, m, work(t, "bf16-params", optimizer, ""))
		at := slices.IndexFunc(a.Terms, func(x account.Term) bool { return x.ID == account.TermOptimizerState })
		if at < 0 || a.Terms[at].Counter != want {
			t.Errorf("%s: %+v, want the rule %s", optimizer, a.Terms, want)
		}
	}
}

// An optimizer that is not known here has states from its first step on, of a size
// that nobody can say: before it, what is there is known.
func TestForeignOptimizer(t *testing.T) {
	w := work(t, "bf16-params", "sgd", "")
	w.Training.Optimizer = workload.ForeignOptimizer("my_secret_optimizer")
	for _, inBackward := range []bool{false, true} {
		w.Training.InBackward = inBackward
		a := accountOf(t, llama(t), w)
		for _, p := range a.Phases {
			known := p.Peak(account.Process).Figure.Known()
			if before := p.ID == account.PhaseModelLoad || p.Step == 1 && p.ID != account.PhaseOptimizerStep && !(inBackward && p.ID == account.PhaseBackward); known != before {
				t.Errorf("in backward %v: %s, step %d: known is %v", inBackward, p.ID, p.Step, known)
			}
		}
		at := slices.IndexFunc(a.Terms, func(x account.Term) bool { return x.ID == account.TermOptimizerState })
		last := a.Phases[len(a.Phases)-1]
		if got := held(a, last, account.TermOptimizerState); at < 0 || got.Known() || !strings.Contains(got.Reason(), "my_secret_optimizer") {
			t.Errorf("in backward %v: the states are %s, %s", inBackward, got.In(1), got.Reason())
		}
	}
}

// What runs in a phase that is not modelled is unknown for a reason that is said.
func TestEveryUnknownHasAReason(t *testing.T) {
	w := work(t, "bf16-params", "adamw", "")
	w.Phases = []account.PhaseID{account.PhaseGenerate, account.PhaseEvaluation, account.PhaseExport, account.PhaseResume, account.PhaseSave}
	a := accountOf(t, llama(t), w)
	for _, p := range a.Phases {
		for _, s := range p.AtPeak {
			if reason := s.Bytes.Reason(); !s.Bytes.Known() && (strings.TrimSpace(reason) == "" || strings.HasSuffix(strings.TrimSpace(reason), ":")) {
				t.Errorf("%s: %s is unknown, because %q", p.ID, a.Terms[s.Term].ID, reason)
			}
		}
	}
}

// Groups of ranks that share one copy must divide the ranks that there are.
func TestShardGroupsDivideTheRanks(t *testing.T) {
	m := llama(t)
	for group, runs := range map[int64]bool{0: true, 1: true, 2: true, 4: true, 3: false, 8: false, 1024: false} {
		w := work(t, "bf16-params", "adamw", "")
		w.Mesh.DataParallel = 4
		w.Training.Sharding = &workload.Sharding{Kind: workload.FSDP2, Group: group}
		plans, err := parallel.Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		_, err = training.Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: &w})
		if (err == nil) != runs {
			t.Errorf("groups of %d of 4 ranks: %v", group, err)
		}
	}
}
