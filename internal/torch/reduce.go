package torch

import (
	"math/bits"

	"floodmark/dtype"
)

// reduce is the kernel of a sum or mean over some dimensions. Its result is
// contiguous.
func (m *Machine) reduce(x *impl, over [maxDims]bool, keep bool, f dtype.Format) *impl {
	var size [maxDims]int64
	dims := 0
	for d := range int(x.dims) {
		switch {
		case !over[d]:
			size[dims] = x.size[d]
			dims++
		case keep:
			size[dims] = 1
			dims++
		}
	}
	out := m.empty(f, size[:dims])
	m.reductionScratch(x, over)
	return out
}

// overDims marks dimensions; none named means all.
func overDims(x *impl, dims []int) (over [maxDims]bool) {
	for d := range int(x.dims) {
		over[d] = len(dims) == 0
	}
	for _, d := range dims {
		over[x.wrap(d)] = true
	}
	return over
}

// Sum adds over the dimensions; over all where none is named.
func (m *Machine) Sum(x Tensor, keep bool, dims ...int) Tensor {
	return m.reduction("sum", "SumBackward1", sumBackward, x, keep, dims)
}

// Mean is the mean over the dimensions; over all where none is named.
func (m *Machine) Mean(x Tensor, keep bool, dims ...int) Tensor {
	return m.reduction("mean", "MeanBackward1", meanBackward, x, keep, dims)
}

func (m *Machine) reduction(op, name string, b backward, x Tensor, keep bool, dims []int) Tensor {
	if !(x.has(dims...)) {
		return m.refuse(x)
	}
	c := unlisted
	if op == "sum" {
		c = float32s
	}
	// sum and mean give their format to the kernel, so that nothing is cast.
	f := x.dtype
	if to := m.castsTo(c, x.impl); to != dtype.Unknown && isFloat(f) {
		f = to
	}
	if !isFloat(f) && op == "sum" {
		f = dtype.I64
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record(name, b, x.impl)
		if op == "mean" && m.release.savesMeanInput() {
			m.save(n, x.impl)
		}
	}
	over := overDims(x.impl, dims)
	m.sites.op = op
	widened := m.widened(op, x.impl, f)
	out := m.reduce(x.impl, over, keep, f)
	m.drop(widened)
	if n != nil {
		n.keepReduced(x.impl, over)
		n.computes(out)
	}
	m.consume(x)
	return result(out)
}

// widened is what a CPU copies before it adds up logical values, or takes the mean of
// values of 16 bits
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/ReduceOps.cpp,
// mean_out).
func (m *Machine) widened(op string, x *impl, f dtype.Format) *impl {
	half := op == "mean" && (x.dtype == dtype.F16 || x.dtype == dtype.BF16)
	switch {
	case !m.device.CPU || !half && x.dtype != dtype.Bool:
		return nil
	case half:
		f = dtype.F32
	}
	return m.empty(f, x.Shape())
}

// keepReduced remembers the shape before a reduction, and over what it went.
func (n *node) keepReduced(x *impl, over [maxDims]bool) {
	n.ints, n.n = x.size, x.dims
	for d := range x.dims {
		if over[d] {
			n.ints[d] = -n.ints[d]
		}
	}
}

// expandReduced is a gradient in the shape before the reduction: a view.
func (p *pass) expandReduced() *impl {
	v := p.m.view(p.grad())
	g := 0
	kept := p.grad().dims == p.n.n
	v.dims = p.n.n
	for d := range int(p.n.n) {
		reduced := p.n.ints[d] < 0
		v.size[d], v.stride[d] = max(p.n.ints[d], -p.n.ints[d]), 0
		if !reduced {
			v.stride[d] = p.grad().stride[g]
		}
		if kept || !reduced {
			g++
		}
	}
	return v
}

func sumBackward(p *pass) { p.give(0, p.expandReduced()) }

// meanBackward divides the expanded gradient, which makes it whole.
func meanBackward(p *pass) {
	p.give(0, p.m.like("div", p.hold(p.expandReduced())))
}

// Max is the largest value over a dimension, and where it is.
func (m *Machine) Max(x Tensor, dim int, keep bool) (values, indices Tensor) {
	if !(x.has(dim)) {
		return m.refuse(x), m.refuse()
	}
	var n *node
	if m.wants(x.impl) {
		n = m.record("MaxBackward0", maxBackward, x.impl)
	}
	var size [maxDims]int64
	dims := 0
	for d := range int(x.dims) {
		if d != x.wrap(dim) {
			size[dims] = x.size[d]
			dims++
		} else if keep {
			size[dims] = 1
			dims++
		}
	}
	m.sites.op = "max"
	v, i := m.empty(x.dtype, size[:dims]), m.empty(dtype.I64, size[:dims])
	if n != nil {
		n.ints, n.n = x.size, x.dims
		n.computes(v)
		m.saveResults(n, i)
	}
	m.consume(x)
	return result(v), result(i)
}

// maxBackward scatters the gradient into zeros of the whole shape
// (value_selecting_reduction_backward).
func maxBackward(p *pass) {
	p.m.sites.op = "zeros"
	p.give(0, p.m.empty(p.grad().dtype, p.n.ints[:p.n.n]))
}

// reductionScratch is what a reduction on CUDA allocates when it divides its
// input over blocks: partial results and semaphores, which go when the kernel is
// queued.
func (m *Machine) reductionScratch(x *impl, over [maxDims]bool) {
	if m.device.CPU {
		return
	}
	partial, semaphores := m.device.reductionScratch(x, over)
	if partial == 0 {
		return
	}
	a := m.bufferOf(partial)
	b := m.bufferOf(semaphores)
	m.free(b)
	m.free(a)
}

// folded is a dimension of a reduction after neighbours were joined.
type folded struct {
	size, stride int64
	reduced      bool
}

// fold orders the dimensions of the input, reduced ones first, the fastest of
// each in front, and joins those that lie behind one another.
func fold(x *impl, over [maxDims]bool) []folded {
	var list [maxDims]folded
	n := 0
	for _, reduced := range []bool{true, false} {
		first := n
		for d := int(x.dims) - 1; d >= 0; d-- {
			if over[d] != reduced || x.size[d] == 1 {
				continue
			}
			at := n
			for at > first && list[at-1].stride > x.stride[d] {
				list[at] = list[at-1]
				at--
			}
			list[at] = folded{x.size[d], x.stride[d], reduced}
			n++
		}
	}
	joined := list[:0]
	for _, f := range list[:n] {
		if k := len(joined); k > 0 && joined[k-1].reduced == f.reduced && joined[k-1].size*joined[k-1].stride == f.stride {
			joined[k-1].size *= f.size
			continue
		}
		joined = append(joined, f)
	}
	return joined
}

// The limits of a reduction kernel of values of up to 4 bytes that adds up in 32
// bits (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/Reduce.cuh,
// setReduceConfig).
const (
	accumulatorBytes = 4
	reduceThreads    = 512
	warpSize         = 32
	inputVector      = 4
	leastPerThread   = 16
	mostPerThread    = 256
)

// reductionScratch follows setReduceConfig. Worked number: [8192, 1024] summed
// over its rows runs in blocks of 32 × 4 threads of 4 values; 8 blocks side by
// side leave 2,048 values a thread, which 64 or 128 blocks share: at 64,
// 4 × 1,024 × 64 × 32 × 4 = 33,554,432 bytes and 32 bytes of semaphores.
func (d Device) reductionScratch(x *impl, over [maxDims]bool) (partial, semaphores int64) {
	dims := fold(x, over)
	outputs, inputs := int64(1), int64(1)
	reducedDims := 0
	for _, f := range dims {
		if f.reduced {
			inputs *= f.size
			reducedDims++
		} else {
			outputs *= f.size
		}
	}
	if inputs <= 1 || outputs == 0 {
		return 0, 0
	}
	c := reduceConfig{device: d, inputs: inputs, outputs: outputs, outputVector: 1, stepInput: 1, stepOutput: 1}
	onFastest := reducedDims == len(dims) || dims[0].stride < dims[reducedDims].stride
	fastest := dims[0].stride
	dim0, dim1 := inputs, outputs
	if !onFastest {
		fastest = dims[reducedDims].stride
		dim0, dim1 = outputs, inputs
	}
	switch {
	case fastest != 1:
	case onFastest && dim0 > 128 && len(dims) == 1:
		dim0 /= inputVector
	case !onFastest:
		c.outputVector = outputVector(dims, reducedDims)
		dim0 /= c.outputVector
	}
	return c.scratch(dim0, dim1, onFastest)
}

// outputVector is how many outputs a thread computes: up to 4, as far as sizes
// and strides divide.
func outputVector(dims []folded, reducedDims int) int64 {
	v := int64(4)
	for dims[reducedDims].size%v != 0 {
		v /= 2
	}
	for i, f := range dims {
		for i != reducedDims && f.stride%v != 0 {
			v /= 2
		}
	}
	return v
}

// reduceConfig is how a reduction is cut into threads and blocks.
type reduceConfig struct {
	device                Device
	inputs, outputs       int64
	outputVector          int64
	stepInput, stepOutput int64
}

func (c *reduceConfig) scratch(dim0, dim1 int64, onFastest bool) (partial, semaphores int64) {
	most := reduceThreads / c.outputVector
	wide, high := lastPower(dim0, most), lastPower(dim1, most)
	width := min(wide, warpSize)
	height := min(high, most/width)
	width = min(wide, most/height)
	if onFastest {
		c.stepInput *= width
	} else {
		c.stepOutput *= width
	}
	if c.perThread() < min(height*16, mostPerThread) {
		return 0, 0
	}
	c.stepInput *= height
	grid := ceilDiv(c.outputs/c.outputVector, c.stepOutput)
	target := int64(c.device.SMs) * (int64(c.device.ThreadsPerSM) / (width * height))
	if c.perThread() < mostPerThread || grid > target {
		return 0, 0
	}
	blocks := max(min(ceilDiv(target, grid), ceilDiv(c.perThread(), leastPerThread)), ceilDiv(c.perThread(), mostPerThread))
	if blocks <= 1 {
		return 0, 0
	}
	partial = accumulatorBytes * c.outputs * blocks
	if !onFastest {
		partial *= width * c.outputVector
	}
	return partial, 4 * grid
}

func (c *reduceConfig) perThread() int64 { return ceilDiv(c.inputs, c.stepInput) }

// lastPower is the largest power of two up to n, at most most.
func lastPower(n, most int64) int64 {
	if n >= most {
		return most
	}
	return 1 << (bits.Len64(uint64(max(n, 1))) - 1)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
