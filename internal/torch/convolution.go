package torch

// Convolution is conv1d to conv3d of x [batch, channels, …] with weight [out,
// channels / groups, …]; the bias may be None. What libraries work with beside it
// depends on the algorithm that they pick, and is not modelled
// ([Machine.Unknown] is the caller's).
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
	}
	m.sites.op = "convolution"
	out := attach(n, m.empty(a.dtype, size[:a.dims]))
	m.drop(b, w, a)
	m.consume(x, weight, bias)
	return result(out)
}

// convolutionBackward: input, weight, bias.
func convolutionBackward(p *pass) {
	p.m.sites.op = "convolution_backward"
	for i := range 3 {
		if p.needs(i) {
			p.out[i] = p.emptyOf(i)
		}
	}
}
