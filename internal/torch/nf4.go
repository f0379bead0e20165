package torch

import "floodmark/dtype"

// The blocks of torchao's NF4Tensor: elements that share a scale, and scales that
// share a factor.
const (
	nf4Block   = 64
	nf4Factors = 256
	nf4Values  = 16
)

// ToNF4 packs a weight in bfloat16 into 4 bits as torchao does until it works in
// chunks (NF4Tensor.from_tensor of
// https://github.com/pytorch/ao/blob/v0.1/torchao/dtypes/nf4tensor.py): each element
// is compared with each of the 16 values, so that 64 bytes an element stand at once.
// What stays is half a byte an element and for each block a byte and the 16 bits of
// a factor, of which one in 256 is read and all are kept. Worked number: 4096 × 11008
// elements need 2,885,681,152 bytes for the comparison, and 24,657,920 stay, tables aside.
func (m *Machine) ToNF4(x Tensor) Packed {
	elements := int64(1)
	for d := range int(x.dims) {
		elements *= x.size[d]
	}
	blocks := elements / nf4Block
	m.sites.op = "to_nf4"
	kept := []*impl{m.flat(dtype.BF16, nf4Values)}
	kept = append(kept, m.nf4Scales(elements, blocks)...)
	data := m.nf4Data(elements, blocks)
	shape := make([]int64, x.dims)
	copy(shape, x.size[:])
	return m.asNF4(shape, data, kept...)
}

// asNF4 is a weight of these words with what it keeps beside them.
func (m *Machine) asNF4(shape []int64, data *impl, beside ...*impl) Packed {
	m.become(data.storage, termWeights)
	p := Packed{Weight: Tensor{impl: data}, Shape: shape, Format: dtype.BF16, Block: nf4Block, Nested: true, Torchao: true}
	for _, k := range beside {
		m.become(k.storage, termScales)
		p.Beside = append(p.Beside, Tensor{impl: k})
	}
	return p
}

func (m *Machine) flat(f dtype.Format, elements int64) *impl { return m.empty(f, []int64{elements}) }

// most is the largest magnitude of each of so many blocks (get_block_absmax).
func (m *Machine) most(elements, blocks int64) *impl {
	magnitudes := m.flat(dtype.BF16, elements)
	values, indices := m.flat(dtype.BF16, blocks), m.flat(dtype.I64, blocks)
	m.drop(magnitudes)
	m.drop(indices)
	return values
}

// nf4Scales is double_quantize_scalers: the factors, the mean and the scales in 8
// bits, which stay.
func (m *Machine) nf4Scales(elements, blocks int64) []*impl {
	scales := m.most(elements, blocks)
	mean := m.flat(dtype.BF16, 1)
	centred := m.flat(dtype.BF16, blocks)
	m.drop(scales)
	largest := m.most(blocks, (blocks+nf4Factors-1)/nf4Factors)
	twice := m.flat(dtype.BF16, blocks)
	factors := m.flat(dtype.BF16, blocks)
	m.drop(twice)
	now := m.flat(dtype.BF16, blocks)
	for range 2 { // rounded, then clamped
		next := m.flat(dtype.BF16, blocks)
		m.drop(now)
		now = next
	}
	packed := m.flat(dtype.I8, blocks)
	m.dropAll(centred, largest, now)
	return []*impl{factors, mean, packed}
}

// nf4Data is convert_to_norm_float_weight: two elements a byte.
func (m *Machine) nf4Data(elements, blocks int64) *impl {
	scales := m.most(elements, blocks)
	scaled := m.flat(dtype.BF16, elements)
	apart := m.flat(dtype.BF16, nf4Values*elements)
	distance := m.flat(dtype.BF16, nf4Values*elements)
	m.drop(apart)
	least, nearest := m.flat(dtype.BF16, elements), m.flat(dtype.I64, elements)
	m.dropAll(least, distance)
	shifted := m.flat(dtype.I64, elements/2)
	joined := m.flat(dtype.I64, elements/2)
	m.drop(shifted)
	data := m.flat(dtype.U8, elements/2)
	m.dropAll(joined, nearest, scaled, scales)
	return data
}

// fromNF4 is get_original_weight: the indices of each half in 64 bits, their values,
// and those times their scales. Worked number: 4096 × 11008 elements need
// 636,878,848 bytes at most, of which 90,177,536 are the weight.
func (m *Machine) fromNF4(p Packed) *impl {
	elements := product(p.Shape)
	half := func() *impl {
		bits := m.flat(dtype.U8, elements/2)
		indices := m.flat(dtype.I64, elements/2)
		m.drop(bits)
		return indices
	}
	m.sites.op = "get_original_weight"
	first, second := half(), half()
	valued, values := m.flat(dtype.BF16, elements/2), m.flat(dtype.BF16, elements/2)
	quotient := m.flat(dtype.BF16, elements/nf4Block)
	scales := m.flat(dtype.BF16, elements/nf4Block)
	m.drop(quotient)
	times := func() *impl {
		repeated := m.flat(dtype.BF16, elements/2)
		scaled := m.flat(dtype.BF16, elements/2)
		m.drop(repeated)
		return scaled
	}
	a, b := times(), times()
	w := m.empty(dtype.BF16, p.Shape)
	m.dropAll(first, second, valued, values, scales, a, b)
	return w
}

func (m *Machine) dropAll(list ...*impl) {
	for _, i := range list {
		m.drop(i)
	}
}

// CloneNF4 is how deepcopy copies a weight in 4 bits that torchtune taught to clone
// itself: it is unpacked and packed again (torchtune/utils/_register_nf4_dispatch_ops.py
// of v0.1.0), and what that made gives way to copies of the first one's pieces
// (Tensor.__deepcopy__ of https://github.com/pytorch/pytorch/blob/v2.2.2/torch/_tensor.py).
func (m *Machine) CloneNF4(p Packed) Packed {
	w := m.fromNF4(p)
	made := m.ToNF4(Tensor{impl: w})
	m.drop(w)
	m.sites.op = "clone"
	elements := product(p.Shape)
	blocks := elements / nf4Block
	scales, factors, mean := m.flat(dtype.I8, blocks), m.flat(dtype.BF16, blocks), m.flat(dtype.BF16, 1)
	data, values := m.flat(dtype.U8, elements/2), m.flat(dtype.BF16, nf4Values)
	m.DropNF4(made)
	return m.asNF4(p.Shape, data, scales, factors, mean, values)
}

// LoadNF4 is how torchtune loads a checkpoint's weight into one in 4 bits: the whole
// weight comes to the device and is packed, and each piece takes the place of the
// old one.
func (m *Machine) LoadNF4(p *Packed) {
	w := m.empty(dtype.BF16, p.Shape)
	made := m.ToNF4(Tensor{impl: w})
	m.DropNF4(*p)
	m.drop(w)
	*p = made
}

// DropNF4 lets go of a weight and of what is beside it.
func (m *Machine) DropNF4(p Packed) {
	m.Drop(p.Beside...)
	m.Drop(p.Weight)
}
