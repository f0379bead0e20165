package training

import (
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// Sizes that bitsandbytes' optimizers are built on
// (bitsandbytes/optim/optimizer.py of
// https://github.com/bitsandbytes-foundation/bitsandbytes).
const (
	blockElements  = 256     // elements that share a 32-bit maximum
	smallElements  = 4096    // tensors with fewer elements keep 32-bit states
	pagedElements  = 100_000 // states of tensors with fewer elements are not paged
	tableBytes     = 256 * 4 // the code of 8-bit values, one for signed and one for unsigned
	maximumBytes   = 4
	fullStateBytes = 4
)

// update is one step over parameters. What PyTorch and transformers step is run
// by the machine; kernels of bitsandbytes, master copies and Muon are here.
func (j *job) update(list []*parameter, first bool) {
	list = j.reached(list)
	switch o := j.train.Optimizer; {
	case len(list) == 0: // nothing is trained
	case o.Bits != 0:
		if first {
			j.inBlocks(list)
		}
	case o.Name == workload.Muon:
		j.muon(list, first)
	case j.mastered(list):
		j.onMasters(list, first)
	default:
		j.native(list)
	}
}

// reached is the parameters that have a gradient: optimizers pass over the others,
// those of a tower that no image reached.
func (j *job) reached(list []*parameter) []*parameter {
	if j.ops == nil || len(j.in.Model.Stacks) < 2 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(p *parameter) bool { return p.gradient == none && !p.tensor.HasGrad() })
}

// mastered reports an optimizer that updates copies of its parameters, or reads
// gradients in a format of their own.
func (j *job) mastered(list []*parameter) bool {
	return slices.ContainsFunc(list, func(p *parameter) bool { return p.master != none || !p.tensor.Defined() || !p.tensor.HasGrad() })
}

// native is an optimizer of torch.optim or transformers, over tensors of the
// machine.
func (j *job) native(list []*parameter) {
	o := j.optimizers[list[0]]
	j.stateTerm()
	if o == nil {
		tensors := make([]torch.Tensor, len(list))
		for i, p := range list {
			tensors[i] = p.tensor
		}
		o = j.machine.NewOptimizer(j.optimizerOptions(), tensors)
		j.optimizers[list[0]] = o
	}
	o.Step()
	j.decay(list)
}

// optimizerOptions is the declared optimizer in the machine's words.
func (j *job) optimizerOptions() torch.OptimizerOptions {
	o := torch.OptimizerOptions{Algorithm: torch.AdamW, Momentum: j.train.Optimizer.Momentum}
	declared := j.in.Workload.Precision
	if j.train.Tuning == nil {
		declared = declared.Completed()
	}
	o.State = declared.FirstMoment.Format // of none declared each moment is as its parameter
	switch j.train.Optimizer.Name {
	case workload.SGD:
		o.Algorithm = torch.SGD
	case workload.Adafactor:
		o.Algorithm = torch.Adafactor
	case workload.RMSprop:
		o.Algorithm = torch.RMSprop
	case workload.Adamax:
		o.Algorithm = torch.Adamax
	case workload.NAdam:
		o.Algorithm = torch.NAdam
	}
	switch j.implementation() {
	case workload.ForLoop:
		o.Form = torch.ForLoop
	case workload.Fused:
		o.Form = torch.Fused
	}
	return o
}

// implementation is the declared one, or PyTorch's default on a GPU.
func (j *job) implementation() workload.Implementation {
	if i := j.train.Optimizer.Implementation; i != "" {
		return i
	}
	return workload.Foreach
}

// decay is the sums of gradients and weights that SGD makes with weight decay,
// which nobody declares: of all parameters at once in foreach.
func (j *job) decay(list []*parameter) {
	if j.train.Optimizer.Name != workload.SGD || j.implementation() == workload.Fused {
		return
	}
	var all, most int64
	for _, p := range list {
		n := p.in(j.formatsOf(p).gradient.Format)
		all, most = all+n, max(most, n)
	}
	if j.implementation() == workload.ForLoop {
		all = most
	}
	j.here(j.temporaries(), account.Between(0, all, requested(temporaryFormula)))
}

// stateTerm is the term of the optimizer's states.
func (j *job) stateTerm() uint32 {
	p := requested(stateFormula(j.train.Optimizer))
	term := j.term(account.TermOptimizerState, account.CategoryOptimizerState, p)
	j.tl.Terms[term].Provenance = p
	return term
}

// inBlocks makes the states of bitsandbytes' optimizers, and once the tables that
// turn 8 bits into numbers.
func (j *job) inBlocks(list []*parameter) {
	o, term := j.train.Optimizer, j.stateTerm()
	moments := 1
	if o.Name == workload.AdamW {
		moments = 2
	}
	for o.Bits == 8 && j.tables < moments {
		j.born(term, tableBytes)
		j.tables++
	}
	for _, p := range list {
		j.blockwise(p, term, moments)
	}
}

// onMasters is AdamW or SGD over master copies: moments of each, and in foreach
// the roots of all second moments.
func (j *job) onMasters(list []*parameter, first bool) {
	term := j.stateTerm()
	o := j.train.Optimizer
	for _, p := range list {
		f := j.formatsOf(p)
		if first && o.Moments() > 0 {
			p.states = append(p.states, j.born(term, p.in(f.first.Format)))
		}
		if first && o.Moments() > 1 {
			p.states = append(p.states, j.born(term, p.in(f.second.Format)))
		}
	}
	if o.Lists() && o.Name != workload.SGD && j.implementation() == workload.Foreach {
		var roots []uint32
		for _, p := range list {
			format := j.formatsOf(p).second.Format
			if o.Moments() < 2 {
				format = j.formatsOf(p).first.Format
			}
			roots = append(roots, j.born(j.temporaries(), p.in(format)))
		}
		j.free(roots...)
	}
	j.castGradients(list)
}

// blockwise is bitsandbytes' states: 8 bits an element and a maximum for each
// block, 32 bits for small tensors; of paged optimizers the elements of larger
// tensors are in managed memory, which is no part of PyTorch's counters and can
// lie on the device or not.
func (j *job) blockwise(p *parameter, term uint32, moments int) {
	o := j.train.Optimizer
	width, blocks := int64(1), bytesize.CeilDiv(p.elements, blockElements)
	if o.Bits != 8 || p.elements < smallElements {
		width, blocks = fullStateBytes, 0
	}
	for range moments {
		bytes := width * p.elements
		if o.Paged && p.elements >= pagedElements {
			managed := account.Provenance{Origin: account.Calculated, Scope: account.Process, Counter: pagedFormula, Source: sourceOf(pagedFormula)}
			j.bound(j.term(account.TermPagedState, account.CategoryOptimizerState, managed), len(j.tl.Phases)-1, last, account.Between(0, bytes, managed))
			continue
		}
		p.states = append(p.states, j.born(term, bytes))
	}
	for range moments {
		p.states = append(p.states, j.born(term, maximumBytes*blocks))
	}
}

// castGradients is what an optimizer with a master copy can make of gradients in
// another format: it may read them as they are, or bring them to the master's
// first.
func (j *job) castGradients(list []*parameter) {
	var bytes int64
	for _, p := range list {
		if f := j.formatsOf(p); p.master != none && f.gradient.Format != f.master.Format {
			bytes += p.in(f.master.Format)
		}
	}
	if bytes > 0 {
		j.here(j.temporaries(), account.Between(0, bytes, requested(temporaryFormula)))
	}
}

// newtonSchulz is how many iterations torch.optim.Muon makes unless told otherwise.
const newtonSchulz = 5

// muon is torch.optim.Muon on matrices, and AdamW beside it on all else: the
// update, its copy in bfloat16, and in each iteration two squares and the next
// copy (torch/optim/_muon.py).
func (j *job) muon(list []*parameter, first bool) {
	term := j.temporaries()
	update, gram, squared := none, none, none
	var rest []*parameter
	for _, p := range list {
		if !p.matrix() {
			rest = append(rest, p)
			continue
		}
		if first {
			p.states = append(p.states, j.born(j.stateTerm(), p.in(j.formatsOf(p).first.Format)))
		}
		side := min(p.shape[0], p.shape[1])
		moved := j.born(term, p.in(j.formatsOf(p).gradient.Format)) // the momentum ahead of the gradient
		j.rebind(&update, moved)
		ortho := j.born(term, p.in(dtype.BF16))
		for range newtonSchulz {
			j.rebind(&gram, j.born(term, 2*side*side))
			j.rebind(&squared, j.born(term, 2*side*side))
			j.rebind(&ortho, j.born(term, p.in(dtype.BF16)))
		}
		j.free(gram, squared)
		gram, squared = none, none
		j.rebind(&update, ortho)
	}
	j.free(update)
	if len(rest) > 0 {
		j.native(rest)
	}
}
