package torch

import "floodmark/dtype"

// product3 is the kernel of bmm: [b, n, k] × [b, k, m].
func (m *Machine) bmmKernel(a, b *impl) *impl {
	m.sites.op = "bmm"
	out := m.empty(wider(a.dtype, b.dtype), []int64{a.size[0], a.size[1], b.size[2]})
	m.multiply(a, b, out)
	return out
}

// mmKernel is the kernel of mm: [n, k] × [k, m].
func (m *Machine) mmKernel(a, b *impl) *impl {
	if kept := m.recalled("mm"); kept != nil {
		return kept[0]
	}
	m.sites.op = "mm"
	out := m.empty(wider(a.dtype, b.dtype), []int64{a.size[0], b.size[1]})
	m.multiply(a, b, out)
	m.remember(out)
	return out
}

// multiply is what cuBLAS needs beside the result: copies of operands that it
// cannot address, and on the first multiplication of a thread its workspace
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/Blas.cpp,
// prepare_batch_matrix_for_cublas).
func (m *Machine) multiply(a, b, out *impl) {
	if m.device.CPU {
		return
	}
	r := out.dims - 2
	rows, columns, inner := out.size[r], out.size[r+1], a.size[r+1]
	turned := !(out.stride[r] == 1 && (columns == 1 || out.stride[r+1] >= max(1, rows)))
	first, second := a, b
	if turned {
		first, second, rows, columns = b, a, columns, rows
	}
	x := m.addressable(first, turned, rows, inner)
	y := m.addressable(second, turned, inner, columns)
	m.workspaceOf(m.thread)
	m.drop(y, x)
}

// addressable copies an operand without a unit stride, or with one that is too
// short; nil where it needs no copy.
func (m *Machine) addressable(i *impl, turned bool, rows, columns int64) *impl {
	fast, leading := i.dims-2, i.dims-1
	if turned {
		fast, leading = leading, fast
	}
	switch {
	case i.stride[fast] == 1 && i.stride[leading] >= max(1, rows):
	case i.stride[leading] == 1 && i.stride[fast] >= max(1, columns):
	case i.contiguous() && i.stride[i.dims-2] != 0 && i.stride[i.dims-1] != 0:
	default:
		op := m.sites.op
		m.sites.op = "clone"
		c := m.empty(i.dtype, i.Shape())
		m.sites.op = op
		return c
	}
	return nil
}

// bmm multiplies batches of matrices.
func (m *Machine) bmm(x, y *impl) *impl {
	to := m.castsTo(lower, x, y)
	a, b := m.eased(x, to), m.eased(y, to)
	var n *node
	if m.wants(a, b) {
		n = m.record("BmmBackward0", bmmBackward, a, b)
		m.saveFactors(n, a, b)
	}
	out := attach(n, m.bmmKernel(a, b))
	m.drop(a, b)
	return out
}

// saveFactors keeps each factor that the other's gradient needs: mat2, then self.
func (m *Machine) saveFactors(n *node, self, mat2 *impl) {
	n.n = 0
	if self.requiresGrad {
		m.save(n, mat2)
		n.n++
	}
	if mat2.requiresGrad {
		m.save(n, self)
	}
}

func bmmBackward(p *pass) {
	if p.needs(1) {
		self := p.n.saved[p.n.n]
		p.give(1, p.m.bmmKernel(p.hold(p.m.transpose(self, 1, 2)), p.grad()))
	}
	if p.needs(0) {
		p.give(0, p.m.bmmKernel(p.grad(), p.hold(p.m.transpose(p.saved(0), 1, 2))))
	}
}

// mm multiplies two matrices.
func (m *Machine) mm(x, y *impl) *impl {
	to := m.castsTo(lower, x, y)
	a, b := m.eased(x, to), m.eased(y, to)
	var n *node
	if m.wants(a, b) {
		n = m.record("MmBackward0", mmBackward, a, b)
		m.saveFactors(n, a, b)
		n.keepLayouts(a, b)
	}
	out := attach(n, m.mmKernel(a, b))
	m.drop(a, b)
	return out
}

// keepLayouts remembers which factors lie column by column: their gradients are
// computed so that they do too.
func (n *node) keepLayouts(self, mat2 *impl) {
	n.ints[0], n.ints[1] = byColumns(self), byColumns(mat2)
}

func byColumns(i *impl) int64 {
	if i.stride[0] == 1 && i.stride[1] == i.size[0] {
		return 1
	}
	return 0
}

// mmBackward: mat2, then self (mm_mat2_backward and mm_mat1_backward in
// https://github.com/pytorch/pytorch/blob/v2.9.0/torch/csrc/autograd/FunctionsManual.cpp).
func mmBackward(p *pass) { p.factorGradients(0, 1) }

// factorGradients computes the gradients of the two factors of a matrix product,
// which are the given inputs.
func (p *pass) factorGradients(self, mat2 int) {
	m, g := p.m, p.grad()
	columns := func(i int) bool { return p.n.ints[i] == 1 }
	mat2First := func() {
		if !p.needs(mat2) {
			return
		}
		x := p.n.saved[p.n.n]
		if columns(1) {
			y := p.hold(m.mmKernel(p.hold(m.transpose(g, 0, 1)), x))
			p.give(mat2, m.transpose(y, 0, 1))
			return
		}
		p.give(mat2, m.mmKernel(p.hold(m.transpose(x, 0, 1)), g))
	}
	selfThen := func() {
		if !p.needs(self) {
			return
		}
		w := p.n.saved[0]
		if columns(0) && p.in[0].dims == 2 {
			y := p.hold(m.mmKernel(w, p.hold(m.transpose(g, 0, 1))))
			p.give(self, m.transpose(y, 0, 1))
			return
		}
		p.give(self, m.mmKernel(g, p.hold(m.transpose(w, 0, 1))))
	}
	if self != 0 { // addmm names them mat1 and mat2
		selfThen()
		mat2First()
		return
	}
	mat2First()
	selfThen()
}

// addmm is bias + x × y.
func (m *Machine) addmm(bias, x, y *impl) *impl {
	to := m.castsTo(lower, bias, x, y)
	c, a, b := m.eased(bias, to), m.eased(x, to), m.eased(y, to)
	var n *node
	if m.wants(c, a, b) {
		n = m.record("AddmmBackward0", addmmBackward, c, a, b)
		m.saveFactors(n, a, b)
		n.keepLayouts(a, b)
	}
	m.sites.op = "addmm"
	out := m.empty(a.dtype, []int64{a.size[0], b.size[1]})
	m.multiply(a, b, out)
	attach(n, out)
	m.drop(c, a, b)
	return out
}

// AddMM is bias + x × y of matrices, as addmm is called by itself.
func (m *Machine) AddMM(bias, x, y Tensor) Tensor {
	if !(multiplies(x, y) && x.dims == 2 && y.dims == 2 && given(bias)) {
		return m.refuse(bias, x, y)
	}
	r := m.addmm(bias.impl, x.impl, y.impl)
	m.consume(bias, x, y)
	return result(r)
}

// addmmBackward: mat1, mat2, then the bias, which is summed when the shape is
// checked.
func addmmBackward(p *pass) {
	p.factorGradients(1, 2)
	if p.needs(0) {
		p.same(0, p.grad())
	}
}

// Linear is x × weightᵀ (+ bias). Three dimensions and more are folded into two
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/Linear.cpp).
func (m *Machine) Linear(x, weight, bias Tensor) Tensor {
	if !(given(x, weight) && x.dims >= 1 && weight.dims == 2 && x.last() == weight.last() && bias.isVector(weight.size[0])) {
		return m.refuse(x, weight, bias)
	}
	r := m.linear(x.impl, weight.impl, bias.impl)
	m.consume(x, weight, bias)
	return result(r)
}

func (m *Machine) linear(x, w, bias *impl) *impl {
	to := m.castsTo(lower, x, w, bias)
	a, b, c := m.eased(x, to), m.eased(w, to), m.eased(bias, to)
	if to != dtype.Unknown {
		was := m.casts.format // what linear is made of is not looked at again
		m.casts.format = dtype.Unknown
		defer func() { m.casts.format = was }()
	}
	defer m.drop(c, b, a)
	var out [maxDims]int64
	copy(out[:], a.Shape())
	out[a.dims-1] = b.size[0]
	switch {
	case c != nil && (a.dims == 2 || a.contiguous()):
		flat := m.folded(a)
		t := m.transpose(b, 0, 1)
		y := m.addmm(c, flat, t)
		r := m.unfolded(y, out[:a.dims])
		m.drop(t, flat)
		return r
	case a.dims == 1 || a.dims == 2 && c == nil:
		t := m.transpose(b, 0, 1)
		r := m.mm(a, t)
		m.drop(t)
		return r
	}
	t := m.transpose(b, 0, 1)
	flat := m.folded(a)
	y := m.mm(flat, t)
	r := m.unfoldedUnsafe(y, out[:a.dims])
	m.drop(flat, t)
	if c != nil {
		return m.InPlace(Add, Tensor{impl: r}, Tensor{impl: c}).impl
	}
	return r
}

// folded is a matrix of all rows of x.
func (m *Machine) folded(x *impl) *impl {
	if x.dims == 2 {
		return retain(x)
	}
	return m.reshape(x, []int64{product(x.size[:x.dims-1]), x.size[x.dims-1]})
}

// unfolded gives the rows of a product their shape back: a view.
func (m *Machine) unfolded(y *impl, size []int64) *impl {
	if len(size) == 2 {
		return y
	}
	r := m.reshape(y, size)
	m.drop(y)
	return r
}

// unfoldedUnsafe does it without making the product a root.
func (m *Machine) unfoldedUnsafe(y *impl, size []int64) *impl {
	n := m.viewNode("UnsafeViewBackward0", reshapeBackward, y)
	v := m.alias(y)
	stride, _ := y.viewStrides(size)
	v.shape(size, stride)
	attach(n, v)
	m.drop(y)
	return v
}

// Matmul multiplies the matrices of the last two dimensions; leading ones are
// broadcast (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/LinearAlgebra.cpp).
func (m *Machine) Matmul(x, y Tensor) Tensor {
	if !(multiplies(x, y) && batches(x, y)) {
		return m.refuse(x, y)
	}
	to := m.castsTo(lower, x.impl, y.impl)
	a, b := m.eased(x.impl, to), m.eased(y.impl, to)
	was := m.casts.format
	m.casts.format = dtype.Unknown
	r := m.matmul(a, b)
	m.casts.format = was
	m.drop(a, b)
	m.consume(x, y)
	return result(r)
}

func (m *Machine) matmul(a, b *impl) *impl {
	switch {
	case a.dims == 2 && b.dims == 2:
		return m.mm(a, b)
	case a.dims >= 3 && b.dims == 2:
		var size [maxDims]int64
		copy(size[:], a.Shape())
		size[a.dims-1] = b.size[1]
		flat := m.folded(a)
		y := m.mm(flat, b)
		m.drop(flat)
		return m.unfoldedUnsafe(y, size[:a.dims])
	}
	return m.batched(a, b)
}

// batched expands the leading dimensions of both and multiplies batch by batch.
func (m *Machine) batched(a, b *impl) *impl {
	dims := max(a.dims, b.dims)
	lead := int(dims) - 2
	var size [maxDims]int64
	for d := range lead {
		size[d] = 1
		for _, x := range []*impl{a, b} {
			if at := d - int(dims-x.dims); at >= 0 && x.size[at] != 1 {
				size[d] = x.size[at]
			}
		}
	}
	ra, rb, ca := a.size[a.dims-2], b.size[b.dims-2], b.size[b.dims-1]
	k := a.size[a.dims-1]
	batch := product(size[:lead])
	left := m.batch(a, size[:lead], batch, ra, k)
	right := m.batch(b, size[:lead], batch, rb, ca)
	y := m.bmm(left, right)
	size[lead], size[lead+1] = ra, ca
	r := m.unfoldedUnsafe(y, size[:dims])
	m.drop(right, left)
	return r
}

// batch is an operand of matmul with one leading dimension.
func (m *Machine) batch(x *impl, lead []int64, batch, rows, columns int64) *impl {
	var full [maxDims]int64
	n := copy(full[:], lead)
	full[n], full[n+1] = rows, columns
	node := m.viewNode("ExpandBackward0", expandBackward, x)
	wide := attach(node, m.expand(x, full[:n+2]))
	r := m.reshape(wide, []int64{batch, rows, columns})
	m.drop(wide)
	return r
}

// Baddbmm is bias + x × y, batch by batch; scaled says that the product is times a
// number (alpha), so that gradients are too, in a tensor beside the product that they
// are (maybe_multiply of torch/csrc/autograd/FunctionsManual.cpp).
func (m *Machine) Baddbmm(bias, x, y Tensor, scaled bool) Tensor {
	if !(multiplies(x, y) && x.dims == 3 && y.dims == 3 && x.size[0] == y.size[0] && given(bias)) {
		return m.refuse(bias, x, y)
	}
	to := m.castsTo(lower, bias.impl, x.impl, y.impl)
	c, a, b := m.eased(bias.impl, to), m.eased(x.impl, to), m.eased(y.impl, to)
	var n *node
	if m.wants(c, a, b) {
		backward := baddbmmBackward
		if scaled {
			backward = scaledBaddbmmBackward
		}
		n = m.record("BaddbmmBackward0", backward, c, a, b)
		m.saveFactors(n, a, b)
	}
	m.sites.op = "baddbmm"
	out := m.empty(a.dtype, []int64{a.size[0], a.size[1], b.size[2]})
	m.multiply(a, b, out)
	attach(n, out)
	m.drop(b, a, c)
	m.consume(bias, x, y)
	return result(out)
}

// baddbmmBackward: batch1, batch2, then the bias.
func baddbmmBackward(p *pass) { p.baddbmm(func(product *impl) *impl { return product }) }

func scaledBaddbmmBackward(p *pass) {
	p.baddbmm(func(product *impl) *impl {
		p.m.sites.op = "mul"
		return p.m.iterated(product.dtype, p.hold(product))
	})
}

func (p *pass) baddbmm(times func(*impl) *impl) {
	if p.needs(1) {
		p.give(1, times(p.m.bmmKernel(p.grad(), p.hold(p.m.transpose(p.saved(0), 1, 2)))))
	}
	if p.needs(2) {
		p.give(2, times(p.m.bmmKernel(p.hold(p.m.transpose(p.n.saved[p.n.n], 1, 2)), p.grad())))
	}
	if p.needs(0) {
		p.same(0, p.grad())
	}
}
