package torch

import (
	"slices"

	"floodmark/dtype"
	"floodmark/timeline"
)

// Absent is a weight whose bytes come and go while its shape stays: a gathered
// copy of what several ranks hold in parts. Nothing is allocated for it before
// [Machine.Fill]. What backward keeps of it is the tensor, as it is of a weight
// whose storage is resized (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
// alloc_storage and free_storage).
func (m *Machine) Absent(f dtype.Format, grad bool, shape ...int64) Tensor {
	i := m.impls.take()
	if !shaped(shape) {
		m.fail(ErrShape)
		shape = make([]int64, min(len(shape), maxDims))
	}
	*i = impl{refs: 1, dtype: f, dims: int8(len(shape)), requiresGrad: grad}
	copy(i.size[:], shape)
	i.contiguousStrides()
	i.storage = m.absent(bytesOf(i))
	return Tensor{impl: i}
}

// absent is a storage without bytes, of so many when it is filled.
func (m *Machine) absent(bytes int64) *storage {
	s := m.storages.take()
	*s = storage{refs: 1, alloc: noAlloc, bytes: bytes}
	return s
}

// Together puts absent weights into one storage of so many bytes, of which they
// are parts: a flat parameter.
func (m *Machine) Together(bytes int64, list ...Tensor) {
	if len(list) == 0 {
		return
	}
	s := m.absent(bytes)
	s.refs = int32(len(list))
	for _, t := range list {
		m.free(t.storage)
		t.storage, t.flat = s, true
	}
}

// Fill allocates the bytes of absent weights, of each storage once.
func (m *Machine) Fill(list ...Tensor) {
	m.sites.op = "all_gather"
	for _, t := range list {
		s := t.storage
		if s.alloc != noAlloc || s.bytes == 0 {
			continue
		}
		made := m.allocate(s.bytes, termGathered)
		s.alloc = made.alloc
		m.storages.give(made)
	}
}

// Vacate frees the bytes of absent weights.
func (m *Machine) Vacate(list ...Tensor) {
	for _, t := range list {
		if s := t.storage; s.alloc != noAlloc {
			m.tl.Events = append(m.tl.Events, timeline.Event{Kind: timeline.FreeCompleted, Alloc: s.alloc})
			s.alloc = noAlloc
		}
	}
}

// Filled reports a weight whose bytes are there.
func (m *Machine) Filled(t Tensor) bool { return t.storage.alloc != noAlloc }

// On runs a part of the program on another stream than the default: what it
// allocates comes from the memory of that stream, and goes back there.
func (m *Machine) On(stream string, run func()) {
	was := m.stream
	at := slices.Index(m.tl.Streams, stream)
	if at < 0 {
		at = len(m.tl.Streams)
		m.tl.Streams = append(m.tl.Streams, stream)
	}
	m.stream = uint32(at)
	run()
	m.stream = was
}

// Bucket is a buffer through which ranks exchange tensors.
func (m *Machine) Bucket(op string, f dtype.Format, elements int64) Tensor {
	m.sites.op = op
	return m.made(f, termBuckets, []int64{elements})
}

// Gathering is a buffer of parts as they come from the ranks, before they are
// copied to where the operators read them.
func (m *Machine) Gathering(f dtype.Format, elements int64) Tensor {
	m.sites.op = "all_gather"
	return m.made(f, termGathered, []int64{elements})
}

// GradIn gives a leaf a gradient that is a part of a buffer; one that is there is
// added to.
func (m *Machine) GradIn(p, buffer Tensor) {
	if p.grad != nil {
		return
	}
	g := m.alias(buffer.impl)
	g.dims, g.size, g.stride = p.dims, p.size, p.stride
	m.become(buffer.storage, termGradients)
	p.grad = g
}

// Sent is a tensor that another rank of a pipeline sends, whose maker holds it.
func (m *Machine) Sent(f dtype.Format, shape ...int64) Tensor {
	m.sites.op = "recv"
	return m.Keep(m.made(f, termBuckets, shape))
}

// Widened is a copy of a leaf's gradient in another format, all of what it lies in.
func (m *Machine) Widened(p Tensor, f dtype.Format) Tensor {
	return m.AsGradient(m.Bucket("to", f, p.grad.storage.bytes/itemSize(p.grad.dtype)))
}

// GradIs makes a tensor the gradient of a leaf, which holds it from then on.
func (m *Machine) GradIs(p, sum Tensor) {
	m.GradIn(p, sum)
	p.grad.dtype = sum.dtype
	m.Drop(sum)
}

// AsGradient says that a tensor is a gradient.
func (m *Machine) AsGradient(t Tensor) Tensor { m.become(t.storage, termGradients); return t }

// OwnRows puts in place of a gradient that lies in one of more rows a copy of its own:
// what DTensor does with the gradient of an embedding whose rows ranks divide, which
// backward makes whole (torch/distributed/tensor/_ops/_embedding_ops.py,
// embedding_dense_backward_strategy).
func (m *Machine) OwnRows(p Tensor) {
	if p.impl == nil || p.grad == nil || p.grad.storage.bytes <= p.Elements()*itemSize(p.grad.dtype) {
		return
	}
	m.sites.op = "clone"
	own := m.emptyLike(p.grad.dtype, p.impl)
	m.become(own.storage, termGradients)
	m.drop(p.grad)
	p.grad = own
}

// BeforeBackward calls run in every backward before the node that computed a
// tensor is evaluated: when the gradient of the tensor is there. It does nothing
// for a tensor that wants no gradient, and where no graph is recorded; what runs again
// for a checkpoint that is not reentrant records one that no backward runs through.
func (m *Machine) BeforeBackward(t Tensor, run func()) {
	switch {
	case t.impl == nil || !t.requiresGrad || m.noGrad > 0 || m.inference > 0 || m.replaying != nil:
		return
	case t.node == nil:
		m.WhenAccumulated(t, run)
		return
	}
	if m.hooks == nil {
		m.hooks = map[*node][]func(){}
	}
	m.hooks[t.node] = append(m.hooks[t.node], run)
}

// InBackward reports that a backward runs: what runs forward now is computed again.
func (m *Machine) InBackward() bool { return m.running > 0 }

// Stopped reports that what runs again has made all that is asked of it: the rest of
// it does not run.
func (m *Machine) Stopped() bool { return m.stopped }

// WhenAccumulated calls run whenever backward has accumulated the gradient of a
// leaf (register_post_accumulate_grad_hook).
func (m *Machine) WhenAccumulated(t Tensor, run func()) {
	if m.accumulated == nil {
		m.accumulated = map[*impl]func(){}
	}
	m.accumulated[t.impl] = run
}

// runHooks calls what waits for the gradient of a node's output: what was asked
// for last runs first, as a module's input is met after the next one's output in
// the graph.
func (m *Machine) runHooks(n *node) {
	list := m.hooks[n]
	if list == nil {
		return
	}
	name := m.sites.node
	for _, run := range slices.Backward(list) {
		run()
	}
	m.sites.node = name
}

// AsGradients says that a buffer holds gradients.
func (m *Machine) AsGradients(t Tensor) Tensor { m.become(t.storage, termGradients); return t }
