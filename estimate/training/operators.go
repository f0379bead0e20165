package training

import (
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/state"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// operators is the model as a program of operators on the machine that writes
// the timeline; nil where the model or the manner of training has no program.
type operators struct {
	m     *torch.Machine
	net   *modules.Net
	base  *model.Model // as if nothing of it were packed: what the net's parameters are of
	batch modules.Batch
	loss  torch.Tensor // the loop's name for it, which lives until it is bound again
	// outputs are all that a forward pass returned, where the loop has a name for it.
	outputs modules.Outputs
	// beforeLoss is called when the logits are there and their loss is not.
	beforeLoss func()
}

// newMachine is a process on the card under the rank.
func (j *job) newMachine() *torch.Machine {
	return torch.New(torch.Options{Device: j.device(), Release: j.pytorch(), Provenance: requested(operatorFormula)})
}

// pytorch is its release: the one that is said, else the one that the software was
// made for; the newest where nobody knows.
func (j *job) pytorch() torch.Release {
	if said, err := torch.ParseRelease(j.in.Workload.Engine.Torch()); err == nil {
		return said
	}
	own, version := j.software()
	return own.Torch(version)
}

// hostArch is the architecture of no card: the model runs on a CPU.
const hostArch = "CPU"

// device is the card as kernels see it, or no card, where what PyTorch allocates can
// be recorded.
func (j *job) device() torch.Device {
	if j.in.Memory.Arch == hostArch {
		return torch.CPU()
	}
	return torch.CardOf(j.in.Memory.Arch, j.pytorch())
}

// program puts the model on the machine as modules, where it has a program: the
// base as if nothing of it were packed, with word of what is.
func (j *job) program() error {
	if j.why() != "" {
		return nil
	}
	base, err := j.unpacked()
	if err != nil {
		return err
	}
	if a := j.train.Attention; a != "" && a != "eager" && modules.Sinks(base) {
		return &programError{"attention with sinks has a program for the class's own eager attention alone, and " + a + " was asked for"}
	}
	h := j.holding()
	own, release := j.software()
	recomputes := j.train.Checkpointing.Kind == workload.FullCheckpointing || j.train.Checkpointing.Kind == workload.EveryCheckpointing
	j.ops = &operators{m: j.machine, base: base, beforeLoss: func() {}}
	j.ops.net = modules.New(j.machine, base, modules.Options{
		CPU: j.device().CPU, Attention: j.attention(), Experts: modules.GroupedExperts, Training: j.trains(),
		Checkpointing: recomputes, Segment: j.train.Checkpointing.Every, Chooses: j.choosesOperators(), Compiles: j.compilesLayers(), Breaks: j.hooksLayers(), EagerLoss: j.has(workload.EagerLoss), FP8: j.has(workload.FP8Compute), Async: j.has(workload.AsyncTensorParallel),
		Software: own, Release: release, Loss: j.loss(), Objective: j.objective(),
		Cache:     j.train.KeepsOutputs && !recomputes,
		Reentrant: j.reentrant(own, release),
		// peft asks for it with every kind of recomputation, since a frozen
		// embedding would pass no gradient into the first part.
		InputGrads: j.train.Tuning != nil && recomputes && own == modules.Transformers,
		Weight:     h.weight, Adapter: h.adapter, Around: j.around(), TensorParallel: j.across(), Stage: j.stages() > 1,
		BeforeLoss: func() { j.ops.beforeLoss() },
	})
	why := j.ops.net.Unsupported()
	if side, _ := j.in.Workload.Dimension(workload.Resolution); why == "" && j.pictures() && side != j.ops.net.Resolution() {
		why = fmt.Sprintf("positions are for pictures of %d pixels, and how they are stretched to %d is not modelled", j.ops.net.Resolution(), side)
	}
	if why != "" {
		j.ops = nil
		return &programError{why}
	}
	if j.gathers() && !j.ops.net.TellsParts() {
		j.ops = nil
		return &programError{"when ranks gather the parts of this program is not modelled"}
	}
	for _, p := range j.ops.net.Parameters() {
		name, role := "adapter", model.RoleOther
		if len(p.Of) > 0 {
			name, role = base.Tensors[p.Of[0]].Name, base.Tensors[p.Of[0]].Role
		}
		own := newParameter(name, role, p.Shape(), p.Dtype(), j.weightsTerm(account.CategoryParameter))
		own.tensor, own.trained, own.packed, own.part = p.Tensor, p.Trained, h.isPacked(name), p.Part
		j.held = append(j.held, own)
	}
	j.beside()
	return nil
}

// reentrant reports PyTorch's older way to compute parts again.
func (j *job) reentrant(own modules.Software, release modules.Release) bool {
	if j.train.Reentrant != nil {
		return *j.train.Reentrant
	}
	return own.Reentrant(release)
}

// attention is the implementation of the scores.
func (j *job) attention() modules.Attention {
	if j.train.Attention != "" {
		return modules.Attention(j.train.Attention)
	}
	return modules.SDPA
}

// programError says why a model has no program.
type programError struct{ why string }

// Error is the reason.
func (e *programError) Error() string { return e.why }

// unpacked is the model with the matrices that packed ones stand for.
func (j *job) unpacked() (*model.Model, error) {
	if !slices.ContainsFunc(j.in.Model.Tensors, j.packed) {
		return j.in.Model, nil
	}
	return j.in.Model.WithFormat(workload.FormatName(j.compute()))
}

// holding says how each tensor of the model is held, by its name.
type holding struct {
	j       *job
	stored  map[string]model.Tensor
	tuned   map[string]modules.Adapter
	copied  map[string]bool
	frozen  map[string]bool
	nested  bool // scales of packed weights are packed too
	trained bool // every parameter is
}

func (j *job) holding() *holding {
	h := &holding{j: j, stored: map[string]model.Tensor{}, tuned: map[string]modules.Adapter{}, copied: map[string]bool{}, frozen: map[string]bool{}, trained: j.trains() && j.train.Tuning == nil}
	for i, t := range j.in.Model.Tensors {
		h.stored[t.Name], h.frozen[t.Name] = t, j.isFrozen(i)
		h.nested = h.nested || t.Role == model.RoleScale && t.Stored == dtype.U8
	}
	if j.train.Tuning == nil {
		return h
	}
	for _, m := range j.train.Tuning.Modules {
		name := j.in.Model.Tensors[m.Tensor].Name
		switch {
		case m.Once:
			continue
		case m.Saved:
			h.copied[name] = true
			continue
		}
		h.tuned[name] = j.adapterOf(m)
	}
	return h
}

// adapterOf is the adapter on a module.
func (j *job) adapterOf(m workload.TunedModule) modules.Adapter {
	t := j.train.Tuning
	a := modules.Adapter{Format: j.adapterFormat(), Dropout: t.Dropout, DoRA: t.Kind == workload.DoRA}
	switch t.Kind {
	case "", workload.LoRA, workload.DoRA:
		a.Rank = rowsOf(m.Shapes[0])
	case workload.LoRAFA: // [out, rank], and beside it [rank, in]
		a.Rank, a.FrozenDown = m.Shapes[0][1], true
	case workload.MiCA:
		a.Rank, a.FrozenUp = m.Shapes[0][0], true
	case workload.IA3:
		a.Kind, a.Input = modules.Scaling, rowsOf(m.Shapes[0]) == 1
	case workload.OFT:
		a.Kind, a.Rank = modules.Rotation, rowsOf(m.Shapes[0])
	case workload.AdaptionPrompt:
		a.Kind, a.Rank = modules.Prompt, rowsOf(m.Shapes[0])
	default:
		a.Kind, a.Name, a.Shapes = modules.Undescribed, t.Kind, m.Shapes
		for _, f := range m.Frozen {
			a.Frozen = append(a.Frozen, modules.FrozenTensor(f))
		}
	}
	return a
}

// rowsOf is the last size but one.
func rowsOf(shape []int64) int64 { return shape[len(shape)-2] }

// beside makes what an adapter holds beside the modules that it is on. What reads it
// is not described, so that the passes through the model are not predicted.
func (j *job) beside() {
	if j.train.Tuning == nil {
		return
	}
	for _, m := range j.train.Tuning.Modules {
		if !m.Once {
			continue
		}
		for _, shape := range m.Shapes {
			p := newParameter(m.Module, model.RoleOther, shape, j.adapterFormat(), j.weightsTerm(account.CategoryParameter))
			p.tensor, p.trained, p.part = j.machine.Adapter(p.format, shape...), true, modules.Outside
			j.held = append(j.held, p)
			j.ops.net.Beside(p.tensor)
		}
		for _, f := range m.Frozen {
			j.machine.Buffer(f.Format, f.Shape...)
		}
	}
}

func (h *holding) isPacked(name string) bool {
	t, has := h.stored[name]
	return has && h.j.packed(t)
}

func (h *holding) weight(t model.Tensor) modules.Weight {
	own, has := h.stored[t.Name]
	if !has {
		own = t
	}
	w := modules.Weight{Format: own.Stored, Trained: h.trained && t.Role.Category() == account.CategoryParameter && !h.frozen[t.Name], Copied: h.copied[t.Name]}
	switch {
	case h.j.packed(own):
		w.Format, w.Packed, w.Nested, w.GPTQ = h.j.compute(), true, h.nested, h.gptqOf(own)
	case h.j.casts(own):
		w.Format = dtype.F32
	}
	w.Absent = h.j.gathers() && t.Role.Category() == account.CategoryParameter
	if w.Absent && !w.Packed {
		w.Format = h.j.gatheredFormat(t.Role, w.Format)
	}
	return w
}

func (h *holding) adapter(t model.Tensor) (modules.Adapter, bool) {
	a, has := h.tuned[t.Name]
	a.Format = h.j.gatheredFormat(t.Role, a.Format)
	return a, has
}

// packed reports a tensor whose stored words are not its elements.
func (j *job) packed(t model.Tensor) bool {
	return t.Packed != nil || t.Stored.Blocked() || t.Stored != dtype.Unknown && t.Stored.Bits() < 16
}

// packedOtherwise reports a weight that is packed in another way than the 4 bits
// of bitsandbytes and those of GPTQ, which alone have a program.
func (j *job) packedOtherwise(t model.Tensor) bool {
	if !j.packed(t) || t.Role.Category() != account.CategoryParameter {
		return false
	}
	q := j.in.Model.Quantised
	if q != nil && q.Method == gptqMethod {
		return false // [job.gptqLacks] says of which there is none
	}
	return !(q == nil && t.Stored == dtype.U4 && t.Packed == nil || q != nil && q.Method == "bitsandbytes" && q.Bits == 4)
}

// prompted is the positions that a trained prompt puts before those of the inputs,
// each with its logits (prompt_encoder of PEFT's peft_model.py).
func (j *job) prompted() int64 {
	if j.train.Tuning == nil {
		return 0
	}
	for _, m := range j.train.Tuning.Modules {
		if m.Once && (m.Module == "prompt_tuning" || m.Module == "p_tuning") {
			return m.Shapes[0][0]
		}
	}
	return 0
}

// prefix is what a trained prefix keeps where the loop has a name for the outputs:
// keys and values in the cache, without logits. Worked number: 200 positions of 28
// layers of 8 heads of 128 in bf16 for 4 sequences are 200 · 28 · 2 · 1,024 · 2 · 4 =
// 91,750,400 bytes.
func (j *job) prefix(batch int64) {
	if j.train.Tuning == nil || !j.train.KeepsOutputs {
		return
	}
	for _, m := range j.train.Tuning.Modules {
		switch {
		case !m.Once:
		case m.Module == "prefix_tuning":
			p := requested(state.AttentionFormula)
			width, _ := j.compute().Size(nil)
			bytes, fits := bytesize.Mul(batch, m.Shapes[0][0], m.Shapes[0][1], width)
			j.bound(j.term(account.TermKVCache, account.CategoryKVCache, p), len(j.tl.Phases), last, account.Checked(bytes, fits, p))
		case m.Module == "adaption_prompt":
			p := requested("")
			j.bound(j.term(account.TermKVCache, account.CategoryKVCache, p), len(j.tl.Phases), last, account.Unknown(j.undescribed(), p))
		}
	}
}

// inputs are the tokens of a micro-batch and their labels, as long as the context.
func (j *job) inputs() {
	context, _ := j.in.Workload.Dimension(workload.Context)
	j.inputsOf(context)
}

// inputsOf are inputs of a length.
func (j *job) inputsOf(context int64) {
	batch, _ := j.in.Workload.Dimension(workload.MicroBatch)
	if j.stages() > 1 {
		batch *= j.micro() // the loader gives all micro-batches of a step at once
	}
	j.prefix(batch)
	j.ops.batch = j.batchOf(batch, context, true)
}

// batchOf is so many sequences or pictures, and their labels.
func (j *job) batchOf(batch, context int64, labelled bool) (b modules.Batch) {
	m, net := j.ops.m, j.ops.net
	context += j.prompted()
	j.read(&b, batch, context)
	switch {
	case labelled && (j.pictures() || net.Hears()):
		shape := []int64{batch, context}
		if j.pictures() {
			shape = shape[:1]
		}
		b.Labels = m.Input(dtype.I64, shape...)
	case labelled:
		b.Labels = m.Input(dtype.I64, net.LabelShape(batch, context)...)
	case modules.Crosses(j.in.Model):
		b.DecoderIDs = m.Input(dtype.I64, batch, context)
	}
	if !b.IDs.Defined() {
		return b
	}
	if (j.earlier() || j.train.Objective != nil) && j.in.Model.Stacks[0].Kind == model.Decoder {
		b.Mask = m.Input(dtype.I64, batch, context)
	}
	net.Cut(context)
	if own, _ := j.software(); !j.hasOwn() || own == modules.TorchTitan {
		return b // labels are moved by the loader
	}
	b.Ignored = m.Input(dtype.I64, batch, 1)
	if j.train.Packed {
		b.Positions = m.Input(dtype.I64, batch, context)
	}
	return b
}

// read is what a batch gives the model to read.
func (j *job) read(b *modules.Batch, batch, context int64) {
	net := j.ops.net
	switch n, declared := j.in.Workload.Dimension(workload.EncoderLength); {
	case j.pictures():
		b.Pixels = net.Pixels(j.in.Workload.Precision.Parameters, batch, net.Resolution())
	case net.Hears():
		b.Pixels = net.Sounds(j.in.Workload.Precision.Parameters, batch)
	case declared && modules.Crosses(j.in.Model):
		b.IDs = j.ops.m.Input(dtype.I64, batch, n)
	default:
		b.IDs = j.ops.m.Input(dtype.I64, batch, context)
	}
}

// forward runs the model to its loss.
func (j *job) forward() {
	o := j.ops
	run := func() { o.rebind(o.m.Keep(o.net.Loss(o.batch))) }
	if j.train.KeepsOutputs {
		run = func() {
			if j.train.DropsOutputs {
				o.net.Release(o.outputs)
				o.outputs = modules.Outputs{}
			}
			made := o.net.Outputs(o.batch)
			o.net.Release(o.outputs)
			o.outputs, o.loss = made, made.Loss
		}
	}
	if f := j.train.Autocast; f != dtype.Unknown && j.train.Objective == nil {
		o.m.Autocast(f, run)
		return
	}
	run()
}

// rebind gives the loop's name the loss of this micro-batch.
func (o *operators) rebind(loss torch.Tensor) {
	o.m.Drop(o.loss)
	o.loss = loss
}
