package modules

import (
	"fmt"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// attention runs one attention: query, key and value, rotary positions, scores,
// and the projection of the output (LlamaAttention and its like).
func (n *Net) attention(l *layer, a model.Attention, x torch.Tensor, p position) torch.Tensor {
	if n.writesAttention() {
		return n.inlineAttention(l, a, x, p)
	}
	m := n.m
	f := m.Module("self_attn", &x)
	source, place := x, 0
	if a.Cross {
		source, place = p.encoded, len(l.Mixers)-1
	}
	q, k, v, gate := n.projected(f, l, a, x, source, place)
	if n.olderThan(sharedRotary) && n.rotary > 0 {
		cos, sin := n.rotaryTables(p.ids, x.Dtype())
		p.sin, p.cos = f.Let(sin), f.Let(cos)
	}
	if (p.cos.Defined() || p.localCos.Defined()) && a.RotaryDim > 0 {
		turn, cos, sin := n.rotate, p.cos, p.sin
		switch {
		case a.RotaryHalves:
			turn = n.rotateHalves
		case a.RotaryDim < a.KeyDim || a.RotaryCut:
			turn = n.rotatePart
		}
		if a.Window > 0 && p.localCos.Defined() {
			cos, sin = p.localCos, p.localSin
		}
		qs, ks := turn(q, k, cos, sin)
		f.Set(&q, qs)
		f.Set(&k, ks)
	}
	if a.Causal || a.Cross {
		n.keep(f, &k, &v)
	}
	mask := p.full
	if a.Cross {
		mask = torch.Tensor{}
	}
	if a.Window > 0 {
		mask = p.window
	}
	var out torch.Tensor
	if a.Sinks {
		out = f.Let(n.sunkAttention(l.one(model.RoleSinks), q, k, v, mask))
	} else {
		out = f.Let(n.attend(a, q, k, v, mask))
	}
	f.Set(&out, n.joined(out))
	if gate.Defined() {
		f.Set(&out, m.Binary(torch.Mul, out, m.Unary(torch.Sigmoid, gate)))
	}
	f.Set(&out, n.linear(l.linear("o_proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, place), out))
	return f.Return(out)
}

// joined is the heads side by side: [batch, length, heads·dim].
func (n *Net) joined(x torch.Tensor) torch.Tensor {
	return n.m.Contiguous(n.m.Reshape(x, x.Size(0), x.Size(1), -1))
}

// projected is query, key and value as [batch, heads, length, dim].
// and keys and values of what another stack made, where it is that.
func (n *Net) projected(f *torch.Frame, l *layer, a model.Attention, x, source torch.Tensor, place int) (q, k, v, gate torch.Tensor) {
	switch {
	case l.has(model.RoleQKV):
		q, k, v = n.fusedProjection(f, l, a, x)
		return q, k, v, gate
	case a.OutputGate:
		q, gate = n.gatedQuery(f, l, a, x)
	default:
		query := n.linear(l.linear("q_proj", model.RoleQuery, model.RoleQueryBias, place), x)
		if a.QueryScaled {
			query = n.m.Unary(torch.MulScalar, query)
		}
		q = f.Let(n.apart(a, n.normed(l, a, model.RoleQueryNorm, query, a.KeyDim)))
	}
	k = f.Let(n.apart(a, n.normed(l, a, model.RoleKeyNorm, n.linear(l.linear("k_proj", model.RoleKey, model.RoleKeyBias, place), source), a.KeyDim)))
	v = f.Let(n.apart(a, n.split(n.linear(l.linear("v_proj", model.RoleValue, model.RoleValueBias, place), source), a.ValueDim)))
	return q, k, v, gate
}

// split is the last dimension as heads of that many elements.
func (n *Net) split(x torch.Tensor, dim int) torch.Tensor {
	return n.m.Reshape(x, x.Size(0), x.Size(1), -1, int64(dim))
}

// apart brings the heads before the positions, as copies where the class makes them.
func (n *Net) apart(a model.Attention, x torch.Tensor) torch.Tensor {
	if a.HeadsCopied {
		return n.m.Contiguous(n.heads(x))
	}
	return n.heads(x)
}

// heads brings the heads before the positions.
func (n *Net) heads(x torch.Tensor) torch.Tensor { return n.m.Transpose(x, 1, 2) }

// normed splits a projection into heads, and normalises each where the class
// does; one norm over all heads comes before they are split.
func (n *Net) normed(l *layer, a model.Attention, norm model.Role, x torch.Tensor, dim int) torch.Tensor {
	if !a.QKNorm || !l.has(norm) {
		return n.split(x, dim)
	}
	of, w := model.Norm{Kind: model.RMSNorm, Offset: l.offset()}, l.one(norm)
	if w.Elements() == x.Size(-1) && w.Elements() != int64(dim) {
		return n.split(n.norm("qk_norm", of, w, torch.Tensor{}, x), dim)
	}
	return n.norm("qk_norm", of, w, torch.Tensor{}, n.split(x, dim))
}

// offset reports that the layer's norms are kept as their distance from one.
func (l *layer) offset() bool { return len(l.Norms) > 0 && l.Norms[0].Offset }

// fusedProjection cuts one projection into three, as Phi-3 and GPT-2 do.
func (n *Net) fusedProjection(f *torch.Frame, l *layer, a model.Attention, x torch.Tensor) (q, k, v torch.Tensor) {
	m := n.m
	all := f.Let(n.linear(l.linear("qkv_proj", model.RoleQKV, model.RoleQKVBias, 0), x))
	query, keys := int64(a.QueryHeads*a.KeyDim), int64(a.KVHeads*a.KeyDim)
	at := func(from, to int64, dim int) torch.Tensor {
		return f.Let(n.heads(n.split(m.Slice(all, -1, from, to), dim)))
	}
	return at(0, query, a.KeyDim), at(query, query+keys, a.KeyDim), at(query+keys, query+keys+int64(a.KVHeads*a.ValueDim), a.ValueDim)
}

// gatedQuery is a projection of twice the width: the query and the gate of the
// output.
func (n *Net) gatedQuery(f *torch.Frame, l *layer, a model.Attention, x torch.Tensor) (q, gate torch.Tensor) {
	m, dim := n.m, int64(a.KeyDim)
	both := n.split(n.linear(l.linear("q_proj", model.RoleQuery, model.RoleQueryBias, 0), x), 2*a.KeyDim)
	halves := m.Split(both, -1, dim, dim)
	q, gate = f.Let(halves[0]), f.Let(halves[1])
	f.Set(&gate, m.Reshape(gate, x.Size(0), x.Size(1), -1))
	f.Set(&q, n.heads(n.norm("q_norm", model.Norm{Kind: model.RMSNorm, Offset: l.offset()}, l.one(model.RoleQueryNorm), torch.Tensor{}, q)))
	return q, gate
}

// attend is what every query reads of the values: [batch, length, heads, dim].
func (n *Net) attend(a model.Attention, q, k, v, mask torch.Tensor) torch.Tensor {
	if n.o.Attention == Eager && (n.encodesText() || n.crosses()) {
		return n.biasedAttention(q, k, v, mask, torch.Tensor{}, n.manner().Dropout.Attention)
	}
	if n.o.Attention == Flash2 && a.SoftCap == 0 {
		return n.flashAttention(a.Causal, q, k, v)
	}
	if n.o.Attention == Eager || a.SoftCap > 0 {
		return n.eagerAttention(a.SoftCap > 0, q, k, v, mask)
	}
	return n.fusedAttention(a.Causal, q, k, v, mask)
}

// groupsOf is the heads of queries for each of keys. Where an operator before was
// refused there may be no head at all.
func groupsOf(q, k torch.Tensor) int64 { return q.Size(1) / max(1, k.Size(1)) }

// fusedAttention is sdpa_attention_forward. Groups of heads go to the kernel as
// they are where no mask is and heads are of one width.
func (n *Net) fusedAttention(causal bool, q, k, v, mask torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&q, &k, &v, &mask)
	groups := groupsOf(q, k)
	native := !n.olderThan(groupedAttention) && !mask.Defined() && k.Size(-1) == v.Size(-1) && k.Size(-1) <= widestFlash
	if groups > 1 && !native {
		f.Set(&k, n.repeated(k, groups))
		f.Set(&v, n.repeated(v, groups))
	}
	if n.copiesHeads() {
		f.Set(&q, m.Contiguous(q))
		f.Set(&k, m.Contiguous(k))
		f.Set(&v, m.Contiguous(v))
	}
	how := torch.Attention{Causal: causal && !mask.Defined(), Dropout: n.dropsAttention()}
	how.Kernel = n.kernel(how, q, k, v, mask)
	if how.Kernel == torch.Math && k.Size(1) != q.Size(1) { // within the operator: repeat_interleave
		if !n.o.CPU {
			n.scored = fmt.Sprintf("PyTorch has no fused kernel for %d heads of queries on %d of keys in %s, so that scaled_dot_product_attention runs as plain operators; 16 bits, as with autocast, would run fused", q.Size(1), k.Size(1), m.Lowered(q))
		}
		f.Set(&k, n.repeated(k, groups))
		f.Set(&v, n.repeated(v, groups))
	}
	out := f.Let(m.ScaledDotProduct(how, q, k, v, mask))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return f.Return(out)
}

// flashAttention is flash_attn_func of the package flash-attn, in 16 bits, whose kernels
// PyTorch has too: [batch, length, heads, width]
// (https://github.com/huggingface/transformers/blob/v4.35.2/src/transformers/models/llama/modeling_llama.py,
// LlamaFlashAttention2;
// https://github.com/Dao-AILab/flash-attention/blob/v2.3.4/flash_attn/flash_attn_interface.py).
func (n *Net) flashAttention(causal bool, q, k, v torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&q, &k, &v)
	if q.Dtype() == dtype.F32 {
		f.Set(&q, m.To(q, dtype.F16))
		f.Set(&k, m.To(k, dtype.F16))
		f.Set(&v, m.To(v, dtype.F16))
	}
	out := f.Let(m.ScaledDotProduct(torch.Attention{Kernel: torch.Flash, Causal: causal}, q, k, v, torch.Tensor{}))
	return f.Return(m.Transpose(out, 1, 2))
}

// widestFlash is the widest head that fused kernels compute.
const widestFlash = 256

// kernel is what scaled_dot_product_attention chooses. CUDA's memory-efficient
// kernel takes no groups of heads, and the one for 16 bits no mask
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
// https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/sdp_utils_cpp.cpp).
func (n *Net) kernel(how torch.Attention, q, k, v, mask torch.Tensor) torch.Kernel {
	sameWidth := q.Size(-1) == v.Size(-1)
	biased := mask.Defined() && mask.RequiresGrad()
	switch {
	case n.o.CPU && (how.Dropout || !sameWidth || biased):
		return torch.Math
	case n.o.CPU:
		return torch.FlashCPU
	case n.m.Lowered(q) != dtype.F32 && sameWidth && !mask.Defined() && q.Size(-1) <= widestFlash:
		return torch.Flash
	case k.Size(1) != q.Size(1):
		return torch.Math
	}
	return torch.Efficient
}

func (n *Net) dropsAttention() bool {
	return n.drops() && n.manner().Dropout.Attention > 0
}

func (n *Net) manner() model.Manner { return n.language().Manner }

// repeated is repeat_kv: each head of keys or values once for every query head
// of its group.
func (n *Net) repeated(x torch.Tensor, times int64) torch.Tensor {
	m := n.m
	batch, heads, length, dim := x.Size(0), x.Size(1), x.Size(2), x.Size(3)
	if times == 1 {
		return x
	}
	f := m.Function(&x)
	f.Set(&x, m.Expand(m.Unsqueeze(x, 2), batch, heads, times, length, dim))
	return f.Return(m.Reshape(x, batch, heads*times, length, dim))
}

// eagerAttention is eager_attention_forward: scores of all pairs, scaled, capped
// where the class caps them, masked, in a softmax of 32 bits.
func (n *Net) eagerAttention(capped bool, q, k, v, mask torch.Tensor) torch.Tensor {
	m, format := n.m, q.Dtype()
	f := m.Function(&q, &k, &v, &mask)
	groups := groupsOf(q, k)
	keys := f.Let(n.repeated(k, groups))
	values := f.Let(n.repeated(v, groups))
	scores := f.Let(m.Unary(torch.MulScalar, m.Matmul(q, m.Transpose(keys, 2, 3)))) // scaled, be it by one
	if capped {
		f.Set(&scores, m.Unary(torch.DivScalar, scores))
		f.Set(&scores, m.Unary(torch.Tanh, scores))
		f.Set(&scores, m.Unary(torch.MulScalar, scores))
	}
	if mask.Defined() {
		f.Set(&scores, m.Binary(torch.Add, scores, mask))
	}
	f.Set(&scores, m.To(m.Softmax(scores, dtype.F32), format))
	f.Set(&scores, n.dropped(scores, n.manner().Dropout.Attention))
	out := f.Let(m.Matmul(scores, values))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return f.Return(out)
}

// dropped is dropout in training, where its probability is above 0.
func (n *Net) dropped(x torch.Tensor, p float64) torch.Tensor {
	if !n.drops() || p == 0 {
		return x
	}
	return n.m.Dropout(x)
}
