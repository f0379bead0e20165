package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// writesAttention reports releases of which a class's own attention, written out in
// one function, has a program here, with the masks of their day.
func (n *Net) writesAttention() bool {
	return n.olderThan(dispensedMask) || n.olderThan(computedTables)
}

// inlineAttention is the attention of such a class: every name lives until the
// function returns
// (https://github.com/huggingface/transformers/blob/v4.36.2/src/transformers/models/llama/modeling_llama.py,
// LlamaAttention and LlamaSdpaAttention).
func (n *Net) inlineAttention(l *layer, a model.Attention, x torch.Tensor, p position) torch.Tensor {
	m := n.m
	f := m.Module("self_attn", &x)
	q, k, v, _ := n.projected(f, l, a, x, x, 0)
	var qs, ks torch.Tensor
	if n.olderThan(computedTables) {
		cos, sin := n.keptTables(l, x.Size(1), v.Dtype())
		cos, sin = f.Let(cos), f.Let(sin)
		qs, ks = n.turnedByTables(q, k, cos, sin, p.ids)
	} else {
		cos, sin := n.rotaryTables(p.ids, v.Dtype())
		cos, sin = f.Let(cos), f.Let(sin)
		qs, ks = n.rotate(q, k, cos, sin)
	}
	f.Set(&q, qs)
	f.Set(&k, ks)
	n.keep(f, &k, &v)
	if groups := groupsOf(q, k); n.o.Attention != Flash2 {
		f.Set(&k, n.repeated(k, groups))
		f.Set(&v, n.repeated(v, groups))
	}
	mask := p.full
	if a.Window > 0 {
		mask = p.window
	}
	if mask.Defined() && n.allPairs.Defined() { // mask[:, :, cache_position, :length]
		mask = f.Let(m.Empty("index", mask.Dtype(), mask.Size(0), 1, x.Size(1), x.Size(1)))
	}
	var out torch.Tensor
	switch n.o.Attention {
	case Eager:
		out = n.inlineScores(f, q, k, v, mask)
	case Flash2:
		out = f.Let(n.flashAttention(a.Causal, q, k, v))
	default:
		out = n.inlineFused(f, a, q, k, v, mask)
	}
	if n.o.Attention != Flash2 {
		f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	}
	f.Set(&out, m.Reshape(out, out.Size(0), out.Size(1), -1))
	f.Set(&out, n.linear(l.linear("o_proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), out))
	return f.Return(out)
}

// inlineScores is the scores of all pairs and what they read of the values.
func (n *Net) inlineScores(f *torch.Frame, q, k, v, mask torch.Tensor) torch.Tensor {
	m := n.m
	scores := f.Let(m.Unary(torch.DivScalar, m.Matmul(q, m.Transpose(k, 2, 3))))
	if mask.Defined() {
		f.Set(&scores, m.Binary(torch.Add, scores, mask))
		if n.olderThan(plainScores) {
			f.Set(&scores, m.Binary(torch.Maximum, scores, m.Empty("tensor", dtype.F32)))
		}
	}
	f.Set(&scores, m.To(m.Softmax(scores, dtype.F32), q.Dtype()))
	return f.Let(m.Matmul(scores, v))
}

// inlineFused is scaled_dot_product_attention, which on CUDA is given copies of what
// lies apart where there is a mask.
func (n *Net) inlineFused(f *torch.Frame, a model.Attention, q, k, v, mask torch.Tensor) torch.Tensor {
	m := n.m
	if mask.Defined() && !n.o.CPU {
		f.Set(&q, m.Contiguous(q))
		f.Set(&k, m.Contiguous(k))
		f.Set(&v, m.Contiguous(v))
	}
	how := torch.Attention{Causal: a.Causal && !mask.Defined()}
	how.Kernel = n.kernel(how, q, k, v, mask)
	return f.Let(m.ScaledDotProduct(how, q, k, v, mask))
}

// apartNorm is the norm of releases that take the mean square of a copy, and the
// weight over 32 bits or, before that, over what was cast back
// (https://github.com/huggingface/transformers/blob/v4.30.2/src/transformers/models/llama/modeling_llama.py).
func (n *Net) apartNorm(f *torch.Frame, w, x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	variance := f.Let(m.Mean(m.Unary(torch.Square, m.To(x, dtype.F32)), true, -1))
	f.Set(&x, m.Binary(torch.Mul, x, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, variance))))
	if !n.olderThan(castNorm) {
		return m.To(m.Binary(torch.Mul, w, x), was)
	}
	if w.Dtype() != dtype.F32 {
		f.Set(&x, m.To(x, w.Dtype()))
	}
	return m.Binary(torch.Mul, w, x)
}
