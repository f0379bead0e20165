package torch

import "floodmark/dtype"

// Softmax is softmax over a dimension. A format beside it (dtype=float32) is
// what it computes in: CUDA widens float16 while it reads, everything else is
// copied first
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/SoftMax.cpp).
func (m *Machine) Softmax(x Tensor, f dtype.Format) Tensor {
	return m.softmax("_softmax", "SoftmaxBackward0", "_softmax_backward_data", x, f)
}

// LogSoftmax is log_softmax over a dimension.
func (m *Machine) LogSoftmax(x Tensor, f dtype.Format) Tensor {
	return m.softmax("_log_softmax", "LogSoftmaxBackward0", "_log_softmax_backward_data", x, f)
}

func (m *Machine) softmax(op, name, back string, x Tensor, f dtype.Format) Tensor {
	if !(x.has(-1)) {
		return m.refuse(x)
	}
	// autocast sets the format that the operator computes in, and casts nothing.
	if to := m.castsTo(float32s, x.impl); to != dtype.Unknown && f == dtype.Unknown {
		f = to
	}
	a := retain(x.impl)
	if f == dtype.Unknown {
		f = a.dtype
	}
	if f != a.dtype && (m.device.CPU || a.dtype != dtype.F16) {
		cast := m.toCopy(a, f)
		m.drop(a)
		a = cast
	}
	var n *node
	if m.wants(a) {
		n = m.record(name, softmaxBackward, a)
		n.op = back
	}
	m.sites.op = op
	out := m.empty(f, a.Shape())
	c := m.inOrder(a)
	m.sites.op = op
	if n != nil {
		n.computes(out)
		m.saveOutput(n, out)
		if m.release.savesSoftmaxInput() {
			m.saveResults(n, a)
		}
	}
	m.drop(c, a)
	m.consume(x)
	return result(out)
}

// softmaxBackward writes one tensor in the format of the input. On a CPU a
// gradient that is not contiguous is copied after it.
func softmaxBackward(p *pass) {
	m := p.m
	m.sites.op = p.n.op
	o := p.n.next[0].node.outputs[p.n.next[0].input]
	f := p.grad().dtype
	if o.dtype != f && p.saved(0).dtype == f {
		f = o.dtype
	}
	out := m.empty(f, p.saved(0).Shape())
	m.drop(m.inOrderGradient(p.grad(), p.n.op))
	p.give(0, out)
}

// CrossEntropy is cross_entropy with class indices, mean or sum: log_softmax in
// whole, then nll_loss. Logits have two dimensions, or three with the classes in
// the second: log_softmax and the loss are over [batch, classes, 1, positions]
// then (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/LossNLL.cpp,
// nll_loss_nd).
func (m *Machine) CrossEntropy(logits, targets Tensor) Tensor {
	if !(given(logits, targets) && (logits.dims == 2 && targets.isVector(logits.size[0]) || logits.classesSecond(targets))) {
		return m.refuse(logits, targets)
	}
	planes := logits.dims == 3
	logs := m.LogSoftmax(logits, dtype.Unknown)
	if planes {
		logs = m.Reshape(logs, logs.size[0], logs.size[1], 1, -1)
	}
	var n *node
	if m.wants(logs.impl) {
		n = m.record("NllLossBackward0", nllBackward, logs.impl)
		m.save(n, logs.impl, targets.impl)
	}
	m.sites.op = "nll_loss"
	loss, weight := m.empty(logs.dtype, nil), m.empty(logs.dtype, nil)
	if n != nil {
		n.computes(loss)
		m.saveResults(n, weight)
	}
	m.drop(weight)
	m.consume(logs, targets)
	return result(loss)
}

// CrossEntropyEach is cross_entropy of two dimensions without reduction: a loss of
// each row.
func (m *Machine) CrossEntropyEach(logits, targets Tensor) Tensor {
	if !(given(logits, targets) && logits.dims == 2 && targets.isVector(logits.size[0])) {
		return m.refuse(logits, targets)
	}
	logs := m.LogSoftmax(logits, dtype.Unknown)
	var n *node
	if m.wants(logs.impl) {
		n = m.record("NllLossBackward0", nllBackward, logs.impl)
		m.save(n, logs.impl, targets.impl)
	}
	m.sites.op = "nll_loss"
	loss := m.empty(logs.dtype, targets.Shape())
	attach(n, loss)
	m.consume(logs, targets)
	return result(loss)
}

// nllBackward is zeros of the logits' shape, filled at the targets.
func nllBackward(p *pass) {
	p.m.sites.op = "nll_loss_backward"
	p.give(0, p.m.empty(p.saved(0).dtype, p.saved(0).Shape()))
}

// Dropout is dropout in training: CUDA keeps a mask of a byte an element, a CPU
// one of the input's format.
func (m *Machine) Dropout(x Tensor) Tensor {
	if !(given(x)) {
		return m.refuse(x)
	}
	if m.device.CPU {
		m.sites.op = "dropout"
		noise := m.emptyLike(x.dtype, x.impl)
		r := m.binaryOp(&m.binaries[Mul], x.impl, noise)
		m.drop(noise)
		m.consume(x)
		return result(r)
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record("NativeDropoutBackward0", dropoutBackward, x.impl)
	}
	m.sites.op = "native_dropout"
	out := m.emptyLike(x.dtype, x.impl)
	mask := m.emptyLike(dtype.Bool, x.impl)
	if n != nil {
		n.computes(out)
		m.saveResults(n, mask)
	}
	m.drop(mask)
	m.consume(x)
	return result(out)
}

func dropoutBackward(p *pass) { p.give(0, p.m.both("native_dropout_backward", p.grad(), p.saved(0))) }
