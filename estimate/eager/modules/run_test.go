package modules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/source"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/model/hfmodel"
	"floodmark/timeline"
)

// modelOf reads a family's configuration.
func modelOf(t testing.TB, family string) *model.Model {
	t.Helper()
	path := filepath.Join(recordings, family, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := hfmodel.Read(source.Bytes(path, data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// formats are the conditions' names of them.
var formats = map[string]dtype.Format{"": dtype.F32, "float32": dtype.F32, "bfloat16": dtype.BF16}

// optionsOf is the conditions of a recording.
func optionsOf(r recorded) modules.Options {
	format, training := formats[r.option("dtype")], r.option("operation") == ""
	o := modules.Options{
		CPU: true, Reference: true, Cache: r.flag("keep-outputs"), Attention: modules.SDPA, Experts: modules.GroupedExperts, Training: training,
		Checkpointing: r.option("checkpointing") != "", Reentrant: r.option("checkpointing") == "reentrant",
		Chooses: r.option("checkpointing") == "selective",
		Weight:  func(model.Tensor) modules.Weight { return modules.Weight{Format: format, Trained: true} },
	}
	if own := r.releaseOf("transformers"); strings.HasPrefix(own, "4.") {
		o.Release, _ = modules.ParseRelease(own)
	}
	adapt(&o, r, format)
	if software := r.option("software"); software != "" {
		release, err := modules.ParseRelease(r.releaseOf(software))
		if err != nil {
			panic(err)
		}
		if software == "trl" {
			o.Objective = &modules.Objective{Method: modules.Method(r.option("method")), Release: release, Reference: references[r.option("reference")]}
			return o
		}
		o.Software, o.Release, o.Loss = modules.Software(software), release, modules.Loss(r.option("loss"))
	}
	if a := r.option("attention"); a != "" {
		o.Attention = modules.Attention(a)
	}
	if e := r.option("experts"); e != "" {
		o.Experts = modules.Experts(e)
	}
	if k := r.option("keep"); k != "" {
		fmt.Sscan(k, &o.Keep)
	}
	return o
}

// adapt adds the adapters of a recording: everything else is frozen then.
func adapt(o *modules.Options, r recorded, format dtype.Format) {
	kind := r.option("adapter")
	if kind == "" {
		return
	}
	comma := func(c rune) bool { return c == ',' }
	targets, saved := strings.FieldsFunc(r.option("targets"), comma), strings.FieldsFunc(r.option("modules-to-save"), comma)
	if kind == "ln_tuning" {
		targets, saved = nil, targets
	}
	own := dtype.F32 // peft's; torchtune and litgpt make adapters in the model's format
	if r.ownModules() {
		own = format
	}
	a := modules.Adapter{Rank: 8, Format: own, Dropout: r.option("adapter-dropout") != "", DoRA: kind == "dora", Kind: kinds[kind]}
	if rank := r.option("rank"); rank != "" {
		fmt.Sscan(rank, &a.Rank)
	}
	o.Weight = func(t model.Tensor) modules.Weight {
		return modules.Weight{Format: format, Copied: slices.Contains(saved, module(t))}
	}
	o.InputGrads = o.Checkpointing && !r.ownModules()
	if kind == "adaption_prompt" {
		o.Adapter = func(t model.Tensor) (modules.Adapter, bool) { return a, t.Role == model.RoleQKV && t.Layer >= 2 }
		return
	}
	o.Adapter = func(t model.Tensor) (modules.Adapter, bool) {
		own := a
		own.Input = t.Role == model.RoleDown
		return own, slices.Contains(targets, module(t))
	}
}

// kinds are the conditions' names of adapters that are no pair of matrices.
var kinds = map[string]modules.AdapterKind{"ia3": modules.Scaling, "oft": modules.Rotation, "adaption_prompt": modules.Prompt}

// module is the last name of what holds a weight.
func module(t model.Tensor) string {
	parts := strings.Split(t.Name, ".")
	if end := parts[len(parts)-1]; len(parts) < 2 || end != "weight" && (end != "bias" || !strings.Contains(t.Name, "ln_")) {
		return ""
	}
	return parts[len(parts)-2]
}

// simulate runs the program of a recording on a machine. What the program does
// not know is a reason.
func simulate(t testing.TB, r recorded) (list []event, unknown string) {
	t.Helper()
	return simulateModel(t, r, modelOf(t, r.family))
}

func simulateModel(t testing.TB, r recorded, source *model.Model) (list []event, unknown string) {
	t.Helper()
	return simulateWith(t, r, source, optionsOf(r))
}

func simulateWith(t testing.TB, r recorded, source *model.Model, o modules.Options) (list []event, unknown string) {
	t.Helper()
	release, _ := torch.ParseRelease(r.releaseOf("torch"))
	m := torch.New(torch.Options{Device: torch.CPU(), Release: release})
	m.Phase(account.PhaseModelLoad, 0)
	n := modules.New(m, source, o)
	b := batchOf(m, n, r)
	switch r.option("operation") {
	case "evaluation":
		m.Phase(account.PhaseForward, 1)
		m.NoGrad(func() { n.Logits(b) })
	case "evaluation_loop":
		evaluateTwice(m, n, modules.Evaluation{Keeps: r.flag("keep-logits")}, b)
	default:
		train(m, n, b, optimizers[r.option("optimizer")], r.flag("keep-outputs"), r.flag("optimizer-in-backward"))
	}
	tl, err := m.Timeline()
	if err != nil {
		t.Errorf("%s: %v", r, err)
	}
	for _, b := range tl.Bounds {
		if _, known := b.Figure.High(); !known {
			unknown = b.Figure.Reason()
		}
	}
	return eventsOf(tl), unknown
}

func batchOf(m *torch.Machine, n *modules.Net, r recorded) modules.Batch {
	batch, length := r.number(0), r.number(1)
	if length == 0 { // pictures
		b := modules.Batch{Pixels: n.Pixels(formats[r.option("dtype")], batch, n.Resolution())}
		if r.option("operation") != "evaluation" {
			b.Labels = m.Input(dtype.I64, batch)
		}
		return b
	}
	b := modules.Batch{}
	if n.Hears() {
		b.Pixels = n.Sounds(dtype.F32, batch)
	} else {
		b.IDs = m.Input(dtype.I64, batch, length)
	}
	if r.flag("positions") {
		b.Positions = m.Input(dtype.I64, batch, length)
	}
	if r.option("software") == "trl" {
		return pairs(m, batch, length)
	}
	if r.ownModules() {
		b.Ignored = m.Input(dtype.I64, batch, 1)
		n.Cut(length)
	}
	target := length
	if d := r.option("decoder-length"); d != "" {
		fmt.Sscan(d, &target)
	}
	if r.option("operation") != "evaluation" {
		b.Labels = m.Input(dtype.I64, n.LabelShape(batch, target)...)
	} else {
		b.DecoderIDs = m.Input(dtype.I64, batch, target)
	}
	if r.flag("mask") {
		b.Mask = m.Input(dtype.I64, batch, length)
	}
	return b
}

// pairs are the chosen and behind them the rejected.
func pairs(m *torch.Machine, batch, length int64) modules.Batch {
	in := func() torch.Tensor { return m.Input(dtype.I64, 2*batch, length) }
	return modules.Batch{IDs: in(), Mask: in(), Labels: in()}
}

// references are the conditions' names of them.
var references = map[string]modules.Reference{"": modules.AnotherModel, "model": modules.AnotherModel, "adapter": modules.AdapterOff, "precomputed": modules.Precomputed}

// optimizers are the conditions' names of them.
var optimizers = map[string]torch.OptimizerOptions{
	"":             {Algorithm: torch.AdamW},
	"adamw":        {Algorithm: torch.AdamW},
	"adamw_loop":   {Algorithm: torch.AdamW, Form: torch.ForLoop},
	"adamw_fused":  {Algorithm: torch.AdamW, Form: torch.Fused},
	"sgd":          {Algorithm: torch.SGD},
	"sgd_momentum": {Algorithm: torch.SGD, Momentum: true},
	"adafactor":    {Algorithm: torch.Adafactor},
}

// train is two steps as oracle/record.py runs them.
func train(m *torch.Machine, n *modules.Net, b modules.Batch, o torch.OptimizerOptions, keeps, inBackward bool) {
	var loss torch.Tensor
	var outputs modules.Outputs
	var trained []torch.Tensor
	for _, p := range n.Parameters() {
		trained = append(trained, p.Tensor)
	}
	optimizer := m.NewOptimizer(o, trained)
	if inBackward {
		optimizer = m.NewOptimizer(o, nil)
		for _, p := range trained {
			own := m.NewOptimizer(o, []torch.Tensor{p})
			m.WhenAccumulated(p, func() {
				own.Step()
				m.ZeroGrad(p, true)
			})
		}
	}
	for step := 1; step <= 2; step++ {
		m.Phase(account.PhaseForward, step)
		if keeps {
			made := n.Outputs(b)
			n.Release(outputs)
			outputs, loss = made, made.Loss
		} else {
			next := m.Keep(n.Loss(b))
			m.Drop(loss)
			loss = next
		}
		m.Phase(account.PhaseBackward, step)
		m.Backward(loss)
		m.Phase(account.PhaseOptimizerStep, step)
		optimizer.Step()
		m.Phase("zero_grad", step)
		for _, p := range trained {
			m.ZeroGrad(p, true)
		}
	}
}

// least is the largest block that recordings leave out: a number of Python as a
// tensor.
const least = 8

// older is a block that lived before the run.
const older = int32(-1)

// eventsOf is a timeline as a recording has it.
func eventsOf(tl *timeline.Timeline) []event {
	var list []event
	at := make([]int32, len(tl.Allocs))
	births := int32(0)
	phase := 1 // behind that in which the model is made, which recordings leave out
	for i, e := range tl.Events {
		if i < tl.Phases[0].Last {
			at[e.Alloc] = older
			continue
		}
		for phase < len(tl.Phases) && tl.Phases[phase].First <= i {
			list = append(list, event{phase: fmt.Sprintf("%s %d", tl.Phases[phase].Phase, tl.Phases[phase].Step)})
			phase++
		}
		a := tl.Allocs[e.Alloc]
		if a.Requested <= least {
			continue
		}
		if e.Kind == timeline.Born {
			at[e.Alloc] = births
			births++
			list = append(list, event{bytes: a.Requested})
			continue
		}
		if at[e.Alloc] == older {
			continue
		}
		list = append(list, event{of: at[e.Alloc]})
	}
	for ; phase < len(tl.Phases); phase++ { // those in which nothing happened
		list = append(list, event{phase: fmt.Sprintf("%s %d", tl.Phases[phase].Phase, tl.Phases[phase].Step)})
	}
	return list
}
