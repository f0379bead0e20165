package torch

import "floodmark/dtype"

// TopK is the largest values of the last dimension, and where they are.
func (m *Machine) TopK(x Tensor, k int64) (values, indices Tensor) {
	var n *node
	if m.wants(x.impl) {
		n = m.record("TopkBackward0", maxBackward, x.impl)
	}
	size := x.size
	size[x.dims-1] = k
	m.sites.op = "topk"
	v, i := m.empty(x.dtype, size[:x.dims]), m.empty(dtype.I64, size[:x.dims])
	if n != nil {
		n.ints, n.n = x.size, x.dims
		n.computes(v)
		m.save(n, i)
	}
	m.consume(x)
	return result(v), result(i)
}

// Sort orders a row of integers: the values, and where they were. A CPU sorts
// the places in a copy.
func (m *Machine) Sort(x Tensor) (values, indices Tensor) {
	m.sites.op = "sort"
	v, i := m.empty(x.dtype, x.Shape()), m.empty(dtype.I64, x.Shape())
	if m.device.CPU {
		m.free(m.bufferOf(8 * x.Elements()))
	}
	m.consume(x)
	return result(v), result(i)
}

// GroupedMM multiplies the rows of each group by the matrix of the group: [rows,
// in] × [groups, in, out], with the end of each group. The gradient of all
// matrices is one tensor
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/GroupedMMUtils.h).
func (m *Machine) GroupedMM(x, weights, ends Tensor) Tensor {
	a, w := x.impl, weights.impl
	var n *node
	if m.wants(a, w) {
		n = m.record("GroupedMmBackward0", groupedBackward, a, w)
		m.saveFactors(n, a, w)
		m.save(n, ends.impl)
		n.keepGroups(a, w)
	}
	m.sites.op = "_grouped_mm"
	out := m.empty(a.dtype, []int64{a.size[0], w.size[2]})
	attach(n, out)
	m.consume(x, weights, ends)
	return result(out)
}

// keepGroups remembers the factors' shapes, whichever of them were saved, and
// whether the matrices lie column by column.
func (n *node) keepGroups(a, w *impl) {
	n.ints[0], n.ints[1] = a.size[0], a.size[1]
	n.ints[2], n.ints[3], n.ints[4] = w.size[0], w.size[1], w.size[2]
	if w.stride[1] == 1 {
		n.ints[5] = 1
	}
}

// groupedBackward: the matrices, then the rows.
func groupedBackward(p *pass) {
	m, s := p.m, p.n.ints
	m.sites.op = "_grouped_mm"
	if p.needs(1) {
		if s[5] == 1 {
			g := m.empty(p.grad().dtype, []int64{s[2], s[4], s[3]})
			p.out[1] = m.transpose(g, 1, 2)
			m.drop(g)
		} else {
			p.out[1] = m.empty(p.grad().dtype, []int64{s[2], s[3], s[4]})
		}
	}
	if p.needs(0) {
		m.sites.op = "_grouped_mm"
		p.out[0] = m.empty(p.grad().dtype, s[:2])
	}
}

// IndexAdd adds rows to those of a tensor that ids name, in place. The gradient
// of the rows is the rows of the gradient; the rows are kept, for their shape
// (https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml,
// index_add).
func (m *Machine) IndexAdd(x, ids, rows Tensor) Tensor {
	if m.wants(x.impl, rows.impl) {
		old := x.impl
		n := m.record("IndexAddBackward0", indexAddBackward, old, rows.impl)
		m.save(n, ids.impl)
		if rows.requiresGrad {
			m.saveResults(n, rows.impl) // after the ids in every release
		}
		if old.node != nil {
			m.unlink(old.node)
			old.node = nil
		}
		n.computes(old)
	}
	m.consume(ids, rows)
	return x
}

func indexAddBackward(p *pass) {
	if p.needs(1) {
		ids := p.saved(0)
		size := p.grad().size
		size[0] = ids.size[0]
		p.m.sites.op = "index_select"
		p.give(1, p.m.empty(p.grad().dtype, size[:p.grad().dims]))
	}
	if p.needs(0) {
		p.same(0, p.grad())
	}
}

// IndexCopy is a copy of a tensor into whose last dimension, where ids say, those
// of another are written. The gradient of the other is those places of the gradient
// (https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml,
// index_copy).
func (m *Machine) IndexCopy(x, ids, source Tensor) Tensor {
	return m.indexCopy(x, ids, source, false)
}

// IndexCopyInPlace is [Machine.IndexCopy] that writes into the tensor itself.
func (m *Machine) IndexCopyInPlace(x, ids, source Tensor) Tensor {
	return m.indexCopy(x, ids, source, true)
}

func (m *Machine) indexCopy(x, ids, source Tensor, inPlace bool) Tensor {
	if !(given(x, ids, source) && writesPlaces(x, ids, source)) || inPlace && x.impl.node != nil {
		return m.refuse(x, ids, source)
	}
	var n *node
	if m.wants(x.impl, source.impl) {
		n = m.record("IndexCopyBackward0", indexCopyBackward, x.impl, source.impl)
		m.save(n, ids.impl)
		if source.requiresGrad {
			m.saveResults(n, source.impl) // for its shape
		}
	}
	m.sites.op = "index_copy"
	if inPlace {
		attach(n, x.impl)
		m.consume(ids, source)
		return x
	}
	out := attach(n, m.empty(x.dtype, x.Shape()))
	m.consume(x, ids, source)
	return result(out)
}

// indexCopyBackward: the source's gradient, then the tensor's own.
func indexCopyBackward(p *pass) {
	m, g := p.m, p.grad()
	if p.needs(1) {
		m.sites.op = "index_select"
		size := g.size
		size[g.dims-1] = p.saved(0).size[0]
		p.give(1, m.empty(g.dtype, size[:g.dims]))
	}
	if p.needs(0) {
		m.sites.op = "index_fill"
		p.give(0, m.empty(g.dtype, g.Shape()))
	}
}
