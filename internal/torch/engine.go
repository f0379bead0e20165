package torch

import "floodmark/dtype"

// Backward computes the gradients of everything that a scalar depends on, and
// adds them to the leaves. It takes loss as an operator would.
func (m *Machine) Backward(loss Tensor) {
	if m.err != nil || loss.impl == nil || loss.node == nil {
		m.fail(ErrShape)
		m.consume(loss)
		return
	}
	m.sites.op = "ones_like"
	ones := m.emptyLike(loss.dtype, loss.impl)
	m.backwardFrom([]*impl{loss.impl}, []*impl{ones})
	m.drop(ones)
	m.consume(loss)
}

// BackwardWith is Backward of a tensor whose gradient is given.
func (m *Machine) BackwardWith(out, gradient Tensor) {
	if m.err == nil && given(out, gradient) && out.node != nil {
		m.backwardFrom([]*impl{out.impl}, []*impl{gradient.impl})
	} else {
		m.fail(ErrShape)
	}
	m.consume(out, gradient)
}

// BackwardRetaining is BackwardWith that leaves the graph and what it saved as they
// are (retain_graph=True); both tensors stay with the program.
func (m *Machine) BackwardRetaining(out, gradient Tensor) {
	m.retaining = true
	m.BackwardWith(Tensor{impl: out.impl}, Tensor{impl: gradient.impl})
	m.retaining = false
}

// backwardFrom runs one graph, from the tensors whose gradients are given. It may run within another one: a segment that was
// recomputed has a graph of its own, which runs to its end first.
func (m *Machine) backwardFrom(outs, gradients []*impl) {
	module, op, name, was := m.sites.module, m.sites.op, m.sites.node, m.thread
	m.noGrad++
	if !m.device.CPU {
		m.thread = autogradThread
	}
	m.epoch++
	m.running++
	e := engine{m: m, epoch: m.epoch, retain: m.retaining}
	roots := make([]edge, 0, 1)
	for _, out := range outs {
		roots = append(roots, m.edgeOf(out))
		e.count(roots[len(roots)-1].node)
	}
	// The engine holds what it begins with until the end, a cast of it too.
	given := make([]*impl, 0, 1)
	for i, root := range roots {
		gradient := retain(gradients[i])
		if want := root.node.outputs[root.input].dtype; gradient.dtype != want {
			cast := m.cast(gradient, want)
			m.drop(gradient)
			gradient = cast
		}
		given = append(given, gradient)
		begins := root.node.waits == 0 && root.node.buffer == nil
		if e.deliver(root.node, int(root.input), retain(gradient)); begins {
			e.ready.push(root.node)
		}
	}
	pool := m.pool
	for len(e.ready) > 0 {
		n := e.ready.pop()
		m.pool = n.pool
		e.evaluate(n)
	}
	m.pool = pool
	m.drop(given...)
	for _, root := range roots {
		m.unlink(root.node)
	}
	for _, o := range e.outer {
		o.node.epoch, o.node.waits, o.node.buffer = o.epoch, o.waits, o.buffer
	}
	m.running--
	m.noGrad--
	m.sites.module, m.sites.op, m.sites.node, m.thread = module, op, name, was
}

// engine runs the nodes of one backward.
type engine struct {
	m      *Machine
	epoch  int32
	retain bool // the graph stays for another backward
	ready  queue
	stack  []*node
	outer  []waiting
}

// waiting is what a node waits for in a backward around this one: that of a weight
// which is used both within a checkpoint and outside, or of its cast.
type waiting struct {
	node   *node
	epoch  int32
	waits  int32
	buffer []*impl
}

// count finds the nodes of the graph, and how many gradients each waits for.
func (e *engine) count(root *node) {
	e.meet(root)
	for len(e.stack) > 0 {
		n := e.stack[len(e.stack)-1]
		e.stack = e.stack[:len(e.stack)-1]
		for _, next := range n.next {
			if next.node == nil {
				continue
			}
			e.meet(next.node)
			next.node.waits++
		}
	}
}

func (e *engine) meet(n *node) {
	if n.epoch == e.epoch {
		return
	}
	if e.m.running > 1 && (n.waits > 0 || n.buffer != nil) {
		o := waiting{n, n.epoch, n.waits, nil}
		if n.buffer != nil {
			o.buffer = append(o.buffer, n.buffer...)
			n.buffer = nil
		}
		e.outer = append(e.outer, o)
	}
	n.epoch, n.waits = e.epoch, 0
	n.refs++ // the task holds it until it has run
	e.stack = append(e.stack, n)
}

// deliver adds a gradient to what a node has received. The reference is the
// node's then.
func (e *engine) deliver(n *node, input int, gradient *impl) {
	if n.buffer == nil {
		n.buffer = n.oneGrad[:]
		if len(n.outputs) > 1 {
			n.buffer = make([]*impl, len(n.outputs))
		}
		clear(n.buffer)
	}
	n.buffer[input] = e.m.accumulate(n.buffer[input], gradient)
}

// accumulate adds a gradient to an older one of the same tensor: in the older
// one's memory where nobody else can see it.
func (m *Machine) accumulate(older, newer *impl) *impl {
	if older == nil {
		return newer
	}
	sum := older
	if m.release.accumulatesInPlace() && older.refs == 1 && older.storage.refs == 1 && older.dense() {
		m.drop(newer)
		return sum
	}
	m.sites.op, m.sites.node = "add", ""
	sum = m.iterated(wider(older.dtype, newer.dtype), older, newer)
	m.drop(older, newer)
	return sum
}

// evaluate runs one node: its gradients, their checks, the release of what came
// in and of what was saved, and delivery.
func (e *engine) evaluate(n *node) {
	m := e.m
	m.sites.module = n.module
	in := n.buffer
	n.buffer = nil
	if n.leaf != nil {
		m.sites.node = n.name
		m.accumulateGrad(n.leaf, in[0])
		if run := m.accumulated[n.leaf]; run != nil && in[0] != nil {
			run()
		}
		m.unlink(n)
		return
	}
	p := pass{m: m, n: n, in: in}
	p.out = p.few[:]
	if len(n.next) > len(p.few) {
		p.out = make([]*impl, len(n.next))
	}
	m.sites.node = n.name
	m.runHooks(n)
	packed := n.program != nil && len(n.saved) > 0
	if packed {
		m.unpack(n)
	}
	if n.moved != nil {
		n.moved.reload(n)
	}
	n.apply(&p)
	p.end()
	if packed && m.release.stopsRecomputing() {
		m.repacked(n)
	}
	m.sites.node = ""
	e.validate(n, p.out)
	m.drop(in...)
	if !e.retain {
		m.forget(n)
	}
	for i, next := range n.next {
		if next.node == nil {
			m.drop(p.out[i])
			continue
		}
		if p.out[i] != nil {
			e.deliver(next.node, int(next.input), p.out[i])
		}
		if next.node.waits--; next.node.waits == 0 {
			e.becomesReady(next.node)
		}
	}
	m.unlink(n)
}

// becomesReady queues a node; without any gradient it passes none on.
func (e *engine) becomesReady(n *node) {
	if n.buffer == nil {
		n.buffer = n.oneGrad[:]
		if len(n.outputs) > 1 {
			n.buffer = make([]*impl, len(n.outputs))
		}
		clear(n.buffer)
	}
	e.ready.push(n)
}

// validate gives each gradient the shape and format of what it is the gradient
// of.
func (e *engine) validate(n *node, out []*impl) {
	for i, next := range n.next {
		if next.node == nil || out[i] == nil {
			continue
		}
		want := next.node.outputs[next.input]
		if out[i].dims != want.dims || out[i].size != want.size {
			sum := e.m.sumTo(out[i], want)
			e.m.drop(out[i])
			out[i] = sum
		}
		if out[i].dtype != want.dtype && isFloat(want.dtype) {
			cast := e.m.cast(out[i], want.dtype)
			e.m.drop(out[i])
			out[i] = cast
		}
	}
}

// accumulateGrad puts a gradient where the optimizer finds it: it becomes the
// leaf's own where nobody else has it and its strides are the leaf's, else a copy
// does; a gradient that is there is added to
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/csrc/autograd/functions/accumulate_grad.h).
func (m *Machine) accumulateGrad(leaf, g *impl) {
	switch {
	case g == nil:
	case leaf.reduced:
		m.sites.op = "add_"
		m.drop(g)
	case leaf.grad != nil:
		m.sites.op = "add_"
		m.drop(g)
	case g.refs == 1 && obeysLayout(g, leaf):
		leaf.grad = g
		m.become(g.storage, termGradients)
	default:
		m.sites.op = "new_empty_strided"
		var own *impl
		if leaf.dense() {
			own = m.emptyStrided(g.dtype, leaf)
		} else {
			own = m.empty(g.dtype, g.Shape())
		}
		m.become(own.storage, termGradients)
		leaf.grad = own
		m.drop(g)
	}
}

// obeysLayout reports that a gradient lies as its leaf does.
func obeysLayout(g, leaf *impl) bool {
	if !leaf.dense() {
		return g.contiguous()
	}
	for d := range leaf.dims {
		if leaf.size[d] != 1 && g.stride[d] != leaf.stride[d] {
			return false
		}
	}
	return true
}

// ZeroGrad is zero_grad of one parameter: its gradient goes, or is filled with
// zeros in place.
func (m *Machine) ZeroGrad(p Tensor, setToNone bool) {
	if p.grad != nil && setToNone {
		g := p.grad
		p.grad = nil
		m.drop(g)
	}
}

// pass is one run of a node: gradients in, gradients out.
type pass struct {
	m    *Machine
	n    *node
	in   []*impl
	out  []*impl
	few  [4]*impl
	held []*impl
}

// grad is the gradient of an output of the forward; nil where none arrived.
func (p *pass) grad() *impl { return p.in[0] }

func (p *pass) saved(i int) *impl { return p.n.saved[i] }

// needs reports that somebody wants the gradient of an input.
func (p *pass) needs(input int) bool { return p.n.next[input].node != nil }

// hold keeps a temporary of a C++ expression until its end.
func (p *pass) hold(i *impl) *impl {
	p.held = append(p.held, i)
	return i
}

// end is the end of a C++ expression: temporaries go, the last first.
func (p *pass) end() {
	for n := len(p.held) - 1; n >= 0; n-- {
		p.m.drop(p.held[n])
	}
	p.held = p.held[:0]
}

// give is the gradient of an input, and the end of the expression.
func (p *pass) give(input int, i *impl) {
	p.out[input] = i
	p.end()
}

// same passes a gradient on as it is.
func (p *pass) same(input int, i *impl) { p.give(input, retain(i)) }

// sumTo sums a gradient over the dimensions that were broadcast.
func (m *Machine) sumTo(g *impl, want meta) *impl {
	m.sites.op = "sum"
	var over [maxDims]bool
	extra := int(g.dims - want.dims)
	for d := range int(g.dims) {
		over[d] = d < extra || want.size[d-extra] == 1 && g.size[d] != 1
	}
	sum := m.reduce(g, over, true, g.dtype)
	if extra <= 0 {
		return sum
	}
	v := m.view(sum)
	v.dims = want.dims
	copy(v.size[:], sum.size[extra:])
	copy(v.stride[:], sum.stride[extra:])
	m.drop(sum)
	return v
}

// cast is a copy in another format.
func (m *Machine) cast(i *impl, f dtype.Format) *impl {
	m.sites.op = "_to_copy"
	return m.emptyLike(f, i)
}
