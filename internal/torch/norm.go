package torch

import "floodmark/dtype"

// LayerNorm is layer_norm over the last dimension. It keeps its input, weight,
// and the mean and inverse deviation of each row in 32 bits.
func (m *Machine) LayerNorm(x, weight, bias Tensor) Tensor {
	if !(x.has(-1) && weight.isVector(x.last()) && bias.isVector(x.last())) {
		return m.refuse(x, weight, bias)
	}
	to := m.castsTo(float32s, x.impl)
	a, w, b := m.eased(x.impl, to), m.eased(weight.impl, to), m.eased(bias.impl, to)
	c := m.inOrder(a)
	var n *node
	if m.wants(a, w, b) {
		n = m.record("NativeLayerNormBackward0", layerNormBackward, a, w, b)
		m.save(n, a)
		for _, extra := range []*impl{w, b} {
			if extra != nil {
				m.save(n, extra)
			}
		}
	}
	m.sites.op = "native_layer_norm"
	out := m.empty(a.dtype, a.Shape())
	mean, deviation := m.rowStatistics(a), m.rowStatistics(a)
	if n != nil {
		n.computes(out)
		m.saveResults(n, mean, deviation)
	}
	m.drop(mean, deviation, c, b, w, a)
	m.consume(x, weight, bias)
	return result(out)
}

// inOrder is a contiguous copy of x, or x.
func (m *Machine) inOrder(x *impl) *impl {
	if x.contiguous() {
		return retain(x)
	}
	m.sites.op = "clone"
	return m.empty(x.dtype, x.Shape())
}

// rowStatistics is a number of 32 bits for each row.
func (m *Machine) rowStatistics(x *impl) *impl {
	size := x.size
	size[x.dims-1] = 1
	f := dtype.F32
	if x.dtype == dtype.F64 {
		f = dtype.F64
	}
	return m.empty(f, size[:x.dims])
}

// layerNormBackward computes all gradients in one call: dX, dweight, dbias. On a
// CPU a buffer of partial sums for each thread; on CUDA partial sums where there
// are many rows and few columns
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/layer_norm_kernel.cu,
// https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cpu/layer_norm_kernel.cpp).
func layerNormBackward(p *pass) {
	m, x := p.m, p.saved(0)
	m.sites.op = "native_layer_norm_backward"
	var grads [3]*impl
	grads[0] = p.emptyIf(p.needs(0), x)
	for i := 1; i < 3; i++ {
		if p.needs(i) {
			grads[i] = p.emptyOf(i)
		}
	}
	c := m.inOrderGradient(p.grad(), "native_layer_norm_backward")
	columns := x.size[x.dims-1]
	m.normScratch(x.Elements()/max(columns, 1), columns, grads[1], grads[2])
	m.drop(c)
	for i, g := range grads {
		if g != nil {
			p.out[i] = g
		}
	}
}

func (p *pass) emptyIf(wanted bool, like *impl) *impl {
	if !wanted {
		return nil
	}
	return p.m.empty(p.grad().dtype, like.Shape())
}

// emptyOf is a new gradient in the shape of an input.
func (p *pass) emptyOf(input int) *impl {
	o := p.n.next[input].node.outputs[p.n.next[input].input]
	return p.m.empty(o.dtype, o.size[:o.dims])
}

// inOrderGradient is a contiguous gradient, a copy where it is not.
func (m *Machine) inOrderGradient(g *impl, op string) *impl {
	c := m.inOrder(g)
	m.sites.op = op
	return c
}

// normScratch is what the kernel of the weights' gradients works with.
func (m *Machine) normScratch(rows, columns int64, weights ...*impl) {
	if m.device.CPU {
		if weights[0] != nil || weights[len(weights)-1] != nil {
			m.free(m.bufferOf(2 * columns * 4 * m.device.threads()))
		}
		return
	}
	if rows <= 64*1024 || columns/32 >= int64(m.device.SMs)/2 {
		return
	}
	gridX := ceilDiv(columns, 32)
	gridY := min(32*1024/gridX, ceilDiv(rows, 32))
	for _, w := range weights {
		if w != nil {
			m.free(m.bufferOf(gridY * columns * itemSize(w.dtype)))
		}
	}
}

// RMSNorm is torch.nn.functional.rms_norm. Until 2.8, on a CPU and where the
// formats differ, it is made of operators; since, CUDA has a fused kernel that
// keeps the input, the weight and one number a row
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/layer_norm.cpp).
func (m *Machine) RMSNorm(x, weight Tensor) Tensor {
	if !(x.has(-1) && weight.isVector(x.last())) {
		return m.refuse(x, weight)
	}
	to := m.castsTo(float32s, x.impl)
	a, w := m.eased(x.impl, to), m.eased(weight.impl, to)
	was := m.casts.format
	m.casts.format = dtype.Unknown
	var out *impl
	if m.release.fusesRMSNorm() && !m.device.CPU && (w == nil || w.dtype == a.dtype) {
		out = m.fusedRMSNorm(a, w)
	} else {
		out = m.composedRMSNorm(a, w)
	}
	m.casts.format = was
	m.drop(w, a)
	m.consume(x, weight)
	return result(out)
}

func (m *Machine) fusedRMSNorm(a, w *impl) *impl {
	var n *node
	if m.wants(a, w) {
		n = m.record("FusedRmsNormBackward0", rmsNormBackward, a, w)
		m.save(n, a)
		if w != nil {
			m.save(n, w)
		}
	}
	c := m.inOrder(a)
	m.sites.op = "_fused_rms_norm"
	out := m.empty(a.dtype, a.Shape())
	deviation := m.rowStatistics(a)
	if n != nil {
		n.computes(out)
		m.saveResults(n, deviation)
	}
	m.drop(deviation, c)
	return out
}

func rmsNormBackward(p *pass) {
	m, x := p.m, p.saved(0)
	m.sites.op = "_fused_rms_norm_backward"
	dx := p.emptyIf(p.needs(0), x)
	var dw *impl
	if p.needs(1) {
		dw = p.emptyOf(1)
	}
	c := m.inOrderGradient(p.grad(), "_fused_rms_norm_backward")
	columns := x.size[x.dims-1]
	m.normScratch(x.Elements()/max(columns, 1), columns, dw)
	m.drop(c)
	p.out[0], p.out[1] = dx, dw
}

// composedRMSNorm is rms_norm_composite: pow, mean, add_, rsqrt, mul, mul, in 32
// bits where the input has fewer.
func (m *Machine) composedRMSNorm(a, w *impl) *impl {
	up := retain(a)
	if a.dtype == dtype.F16 || a.dtype == dtype.BF16 {
		m.drop(up)
		up = m.toCopy(a, dtype.F32)
	}
	square := m.unaryOp(&m.unary[Square], up)
	mean := m.Mean(Tensor{impl: square}, true, -1).impl
	eps := m.InPlaceScalar(AddScalar, Tensor{impl: mean})
	r := m.unaryOp(&m.unary[Rsqrt], eps.impl)
	m.drop(mean, square)
	out := m.binaryOp(&m.binaries[Mul], up, r)
	if w != nil {
		scaled := m.binaryOp(&m.binaries[Mul], out, w)
		m.drop(out)
		out = scaled
	}
	m.drop(r, up)
	if out.dtype != a.dtype {
		back := m.toCopy(out, a.dtype)
		m.drop(out)
		out = back
	}
	return out
}
