package torch

import (
	"math"

	"floodmark/dtype"
)

// Kernel is how scaled_dot_product_attention computes.
type Kernel uint8

// The kernels of scaled_dot_product_attention.
const (
	Flash     Kernel = iota // CUDA, 16 bits, without a mask
	Efficient               // CUDA, any format, with or without a mask
	FlashCPU                // a CPU's own
	Math                    // made of operators: every score exists
)

// Attention says how scaled_dot_product_attention is called.
type Attention struct {
	Kernel  Kernel
	Causal  bool
	Dropout bool
}

// ScaledDotProduct is scaled_dot_product_attention of [batch, heads, length,
// width] tensors; the mask is added to the scores, and may be None. One of bool
// becomes zeros and −inf in the format of the query first, which every call that
// is recorded keeps of its own
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/attention.cpp,
// convert_boolean_attn_mask).
func (m *Machine) ScaledDotProduct(a Attention, q, k, v, mask Tensor) Tensor {
	if !(attends(q, k, v, mask)) {
		return m.refuse(q, k, v, mask)
	}
	to := m.castsTo(lower, q.impl, k.impl, v.impl)
	x, y, z, bias := m.eased(q.impl, to), m.eased(k.impl, to), m.eased(v.impl, to), m.eased(mask.impl, to)
	was := m.casts.format
	m.casts.format = dtype.Unknown
	if bias != nil && bias.dtype == dtype.Bool {
		m.sites.op = "where"
		added := m.empty(x.dtype, bias.Shape())
		m.drop(bias)
		bias = added
	}
	var out *impl
	switch a.Kernel {
	case Flash:
		out = m.flash(a, x, y, z)
	case Efficient:
		out = m.efficient(a, x, y, z, bias)
	case FlashCPU:
		out = m.flashCPU(x, y, z, bias)
	default:
		out = m.mathAttention(a, x, y, z, bias)
	}
	m.casts.format = was
	m.drop(bias, z, y, x)
	m.consume(q, k, v, mask)
	return result(out)
}

// flash keeps query, key, value, the output and 4 bytes a query and head
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp,
// mha_fwd). The random state is 16 bytes where the device holds it.
func (m *Machine) flash(a Attention, q, k, v *impl) *impl {
	n := m.attentionNode("ScaledDotProductFlashAttentionBackward0", flashBackward, q, k, v)
	out, lse, state := m.flashKernel(a, q, k)
	if n != nil {
		n.computes(out)
		m.saveResults(n, lse)
		if state != nil {
			m.saveResults(n, state)
		}
		m.saveOutput(n, out)
	}
	m.drop(state, lse)
	return out
}

// efficientKernel is the output, and what is kept for each query and head where
// backward follows.
func (m *Machine) efficientKernel(q, v *impl, recorded bool) (out, lse *impl) {
	if kept := m.recalled("sdpa"); kept != nil {
		return kept[0], kept[1]
	}
	m.sites.op = "_efficient_attention_forward"
	size := q.size
	size[3] = v.size[3]
	out = m.byPosition(q.dtype, size[:4])
	queries := int64(0)
	if recorded {
		queries = ceilDiv(q.size[2], 32) * 32
	}
	lse = m.empty(dtype.F32, []int64{q.size[0], q.size[1], queries})
	if v.size[3] > 128 && itemSize(q.dtype) < 4 {
		m.free(m.bufferOf(4 * out.Elements()))
	}
	m.remember(out, lse)
	return out, lse
}

// flashKernel is the output, what is kept for each query and head, and the random
// state where the device holds it.
func (m *Machine) flashKernel(a Attention, q, k *impl) (out, lse, state *impl) {
	if kept := m.recalled("sdpa"); kept != nil {
		return kept[0], kept[1], kept[2]
	}
	m.sites.op = "_flash_attention_forward"
	out = m.emptyLike(q.dtype, q)
	lse = m.empty(dtype.F32, q.size[:3])
	if !a.Dropout {
		m.splitScratch(q, k)
	}
	if m.release.keepsRandomState() {
		state = m.empty(dtype.I64, []int64{2})
	}
	m.remember(out, lse, state)
	return out, lse, state
}

func (m *Machine) attentionNode(name string, b backward, q, k, v *impl) *node {
	if !m.wants(q, k, v) {
		return nil
	}
	n := m.record(name, b, q, k, v)
	m.save(n, k, q, v)
	return n
}

// splitScratch is what flash attention allocates when it splits the keys over
// blocks because queries alone do not fill the device.
func (m *Machine) splitScratch(q, k *impl) {
	heads, queries, width := q.size[0]*q.size[1], q.size[2], q.size[3]
	splits := m.device.splits(heads*ceilDiv(queries, 64), ceilDiv(k.size[2], flashBlock(width)))
	if splits <= 1 {
		return
	}
	lse := m.bufferOf(splits * heads * queries * 4)
	out := m.bufferOf(splits * heads * queries * flashWidth(width) * 4)
	m.free(out)
	m.free(lse)
}

// flashBlock is the keys of a block of a kernel that splits them.
func flashBlock(width int64) int64 {
	switch {
	case width <= 64:
		return 256
	case width <= 128:
		return 128
	}
	return 64
}

// flashWidth is the width of a head as kernels round it.
func flashWidth(width int64) int64 {
	if width > 192 {
		return 256
	}
	return ceilDiv(width, 32) * 32
}

// splits is num_splits_heuristic: the fewest parts of the keys by which blocks
// fill the multiprocessors (two blocks each) nearly as well as they can.
func (d Device) splits(blocks, keys int64) int64 {
	slots := int64(2 * d.SMs)
	if float64(blocks) >= 0.8*float64(slots) {
		return 1
	}
	most := min(128, slots, keys)
	var best float64
	efficiency := make([]float64, most+1)
	for s := int64(1); s <= most; s++ {
		if s > 1 && ceilDiv(keys, s) == ceilDiv(keys, s-1) {
			continue
		}
		waves := float64(blocks*s) / float64(slots)
		efficiency[s] = waves / math.Ceil(waves)
		best = max(best, efficiency[s])
	}
	for s := int64(1); s <= most; s++ {
		if efficiency[s] > 0 && efficiency[s] >= 0.85*best {
			return s
		}
	}
	return 1
}

// flashBackward is the gradients of what flash attention saved.
func flashBackward(p *pass) {
	k, q, v := p.saved(0), p.saved(1), p.saved(2)
	p.m.sites.op = "_flash_attention_backward"
	grad := p.m.unitStride(p.grad(), "_flash_attention_backward")
	dq, dk, dv := p.m.flashGradients(q, k, v)
	p.m.drop(grad)
	p.attentionGradients(dq, dk, dv)
}

// flashGradients are dq, dk, dv; a number for each query rounded to 128; and dq in 32
// bits in whole. Keys and values of groups are expanded first, and summed.
func (m *Machine) flashGradients(q, k, v *impl) (dq, dk, dv *impl) {
	dq, dk, dv = m.emptyLike(q.dtype, q), m.emptyLike(k.dtype, k), m.emptyLike(v.dtype, v)
	queries := ceilDiv(q.size[2], 128) * 128
	heads := q.size[0] * q.size[1]
	delta := m.bufferOf(heads * queries * 4)
	whole := m.bufferOf(heads * queries * flashWidth(q.size[3]) * 4)
	if k.size[1] != q.size[1] {
		bytes := heads * k.size[2] * k.size[3] * itemSize(k.dtype)
		expandedK, expandedV := m.bufferOf(bytes), m.bufferOf(bytes)
		m.free(expandedV)
		m.free(expandedK)
	}
	m.free(whole)
	m.free(delta)
	return dq, dk, dv
}

func (p *pass) attentionGradients(grads ...*impl) {
	for i, g := range grads {
		if p.needs(i) {
			p.out[i] = g
		} else {
			p.m.drop(g)
		}
	}
}

// unitStride is a tensor whose last dimension lies in order.
func (m *Machine) unitStride(x *impl, op string) *impl {
	if x.stride[x.dims-1] == 1 {
		return retain(x)
	}
	m.sites.op = "clone"
	c := m.empty(x.dtype, x.Shape())
	m.sites.op = op
	return c
}

// byPosition is a tensor of [batch, heads, length, width] that lies as [batch,
// length, heads, width].
func (m *Machine) byPosition(f dtype.Format, size []int64) *impl {
	i := m.empty(f, size)
	h, l, w := i.size[1], i.size[2], i.size[3]
	i.stride[0], i.stride[1], i.stride[2], i.stride[3] = l*h*w, w, h*w, 1
	return i
}

// efficient is the memory-efficient kernel: the output, and 4 bytes a head and
// query rounded to 32 when it is recorded; an accumulator of 32 bits where heads
// are wider than 128. A mask whose rows are no multiple of 16 is padded
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/cuda/attention.cu).
func (m *Machine) efficient(a Attention, q, k, v, mask *impl) *impl {
	var padded *impl
	if mask != nil && mask.size[mask.dims-1]%16 != 0 {
		size := mask.size
		size[mask.dims-1] = ceilDiv(size[mask.dims-1], 16) * 16
		m.sites.op = "pad"
		padded = m.empty(mask.dtype, size[:mask.dims])
	}
	n := m.attentionNode("ScaledDotProductEfficientAttentionBackward0", efficientBackward, q, k, v)
	if n != nil && padded != nil {
		m.save(n, padded)
	} else if n != nil && mask != nil {
		m.save(n, mask)
	}
	out, lse := m.efficientKernel(q, v, n != nil)
	if n != nil {
		n.computes(out)
		m.saveResults(n, lse)
		m.saveOutput(n, out)
	}
	m.drop(lse, padded)
	return out
}

// efficientBackward: dq, dk, dv, and a number of 32 bits a query. In 16 bits the
// kernel computes that number, and adds dq up in 32 bits in whole, block by block
// of 64 queries with a lock of 16 bytes each; in 32 bits it is the product of the
// gradient and the output, summed and turned
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/cuda/attention_backward.cu,
// https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h).
func efficientBackward(p *pass) {
	const op = "_efficient_attention_backward"
	m := p.m
	k, q, v := p.saved(0), p.saved(1), p.saved(2)
	m.sites.op = op
	grad := m.unitStride(p.grad(), op)
	dq, dk, dv := m.byPosition(q.dtype, q.Shape()), m.byPosition(k.dtype, k.Shape()), m.byPosition(v.dtype, v.Shape())
	heads, queries := q.size[0]*q.size[1], q.size[2]
	if itemSize(q.dtype) < 4 {
		delta := m.bufferOf(4 * heads * queries)
		blocks := heads * ceilDiv(queries, 64)
		work := m.bufferOf(blocks * (16*ceilDiv(q.size[3], 64) + 4*64*ceilDiv(q.size[3], 64)*64))
		m.free(work)
		m.free(delta)
	} else {
		product := m.bufferOf(4 * heads * queries * v.size[3])
		sum := m.bufferOf(4 * heads * queries)
		turned := m.bufferOf(4 * heads * queries)
		m.free(sum)
		m.free(product)
		m.free(turned)
	}
	m.drop(grad)
	p.attentionGradients(dq, dk, dv)
}

// flashKernelCPU is the output and what is kept for each query and head.
func (m *Machine) flashKernelCPU(q, k *impl) (out, lse *impl) {
	if kept := m.recalled("sdpa"); kept != nil {
		return kept[0], kept[1]
	}
	m.sites.op = "_scaled_dot_product_flash_attention_for_cpu"
	out = m.emptyLike(q.dtype, q)
	lse = m.empty(dtype.F32, []int64{q.size[0], q.size[2], q.size[1]})
	rows, columns := cpuBlocks(q.size[2], k.size[2])
	m.free(m.bufferOf(4 * m.device.threads() * (rows*columns + 2*rows + rows*q.size[3])))
	m.remember(out, lse)
	return out, lse
}

// flashCPU is a CPU's kernel: a number of 32 bits a query, and a buffer for each
// thread
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cpu/FlashAttentionKernel.cpp).
func (m *Machine) flashCPU(q, k, v, mask *impl) *impl {
	n := m.attentionNode("ScaledDotProductFlashAttentionForCpuBackward0", flashCPUBackward, q, k, v)
	out, lse := m.flashKernelCPU(q, k)
	if n != nil {
		n.computes(out)
		if mask != nil {
			m.save(n, mask)
		}
		m.saveResults(n, lse)
		m.saveOutput(n, out)
	}
	m.drop(lse)
	return out
}

// cpuBlocks is how many queries and keys a thread takes at once.
func cpuBlocks(queries, keys int64) (rows, columns int64) {
	rows = 32
	switch {
	case queries >= 768:
		rows = 256
	case queries >= 192:
		rows = 64
	}
	return min(rows, queries), min(512, keys)
}

func flashCPUBackward(p *pass) {
	m := p.m
	k, q, v := p.saved(0), p.saved(1), p.saved(2)
	m.sites.op = "zeros"
	dq, dk, dv := m.emptyLike(q.dtype, q), m.emptyLike(k.dtype, k), m.emptyLike(v.dtype, v)
	m.sites.op = "_scaled_dot_product_flash_attention_for_cpu_backward"
	var c *impl
	if g := p.grad(); !m.liesByPosition(g) {
		c = m.byPosition(g.dtype, g.Shape())
	}
	rows, columns := cpuBlocks(q.size[2], k.size[2])
	buffer := m.bufferOf(4 * m.device.threads() * 2 * rows * columns)
	sums := m.bufferOf(4 * m.device.threads() * rows)
	m.free(sums)
	m.free(buffer)
	m.drop(c)
	p.attentionGradients(dq, dk, dv)
}

func (m *Machine) liesByPosition(x *impl) bool {
	v := impl{dims: 4}
	for d, from := range []int{0, 2, 1, 3} {
		v.size[d], v.stride[d] = x.size[from], x.stride[from]
	}
	return v.contiguous()
}

// mathAttention is _scaled_dot_product_attention_math: query and key are scaled,
// 16 bits are widened to 32 since 2.5, every score exists, and a causal mask is
// made and added
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/attention.cpp).
func (m *Machine) mathAttention(a Attention, q, k, v, mask *impl) *impl {
	origin := q.dtype
	x, y, z := retain(q), retain(k), retain(v)
	if m.release.widensMathAttention() && itemSize(origin) == 2 {
		m.drop(x, y, z)
		x, y, z = m.toCopy(q, dtype.F32), m.toCopy(k, dtype.F32), m.toCopy(v, dtype.F32)
	}
	bias := mask
	if bias != nil {
		bias = retain(mask)
	}
	scaled := m.unaryOp(&m.unary[MulScalar], x)
	if a.Causal {
		bias = m.causalMask(x, y)
	}
	turned := m.transpose(y, -2, -1)
	scaledKey := m.unaryOp(&m.unary[MulScalar], turned)
	scores := result(m.matmul(scaled, scaledKey))
	m.drop(scaledKey, turned)
	if bias != nil {
		scores = m.InPlace(Add, scores, Tensor{impl: bias})
	}
	weights := m.safeSoftmax(scores)
	if a.Dropout {
		weights = m.Dropout(weights)
	}
	out := m.matmul(weights.impl, z)
	m.drop(weights.impl, bias, scaled, z, y, x)
	if out.dtype != origin {
		back := m.toCopy(out, origin)
		m.drop(out)
		out = back
	}
	return out
}

// safeSoftmax is softmax that gives zeros where a row is masked in whole: since
// 2.5 it looks for such rows
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/SoftMax.cpp,
// _safe_softmax).
func (m *Machine) safeSoftmax(scores Tensor) Tensor {
	held := Tensor{impl: scores.impl}
	weights := m.Softmax(held, dtype.Unknown)
	if m.release.widensMathAttention() {
		m.sites.op = "isneginf"
		masked := m.empty(dtype.Bool, scores.Shape())
		m.sites.op = "all"
		size := scores.size
		size[scores.dims-1] = 1
		m.drop(m.empty(dtype.Bool, size[:scores.dims]), masked)
	}
	m.consume(scores)
	return weights
}

// causalMask is ones().tril() made into zeros and −inf.
func (m *Machine) causalMask(q, k *impl) *impl {
	shape := []int64{q.size[2], k.size[2]}
	m.sites.op = "ones"
	ones := m.empty(dtype.Bool, shape)
	m.sites.op = "tril"
	lower := m.empty(dtype.Bool, shape)
	m.drop(ones)
	m.sites.op = "where"
	mask := m.empty(q.dtype, shape)
	m.drop(lower)
	return mask
}
