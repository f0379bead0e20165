package torch

import "floodmark/timeline"

// Discard gives back the bytes of a tensor whose data something brings back before
// anybody reads it again (untyped_storage().resize_(0)). Whoever holds the tensor
// holds nothing until then.
func (m *Machine) Discard(list ...Tensor) {
	for _, t := range list {
		if t.impl != nil && t.storage.alloc != noAlloc {
			m.tl.Events = append(m.tl.Events, timeline.Event{Kind: timeline.FreeCompleted, Alloc: t.storage.alloc})
			t.storage.alloc = noAlloc
		}
	}
}

// Outputless is a part of the forward whose results were given back and that backward
// runs again before they are read: Megatron-LM's CheckpointWithoutOutput
// (megatron/core/tensor_parallel/random.py). What it was given is saved for backward,
// its results are whoever's took them.
type Outputless struct {
	m    *Machine
	run  func([]Tensor) []Tensor
	node *node
	outs []*impl // references, until it ran again

	args, again []Tensor // of the second run, held
}

// CheckpointWithoutOutput runs a part of the forward without a graph, and keeps what
// it was given. Where nothing is recorded the part just runs.
func (m *Machine) CheckpointWithoutOutput(run func([]Tensor) []Tensor, args ...Tensor) ([]Tensor, *Outputless) {
	impls, held := make([]*impl, len(args)), make([]Tensor, len(args))
	for i, a := range args {
		impls[i], held[i] = a.impl, Tensor{impl: a.impl}
	}
	o := &Outputless{m: m, run: run}
	if m.wants(impls...) {
		o.node = m.record("CheckpointWithoutOutputFunctionBackward", o.backward, impls...)
	}
	m.noGrad++
	outs := run(held)
	m.noGrad--
	for i := range outs {
		if o.node != nil {
			o.node.computes(outs[i].impl)
			o.outs = append(o.outs, m.alias(outs[i].impl))
		}
	}
	if o.node != nil {
		m.save(o.node, impls...)
	}
	m.consume(args...)
	return outs, o
}

// Discard gives the results back. They are there again when the gradient of a tensor
// is.
func (o *Outputless) Discard(hook Tensor) {
	if o == nil || o.node == nil {
		return
	}
	for _, out := range o.outs {
		o.m.Discard(Tensor{impl: out})
	}
	o.m.BeforeBackward(hook, o.runAgain)
}

// runAgain makes the results once more, over arguments of its own with a graph, and
// lends their bytes to the tensors that lost theirs.
func (o *Outputless) runAgain() {
	if o.again != nil {
		return
	}
	m := o.m
	noGrad, name := m.noGrad, m.sites.node
	m.noGrad, m.sites.node = 0, "recompute"
	for i, a := range o.node.saved {
		d := m.view(a)
		d.requiresGrad = o.node.next[i].node != nil
		o.args = append(o.args, Tensor{impl: d})
	}
	for i, out := range o.run(o.args) {
		out = m.Keep(out)
		o.again = append(o.again, out)
		if lost := o.outs[i].storage; lost.alloc == noAlloc {
			m.lend(out.impl, lost)
		}
	}
	m.drop(o.outs...)
	o.outs = nil
	m.noGrad, m.sites.node = noGrad, name
}

// lend makes a storage without bytes that of a tensor which has some.
func (m *Machine) lend(from *impl, to *storage) {
	m.keptForBackward(from.storage)
	to.alloc, from.storage.alloc = from.storage.alloc, noAlloc
	m.free(from.storage)
	from.storage = to
	to.refs++
}

func (o *Outputless) backward(p *pass) {
	m := o.m
	o.runAgain()
	var outs, gradients []*impl
	for i, g := range p.in {
		if g != nil {
			outs, gradients = append(outs, o.again[i].impl), append(gradients, g)
		}
	}
	m.backwardFrom(outs, gradients)
	for i, a := range o.args {
		if a.grad != nil && p.needs(i) {
			p.out[i] = retain(a.grad)
		}
	}
	m.Drop(o.again...)
	m.Drop(o.args...)
	o.again, o.args = nil, nil
}
