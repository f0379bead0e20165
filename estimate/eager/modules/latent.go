package modules

import (
	"floodmark/internal/torch"
	"floodmark/model"
)

// latent runs multi-head latent attention: query and keys from compressed
// vectors, one rotary key for all heads (DeepseekV3Attention,
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/deepseek_v3/modeling_deepseek_v3.py).
func (n *Net) latent(l *layer, a model.LatentAttention, x torch.Tensor, p position) torch.Tensor {
	m := n.m
	if a.Indexer != nil || a.CompressedEvery > 1 {
		m.Unknown("sparse latent attention has no program here")
		return x
	}
	f := m.Module("self_attn", &x)
	batch, length := x.Size(0), x.Size(1)
	nope, rope := int64(a.NopeDim), int64(a.RopeDim)
	q := f.Let(n.latentQuery(l, a, x))
	f.Set(&q, n.heads(n.split(q, a.NopeDim+a.RopeDim)))
	parts := m.Split(q, -1, nope, rope)
	qPass, qTurning := f.Let(parts[0]), f.Let(parts[1])
	compressed := f.Let(n.linear(l.linear("kv_a_proj_with_mqa", model.RoleKVDown, model.RoleOther, 0), x))
	parts = m.Split(compressed, -1, int64(a.KVRank), rope)
	kv, kTurning := f.Let(parts[0]), f.Let(parts[1])
	f.Set(&kv, n.norm("kv_a_layernorm", model.Norm{Kind: model.RMSNorm}, l.at(model.RoleLatentNorm, n.latentNorms(a)-1).weight, torch.Tensor{}, kv))
	f.Set(&kv, m.Reshape(kv, batch, 1, length, int64(a.KVRank)))
	f.Set(&kTurning, m.Reshape(kTurning, batch, 1, length, rope))
	qs, ks := n.rotatePairs(qTurning, kTurning, p.cos, p.sin)
	f.Set(&qTurning, qs)
	f.Set(&kTurning, ks)
	query := f.Let(m.Cat(-1, qPass, qTurning))
	key, value := n.expanded(l, a, kv, kTurning)
	key, value = f.Let(key), f.Let(value)
	var out torch.Tensor
	if n.o.Attention == Eager {
		out = f.Let(n.eagerAttention(false, query, key, value, p.full))
	} else {
		out = f.Let(n.fusedAttention(true, query, key, value, p.full))
	}
	f.Set(&out, n.joined(out))
	f.Set(&out, n.linear(l.linear("o_proj", model.RoleAttentionOutput, model.RoleOther, 0), out))
	return f.Return(out)
}

// latentNorms is how many compressed vectors have a norm.
func (n *Net) latentNorms(a model.LatentAttention) int {
	if a.QueryRank > 0 {
		return 2
	}
	return 1
}

func (n *Net) latentQuery(l *layer, a model.LatentAttention, x torch.Tensor) torch.Tensor {
	if a.QueryRank == 0 {
		return n.linear(l.linear("q_proj", model.RoleQuery, model.RoleOther, 0), x)
	}
	down := n.linear(l.linear("q_a_proj", model.RoleQueryDown, model.RoleOther, 0), x)
	normed := n.norm("q_a_layernorm", model.Norm{Kind: model.RMSNorm}, l.one(model.RoleLatentNorm), torch.Tensor{}, down)
	return n.linear(l.linear("q_b_proj", model.RoleQueryUp, model.RoleOther, 0), normed)
}

// expanded is keys and values of all heads: the key without position and the
// rotary one written side by side into a new tensor.
func (n *Net) expanded(l *layer, a model.LatentAttention, kv, turned torch.Tensor) (key, value torch.Tensor) {
	m := n.m
	f := m.Function(&kv, &turned)
	batch, length, heads := kv.Size(0), kv.Size(2), int64(a.QueryHeads)
	nope, rope := int64(a.NopeDim), int64(a.RopeDim)
	up := n.linear(l.linear("kv_b_proj", model.RoleKVUp, model.RoleOther, 0), kv)
	f.Set(&kv, n.heads(m.Reshape(up, batch, length, -1, nope+int64(a.ValueDim))))
	parts := m.Split(kv, -1, nope, int64(a.ValueDim))
	still, value := f.Let(parts[0]), f.Let(parts[1])
	f.Set(&turned, m.Expand(turned, batch, heads, length, rope))
	key = f.Let(m.Empty("new_empty", kv.Dtype(), batch, heads, length, nope+rope))
	m.AssignSlice(key, -1, 0, nope, still)
	m.AssignSlice(key, -1, nope, nope+rope, turned)
	return f.Return2(key, value)
}

// rotatePairs is apply_rotary_pos_emb_interleave: pairs of neighbours turn.
func (n *Net) rotatePairs(q, k, cos, sin torch.Tensor) (torch.Tensor, torch.Tensor) {
	m := n.m
	f := m.Function(&q, &k, &cos, &sin)
	half := cos.Size(-1) / 2
	f.Set(&cos, m.Unsqueeze(m.Slice(cos, -1, 0, half), 1))
	f.Set(&sin, m.Unsqueeze(m.Slice(sin, -1, 0, half), 1))
	pairs := func(x torch.Tensor) (even, odd torch.Tensor) {
		return f.Let(m.SliceEvery(x, -1, 2)), f.Let(m.SliceEvery(x, -1, 2))
	}
	turned := func(even, odd torch.Tensor) torch.Tensor {
		first := m.Binary(torch.Mul, even, cos)
		first = m.Binary(torch.Sub, first, m.Binary(torch.Mul, odd, sin))
		second := m.Binary(torch.Mul, odd, cos)
		second = m.Binary(torch.Add, second, m.Binary(torch.Mul, even, sin))
		return f.Let(m.Cat(-1, first, second))
	}
	q1, q2 := pairs(q)
	k1, k2 := pairs(k)
	qs := turned(q1, q2)
	return f.Return2(qs, turned(k1, k2))
}
