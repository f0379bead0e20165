package training

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
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
	stepBytes      = 4       // the step counter, where it is on the device
	maximumBytes   = 4
	fullStateBytes = 4
)

// step is the optimizer's step over all that is trained: states are born in the
// first one.
func (j *job) step(first bool) {
	if first {
		j.states(j.tuned)
	}
	j.update(j.tuned)
}

// states makes what the optimizer keeps of each parameter, in the order in which
// it walks them.
func (j *job) states(list []*parameter) {
	o := j.train.Optimizer
	term := j.term(account.TermOptimizerState, account.CategoryOptimizerState, requested(stateFormula(o)))
	if o.Bits == 8 {
		j.born(term, tableBytes)
		if o.Name == workload.AdamW {
			j.born(term, tableBytes)
		}
	}
	for _, p := range list {
		j.stateOf(p, term)
	}
}

// stateOf makes the states of one parameter.
func (j *job) stateOf(p *parameter, term uint32) {
	o, f := j.train.Optimizer, j.formatsOf(p)
	keep := func(bytes int64) { p.states = append(p.states, j.born(term, bytes)) }
	switch {
	case o.Bits != 0:
		moments := 1
		if o.Name == workload.AdamW {
			moments = 2
		}
		j.blockwise(p, term, moments)
	case o.Name == workload.Adafactor:
		j.factored(p, keep)
	case o.Name == workload.SGD:
		if o.Momentum {
			keep(p.in(f.first.Format))
		}
	case o.Name == workload.Muon && p.matrix():
		keep(p.in(f.first.Format))
	default:
		if o.Implementation == workload.Fused {
			keep(stepBytes)
		}
		keep(p.in(f.first.Format))
		keep(p.in(f.second.Format))
	}
}

// factored is Adafactor's second moment in 32 bits: a row and a column of each
// matrix, whole for vectors (transformers/optimization.py, Adafactor.step).
func (j *job) factored(p *parameter, keep func(int64)) {
	n := len(p.shape)
	if j.in.Workload.Precision.FirstMoment.Format != dtype.Unknown {
		keep(p.in(dtype.F32))
	}
	if n < 2 || p.elements == 0 {
		keep(p.in(dtype.F32))
		return
	}
	keep(fullStateBytes * (p.elements / p.shape[n-1]))
	keep(fullStateBytes * (p.elements / p.shape[n-2]))
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

// update is the temporaries of the step.
func (j *job) update(list []*parameter) {
	switch o := j.train.Optimizer; {
	case o.Bits != 0:
		return // kernels that update in place
	case o.Name == workload.Adafactor:
		j.adafactor(list)
	case o.Name == workload.Muon:
		j.muon(list)
	case o.Name == workload.SGD:
		j.sgd(list)
	default:
		j.adamw(list)
	}
}

// implementation is the declared one, or PyTorch's default on a GPU.
func (j *job) implementation() workload.Implementation {
	if i := j.train.Optimizer.Implementation; i != "" {
		return i
	}
	return workload.Foreach
}

// adamw is torch.optim.AdamW: foreach makes the roots of all second moments
// before it divides by them; the loop makes a root and a quotient of each, and
// its name keeps the last quotient until the next is there; the fused kernel
// makes nothing (torch/optim/adam.py).
func (j *job) adamw(list []*parameter) {
	term := j.temporaries()
	switch j.implementation() {
	case workload.Foreach:
		var roots []uint32
		for _, p := range list {
			roots = append(roots, j.born(term, p.in(j.formatsOf(p).second.Format)))
		}
		j.free(roots...)
	case workload.ForLoop:
		denominator := none
		for _, p := range list {
			bytes := p.in(j.formatsOf(p).second.Format)
			root := j.born(term, bytes)
			quotient := j.born(term, bytes)
			j.free(root)
			j.rebind(&denominator, quotient)
		}
		j.free(denominator)
	}
	j.castGradients(list)
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

// sgd is torch.optim.SGD: with weight decay it makes of each gradient a sum, all
// of them at once in foreach.
func (j *job) sgd(list []*parameter) {
	var all, most int64
	for _, p := range list {
		n := p.in(j.formatsOf(p).gradient.Format)
		all, most = all+n, max(most, n)
	}
	switch j.implementation() {
	case workload.Foreach:
		j.here(j.temporaries(), account.Between(0, all, requested(temporaryFormula)))
	case workload.ForLoop:
		j.here(j.temporaries(), account.Between(0, most, requested(temporaryFormula)))
	}
}

// adafactor is transformers' Adafactor, one parameter after the other: gradient
// and parameter in 32 bits where they are in 16, the squares, the update and its
// negative. Names keep the tensors of the parameter before.
func (j *job) adafactor(list []*parameter) {
	term := j.temporaries()
	gradient, data, update := none, none, none
	for _, p := range list {
		wide := p.in(dtype.F32)
		cast := func(f dtype.Format) uint32 {
			if f == dtype.F16 || f == dtype.BF16 {
				return j.born(term, wide)
			}
			return none
		}
		j.rebind(&gradient, cast(j.formatsOf(p).gradient.Format))
		j.rebind(&data, cast(p.format))
		square := j.born(term, wide)
		sum := j.born(term, wide)
		j.free(square)
		j.rebind(&update, sum)
		j.rebind(&update, j.born(term, wide)) // the root's inverse, times the gradient
		negative := j.born(term, wide)
		j.free(negative)
	}
	j.free(gradient, data, update)
}

// newtonSchulz is how many iterations torch.optim.Muon makes unless told otherwise.
const newtonSchulz = 5

// muon is torch.optim.Muon on matrices, and AdamW beside it on all else: the
// update, its copy in bfloat16, and in each iteration two squares and the next
// copy (torch/optim/_muon.py).
func (j *job) muon(list []*parameter) {
	term := j.temporaries()
	update, gram, squared := none, none, none
	var rest []*parameter
	for _, p := range list {
		if !p.matrix() {
			rest = append(rest, p)
			continue
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
	j.adamw(rest)
}
