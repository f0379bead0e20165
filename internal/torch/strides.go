package torch

import (
	"slices"

	"floodmark/dtype"
)

func (i *impl) contiguousStrides() {
	step := int64(1)
	for d := int(i.dims) - 1; d >= 0; d-- {
		i.stride[d] = step
		step *= max(i.size[d], 1)
	}
}

// contiguous reports that elements lie in the order of the dimensions.
func (i *impl) contiguous() bool {
	step := int64(1)
	for d := int(i.dims) - 1; d >= 0; d-- {
		if i.size[d] == 0 {
			return true
		}
		if i.size[d] != 1 {
			if i.stride[d] != step {
				return false
			}
			step *= i.size[d]
		}
	}
	return true
}

// dense reports that the elements fill their memory without overlap, in any
// order of the dimensions.
func (i *impl) dense() bool {
	if i.contiguous() {
		return true
	}
	var order [maxDims]int
	for d := range i.dims {
		order[d] = int(d)
	}
	list := order[:i.dims]
	slices.SortFunc(list, func(a, b int) int {
		switch {
		case i.size[a] < 2:
			return 1
		case i.size[b] < 2:
			return -1
		}
		return int(min(max(i.stride[a]-i.stride[b], -1), 1))
	})
	step := int64(1)
	for _, d := range list {
		if i.size[d] < 2 {
			return true
		}
		if i.stride[d] != step {
			return false
		}
		step *= i.size[d]
	}
	return true
}

func sameStrides(a, b *impl) bool { return a.dims == b.dims && a.stride == b.stride }

// broadcast is the shape of operands computed together; false where they do not
// fit.
func broadcast(list ...*impl) (size [maxDims]int64, dims int8, fits bool) {
	for _, i := range list {
		dims = max(dims, i.dims)
	}
	for d := range dims {
		size[d] = 1
	}
	for _, i := range list {
		for d := range i.dims {
			at := dims - i.dims + d
			switch {
			case i.size[d] == size[at] || i.size[d] == 1:
			case size[at] == 1:
				size[at] = i.size[d]
			default:
				return size, dims, false
			}
		}
	}
	return size, dims, true
}

// iterated is the output of an elementwise kernel: the broadcast shape, laid out
// as the operands are, as TensorIterator does it
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/TensorIterator.cpp,
// fast_set_up and reorder_dimensions).
func (m *Machine) iterated(f dtype.Format, operands ...*impl) *impl {
	size, dims, fits := broadcast(operands...)
	if !fits {
		m.fail(ErrShape)
	}
	out := m.impls.take()
	*out = impl{refs: 1, dtype: f, dims: dims, size: size}
	out.layOut(operands)
	out.storage = m.allocate(bytesOf(out), termTemporaries)
	return out
}

func (i *impl) layOut(operands []*impl) {
	same, contiguous := true, true
	for _, o := range operands {
		same = same && o.dims == i.dims && o.size == i.size
		contiguous = contiguous && o.contiguous()
	}
	switch {
	case same && contiguous:
		i.contiguousStrides()
		return
	case same && operands[0].dense() && allStrides(operands):
		i.stride = operands[0].stride
		return
	}
	step := int64(1)
	for _, d := range i.order(operands) {
		i.stride[d] = step
		step *= max(i.size[d], 1)
	}
}

func allStrides(operands []*impl) bool {
	for _, o := range operands[1:] {
		if !sameStrides(o, operands[0]) {
			return false
		}
	}
	return true
}

// order is the dimensions from the fastest to the slowest: an insertion sort by
// the operands' strides in which a comparison may be undecided.
func (i *impl) order(operands []*impl) []int {
	n := int(i.dims)
	perm := make([]int, n)
	for d := range perm {
		perm[d] = n - 1 - d
	}
	for at := 1; at < n; at++ {
		moving := at
		for other := at - 1; other >= 0; other-- {
			c := i.compare(operands, perm[other], perm[moving])
			if c > 0 {
				perm[other], perm[moving] = perm[moving], perm[other]
				moving = other
			} else if c < 0 {
				break
			}
		}
	}
	return perm
}

// compare is positive where dimension a must come after b, and 0 where no
// operand decides.
func (i *impl) compare(operands []*impl, a, b int) int {
	for _, o := range operands {
		x, y := o.strideOf(a, i), o.strideOf(b, i)
		switch {
		case x == 0 || y == 0:
			continue
		case x < y:
			return -1
		case x > y:
			return 1
		case i.size[a] > i.size[b]:
			return 1
		}
	}
	return 0
}

// strideOf is the stride of an operand in a dimension of the output: 0 where it
// is broadcast.
func (i *impl) strideOf(dim int, out *impl) int64 {
	d := dim - int(out.dims-i.dims)
	if d < 0 || i.size[d] == 1 && out.size[dim] != 1 {
		return 0
	}
	return i.stride[d]
}

// viewStrides are the strides of i in another shape; false where elements must
// be copied (at::detail::computeStride).
func (i *impl) viewStrides(size []int64) (stride [maxDims]int64, possible bool) {
	if product(i.Shape()) == 0 || i.contiguous() {
		v := impl{dims: int8(len(size))}
		copy(v.size[:], size)
		v.contiguousStrides()
		return v.stride, true
	}
	at := len(size) - 1
	base := i.stride[i.dims-1]
	elements, taken := int64(1), int64(1)
	for d := int(i.dims) - 1; d >= 0; d-- {
		elements *= i.size[d]
		if d != 0 && (i.size[d-1] == 1 || i.stride[d-1] == elements*base) {
			continue
		}
		for at >= 0 && (taken < elements || size[at] == 1) {
			stride[at] = taken * base
			taken *= size[at]
			at--
		}
		if taken != elements {
			return stride, false
		}
		if d > 0 {
			base = i.stride[d-1]
			elements, taken = 1, 1
		}
	}
	return stride, at == -1
}
