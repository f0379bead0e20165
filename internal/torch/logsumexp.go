package torch

import "floodmark/dtype"

// LogSumExp is logsumexp over the last dimension: the maximum is taken away, in a
// copy of the operand that is exponentiated in place and added up. Backward computes
// grad · exp(self − result), of three tensors of the operand's shape
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/ReduceOps.cpp,
// logsumexp_out_impl; torch/csrc/autograd/FunctionsManual.cpp, logsumexp_backward).
func (m *Machine) LogSumExp(x Tensor) Tensor {
	if !x.has(-1) {
		return m.refuse(x)
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record("LogsumexpBackward0", logSumExpBackward, x.impl)
		m.save(n, x.impl)
	}
	rows := x.Shape()[:x.Dims()-1]
	var over [maxDims]bool
	over[x.dims-1] = true
	m.sites.op = "logsumexp"
	most := m.empty(x.dtype, rows)
	m.reductionScratch(x.impl, over)
	sizes, infinite := m.empty(x.dtype, rows), m.empty(dtype.Bool, rows)
	m.drop(infinite)
	m.drop(sizes)
	shifted := m.emptyLike(x.dtype, x.impl)
	out := m.empty(x.dtype, rows)
	m.reductionScratch(shifted, over)
	m.drop(shifted)
	m.drop(most)
	if n != nil {
		n.computes(out)
		m.saveOutput(n, out)
	}
	m.consume(x)
	return result(out)
}

func logSumExpBackward(p *pass) {
	m := p.m
	m.sites.op = "logsumexp_backward"
	shifted := p.hold(m.like("sub", p.saved(0)))
	p.hold(m.like("exp", shifted))
	p.give(0, m.like("mul", p.saved(0)))
}
