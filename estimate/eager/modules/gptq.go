package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// GPTQ is how a checkpoint packs the weight of a linear layer: integers of some bits
// in words of 32 along the input, zero points along the output, and for each input
// the group whose scale and zero point it has.
type GPTQ struct {
	Bits    int64
	Words   []int64 // qweight: [in · bits / 32, out]
	Zeros   []int64 // qzeros: [groups, out · bits / 32]
	Scales  []int64 // scales: [groups, out]
	Index   []int64 // g_idx: [in]
	Ordered bool    // inputs are grouped in an order of their own (desc_act), and not side by side
	Biased  bool    // the checkpoint's layer has a bias
}

// gptqLinear is a QuantLinear on the machine.
type gptqLinear struct {
	GPTQ
	words, zeros, scales, index, bias torch.Tensor
}

// GPTQUnknown is why a training's QuantLinear of a release of transformers is not
// described; empty where it is. Training takes the classes that compute with PyTorch's
// operators, "cuda" and "cuda-old": what exllama's and the extension's kernels return
// has no gradient. From 4.49 on transformers takes GPTQModel where it is installed
// (https://github.com/huggingface/transformers/pull/35012).
func GPTQUnknown(r Release, g GPTQ) string {
	switch {
	case r == Release{} || r.since(4, 49, 0):
		return "GPTQ's linear layers beside transformers 4.49 and later, which takes those of GPTQModel where it is installed, are not modelled: those of auto-gptq beside 4.32 to 4.48 are"
	case !r.since(4, 32, 0):
		return "transformers before 4.32 loads no weights of GPTQ"
	case g.Bits != 2 && g.Bits != 4 && g.Bits != 8:
		return "GPTQ's weights of other bits than 2, 4 and 8, whose integers lie across words, are not modelled"
	}
	return ""
}

// rowsOfKernels is how many rows a product must have for PyTorch's operators to
// compute it; fewer are for the extension's kernels, where it is installed
// (kernel_switch_threshold of QuantLinear).
const rowsOfKernels = 128

// autoGPTQ4 reports auto-gptq before 0.5, which transformers before 4.35 goes with:
// products have 16 bits whatever comes in, and masks are written in place
// (requirements of https://github.com/QwenLM/Qwen/blob/b7eb73d6/README.md).
func (n *Net) autoGPTQ4() bool { return !n.o.Release.since(4, 35, 0) }

// gptq makes a QuantLinear. Optimum before 1.20, of the days of transformers 4.41,
// gives every layer a bias, of zeros where it had none (_replace_by_quant_layers of
// https://github.com/huggingface/optimum/blob/v1.13.2/optimum/gptq/quantizer.py).
// Worked number: 4 bits of a weight of 4096 × 11008 in groups of 128 are 22,544,384
// bytes of words, 176,128 of zero points, 704,512 of scales and 16,384 of the index.
func (n *Net) gptq(g GPTQ, f dtype.Format) *gptqLinear {
	if n.autoGPTQ4() {
		f = dtype.F16
	}
	m := n.m
	l := &gptqLinear{GPTQ: g, words: m.Parameter(dtype.I32, false, g.Words...),
		zeros: m.Scales(dtype.I32, g.Zeros...), scales: m.Scales(f, g.Scales...), index: m.Scales(dtype.I32, g.Index...)}
	if !g.Biased && !n.o.Release.since(4, 42, 0) {
		l.bias = m.Scales(f, g.Words[1])
	}
	m.Scales(dtype.I32, 1, 32/g.Bits) // how far each integer is shifted: wf
	return l
}

// gptqProduct is QuantLinear's forward: the whole weight is unpacked for every
// product, and the unpacked one is what backward multiplies by: it lives until then
// (https://github.com/AutoGPTQ/AutoGPTQ/blob/v0.4.2/auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py).
// Worked number: 4 bits of a weight of 4096 × 11008 take 225,443,840 bytes beside the
// packed ones while words of 32 bits become integers of 8, and the weight of
// 90,177,536 bytes stays.
func (n *Net) gptqProduct(q *gptqLinear, x, bias torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	shape := append(append([]int64{}, x.Shape()[:x.Dims()-1]...), q.Words[1])
	f := m.Function(&x)
	f.Set(&x, m.Reshape(x, -1, q.Index[0]))
	if x.Size(0) < rowsOfKernels {
		m.Unknown("products of GPTQ's weights with fewer than 128 rows run in kernels of auto-gptq's extension where it is installed, which is not modelled")
	}
	weight := n.gptqWeight(f, q)
	if n.autoGPTQ4() {
		was = dtype.F16
	}
	out := f.Let(m.Matmul(n.gptqInput(x), weight))
	f.Set(&out, m.Reshape(m.To(out, was), shape...))
	if q.bias.Defined() {
		bias = q.bias
	}
	if bias.Defined() {
		f.Set(&out, m.Binary(torch.Add, out, bias))
	}
	return f.Return(out)
}

// gptqInput is x.half() of auto-gptq before 0.5.
func (n *Net) gptqInput(x torch.Tensor) torch.Tensor {
	if n.autoGPTQ4() {
		return n.m.To(x, dtype.F16)
	}
	return x
}

// gptqWeight is the weight [in, out], unpacked by names of the forward.
func (n *Net) gptqWeight(f *torch.Frame, q *gptqLinear) torch.Tensor {
	m, in, out, each := n.m, q.Index[0], q.Words[1], 32/q.Bits
	zeros := f.Let(n.gptqIntegers(q, q.Zeros[0], q.Zeros[1], each))
	f.Set(&zeros, m.Unary(torch.AddScalar, zeros))
	if q.Ordered { // qlinear_cuda.py
		f.Set(&zeros, m.Reshape(zeros, q.Scales...))
		weight := f.Let(m.Reshape(n.gptqIntegers(q, q.Words[0], each, out), in, out))
		rows := func(table torch.Tensor) torch.Tensor { return m.IndexRows(table, m.To(q.index, dtype.I64)) }
		return f.Let(m.Binary(torch.Mul, rows(q.scales), m.Binary(torch.Sub, weight, rows(zeros))))
	}
	f.Set(&zeros, m.Reshape(zeros, q.Zeros[0], 1, out))
	scales := f.Let(m.Reshape(q.scales, q.Scales[0], 1, out))
	weight := f.Let(m.Reshape(n.gptqIntegers(q, q.Words[0], each, out), q.Scales[0], -1, out))
	f.Set(&weight, m.Binary(torch.Mul, scales, m.Binary(torch.Sub, weight, zeros)))
	f.Set(&weight, m.Reshape(weight, in, out))
	return weight
}

// gptqIntegers are integers taken out of words: shifted in 32 bits, cut to 8 or 16,
// and masked.
func (n *Net) gptqIntegers(q *gptqLinear, shape ...int64) torch.Tensor {
	m, narrow := n.m, dtype.I8
	if q.Bits == 8 {
		narrow = dtype.I16
	}
	f := m.Function()
	integers := f.Let(m.To(m.Empty("bitwise_right_shift", dtype.I32, shape...), narrow))
	if !n.autoGPTQ4() {
		f.Set(&integers, m.Like("bitwise_and", integers))
	}
	return f.Return(integers)
}

// gptqAdapted is peft's adapter beside a QuantLinear: before 0.6 the result is
// copied, and what the adapter makes is added in place
// (https://github.com/huggingface/peft/blob/v0.5.0/src/peft/tuners/lora.py, class QuantLinear;
// https://github.com/huggingface/peft/blob/v0.6.1/src/peft/tuners/lora/gptq.py).
func (n *Net) gptqAdapted(l linear, x torch.Tensor) torch.Tensor {
	m, a := n.m, l.adapter
	f := m.Module(l.name, &x)
	l.name = "quant_linear_module"
	result := f.Let(n.bare(l, x))
	if n.autoGPTQ4() {
		f.Set(&result, m.Clone(result, false))
	}
	converts := !m.Autocasts()
	if converts {
		f.Set(&x, m.To(x, a.Format))
	}
	delta := n.delta(a, x)
	if converts {
		delta = m.To(delta, result.Dtype())
	}
	delta = f.Let(m.Unary(torch.MulScalar, delta))
	f.Set(&result, m.InPlace(torch.Add, result, delta))
	return f.Return(result)
}
