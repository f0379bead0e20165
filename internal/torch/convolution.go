package torch

import (
	"math"

	"floodmark/bytesize"
)

// Convolution is conv1d to conv3d of x [batch, channels, …] with weight [out,
// channels / groups, …]; the bias may be None. What libraries work with beside it
// depends on the algorithm that they pick and is no event; how much one of them
// needs is [Machine.ConvolutionWork].
func (m *Machine) Convolution(x, weight, bias Tensor, stride, padding []int64, groups int64) Tensor {
	if !(convolves(x, weight, bias, stride, padding, groups)) {
		return m.refuse(x, weight, bias)
	}
	to := m.castsTo(lower, x.impl, weight.impl, bias.impl)
	a, w, b := m.eased(x.impl, to), m.eased(weight.impl, to), m.eased(bias.impl, to)
	size := a.size
	size[1] = w.size[0]
	for d := range stride {
		size[2+d] = (a.size[2+d]+2*padding[d]-w.size[2+d])/stride[d] + 1
	}
	var n *node
	if m.wants(a, w, b) {
		n = m.record("ConvolutionBackward0", convolutionBackward, a, w, b)
		m.save(n, a, w)
		n.ints[0] = groups
		n.ints[1] = convolutionWork(a, w, size[1:a.dims], groups)
	}
	m.convolves(convolutionWork(a, w, size[1:a.dims], groups))
	m.sites.op = "convolution"
	out := attach(n, m.empty(a.dtype, size[:a.dims]))
	m.drop(b, w, a)
	m.consume(x, weight, bias)
	return result(out)
}

// convolutionBackward: input, weight, bias.
func convolutionBackward(p *pass) {
	p.m.sites.op = "convolution_backward"
	p.m.convolves(p.n.ints[1])
	for i := range 3 {
		if p.needs(i) {
			p.out[i] = p.emptyOf(i)
		}
	}
}

// convolves notes what a convolution needs in the phase that runs.
func (m *Machine) convolves(bytes int64) {
	span := max(0, len(m.tl.Phases)-1)
	for len(m.work) <= span {
		m.work = append(m.work, 0)
	}
	m.work[span] = max(m.work[span], bytes)
}

// ConvolutionWork is the bytes with which every convolution of a phase could run; 0
// where none ran. PyTorch
// tries cuDNN's plans in the order of its heuristics and runs the first whose
// workspace can be allocated, so that more is taken where it is free, and not
// needed (aten/src/ATen/native/cudnn/Conv_v8.cpp, try_plans). The plans that are
// there for every shape multiply without making the matrix of patches, and copy at
// most each operand: to another order, to channels in eights, to 32 bits. Of 2 GiB
// of one channel in 16 bits 48.01 GiB were asked for in such a plan, and 64.00 are
// counted (https://github.com/pytorch/pytorch/issues/31500).
func (m *Machine) ConvolutionWork(span int) int64 {
	if m.device.CPU || span >= len(m.work) {
		return 0
	}
	return m.work[span]
}

// convolutionWork is a copy of input, kernel and result, channels of a group in
// eights, in 32 bits; sizes that overflow are the largest number.
func convolutionWork(x, weight *impl, made []int64, groups int64) int64 {
	padded := func(outer, channels int64, positions []int64) int64 {
		n, fits := bytesize.Mul(append([]int64{4, outer, groups, (channels/groups + 7) / 8 * 8}, positions...)...)
		if !fits {
			return math.MaxInt64
		}
		return n
	}
	sum, fits := bytesize.Add(
		padded(x.size[0], x.size[1], x.size[2:x.dims]),
		padded(x.size[0], made[0], made[1:]),
		padded(weight.size[0]/groups, weight.size[1]*groups, weight.size[2:weight.dims]))
	if !fits {
		return math.MaxInt64
	}
	return sum
}
