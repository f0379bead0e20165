package torch

// every leaves every step-th place of a dimension that step divides.
func (i *impl) every(dim int, step int64) {
	i.size[dim] /= step
	i.stride[dim] *= step
}

// AssignSlice writes a tensor into a part of a dimension of another, as
// x[..., from:to] = y or a copy_ into that view does. The history of x is then
// that of the assignment.
func (m *Machine) AssignSlice(x Tensor, dim int, from, to int64, y Tensor) {
	m.assign(x, y, func(part *impl) { part.size[x.wrap(dim)] = to - from })
}

// AssignEvery writes a tensor into every step-th place of a dimension of another,
// as x[..., 0::2] = y does.
func (m *Machine) AssignEvery(x Tensor, dim int, step int64, y Tensor) {
	m.assign(x, y, func(part *impl) { part.every(x.wrap(dim), step) })
}

// IndexPut writes values into places of a tensor that indices name, as
// x[:, rows, columns] = y does, where the indices are kept by somebody else. The
// gradient of the values is read at these places (index_put_ in derivatives.yaml).
func (m *Machine) IndexPut(x, y Tensor) Tensor {
	if !given(x, y) {
		return m.refuse(y)
	}
	if m.wants(x.impl, y.impl) {
		n := m.record("IndexPutBackward0", indexPutBackward, x.impl, y.impl)
		n.ints, n.n = y.size, y.dims
		if x.node != nil {
			m.unlink(x.node)
			x.node = nil
		}
		n.computes(x.impl)
	}
	m.consume(y)
	return x
}

func indexPutBackward(p *pass) {
	if p.needs(0) {
		p.give(0, p.m.like("index_put", p.grad()))
	}
	if p.needs(1) {
		p.m.sites.op = "index"
		p.give(1, p.m.empty(p.grad().dtype, p.n.ints[:p.n.n]))
	}
}

func (m *Machine) assign(x, y Tensor, cut func(part *impl)) {
	if m.wants(x.impl, y.impl) {
		n := m.record("CopySlices", copySlicesBackward, x.impl, y.impl)
		whole := impl{dims: x.dims, dtype: x.dtype, size: x.size, stride: x.stride}
		part := whole
		cut(&part)
		n.assigned = &[2]impl{whole, part}
		if x.node != nil {
			m.unlink(x.node)
			x.node = nil
		}
		n.computes(x.impl)
	}
	m.consume(y)
}

// copySlicesBackward: the gradient is copied in whole, and its part again for what
// was assigned; in the copy the part becomes zeros
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/csrc/autograd/functions/tensor.cpp,
// CopySlices::apply, and CopyBackwards).
func copySlicesBackward(p *pass) {
	m := p.m
	m.sites.op = "new_empty_strided"
	whole := m.emptyStrided(p.grad().dtype, &p.n.assigned[0])
	m.sites.op = "clone"
	part := m.emptyLike(p.grad().dtype, &p.n.assigned[1])
	if p.needs(0) {
		m.sites.op = "zeros_like"
		m.drop(m.empty(part.dtype, part.Shape()))
	}
	for i, g := range []*impl{whole, part} {
		if p.needs(i) {
			p.out[i] = g
		} else {
			m.drop(g)
		}
	}
}
