package training

import (
	"cmp"
	"slices"
	"strconv"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/outside"
	"floodmark/model"
	"floodmark/workload"
)

// countedSteps is how many steps are laid out: states are born in the first, so
// the second begins higher, and later ones are like it.
const countedSteps = 2

// steps lays out the steps of training.
func (j *job) steps() {
	j.workspaces()
	if j.ops != nil {
		j.inputs()
	} else {
		j.input()
	}
	j.gradientsToHost()
	for n := 1; n <= countedSteps; n++ {
		if j.ops != nil && j.stages() > 1 {
			j.pipelineStep(n)
		} else if j.train.Accumulation > 1 {
			j.microBatch(n, 1, true)
			j.microBatch(n, int(j.train.Accumulation), false)
		} else {
			j.microBatch(n, 0, true)
		}
		j.optimizerStep(n)
	}
	j.notes()
}

// workspaces is what matrix libraries take with the first product and keep.
// The machine makes those of cuBLAS itself; what is left is cuBLASLt's own.
func (j *job) workspaces() {
	f := outside.Workspaces(j.in.Memory.Arch, j.pytorch())
	if high, known := f.High(); j.ops != nil && known {
		f = account.Between(0, max(0, high-2*j.device().Workspace), f.Provenance)
	}
	term := j.term(account.TermWorkspace, account.CategoryWorkspace, f.Provenance)
	j.computes = len(j.tl.Phases)
	j.bound(term, j.computes, last, f)
}

// convolutions is what cuDNN works with beside convolutions, in the phases that have
// some: as much as is free, and it runs with what one plan needs. What it took is
// cached, and given back before a request fails.
func (j *job) convolutions() {
	p := outside.Workspaces(j.in.Memory.Arch, j.pytorch()).Provenance
	var most int64
	for span := range j.tl.Phases {
		work := j.machine.ConvolutionWork(span)
		if work == 0 {
			continue
		}
		most = max(most, work)
		j.bound(j.term(account.TermWorkspace, account.CategoryWorkspace, p), span, int32(span), account.Yielding(0, work, whyYielding(work), p))
	}
	if most > 0 {
		j.tl.Warn("taken_where_free", whyYielding(most)+": only that is counted, and readings may be higher where more is free")
	}
}

func whyYielding(work int64) string {
	return "beside convolutions cuDNN works with what is free, and needs at most " + bytesize.Format(work, bytesize.MiB) + " of it"
}

// input is the tokens of a micro-batch, 8 bytes each: ids alone at least, with
// labels, mask and positions at most.
func (j *job) input() {
	p := requested(inputFormula)
	f := account.Unknown("the workload does not say how long its inputs are", p)
	if j.pictures() {
		f = account.Unknown(j.why(), p)
	} else if tokens, ok := j.tokens(); ok {
		f = account.Between(8*tokens, 4*8*tokens, p)
	}
	j.bound(j.term(account.TermInput, account.CategoryInput, p), len(j.tl.Phases), last, f)
}

// tokens is the positions of a micro-batch.
func (j *job) tokens() (int64, bool) {
	batch, has := j.in.Workload.Dimension(workload.MicroBatch)
	context, also := j.in.Workload.Dimension(workload.Context)
	n, fits := bytesize.Mul(batch, context, 4*8)
	return n / (4 * 8), has && also && fits
}

// microBatch is forward, loss and backward of one micro-batch. Of accumulated
// ones the first makes the gradients, and the others run beside them.
func (j *job) microBatch(n, micro int, makes bool) {
	if j.ops != nil {
		from := len(j.tl.Phases)
		j.ops.beforeLoss = func() {
			j.finish()
			j.begin(account.PhaseLoss, n, micro)
		}
		j.microSpan(account.PhaseForward, n, micro, j.forward)
		j.microSpan(account.PhaseBackward, n, micro, func() {
			j.stepsInBackward(n == 1)
			j.backward()
			j.gradientsApart()
		})
		if j.compilesLayers() {
			j.reordered(int32(len(j.tl.Phases)-1), j.ops.net.BlocksFrom())
		}
		if why := j.undescribed(); why != "" {
			j.unpredicted(from, len(j.tl.Phases)-1, why)
		}
		return
	}
	from := len(j.tl.Phases)
	var cached []uint32
	j.microSpan(account.PhaseForward, n, micro, func() {
		j.passThrough()
		cached = j.autocast()
	})
	j.microSpan(account.PhaseLoss, n, micro, func() { j.free(cached...) })
	j.microSpan(account.PhaseBackward, n, micro, func() {
		if makes {
			j.gradients(n == 1)
		}
		if j.division != nil {
			j.division.backwardUnseen()
		}
	})
	j.unpredicted(from, len(j.tl.Phases)-1, j.why())
}

// autocast is the copies that torch.autocast keeps of the matrices that require
// a gradient, to the end of its context. Inside backward those that are saved
// there live on, which is part of the activations.
func (j *job) autocast() []uint32 {
	if j.train.Autocast == dtype.Unknown {
		return nil
	}
	term := j.term(account.TermAutocastCache, account.CategoryTemporary, requested(autocastFormula))
	var list []uint32
	for _, p := range j.tuned {
		if p.format == dtype.F32 && len(p.shape) >= 2 && p.role.Module() != model.EmbeddingModule {
			list = append(list, j.born(term, p.in(j.train.Autocast)))
		}
	}
	return list
}

// gradients are born in backward, the last layer's first, where .grad is none. An
// optimizer in backward steps each as soon as it is there.
func (j *job) gradients(first bool) {
	for _, p := range slices.Backward(j.tuned) {
		if j.division == nil || !j.division.keepsGradients() {
			j.gradient(p)
		}
		if j.train.InBackward {
			j.update([]*parameter{p}, first)
			j.release(p)
		}
	}
}

// stepsInBackward updates each parameter as soon as its gradient is there, and lets
// go of the gradient.
func (j *job) stepsInBackward(first bool) {
	if !j.train.InBackward {
		return
	}
	for _, p := range j.tuned {
		j.machine.WhenAccumulated(p.tensor, func() {
			j.update([]*parameter{p}, first)
			j.release(p)
		})
	}
}

// gradientsApart moves what backward made into gradients of a format of their
// own, one parameter at a time.
func (j *job) gradientsApart() {
	for _, p := range j.tuned {
		if f := j.formatsOf(p).gradient.Format; f != p.format && p.tensor.Defined() && p.tensor.HasGrad() {
			j.gradient(p)
			j.machine.ZeroGrad(p.tensor, true)
		}
	}
}

// gradient makes the gradient of a parameter: its tensor's own, or one in a
// format of its own.
func (j *job) gradient(p *parameter) {
	f := j.formatsOf(p).gradient.Format
	switch {
	case p.tensor.Defined() && f == p.format:
		if !p.tensor.HasGrad() {
			j.machine.GradOf(p.tensor)
		}
	case p.gradient == none:
		p.gradient = j.born(j.term(account.TermGradients, account.CategoryGradient, requested(gradientFormula)), p.in(f))
	}
}

// release frees the gradient of a parameter.
func (j *job) release(p *parameter) {
	j.rebind(&p.gradient, none)
	if p.tensor.Defined() {
		j.machine.ZeroGrad(p.tensor, true)
	}
}

// optimizerStep is the update, after which the gradients go unless the loop
// keeps them.
func (j *job) optimizerStep(n int) {
	if j.train.InBackward {
		j.foreign(n)
		return
	}
	j.span(account.PhaseOptimizerStep, n, func() {
		j.foreign(n)
		if j.division == nil || !j.division.step(j.tuned, n == 1) {
			cut := j.cutGradients()
			j.update(j.stepped(), n == 1)
			j.machine.Drop(cut...)
		}
		if j.train.Reset != workload.SetToZero {
			for _, p := range j.tuned {
				j.release(p)
			}
		}
	})
}

// foreign is what an optimizer keeps from its first step on whose states nobody here
// knows: not nothing, and not that of another.
func (j *job) foreign(n int) {
	if name := j.train.Optimizer.Foreign; name != "" && n == 1 {
		p := requested("")
		j.bound(j.term(account.TermOptimizerState, account.CategoryOptimizerState, p), len(j.tl.Phases)-1, last, account.Unknown("the states of the optimizer "+name+" are not known", p))
	}
}

// unpredicted is what the operators of the model make from one span to another:
// unknown, with the reason.
func (j *job) unpredicted(from, to int, why string) {
	why = cmp.Or(why, "what the model runs in "+string(j.tl.Phases[to].Phase)+" is not modelled")
	for _, t := range []struct {
		id account.TermID
		c  account.Category
	}{{account.TermActivations, account.CategoryActivation}, {account.TermLogits, account.CategoryLogits}} {
		p := requested("")
		j.bound(j.term(t.id, t.c, p), from, int32(to), account.Unknown(why, p))
	}
	if !j.caches {
		j.caches = true
		p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved}
		j.bound(j.term(account.TermAllocatorCache, account.CategoryAllocatorCache, p), from, last, account.Unknown("what the allocator caches depends on activations: "+why, p))
	}
}

// undescribed is the reason for which passes through an adapter have no program.
func (j *job) undescribed() string {
	if j.train.Tuning == nil {
		return ""
	}
	switch kind := j.train.Tuning.Kind; kind {
	case "", workload.LoRA, workload.DoRA, workload.IA3, workload.LNTuning, workload.OFT, workload.LoRAFA, workload.MiCA:
		return ""
	case workload.AdaptionPrompt: // litgpt's stands in the layers, PEFT's beside them
		if !slices.ContainsFunc(j.train.Tuning.Modules, func(m workload.TunedModule) bool { return m.Once }) {
			return ""
		}
		fallthrough
	default:
		return "what adapters of the kind " + kind + " make in a pass is not modelled"
	}
}

// why is the reason for which the operators of the model are not predicted.
func (j *job) why() string {
	switch {
	case j.without != "":
		return j.without
	case j.has(workload.TorchCompile) && !j.compilesLayers():
		return "torch.compile fuses and reorders operators, which is not modelled"
	case j.has(workload.FP8Compute) && !j.compilesLayers():
		return "what FP8 training copies and transposes is not modelled"
	case j.has(workload.CUDAGraphs):
		return "a captured step keeps its tensors in a private pool, which is not modelled"
	case j.has(workload.WeightOffload):
		return "what weight offload brings to the device and when is not modelled"
	case j.seen() != "":
		return j.seen()
	case j.whose() != "":
		return "the modules of " + j.whose() + " are not those of transformers " + strconv.Itoa(programsOf) + ", which alone have programs"
	case slices.ContainsFunc(j.in.Model.Tensors, j.packedOtherwise):
		return "the operators of weights that are packed in this way are not modelled"
	case j.gptqLacks() != "":
		return j.gptqLacks()
	case j.train.InBackward && j.in.Plan.Mesh.Ranks() > 1:
		return "a step inside backward is not modelled beside the operators of several ranks"
	case j.train.InBackward && j.train.Accumulation > 1:
		return "a step inside the backward of each micro-batch is not modelled: such optimizers accumulate nothing"
	case j.sharing().unshared() != "":
		return j.sharing().unshared()
	case j.in.Plan.Mesh.Ranks() > j.in.Plan.Mesh.DataParallel*int(j.across()*j.stages()):
		return "the operators of layers, experts and contexts that ranks divide are not modelled by this engine"
	case j.pipelineLacks() != "":
		return j.pipelineLacks()
	case len(j.in.Model.Unknown) > 0:
		return "the model is not understood: " + j.in.Model.Unknown[0].Field
	case j.train.Checkpointing.Kind == workload.SelectiveCheckpointing && !j.choosesOperators():
		return "checkpointing of this kind is not modelled by this version"
	}
	_, batched := j.in.Workload.Dimension(workload.MicroBatch)
	_, sized := j.in.Workload.Dimension(workload.Resolution)
	switch _, ok := j.tokens(); {
	case j.pictures() && !j.trains():
		return "evaluation of pictures is not modelled"
	case j.pictures() && (!batched || !sized):
		return "the workload does not say how much is processed at once (resolution, micro_batch)"
	case !j.pictures() && !ok && j.trains():
		return "the workload does not say how much is processed at once (context, micro_batch)"
	}
	return ""
}

// seen is why the stacks of the model have no program together: a decoder beside
// towers has one where it is given words alone.
func (j *job) seen() string {
	stacks := j.in.Model.Stacks
	at := slices.IndexFunc(stacks, func(s model.Stack) bool { return s.Manner.Alone })
	switch images, declared := j.in.Workload.Dimension(workload.Images); {
	case len(stacks) == 1 && (text(stacks[0].Kind) || j.pictures()):
		return ""
	case j.train.Objective != nil:
		return "an objective of pairs of answers is not modelled of a model of several stacks"
	case modules.Crosses(j.in.Model):
		if _, declared := j.in.Workload.Dimension(workload.EncoderLength); !declared && stacks[0].Kind == model.Encoder {
			return "the workload does not say how many positions the encoder reads (encoder_length)"
		}
		return ""
	case len(stacks) < 2 || at < 0:
		return "the operators of this kind of model are not modelled"
	case !declared:
		return "the model sees images, and the workload does not say how many (images; 0 for none)"
	case images > 0:
		return "what a tower makes of images beside a decoder is not modelled in training"
	case j.in.Plan.Mesh.Ranks() > 1:
		return "how ranks share gradients of a model whose tower no image reaches is not modelled"
	}
	return ""
}

// pictures reports a model that reads pictures alone.
func (j *job) pictures() bool {
	s := j.in.Model.Stacks
	return len(s) == 1 && s[0].Kind == model.Vision
}

// text reports a stack that reads tokens alone.
func text(k model.StackKind) bool { return k == model.Decoder || k == model.Encoder }

// notes say what a reader of the steps must be told.
func (j *job) notes() {
	var states int64
	for _, a := range j.tl.Allocs {
		if j.tl.Terms[a.Term].ID == account.TermOptimizerState {
			states += a.Requested
		}
	}
	if states > 0 && !j.train.InBackward {
		j.warn("born_in_first_step", "the optimizer's states, "+bytesize.Format(states, bytesize.Suggest(states))+", are born in optimizer_step of step 1: step 2 begins with them, and a run that stops before it under-states this workload")
	}
	if j.ops != nil && j.ops.net.Scored() != "" {
		j.warn("attention_scores", "attention makes the scores of all pairs of positions: "+j.ops.net.Scored())
	}
	if j.ops != nil && j.ops.batch.Mask.Defined() {
		j.warn("mask_assumed", "it is assumed that each batch comes with its mask of padding, as collators make it, in which nothing is padded: without one, transformers 4.53 to 4.57 make a mask of all pairs of positions")
	}
	if own, _ := j.software(); own == modules.Timm && j.ops != nil {
		j.warn("criterion_assumed", "a cross entropy with one label a picture is assumed: pictures that are mixed with soft labels, and a second model whose weights are averaged (mixup, model_ema), come on top")
	}
	if j.gathers() {
		j.warn("loaded_in_parts", "it is assumed that no rank holds the whole model while it is loaded: it is made without bytes or in main memory, and divided part by part")
	}
	if j.division != nil && j.train.Sharding == nil {
		j.warn("sharding_assumed", "how data-parallel ranks divide what training keeps was not declared: DistributedDataParallel is assumed, where each holds all of it")
	}
	if o := j.train.Optimizer; o.Implementation == "" && !j.deepSpeed() && o.Lists() {
		j.warn("implementation_assumed", "the optimizer's implementation was not declared: foreach is assumed, PyTorch's default on a GPU")
	}
	if j.train.Tuning != nil && j.train.Tuning.Format == dtype.Unknown {
		j.warn("adapter_format_assumed", "the adapter's format was not declared: 32 bits are assumed, to which PEFT casts it (autocast_adapter_dtype)")
	}
}
