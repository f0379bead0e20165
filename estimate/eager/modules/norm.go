package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// norm runs the norm of a layer by its place.
func (n *Net) norm(name string, of model.Norm, w, bias, x torch.Tensor) torch.Tensor {
	f := n.m.Module(name, &x)
	switch {
	case of.Kind == model.LayerNorm:
		return f.Return(n.m.LayerNorm(x, w, bias))
	case of.Offset:
		return f.Return(n.offsetNorm(w, x))
	}
	return f.Return(n.rmsNorm(f, of.Wide, w, x))
}

// rmsNorm is LlamaRMSNorm: the input in 32 bits, its mean square, and the weight
// over the result in the input's format
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/llama/modeling_llama.py).
// In 32 bits what stays for backward is x, one number a row and x·r: two
// tensors of the input's size beside the input. A wide norm casts back last. Worked number: 2 × 256 rows of
// 384 in 32 bits keep 2·786,432 + 2,048 bytes beside the input.
func (n *Net) rmsNorm(f *torch.Frame, wide bool, w, x torch.Tensor) torch.Tensor {
	if n.olderThan(narrowNorm) {
		return n.apartNorm(f, w, x)
	}
	m, was := n.m, x.Dtype()
	f.Set(&x, m.To(x, dtype.F32))
	variance := f.Let(m.Mean(m.Unary(torch.Square, x), true, -1))
	f.Set(&x, m.Binary(torch.Mul, x, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, variance))))
	if wide {
		return m.To(m.Binary(torch.Mul, w, x), was)
	}
	return m.Binary(torch.Mul, w, m.To(x, was))
}

// offsetNorm is Gemma's: all of it in 32 bits, and times one and the weight
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/gemma2/modeling_gemma2.py).
func (n *Net) offsetNorm(w, x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	wide := m.To(x, dtype.F32)
	inner := m.Function(&wide)
	normed := inner.Return(m.Binary(torch.Mul, wide,
		m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, wide), true, -1)))))
	outer := m.Function()
	if n.olderThan(wideOffset) {
		output := outer.Let(m.To(normed, was))
		return outer.Return(m.Binary(torch.Mul, output, m.Unary(torch.AddScalar, w)))
	}
	output := outer.Let(normed)
	outer.Set(&output, m.Binary(torch.Mul, output, m.Unary(torch.AddScalar, m.To(w, dtype.F32))))
	return outer.Return(m.To(output, was))
}
