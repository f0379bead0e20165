package torch

import (
	"strings"

	"floodmark/dtype"
)

// Einsum is torch.einsum of two operands, of which labels that both have and the
// result has not are summed: views, one bmm, and copies where strides forbid a
// view (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/Linear.cpp,
// einsum and sumproduct_pair); where nothing is summed, a product. Worked example:
// "bsd,od->bso".
func (m *Machine) Einsum(equation string, x, y Tensor) Tensor {
	if !(given(x, y)) {
		return m.refuse(x, y)
	}
	to := m.castsTo(lower, x.impl, y.impl)
	a, b := m.eased(x.impl, to), m.eased(y.impl, to)
	was := m.casts.format
	m.casts.format = dtype.Unknown
	r := m.einsum(equation, a, b)
	m.casts.format = was
	m.drop(a, b)
	m.consume(x, y)
	return result(r)
}

func (m *Machine) einsum(equation string, a, b *impl) *impl {
	in, out, _ := strings.Cut(equation, "->")
	left, right, _ := strings.Cut(in, ",")
	labels := out // dimensions of the result come first, then those that are summed
	for _, l := range left + right {
		if !strings.ContainsRune(labels, l) {
			labels += string(l)
		}
	}
	if len(left) != a.Dims() || len(right) != b.Dims() || len(labels) > maxDims || !sameLengths(left, right, a, b) {
		m.fail(ErrShape)
		return retain(a)
	}
	x, y := m.aligned(a, left, labels), m.aligned(b, right, labels)
	var r *impl
	if len(out) == len(labels) {
		r = m.binaryOp(&m.binaries[Mul], x, y)
	} else {
		r = m.sumProduct(x, y, len(out))
	}
	m.drop(x, y)
	return r
}

// sameLengths reports labels that both operands have of equal lengths, or 1.
func sameLengths(left, right string, a, b *impl) bool {
	for i, l := range left {
		at := strings.IndexRune(right, l)
		if at >= 0 && a.size[i] != b.size[at] && a.size[i] != 1 && b.size[at] != 1 {
			return false
		}
	}
	return true
}

// aligned is an operand with a dimension for each label, of length 1 where it has
// none.
func (m *Machine) aligned(x *impl, own, labels string) *impl {
	order := make([]int, 0, maxDims)
	missing := x.Dims()
	v := retain(x)
	for _, l := range labels {
		at := strings.IndexRune(own, l)
		if at < 0 {
			at = missing
			missing++
			wider := m.unsqueeze(v, v.Dims())
			m.drop(v)
			v = wider
		}
		order = append(order, at)
	}
	p := m.permute(v, order)
	m.drop(v)
	return p
}

// sumProduct multiplies two aligned operands and sums the dimensions from summed
// on.
func (m *Machine) sumProduct(x, y *impl, summed int) *impl {
	var both, left, right, sum []int
	size := func(dims []int) int64 {
		n := int64(1)
		for _, d := range dims {
			n *= max(x.size[d], y.size[d])
		}
		return n
	}
	for d := range x.Dims() {
		switch {
		case d >= summed:
			sum = append(sum, d)
		case x.size[d] != 1 && y.size[d] != 1:
			both = append(both, d)
		case x.size[d] != 1:
			left = append(left, d)
		default:
			right = append(right, d)
		}
	}
	a := m.matrix(x, [4][]int{both, left, sum, right}, size(both), size(left), size(sum))
	b := m.matrix(y, [4][]int{both, sum, right, left}, size(both), size(sum), size(right))
	r := m.bmm(a, b)
	r = m.arranged(r, x, y, [4][]int{both, left, sum, right}, summed)
	m.drop(b, a)
	return r
}

// matrix is an operand as one batch of matrices.
func (m *Machine) matrix(x *impl, groups [4][]int, size ...int64) *impl {
	order := make([]int, 0, maxDims)
	for _, g := range groups {
		order = append(order, g...)
	}
	v := m.permute(x, order)
	r := m.reshape(v, size)
	m.drop(v)
	return r
}

// arranged gives the product its dimensions back, in order, without those that
// were summed.
func (m *Machine) arranged(r, x, y *impl, groups [4][]int, summed int) *impl {
	size := make([]int64, 0, maxDims)
	order := make([]int, x.Dims())
	at := 0
	for g, dims := range groups {
		for _, d := range dims {
			s := max(x.size[d], y.size[d])
			if g == 2 {
				s = 1
			}
			size = append(size, s)
			order[d] = at
			at++
		}
	}
	v := m.reshape(r, size)
	m.drop(r)
	p := m.permute(v, order)
	m.drop(v)
	if summed == x.Dims() {
		return p
	}
	stride, _ := p.viewStrides(p.size[:summed])
	w := m.viewAs(p, append([]int64(nil), p.size[:summed]...), stride)
	m.drop(p)
	return w
}
