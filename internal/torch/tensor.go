package torch

import (
	"floodmark/bytesize"
	"floodmark/dtype"
)

// maxDims is the most dimensions of a tensor: einsum over windows of a picture
// needs seven.
const maxDims = 8

// Tensor is what a program holds of a tensor. The zero Tensor is None.
//
// The result of an operator is a temporary: it dies in the next operator that
// takes it, as an unnamed value of Python does. A frame that names it
// ([Frame.Let]) makes it live until the name dies; so does whoever created it
// ([Machine.Parameter] and its like). The type is a value: after Let the old
// value must not be used.
type Tensor struct {
	*impl
	slot int16 // 0: somebody else holds it; temporary; else one more than its place in its frame
}

const temporary = int16(-1)

// IsTemporary reports that the next operator ends the tensor.
func (t Tensor) IsTemporary() bool { return t.slot == temporary }

// Defined reports that the tensor is not None.
func (t Tensor) Defined() bool { return t.impl != nil }

// impl is PyTorch's TensorImpl: what references, views and gradients are kept of.
type impl struct {
	refs         int32
	output       int32 // of which output of node it is
	dims         int8
	dtype        dtype.Format
	requiresGrad bool
	reduced      bool // its gradient goes into a buffer at once
	flat         bool // a view of a flat parameter, which autocast casts anew for every use
	size, stride [maxDims]int64

	storage *storage
	base    *impl // what it is a view of, the root; a reference
	node    *node // that computed it; a reference
	grad    *impl // of a leaf; a reference
	acc     *node // AccumulateGrad of a leaf, while a graph holds it
}

// storage is bytes on the device.
type storage struct {
	refs  int32
	alloc uint32 // index into the timeline's allocations; noAlloc when it is empty
	bytes int64
}

const noAlloc = ^uint32(0)

// Dims is the number of dimensions.
func (i *impl) Dims() int { return int(i.dims) }

// Size is the length of a dimension; a negative one counts from the last.
func (i *impl) Size(dim int) int64 { return i.size[i.wrap(dim)] }

// Shape is the lengths of all dimensions.
func (i *impl) Shape() []int64 { return i.size[:i.dims] }

// Dtype is the format of its elements.
func (i *impl) Dtype() dtype.Format { return i.dtype }

// RequiresGrad reports that backward computes a gradient for it.
func (i *impl) RequiresGrad() bool { return i.requiresGrad }

// Elements is the number of elements.
func (i *impl) Elements() int64 { return product(i.Shape()) }

// HasGrad reports that a leaf has a gradient.
func (i *impl) HasGrad() bool { return i.grad != nil }

func (i *impl) leaf() bool { return i.node == nil }

func (i *impl) wrap(dim int) int {
	if dim < 0 {
		dim += int(i.dims)
	}
	return min(max(dim, 0), maxDims-1)
}

// product of sizes; −1 when it does not fit in 63 bits.
func product(sizes []int64) int64 {
	n := int64(1)
	for _, s := range sizes {
		if s == 0 {
			return 0
		}
		if n > (1<<62)/s {
			if big, fits := bytesize.Mul(sizes...); fits {
				return big
			}
			return -1
		}
		n *= s
	}
	return n
}

// itemSize is the bytes of an element; 0 for formats that tensors of PyTorch do
// not compute in.
func itemSize(f dtype.Format) int64 {
	switch f {
	case dtype.F32, dtype.I32:
		return 4
	case dtype.F16, dtype.BF16, dtype.I16:
		return 2
	case dtype.F64, dtype.I64, dtype.C64:
		return 8
	case dtype.Bool, dtype.I8, dtype.U8, dtype.F8E4M3, dtype.F8E5M2:
		return 1
	}
	return 0
}

func isFloat(f dtype.Format) bool {
	switch f {
	case dtype.F64, dtype.F32, dtype.F16, dtype.BF16, dtype.F8E4M3, dtype.F8E5M2:
		return true
	}
	return false
}

// rank orders formats as PyTorch's promotion does: bool, integers, floats.
func rank(f dtype.Format) int {
	switch f {
	case dtype.Bool:
		return 0
	case dtype.U8, dtype.I8:
		return 1
	case dtype.I16:
		return 2
	case dtype.I32:
		return 3
	case dtype.I64:
		return 4
	case dtype.F16, dtype.BF16:
		return 6
	case dtype.F32:
		return 7
	case dtype.F64:
		return 8
	}
	return 5
}

// promote is the format of two tensors computed together. A tensor without
// dimensions counts only where its kind is higher
// (https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc).
func promote(a, b *impl) dtype.Format {
	if a.dims == 0 != (b.dims == 0) && kind(a.dtype) == kind(b.dtype) {
		if a.dims == 0 {
			return b.dtype
		}
		return a.dtype
	}
	return wider(a.dtype, b.dtype)
}

// wider is the format that holds both.
func wider(a, b dtype.Format) dtype.Format {
	switch ra, rb := rank(a), rank(b); {
	case ra == 6 && rb == 6 && a != b:
		return dtype.F32
	case rb > ra:
		return b
	}
	return a
}

// kind is bool, integer or float.
func kind(f dtype.Format) int {
	switch {
	case f == dtype.Bool:
		return 0
	case isFloat(f):
		return 2
	}
	return 1
}
