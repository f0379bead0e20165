package torch

// viewNode records the backward of a view; nil where none is wanted.
func (m *Machine) viewNode(name string, b backward, x *impl) *node {
	if !m.wants(x) {
		return nil
	}
	n := m.record(name, b, x)
	n.ints, n.n = x.size, x.dims
	return n
}

// reshape is a view where strides allow it, and a copy where not.
func (m *Machine) reshape(x *impl, size []int64) *impl {
	stride, possible := x.viewStrides(size)
	if possible {
		return m.viewAs(x, size, stride)
	}
	c := m.clone(x, true)
	stride, _ = c.viewStrides(size)
	// reshape copies into an unsafe view: the copy is nobody's root.
	n := m.viewNode("UnsafeViewBackward0", reshapeBackward, c)
	v := m.alias(c)
	v.shape(size, stride)
	attach(n, v)
	m.drop(c)
	return v
}

func (i *impl) shape(size []int64, stride [maxDims]int64) {
	i.dims = int8(len(size))
	i.size = [maxDims]int64{}
	copy(i.size[:], size)
	i.stride = stride
}

func (m *Machine) viewAs(x *impl, size []int64, stride [maxDims]int64) *impl {
	n := m.viewNode("ViewBackward0", reshapeBackward, x)
	v := m.view(x)
	v.shape(size, stride)
	return attach(n, v)
}

func reshapeBackward(p *pass) { p.give(0, p.m.reshape(p.grad(), p.n.ints[:p.n.n])) }

// resolved replaces one −1 by what is left.
func resolved(x *impl, size []int64) []int64 {
	var out [maxDims]int64
	n := copy(out[:], size)
	rest, at := int64(1), -1
	for d, s := range out[:n] {
		if s < 0 {
			at = d
		} else {
			rest *= s
		}
	}
	if at >= 0 && rest > 0 {
		out[at] = x.Elements() / rest
	}
	return out[:n]
}

// Reshape is x in another shape; one size may be −1. It copies where strides
// forbid a view.
func (m *Machine) Reshape(x Tensor, size ...int64) Tensor {
	if !x.reshapes(size) {
		return m.refuse(x)
	}
	r := m.reshape(x.impl, resolved(x.impl, size))
	m.consume(x)
	return result(r)
}

// permute is a view with dimensions in another order.
func (m *Machine) permute(x *impl, order []int) *impl {
	n := m.viewNode("PermuteBackward0", permuteBackward, x)
	v := m.view(x)
	for d, from := range order {
		v.size[d], v.stride[d] = x.size[from], x.stride[from]
	}
	if n != nil {
		for d, from := range order {
			n.ints[from] = int64(d)
		}
	}
	return attach(n, v)
}

func permuteBackward(p *pass) {
	var order [maxDims]int
	for d := range p.n.n {
		order[d] = int(p.n.ints[d])
	}
	p.give(0, p.m.permute(p.grad(), order[:p.n.n]))
}

// Permute puts dimensions in another order.
func (m *Machine) Permute(x Tensor, order ...int) Tensor {
	if !(x.isOrder(order)) {
		return m.refuse(x)
	}
	r := m.permute(x.impl, order)
	m.consume(x)
	return result(r)
}

// Transpose exchanges two dimensions.
func (m *Machine) Transpose(x Tensor, a, b int) Tensor {
	if !(x.has(a, b)) {
		return m.refuse(x)
	}
	r := m.transpose(x.impl, a, b)
	m.consume(x)
	return result(r)
}

func (m *Machine) transpose(x *impl, a, b int) *impl {
	var order [maxDims]int
	for d := range order {
		order[d] = d
	}
	a, b = x.wrap(a), x.wrap(b)
	order[a], order[b] = b, a
	return m.permute(x, order[:x.dims])
}

// Unsqueeze adds a dimension of length 1.
func (m *Machine) Unsqueeze(x Tensor, dim int) Tensor {
	if !(given(x) && x.dims < maxDims && dim >= -int(x.dims)-1 && dim <= int(x.dims)) {
		return m.refuse(x)
	}
	if dim < 0 {
		dim += int(x.dims) + 1
	}
	r := m.unsqueeze(x.impl, dim)
	m.consume(x)
	return result(r)
}

func (m *Machine) unsqueeze(x *impl, dim int) *impl {
	n := m.viewNode("UnsqueezeBackward0", unsqueezeBackward, x)
	v := m.view(x)
	v.insert(dim)
	if n != nil {
		n.ints[0] = int64(dim)
	}
	return attach(n, v)
}

func (i *impl) insert(dim int) {
	copy(i.size[dim+1:], i.size[dim:i.dims])
	copy(i.stride[dim+1:], i.stride[dim:i.dims])
	i.stride[dim] = 1
	if dim < int(i.dims) {
		i.stride[dim] = i.size[dim+1] * i.stride[dim+1]
	}
	i.size[dim] = 1
	i.dims++
}

func (i *impl) remove(dim int) {
	copy(i.size[dim:], i.size[dim+1:i.dims])
	copy(i.stride[dim:], i.stride[dim+1:i.dims])
	i.dims--
	i.size[i.dims], i.stride[i.dims] = 0, 0
}

func unsqueezeBackward(p *pass) {
	v := p.m.view(p.grad())
	v.remove(int(p.n.ints[0]))
	p.give(0, v)
}

// Squeeze takes a dimension of length 1 away.
func (m *Machine) Squeeze(x Tensor, dim int) Tensor {
	if !(x.has(dim)) {
		return m.refuse(x)
	}
	dim = x.wrap(dim)
	if x.size[dim] != 1 {
		return x
	}
	n := m.viewNode("SqueezeBackward1", squeezeBackward, x.impl)
	v := m.view(x.impl)
	v.remove(dim)
	if n != nil {
		n.ints[0] = int64(dim)
	}
	attach(n, v)
	m.consume(x)
	return result(v)
}

func squeezeBackward(p *pass) {
	v := p.m.view(p.grad())
	v.insert(int(p.n.ints[0]))
	p.give(0, v)
}

// Expand repeats dimensions of length 1 without copying; −1 leaves one as it is.
func (m *Machine) Expand(x Tensor, size ...int64) Tensor {
	if !(x.expands(size)) {
		return m.refuse(x)
	}
	n := m.viewNode("ExpandBackward0", expandBackward, x.impl)
	v := m.expand(x.impl, size)
	attach(n, v)
	m.consume(x)
	return result(v)
}

func (m *Machine) expand(x *impl, size []int64) *impl {
	v := m.view(x)
	extra := len(size) - int(x.dims)
	v.dims = int8(len(size))
	v.size, v.stride = [maxDims]int64{}, [maxDims]int64{}
	for d, s := range size {
		if d < extra {
			v.size[d] = s
			continue
		}
		v.size[d], v.stride[d] = x.size[d-extra], x.stride[d-extra]
		if s >= 0 && v.size[d] != s {
			v.size[d], v.stride[d] = s, 0
		}
	}
	return v
}

func expandBackward(p *pass) {
	want := meta{dims: p.n.n, size: p.n.ints}
	if p.grad().dims == want.dims && p.grad().size == want.size {
		p.same(0, p.grad())
		return
	}
	p.give(0, p.m.sumTo(p.grad(), want))
}

// Slice is x[..., from:to, ...] along a dimension: a view. The backward is zeros
// of the whole shape into which the gradient is copied.
func (m *Machine) Slice(x Tensor, dim int, from, to int64) Tensor {
	if !(x.has(dim) && from >= 0 && from <= to && to <= x.Size(dim)) {
		return m.refuse(x)
	}
	n := m.viewNode("SliceBackward0", zerosBackward, x.impl)
	v := m.view(x.impl)
	v.size[x.wrap(dim)] = to - from
	attach(n, v)
	m.consume(x)
	return result(v)
}

// SliceEvery is every step-th index of a dimension, as x[..., 0::2] is: a view.
func (m *Machine) SliceEvery(x Tensor, dim int, step int64) Tensor {
	if !(x.has(dim) && step > 0) {
		return m.refuse(x)
	}
	n := m.viewNode("SliceBackward0", zerosBackward, x.impl)
	v := m.view(x.impl)
	v.every(x.wrap(dim), step)
	attach(n, v)
	m.consume(x)
	return result(v)
}

// Select is x[..., at, ...]: a view without the dimension.
func (m *Machine) Select(x Tensor, dim int) Tensor {
	if !(x.has(dim)) {
		return m.refuse(x)
	}
	n := m.viewNode("SelectBackward0", zerosBackward, x.impl)
	v := m.view(x.impl)
	v.remove(x.wrap(dim))
	attach(n, v)
	m.consume(x)
	return result(v)
}

func zerosBackward(p *pass) {
	p.m.sites.op = "new_zeros"
	p.give(0, p.m.empty(p.grad().dtype, p.n.ints[:p.n.n]))
}

// Split cuts a dimension into pieces of these lengths: views. Its backward
// concatenates.
func (m *Machine) Split(x Tensor, dim int, lengths ...int64) []Tensor {
	if !(x.has(dim) && covers(x.Size(dim), lengths)) {
		return m.refuseAll(len(lengths), x)
	}
	dim = x.wrap(dim)
	n := m.viewNode("SplitWithSizesBackward0", splitBackward, x.impl)
	if n != nil {
		n.dim = int8(dim)
	}
	pieces := make([]Tensor, len(lengths))
	for i, l := range lengths {
		v := m.view(x.impl)
		v.size[dim] = l
		attach(n, v)
		pieces[i] = result(v)
	}
	m.consume(x)
	return pieces
}

// Unbind cuts a dimension into its places: views without it. Its backward stacks.
func (m *Machine) Unbind(x Tensor, dim int) []Tensor {
	if !(x.has(dim) && x.Size(dim) > 0 && x.Size(dim) <= mostPieces) {
		return m.refuseAll(maxDims, x)
	}
	dim = x.wrap(dim)
	n := m.viewNode("UnbindBackward0", unbindBackward, x.impl)
	if n != nil {
		n.dim = int8(dim)
	}
	pieces := make([]Tensor, x.size[dim])
	for i := range pieces {
		v := m.view(x.impl)
		v.remove(dim)
		attach(n, v)
		pieces[i] = result(v)
	}
	m.consume(x)
	return pieces
}

// splitBackward concatenates what arrived; a piece without a gradient is zeros.
func splitBackward(p *pass) {
	for i, g := range p.in {
		if g == nil {
			o := p.n.outputs[i]
			p.m.sites.op = "zeros"
			p.in[i] = p.m.empty(o.dtype, o.size[:o.dims])
		}
	}
	p.m.sites.op = "cat"
	p.give(0, p.m.concatenated(p.in, p.n.ints[:p.n.n]))
}

// unbindBackward stacks what arrived.
func unbindBackward(p *pass) {
	for i, g := range p.in {
		if g == nil {
			o := p.n.outputs[i]
			p.m.sites.op = "zeros"
			p.in[i] = p.m.empty(o.dtype, o.size[:o.dims])
		}
	}
	p.m.sites.op = "stack"
	p.give(0, p.m.concatenated(p.in, p.n.ints[:p.n.n]))
}

// concatenated is a new tensor of a shape, in the format of the pieces.
func (m *Machine) concatenated(pieces []*impl, size []int64) *impl {
	f := pieces[0].dtype
	for _, x := range pieces[1:] {
		f = wider(f, x.dtype)
	}
	return m.empty(f, size)
}

// Cat joins tensors along a dimension.
func (m *Machine) Cat(dim int, list ...Tensor) Tensor {
	if !(len(list) > 0 && list[0].has(dim) && joins(list[0].wrap(dim), list)) {
		return m.refuse(list...)
	}
	first := list[0].impl
	dim = first.wrap(dim)
	size := first.size
	size[dim] = 0
	impls := make([]*impl, len(list))
	for i, t := range list {
		size[dim] += t.size[dim]
		impls[i] = t.impl
	}
	to := m.castsTo(widest, impls...)
	var n *node
	eased := make([]*impl, len(list))
	for i := range impls {
		eased[i] = m.eased(impls[i], to)
	}
	if m.wants(eased...) {
		n = m.record("CatBackward0", catBackward, eased...)
		n.dim = int8(dim)
	}
	m.sites.op = "cat"
	out := m.concatenated(eased, size[:first.dims])
	attach(n, out)
	m.drop(eased...)
	m.consume(list...)
	return result(out)
}

// catBackward cuts the gradient: views, in the format of each piece.
func catBackward(p *pass) {
	for i, e := range p.n.next {
		if e.node == nil {
			continue
		}
		v := p.m.view(p.grad())
		v.size[p.n.dim] = e.node.outputs[e.input].size[p.n.dim]
		p.give(i, v)
	}
}

// Stack joins tensors along a new dimension. Its backward is views.
func (m *Machine) Stack(dim int, list ...Tensor) Tensor {
	if !(joins(-1, list) && list[0].dims < maxDims && dim >= -int(list[0].dims)-1 && dim <= int(list[0].dims)) {
		return m.refuse(list...)
	}
	shape := impl{dims: list[0].dims, size: list[0].size}
	if dim < 0 {
		dim += int(shape.dims) + 1
	}
	shape.insert(dim)
	shape.size[dim] = int64(len(list))
	impls := make([]*impl, len(list))
	for i, t := range list {
		impls[i] = t.impl
	}
	var n *node
	if m.wants(impls...) {
		n = m.record("StackBackward0", stackBackward, impls...)
		n.dim = int8(dim)
	}
	m.sites.op = "stack"
	out := attach(n, m.concatenated(impls, shape.Shape()))
	m.consume(list...)
	return result(out)
}

func stackBackward(p *pass) {
	for i := range p.n.next {
		if p.needs(i) {
			v := p.m.view(p.grad())
			v.remove(int(p.n.dim))
			p.give(i, v)
		}
	}
}

// WholeSlice is x[:] beside another index: a view with a backward of its own in
// old releases, and nothing in newer ones.
func (m *Machine) WholeSlice(x Tensor) Tensor {
	if !m.release.slicesWhole() {
		return x
	}
	return m.Slice(x, 0, 0, x.size[0])
}
