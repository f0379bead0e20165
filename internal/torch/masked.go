package torch

import "floodmark/dtype"

// ArgMax is where the largest value of the last dimension is.
func (m *Machine) ArgMax(x Tensor) Tensor {
	if !x.has(-1) {
		return m.refuse(x)
	}
	m.sites.op = "argmax"
	i := m.empty(dtype.I64, x.Shape()[:x.Dims()-1])
	m.consume(x)
	return result(i)
}

// MaskedRows is x[mask], where the mask is over the leading dimensions and so many
// rows of it are true: the places of the mask are listed, and the rows are copied.
// Nobody asks for its gradient.
func (m *Machine) MaskedRows(x, mask Tensor, rows int64) Tensor {
	if !given(x, mask) || mask.dims >= x.dims || rows < 0 {
		return m.refuse(x, mask)
	}
	m.sites.op = "nonzero"
	places := m.empty(dtype.I64, []int64{rows, int64(mask.dims)})
	m.sites.op = "index"
	out := m.empty(x.dtype, append([]int64{rows}, x.Shape()[mask.dims:]...))
	m.drop(places)
	m.consume(x, mask)
	return result(out)
}
