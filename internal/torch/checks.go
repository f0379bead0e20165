package torch

import "floodmark/dtype"

// mostPieces bounds what a tensor is cut into.
const mostPieces = 1 << 16

// refuse ends the prediction where arguments of an operator do not fit: the first
// such place is the timeline's error. The program runs on with a scalar in place
// of what the operator would have made.
func (m *Machine) refuse(args ...Tensor) Tensor {
	m.fail(ErrShape)
	m.consume(args...)
	i := m.impls.take()
	*i = impl{refs: 1, dtype: dtype.F32, storage: m.allocate(0, termTemporaries)}
	for d := range i.size {
		i.size[d] = 1 // programs divide by lengths before anybody looks whether one was refused
	}
	return result(i)
}

// shaped reports lengths that a tensor can have.
func shaped(size []int64) bool {
	for _, s := range size {
		if s < 0 {
			return false
		}
	}
	return len(size) <= maxDims
}

// given reports that none of these is None.
func given(list ...Tensor) bool {
	for _, t := range list {
		if t.impl == nil {
			return false
		}
	}
	return true
}

// has reports that a tensor has a dimension; negative ones count from the last.
func (t Tensor) has(dims ...int) bool {
	if t.impl == nil {
		return false
	}
	for _, d := range dims {
		if d < -int(t.dims) || d >= int(t.dims) {
			return false
		}
	}
	return true
}

// last is the length of the last dimension of a tensor that has one.
func (t Tensor) last() int64 { return t.size[t.dims-1] }

// isVector reports one dimension of that length, or None.
func (t Tensor) isVector(length int64) bool {
	return t.impl == nil || t.dims == 1 && t.size[0] == length
}

// together reports that tensors have a common broadcast shape.
func together(list ...Tensor) bool {
	if !given(list...) {
		return false
	}
	var impls [4]*impl
	for i, t := range list {
		impls[i] = t.impl
	}
	_, _, fits := broadcast(impls[:len(list)]...)
	return fits
}

// isOrder reports every dimension of a tensor once.
func (t Tensor) isOrder(order []int) bool {
	var seen [maxDims]bool
	if t.impl == nil || len(order) != int(t.dims) {
		return false
	}
	for _, d := range order {
		if d < 0 || d >= int(t.dims) || seen[d] {
			return false
		}
		seen[d] = true
	}
	return true
}

// multiplies reports matrices, or batches of them, whose inner lengths are equal.
func multiplies(x, y Tensor) bool {
	return given(x, y) && x.dims >= 2 && y.dims >= 2 && x.last() == y.size[y.dims-2]
}

// batches reports leading dimensions that broadcast.
func batches(x, y Tensor) bool {
	a, b := *x.impl, *y.impl
	a.dims, b.dims = a.dims-2, b.dims-2
	_, _, fits := broadcast(&a, &b)
	return fits
}

// attends reports queries, keys and values of heads that fit together, and a mask
// that broadcasts over their scores.
func attends(q, k, v, mask Tensor) bool {
	if !given(q, k, v) || q.dims != 4 || k.dims != 4 || v.dims != 4 {
		return false
	}
	if q.size[0] != k.size[0] || k.size[0] != v.size[0] || k.size[1] != v.size[1] || k.size[2] != v.size[2] || q.size[3] != k.size[3] {
		return false
	}
	if k.size[1] == 0 || q.size[1]%k.size[1] != 0 {
		return false
	}
	if mask.impl == nil {
		return true
	}
	scores := impl{dims: 4, size: [maxDims]int64{q.size[0], q.size[1], q.size[2], k.size[2]}}
	size, _, fits := broadcast(&scores, mask.impl)
	return fits && size == scores.size && mask.dims >= 1
}

// expands reports sizes to which a tensor can be repeated.
func (t Tensor) expands(size []int64) bool {
	if t.impl == nil || len(size) < int(t.dims) || len(size) > maxDims {
		return false
	}
	extra := len(size) - int(t.dims)
	for d, s := range size {
		switch {
		case d < extra:
			if s < 0 {
				return false
			}
		case s >= 0 && s != t.size[d-extra] && t.size[d-extra] != 1:
			return false
		case s < -1:
			return false
		}
	}
	return true
}

// reshapes reports sizes of as many elements.
func (t Tensor) reshapes(size []int64) bool {
	if t.impl == nil || len(size) > maxDims {
		return false
	}
	open := 0
	for _, s := range size {
		if s < 0 {
			open++
		}
	}
	if open > 1 {
		return false
	}
	full := resolved(t.impl, size)
	for _, s := range full {
		if s < 0 {
			return false
		}
	}
	n := t.Elements()
	return n >= 0 && product(full) == n
}

// joins reports tensors that are alike but in one dimension; any where it is −1.
func joins(dim int, list []Tensor) bool {
	if len(list) == 0 || !given(list...) {
		return false
	}
	for _, t := range list[1:] {
		if t.dims != list[0].dims {
			return false
		}
		for d := range int(t.dims) {
			if d != dim && t.size[d] != list[0].size[d] {
				return false
			}
		}
	}
	return true
}

// covers reports lengths that make a dimension up.
func covers(size int64, lengths []int64) bool {
	for _, l := range lengths {
		if l < 0 || l > size {
			return false
		}
		size -= l
	}
	return size == 0 && len(lengths) > 0
}

// refuseAll is refuse where several tensors were expected.
func (m *Machine) refuseAll(n int, args ...Tensor) []Tensor {
	list := make([]Tensor, max(n, 1))
	for i := range list {
		list[i] = m.refuse()
	}
	m.consume(args...)
	return list
}

// convolves reports a kernel that fits its input.
func convolves(x, weight, bias Tensor, stride, padding []int64, groups int64) bool {
	n := len(stride)
	if !given(x, weight) || n < 1 || n > maxDims-2 || len(padding) != n || int(x.dims) != n+2 || int(weight.dims) != n+2 {
		return false
	}
	if groups < 1 || weight.size[1] > x.size[1] || weight.size[1]*groups != x.size[1] || !bias.isVector(weight.size[0]) {
		return false
	}
	for d, s := range stride {
		if s < 1 || padding[d] < 0 || padding[d] > x.size[2+d] || x.size[2+d]+2*padding[d] < weight.size[2+d] {
			return false
		}
	}
	return true
}

// classesSecond reports logits [batch, classes, positions] of targets [batch,
// positions].
func (i *impl) classesSecond(targets Tensor) bool {
	return i.dims == 3 && targets.dims == 2 && targets.size[0] == i.size[0] && targets.size[1] == i.size[2]
}

// writesPlaces reports a source of the shape of x but for its last dimension, which
// has as many places as ids and not more than x.
func writesPlaces(x, ids, source Tensor) bool {
	if x.dims < 1 || x.dims != source.dims || !ids.isVector(source.last()) || source.last() > x.last() {
		return false
	}
	for d := range x.dims - 1 {
		if x.size[d] != source.size[d] {
			return false
		}
	}
	return true
}
