package torch

import "floodmark/dtype"

// Arange is the numbers 0 to n−1 as 64-bit integers.
func (m *Machine) Arange(n int64) Tensor { return m.Empty("arange", dtype.I64, n) }

// Empty is a new tensor, by the operator that makes it: zeros, ones, full, empty.
func (m *Machine) Empty(op string, f dtype.Format, shape ...int64) Tensor {
	m.sites.op = op
	return result(m.empty(f, shape))
}

// Like is a new tensor of the shape and layout of x: zeros_like, empty_like.
func (m *Machine) Like(op string, x Tensor) Tensor {
	if !(given(x)) {
		return m.refuse(x)
	}
	m.sites.op = op
	r := m.emptyLike(x.dtype, x.impl)
	m.consume(x)
	return result(r)
}

// Clone copies; contiguous copies lie in the order of their dimensions.
func (m *Machine) Clone(x Tensor, contiguous bool) Tensor {
	if !(given(x)) {
		return m.refuse(x)
	}
	r := m.clone(x.impl, contiguous)
	m.consume(x)
	return result(r)
}

func (m *Machine) clone(x *impl, contiguous bool) *impl {
	var n *node
	if m.wants(x) {
		n = m.record("CloneBackward0", passOn, x)
	}
	m.sites.op = "clone"
	var r *impl
	if contiguous {
		r = m.empty(x.dtype, x.Shape())
	} else {
		r = m.emptyLike(x.dtype, x)
	}
	return attach(n, r)
}

// Contiguous is x, or a copy where its elements lie in another order.
func (m *Machine) Contiguous(x Tensor) Tensor {
	if x.contiguous() {
		return x
	}
	return m.Clone(x, true)
}

// Detach is x without its history.
func (m *Machine) Detach(x Tensor) Tensor {
	if !(given(x)) {
		return m.refuse(x)
	}
	r := m.view(x.impl)
	m.consume(x)
	return result(r)
}
