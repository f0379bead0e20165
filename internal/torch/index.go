package torch

import "floodmark/dtype"

// Embedding looks rows of a table up.
func (m *Machine) Embedding(table, ids Tensor) Tensor {
	if !(given(table, ids) && table.dims == 2 && ids.dims < maxDims) {
		return m.refuse(table, ids)
	}
	var n *node
	if m.wants(table.impl) {
		n = m.record("EmbeddingBackward0", embeddingBackward, table.impl)
		m.save(n, ids.impl)
		n.ints, n.n = table.size, table.dims
	}
	out := m.rows("embedding", table.impl, ids.impl)
	attach(n, out)
	m.consume(table, ids)
	return result(out)
}

// inOrderIndices is a copy of indices that do not lie in order, or nothing.
func (m *Machine) inOrderIndices(ids *impl) *impl {
	if ids.contiguous() {
		return nil
	}
	return m.empty(ids.dtype, ids.Shape())
}

// IndexRows is table[ids]: the same values, by advanced indexing.
func (m *Machine) IndexRows(table, ids Tensor) Tensor {
	if !(given(table, ids) && table.dims >= 1 && int(ids.dims+table.dims) <= maxDims+1) {
		return m.refuse(table, ids)
	}
	var n *node
	if m.wants(table.impl) {
		n = m.record("IndexBackward0", indexBackward, table.impl)
		m.save(n, ids.impl)
		n.ints, n.n = table.size, table.dims
	}
	out := m.rows("index", table.impl, ids.impl)
	attach(n, out)
	m.consume(table, ids)
	return result(out)
}

func (m *Machine) rows(op string, table, ids *impl) *impl {
	var size [maxDims]int64
	copy(size[:], ids.Shape())
	copy(size[ids.dims:], table.size[1:table.dims])
	m.sites.op = op
	if op == "embedding" { // ids.reshape(-1)
		defer m.drop(m.inOrderIndices(ids))
	}
	return m.empty(table.dtype, size[:int(ids.dims)+int(table.dims)-1])
}

// indexBackward puts the gradient into zeros of the whole table. On CUDA the ids
// are sorted first: five buffers of 8 bytes an id, a copy of a gradient that is
// not contiguous, and scratch of the sort
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/Indexing.cu,
// index_put_with_sort_kernel).
func indexBackward(p *pass) {
	m, ids := p.m, p.saved(0).Elements()
	m.sites.op = "new_zeros"
	table := m.empty(p.grad().dtype, p.n.ints[:p.n.n])
	if !m.device.CPU {
		m.sites.op = "_index_put_impl_"
		remainder := m.bufferOf(8 * ids)
		linear := m.bufferOf(8 * ids)
		m.free(remainder)
		values := m.inOrderGradient(p.grad(), "_index_put_impl_")
		sorted := m.bufferOf(8 * ids)
		original := m.bufferOf(8 * ids)
		arange := m.bufferOf(8 * ids)
		m.free(m.bufferOf(m.device.sortScratch(ids)))
		m.free(arange)
		m.free(original)
		m.free(sorted)
		m.drop(values)
		m.free(linear)
	}
	p.give(0, table)
}

// sortScratch is what cub::DeviceRadixSort asks for n pairs of 64 bits. Seen on
// traces: 1 byte where one block sorts all (2,048 pairs and less), 72,191 bytes
// for 4,096 pairs and 138,751 for 8,192; in between and beyond it follows the
// line through these two, 16.25 bytes a pair and 5,631.
func (d Device) sortScratch(n int64) int64 {
	if n <= 2048 {
		return 1
	}
	return 65*n/4 + 5631
}

// embeddingBackward is embedding_dense_backward: zeros of the whole table. On
// CUDA up to 3,072 ids are added as they come; more are sorted first
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/Embedding.cu).
func embeddingBackward(p *pass) {
	m, ids := p.m, p.saved(0).Elements()
	m.sites.op = "embedding_dense_backward"
	if m.device.CPU {
		p.give(0, m.empty(p.grad().dtype, p.n.ints[:p.n.n]))
		m.drop(m.inOrderIndices(p.saved(0)))
		return
	}
	defer m.drop(m.inOrderIndices(p.saved(0)))
	g := m.inOrderGradient(p.grad(), "embedding_dense_backward")
	if ids <= 3072 {
		p.give(0, m.empty(g.dtype, p.n.ints[:p.n.n]))
	} else {
		p.give(0, m.sortedEmbedding(g.dtype, p.n.ints[:p.n.n], ids))
	}
	m.drop(g)
}

// rowsPerPart is how many equal ids one part of the sum takes.
const rowsPerPart = 10

// sortedEmbedding sorts the ids, finds where each begins, and sums the rows of
// each in parts, in 32 bits: as many rows as there can be parts
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu).
// Worked number: 8,192 ids of a table of [128,256, 4,096] can be 8,192 / 10 +
// 8,192 parts, of 4,096 × 4 bytes: 147,636,224 bytes while the kernel is queued.
func (m *Machine) sortedEmbedding(f dtype.Format, table []int64, ids int64) *impl {
	sorted, original, order := m.bufferOf(8*ids), m.bufferOf(8*ids), m.bufferOf(8*ids)
	m.free(m.bufferOf(m.device.sortScratch(ids)))
	m.free(order)
	weight := m.empty(f, table)
	segments := min(ids, table[0])
	parts := ids/rowsPerPart + segments
	offsets, count := m.bufferOf(8*ids), m.bufferOf(8)
	perSegment, perSegmentOffset := m.bufferOf(8*segments), m.bufferOf(8*segments)
	partCount, partOffset := m.bufferOf(8), m.bufferOf(8*parts)
	sums := m.bufferOf(max(4, itemSize(f)) * parts * table[1])
	for _, s := range []*storage{sums, partOffset, partCount, perSegmentOffset, perSegment, count, offsets, original, sorted} {
		m.free(s)
	}
	return weight
}

// Gather takes one value of a dimension for each index.
func (m *Machine) Gather(x Tensor, dim int, index Tensor) Tensor {
	if !(given(index) && x.has(dim) && index.dims == x.dims) {
		return m.refuse(x, index)
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record("GatherBackward0", gatherBackward, x.impl)
		m.save(n, index.impl, x.impl)
	}
	m.sites.op = "gather"
	out := m.empty(x.dtype, index.Shape())
	attach(n, out)
	m.consume(x, index)
	return result(out)
}

// gatherBackward scatters into zeros of the whole shape.
func gatherBackward(p *pass) {
	p.m.sites.op = "new_zeros"
	p.give(0, p.m.empty(p.grad().dtype, p.saved(1).Shape()))
}

// scalar is a number as a tensor without dimensions.
func (m *Machine) scalar(f dtype.Format) *impl {
	m.sites.op = "scalar_tensor"
	return m.empty(f, nil)
}

// comparison is a bool tensor of a comparison with a number.
func (m *Machine) comparison(x *impl) *impl {
	m.sites.op = "ge"
	return m.iterated(dtype.Bool, x)
}

func (m *Machine) comparisonOf(x, y *impl) *impl {
	m.sites.op = "eq"
	return m.iterated(dtype.Bool, x, y)
}

// selected is where(condition, a, b).
func (m *Machine) selected(condition, a, b *impl) *impl {
	m.sites.op = "where"
	return m.iterated(promote(a, b), condition, a, b)
}

// WhereScalar is where(condition, x, number): the number becomes a tensor for as
// long as the operator runs.
func (m *Machine) WhereScalar(condition, x Tensor) Tensor {
	if !(together(condition, x)) {
		return m.refuse(condition, x)
	}
	number := m.scalar(x.dtype)
	var n *node
	if m.wants(x.impl) {
		n = m.record("WhereBackward0", whereBackward, x.impl, nil)
		m.save(n, condition.impl)
	}
	out := m.selected(condition.impl, x.impl, number)
	attach(n, out)
	m.drop(number)
	m.consume(condition, x)
	return result(out)
}

// Where is where(condition, a, b).
func (m *Machine) Where(condition, a, b Tensor) Tensor {
	if !(together(condition, a, b)) {
		return m.refuse(condition, a, b)
	}
	var n *node
	if m.wants(a.impl, b.impl) {
		n = m.record("WhereBackward0", whereBackward, a.impl, b.impl)
		m.save(n, condition.impl)
	}
	out := m.selected(condition.impl, a.impl, b.impl)
	attach(n, out)
	m.consume(condition, a, b)
	return result(out)
}

// whereBackward: self: where(condition, grad, 0); other: where(condition, 0, grad).
func whereBackward(p *pass) {
	for _, input := range []int{1, 0} {
		if p.needs(input) {
			zero := p.hold(p.m.scalar(p.grad().dtype))
			p.give(input, p.m.selected(p.saved(0), p.grad(), zero))
		}
	}
}

// MaskedFill is x.masked_fill(mask, number): a copy that is filled.
func (m *Machine) MaskedFill(x, mask Tensor) Tensor {
	if !(together(x, mask)) {
		return m.refuse(x, mask)
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record("MaskedFillBackward0", maskedFillBackward, x.impl)
		m.save(n, mask.impl)
	}
	m.sites.op = "masked_fill"
	out := m.iterated(x.dtype, x.impl, mask.impl)
	attach(n, out)
	m.consume(x, mask)
	return result(out)
}

func maskedFillBackward(p *pass) {
	p.m.sites.op = "masked_fill"
	p.give(0, p.m.iterated(p.grad().dtype, p.grad(), p.saved(0)))
}
