package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// relative is a model of an encoder and a decoder whose attention adds a table
// of relative positions to its scores: T5
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/t5/modeling_t5.py).
func (n *Net) relative() bool {
	return len(n.stacks) == 2 && n.stacks[0].Kind == model.Encoder && n.stacks[1].Kind == model.Decoder &&
		len(n.stacks[0].layers) > 0 && n.stacks[0].layers[0].has(model.RoleRelativeBias)
}

// seq2seq is T5ForConditionalGeneration: labels, shifted to the right, are what
// the decoder reads.
func (n *Net) seq2seq(b Batch) (logits, loss torch.Tensor) {
	m := n.m
	f := m.Module("", &b.IDs)
	encoded := f.Let(n.relativeStack(n.stacks[0], b.IDs, torch.Tensor{}))
	n.returnsEncoding(encoded)
	ids := b.DecoderIDs
	if b.Labels.Defined() {
		ids = f.Let(n.shiftedRight(b.Labels))
	}
	x := f.Let(n.relativeStack(n.stacks[1], ids, encoded))
	if n.headTied() {
		x = f.Let(m.Unary(torch.MulScalar, x))
	}
	logits = m.AsLogits(f.Let(n.linear(n.outside.module("lm_head", model.RoleHead, model.RoleHeadBias), x)))
	if b.Labels.Defined() {
		flat := m.Reshape(logits, -1, logits.Size(-1))
		loss = f.Let(m.CrossEntropy(flat, m.Reshape(b.Labels, -1)))
	}
	return f.Return2(logits, loss)
}

// headTied reports that the head is the token embedding.
func (n *Net) headTied() bool {
	for _, t := range n.model.Tensors {
		if t.Role == model.RoleHead {
			return t.TiedTo != model.NotTied
		}
	}
	return false
}

// shiftedRight is the labels one place later.
func (n *Net) shiftedRight(labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&labels)
	shifted := f.Let(m.Empty("new_zeros", dtype.I64, labels.Shape()...))
	m.Drop(m.Empty("clone", dtype.I64, labels.Size(0), labels.Size(1)-1))
	m.Drop(m.Empty("eq", dtype.Bool, labels.Shape()...))
	return f.Return(shifted)
}

// biases are what the first layer of a stack makes and the others add again.
type biases struct{ own, cross torch.Tensor }

// relativeStack is T5Stack.
func (n *Net) relativeStack(s stack, ids, encoded torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module(s.Name, &ids, &encoded)
	embeds := f.Let(m.Embedding(n.outside.one(model.RoleTokenEmbedding), ids))
	var mask torch.Tensor
	if s.Kind == model.Decoder && n.o.Attention == Eager {
		allowed := n.allowed(ids.Size(0), ids.Size(1), 0, torch.Tensor{})
		mask = f.Let(m.WhereScalar(allowed, m.Empty("zeros", embeds.Dtype())))
	}
	shared := biases{own: f.Let(torch.Tensor{}), cross: f.Let(torch.Tensor{})}
	x := f.Let(n.dropped(embeds, s.Manner.Dropout.Embedding))
	for i := range s.layers {
		var bias biases
		f.Set(&x, n.relativeLayer(s, &s.layers[i], x, mask, encoded, shared, &bias))
		f.Set(&shared.own, bias.own)
		f.Set(&shared.cross, bias.cross)
	}
	norm := n.finalNorm(s)
	f.Set(&x, n.norm("final_layer_norm", s.layers[0].Norms[0], norm, torch.Tensor{}, x))
	f.Set(&x, n.dropped(x, s.Manner.Dropout.Residual))
	return f.Return(x)
}

// finalNorm is the last norm of a stack: those of both stand outside, the
// encoder's first.
func (n *Net) finalNorm(s stack) torch.Tensor {
	if s.Kind == model.Decoder {
		return n.outside.at(model.RoleFinalNorm, 1).weight
	}
	return n.outside.one(model.RoleFinalNorm)
}

// relativeLayer is T5Block: attention to the own stack, in a decoder to the
// other, and a network; each adds to the stream what it made of the norm of it.
func (n *Net) relativeLayer(s stack, l *layer, x, mask, encoded torch.Tensor, shared biases, made *biases) torch.Tensor {
	if n.o.Checkpointing && n.o.Training {
		n.m.Unknown("layers with relative positions that are computed again have no program here")
	}
	f := n.m.Module("block", &x)
	own, bias := n.relativeAttention(s, l, 0, x, x, mask, shared.own)
	f.Set(&x, own)
	made.own = bias
	if s.Kind == model.Decoder {
		cross, bias := n.relativeAttention(s, l, 1, x, encoded, torch.Tensor{}, shared.cross)
		f.Set(&x, cross)
		made.cross = bias
	}
	f.Set(&x, n.relativeFeed(s, l, x))
	return f.Return(x)
}

// relativeFeed is T5LayerFF.
func (n *Net) relativeFeed(s stack, l *layer, x torch.Tensor) torch.Tensor {
	m := n.m
	d, dense := l.FeedForward.(model.Dense)
	if !dense {
		m.Unknown("experts beside relative positions have no program here")
		return x
	}
	f := m.Module("layer", &x)
	inner := f.Let(n.layerNorm(l, len(l.Norms)-1, x))
	f.Set(&inner, n.droppingNetwork(s, l, d, inner))
	return f.Return(m.Binary(torch.Add, x, n.dropped(inner, s.Manner.Dropout.Residual)))
}

// droppingNetwork is T5DenseGatedActDense and T5DenseActDense: dropout stands
// before the last projection.
func (n *Net) droppingNetwork(s stack, l *layer, d model.Dense, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("DenseReluDense", &x)
	if d.Gated {
		gate := f.Let(n.activation(d.Activation, n.linear(l.linear("wi_0", model.RoleGate, model.RoleOther, 0), x)))
		up := f.Let(n.linear(l.linear("wi_1", model.RoleUp, model.RoleOther, 0), x))
		f.Set(&x, m.Binary(torch.Mul, gate, up))
	} else {
		f.Set(&x, n.linear(l.linear("wi", model.RoleUp, model.RoleOther, 0), x))
		f.Set(&x, n.activation(d.Activation, x))
	}
	f.Set(&x, n.dropped(x, s.Manner.Dropout.FeedForward))
	f.Set(&x, n.linear(l.linear("wo", model.RoleDown, model.RoleOther, 0), x))
	return f.Return(x)
}

// relativeAttention is T5LayerSelfAttention and T5LayerCrossAttention: the result
// and the bias that the next layer adds again.
func (n *Net) relativeAttention(s stack, l *layer, place int, x, source, mask, bias torch.Tensor) (out, made torch.Tensor) {
	m := n.m
	a, plain := l.Mixers[place].(model.Attention)
	if !plain {
		m.Unknown("a mixer of this kind has no program here")
		return x, bias
	}
	f := m.Module("layer", &x)
	normed := f.Let(n.layerNorm(l, place, x))
	if place == 0 {
		source = normed
	}
	attended, made := n.relativeScores(s, l, a, place, normed, source, mask, bias)
	attended, made = f.Let(attended), f.Let(made)
	return f.Return2(m.Binary(torch.Add, x, n.dropped(attended, s.Manner.Dropout.Residual)), made)
}

// relativeScores is T5Attention.
func (n *Net) relativeScores(s stack, l *layer, a model.Attention, place int, x, source, mask, bias torch.Tensor) (out, made torch.Tensor) {
	m := n.m
	f := m.Module("attention", &x, &source, &mask, &bias)
	project := func(name string, role model.Role, of torch.Tensor, dim int) torch.Tensor {
		return f.Let(n.heads(n.split(n.linear(l.linear(name, role, model.RoleOther, place), of), dim)))
	}
	q := project("q", model.RoleQuery, x, a.KeyDim)
	k := project("k", model.RoleKey, source, a.KeyDim)
	v := project("v", model.RoleValue, source, a.ValueDim)
	if s.Kind == model.Decoder {
		n.keep(f, &k, &v)
	}
	if !bias.Defined() {
		f.Set(&bias, n.newBias(s, l, a, place, q, k))
	}
	if n.o.Attention == Eager {
		out = f.Let(n.biasedAttention(q, k, v, mask, bias, s.Manner.Dropout.Attention))
	} else {
		out = f.Let(n.fusedBiasedAttention(s.Kind == model.Decoder && place == 0, q, k, v, bias))
	}
	f.Set(&out, n.joined(out))
	f.Set(&out, n.linear(l.linear("o", model.RoleAttentionOutput, model.RoleOther, place), out))
	return f.Return2(out, bias)
}

// newBias is the table's entries for every pair of positions, or zeros where the
// attention has no table.
func (n *Net) newBias(s stack, l *layer, a model.Attention, place int, q, k torch.Tensor) torch.Tensor {
	m := n.m
	if place > 0 || !l.has(model.RoleRelativeBias) {
		return m.Empty("zeros", q.Dtype(), 1, int64(a.QueryHeads), q.Size(2), k.Size(2))
	}
	f := m.Function()
	rows := f.Let(m.Unsqueeze(m.Unary(torch.AddScalar, m.Arange(q.Size(2))), 1))
	columns := f.Let(m.Unsqueeze(m.Arange(k.Size(2)), 0))
	distance := f.Let(m.Binary(torch.Sub, columns, rows))
	bucket := f.Let(n.buckets(distance, s.Kind != model.Decoder))
	values := f.Let(m.Embedding(l.one(model.RoleRelativeBias), bucket))
	f.Set(&values, m.Unsqueeze(m.Permute(values, 2, 0, 1), 0))
	return f.Return(values)
}

// buckets is _relative_position_bucket: near distances one by one, far ones by
// their logarithm.
func (n *Net) buckets(distance torch.Tensor, bothWays bool) torch.Tensor {
	m := n.m
	f := m.Function(&distance)
	var bucket torch.Tensor
	if bothWays {
		later := m.To(m.Unary(torch.EqScalar, distance), dtype.I64)
		bucket = f.Let(m.Unary(torch.AddScalar, m.Unary(torch.MulScalar, later)))
		f.Set(&distance, m.Unary(torch.Abs, distance))
	} else {
		earlier := m.Binary(torch.Maximum, distance, m.Like("zeros_like", distance))
		f.Set(&distance, m.Unary(torch.Neg, earlier))
	}
	near := f.Let(m.Unary(torch.EqScalar, distance))
	log := m.Unary(torch.Log, m.Unary(torch.DivScalar, m.To(distance, dtype.F32)))
	log = m.Unary(torch.MulScalar, m.Unary(torch.DivScalar, log))
	far := f.Let(m.Unary(torch.AddScalar, m.To(log, dtype.I64)))
	f.Set(&far, m.Binary(torch.Maximum, far, m.Like("full_like", far)))
	chosen := m.Where(near, distance, far)
	if !bothWays {
		return f.Return(m.Unary(torch.AddScalar, chosen))
	}
	m.InPlace(torch.Add, bucket, chosen)
	return f.Return(bucket)
}

// biasedAttention is the eager attention with a bias beside the mask, if there is
// one, and a softmax in the format of the scores.
func (n *Net) biasedAttention(q, k, v, mask, bias torch.Tensor, dropout float64) torch.Tensor {
	m := n.m
	f := m.Function(&q, &k, &v, &mask, &bias)
	scores := f.Let(m.Unary(torch.MulScalar, m.Matmul(q, m.Transpose(k, 2, 3))))
	if bias.Defined() {
		f.Set(&scores, m.Binary(torch.Add, scores, bias))
	}
	if mask.Defined() {
		f.Set(&scores, m.Binary(torch.Add, scores, mask))
	}
	f.Set(&scores, m.Softmax(scores, dtype.Unknown))
	f.Set(&scores, n.dropped(scores, dropout))
	out := f.Let(m.Matmul(scores, v))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return f.Return(out)
}

// fusedBiasedAttention gives fused attention a mask of numbers, of the bias and
// of what a causal mask leaves out.
func (n *Net) fusedBiasedAttention(causal bool, q, k, v, bias torch.Tensor) torch.Tensor {
	m := n.m
	if !n.o.CPU && bias.RequiresGrad() {
		m.Unknown("the gradient of a bias in fused attention on CUDA has no program here")
	}
	f := m.Function(&q, &k, &v, &bias)
	added := bias
	if causal {
		inner := m.Function(&bias)
		allowed := inner.Let(m.Binary(torch.Ge, m.Unsqueeze(m.Arange(q.Size(2)), 1), m.Unsqueeze(m.Arange(k.Size(2)), 0)))
		inner.Set(&allowed, m.Reshape(allowed, 1, 1, q.Size(2), k.Size(2)))
		added = inner.Return(m.Contiguous(m.WhereScalar(allowed, bias)))
	} else {
		added = m.Contiguous(added)
	}
	mask := f.Let(added)
	how := torch.Attention{Dropout: n.dropsAttention()}
	how.Kernel = n.kernel(how, q, k, v, mask)
	out := f.Let(m.ScaledDotProduct(how, q, k, v, mask))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return f.Return(out)
}
