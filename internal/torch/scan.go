package torch

// Cumsum adds up along a dimension. Its backward turns the gradient round, adds
// it up, and turns it back
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/csrc/autograd/FunctionsManual.cpp,
// cumsum_backward).
func (m *Machine) Cumsum(x Tensor) Tensor {
	var n *node
	if m.wants(x.impl) {
		n = m.record("CumsumBackward0", cumsumBackward, x.impl)
	}
	m.sites.op = "cumsum"
	out := attach(n, m.empty(x.dtype, x.Shape()))
	m.consume(x)
	return result(out)
}

func cumsumBackward(p *pass) {
	turned := p.hold(p.m.like("flip", p.grad()))
	sum := p.hold(p.m.like("cumsum", turned))
	p.give(0, p.m.like("flip", sum))
}

// Pad puts zeros behind a dimension; without any it still copies
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/PadNd.cpp).
func (m *Machine) Pad(x Tensor, dim int, behind int64) Tensor {
	var n *node
	if m.wants(x.impl) {
		n = m.record("ConstantPadNdBackward0", padBackward, x.impl)
	}
	m.sites.op = "constant_pad_nd"
	var out *impl
	if behind == 0 {
		out = m.emptyLike(x.dtype, x.impl)
	} else {
		size := x.size
		size[x.wrap(dim)] += behind
		out = m.empty(x.dtype, size[:x.dims])
	}
	attach(n, out)
	m.consume(x)
	return result(out)
}

func padBackward(p *pass) {
	o := p.n.next[0].node.outputs[p.n.next[0].input]
	p.m.sites.op = "constant_pad_nd"
	p.give(0, p.m.empty(p.grad().dtype, o.size[:o.dims]))
}
