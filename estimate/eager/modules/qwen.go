package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// qwenType is Qwen's own class of 2023, code beside its checkpoints. What follows is
// that of December 2023 with flash-attn, whose norm is a package of its own and taken
// for absent (https://github.com/zhangningboo/Qwen-7B/blob/ffe04dd/modeling_qwen.py).
const qwenType = "qwen"

func (n *Net) qwen() bool { return n.o.Software == Transformers && n.model.Type == qwenType }

// qwenLM is QWenLMHeadModel. Where autocast is on, Accelerate makes what forward
// returned 32 bits wide (convert_outputs_to_fp32).
func (n *Net) qwenLM(b Batch) (logits, loss torch.Tensor) {
	logits, loss = n.qwenLogits(b)
	if m := n.m; m.Autocasts() {
		logits = m.AsLogits(m.To(logits, dtype.F32))
	}
	return logits, loss
}

func (n *Net) qwenLogits(b Batch) (logits, loss torch.Tensor) {
	m, s := n.m, n.stacks[0]
	n.begins()
	f := m.Module("", &b.IDs)
	x := f.Let(n.qwenDecoder(s, b))
	logits = m.AsLogits(f.Let(n.linear(n.outside.module("lm_head", model.RoleHead, model.RoleHeadBias), x)))
	if b.Labels.Defined() {
		n.beforeLoss()
		length := b.Labels.Size(1)
		shifted := f.Let(m.AsLogits(m.Contiguous(m.Slice(logits, 1, 0, length-1))))
		next := f.Let(m.Contiguous(m.Slice(b.Labels, 1, 1, length)))
		loss = f.Let(m.CrossEntropy(m.Reshape(shifted, -1, shifted.Size(-1)), m.Reshape(next, -1)))
	}
	n.ends(logits)
	return f.Return2(logits, loss)
}

// qwenDecoder is QWenModel.
func (n *Net) qwenDecoder(s stack, b Batch) torch.Tensor {
	m := n.m
	f := m.Module("transformer", &b.IDs)
	var p position
	n.positionIDs(f, &p.ids, b.IDs.Size(1))
	if b.Mask.Defined() {
		p.full = f.Let(m.To(m.Unsqueeze(m.Unsqueeze(b.Mask, 1), 1), n.outside.one(model.RoleTokenEmbedding).Dtype()))
		f.Set(&p.full, m.Unary(torch.MulScalar, m.Unary(torch.SubScalar, p.full)))
	}
	p.ids = torch.Tensor{} // made and not used
	x := f.Let(n.embedded(b.IDs))
	n.Cut(b.IDs.Size(1))
	for layers := range slices.Chunk(s.layers, n.segment()) {
		f.Set(&x, n.through(layers, x, p))
	}
	return f.Return(n.titanNorm(n.outside.one(model.RoleFinalNorm), x))
}

// qwenTables are the rotary tables of twice the length of the longest sequence so
// far.
func (n *Net) qwenTables(length int64) {
	n.frequencies = n.m.Buffer(dtype.F32, 1, 2*length, 1, n.rotary)
	n.turns = n.m.Buffer(dtype.F32, 1, 2*length, 1, n.rotary)
}

// qwenBlock is QWenBlock.
func (n *Net) qwenBlock(l *layer, x torch.Tensor, p position) torch.Tensor {
	m := n.m
	f := m.Module("h", &x)
	normed := f.Let(n.titanNorm(l.at(model.RoleNorm, 0).weight, x))
	attended := f.Let(n.qwenAttention(l, normed, p))
	sum := f.Let(m.Binary(torch.Add, attended, x))
	f.Set(&normed, n.titanNorm(l.at(model.RoleNorm, 1).weight, sum))
	made := f.Let(n.qwenNetwork(l, normed))
	return f.Return(m.Binary(torch.Add, sum, made))
}

// qwenNetwork is QWenMLP.
func (n *Net) qwenNetwork(l *layer, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("mlp", &x)
	first := f.Let(n.linear(l.linear("w1", model.RoleGate, model.RoleGateBias, 0), x))
	second := f.Let(n.linear(l.linear("w2", model.RoleUp, model.RoleUpBias, 0), x))
	both := f.Let(m.Binary(torch.Mul, first, m.Unary(torch.SiLU, second)))
	return f.Return(n.linear(l.linear("c_proj", model.RoleDown, model.RoleDownBias, 0), both))
}

// qwenAttention is QWenAttention.
func (n *Net) qwenAttention(l *layer, x torch.Tensor, p position) torch.Tensor {
	m, a := n.m, l.Mixers[0].(model.Attention)
	f := m.Module("attn", &x)
	mixed := f.Let(n.linear(l.linear("c_attn", model.RoleQKV, model.RoleQKVBias, 0), x))
	width := int64(a.QueryHeads * a.KeyDim)
	parts := m.Split(mixed, -1, width, width, width)
	q, k, v := f.Let(n.split(parts[0], a.KeyDim)), f.Let(n.split(parts[1], a.KeyDim)), f.Let(n.split(parts[2], a.KeyDim))
	f.Set(&q, n.qwenTurned(q))
	f.Set(&k, n.qwenTurned(k))
	if n.o.Cache {
		n.cache = append(n.cache, m.AsCache(m.Hold(k)), m.Hold(v))
	}
	var out torch.Tensor
	if x.Size(0) > 1 && p.full.Defined() {
		out = f.Let(n.qwenUnpadded(q, k, v))
	} else {
		out = f.Let(n.flashAttention(true, n.heads(q), n.heads(k), n.heads(v)))
	}
	f.Set(&out, n.joined(m.Contiguous(out)))
	return f.Return(n.linear(l.linear("c_proj", model.RoleAttentionOutput, model.RoleAttentionOutputBias, 0), out))
}

// qwenTurned is apply_rotary_pos_emb over [batch, length, heads, dim], in 32 bits.
func (n *Net) qwenTurned(x torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	f := m.Function(&x)
	wide := f.Let(m.To(x, dtype.F32))
	return f.Return(m.To(n.flashTurned(wide), was))
}

// flashTurned is ApplyRotaryEmb of flash-attn: halves of the tables are brought into
// one piece, and backward turns a copy of the gradient
// (https://github.com/Dao-AILab/flash-attention/blob/v2.3.4/flash_attn/layers/rotary.py).
func (n *Net) flashTurned(x torch.Tensor) torch.Tensor {
	shape := append([]int64(nil), x.Shape()...)
	length, half := x.Size(1), n.rotary/2
	return n.m.Apply1(torch.Function{Name: "ApplyRotaryEmb",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Empty(dtype.F32, length, half)
			c.Empty(dtype.F32, length, half)
			return []torch.Tensor{c.Empty(dtype.F32, shape...)}
		},
		Backward: func(g *torch.Gradients) {
			g.Empty(dtype.F32, shape...) // do.clone()
			g.Empty(dtype.F32, length, half)
			g.Empty(dtype.F32, length, half)
			g.Give(0, g.Empty(dtype.F32, shape...))
		},
	}, x)
}

// qwenUnpadded is FlashSelfAttention of several sequences with a mask: rows that are
// no padding are gathered, of which all are taken to be, and what attends is put back.
func (n *Net) qwenUnpadded(q, k, v torch.Tensor) torch.Tensor {
	m := n.m
	batch, length, heads, dim := q.Size(0), q.Size(1), q.Size(2), q.Size(3)
	f := m.Function(&q, &k, &v)
	rows := f.Let(m.Arange(batch * length))
	for _, t := range []*torch.Tensor{&q, &k, &v} {
		f.Set(t, m.Reshape(*t, -1, heads, dim))
	}
	for _, t := range []*torch.Tensor{&k, &q, &v} {
		f.Set(t, m.IndexRows(*t, rows))
	}
	one := func(x torch.Tensor) torch.Tensor { return n.heads(m.Unsqueeze(x, 0)) }
	out := f.Let(n.flashAttention(true, one(q), one(k), one(v)))
	f.Set(&out, n.padded(out, batch, length))
	return f.Return(out)
}

// padded puts rows back among padding: into zeros, from which backward gathers them.
func (n *Net) padded(x torch.Tensor, batch, length int64) torch.Tensor {
	heads, dim, was := x.Size(2), x.Size(3), x.Dtype()
	return n.m.Apply1(torch.Function{Name: "index_put_",
		Forward: func(c *torch.Call) []torch.Tensor {
			return []torch.Tensor{c.Empty(was, batch, length, heads, dim)}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(was, 1, batch*length, heads, dim)) },
	}, x)
}

// qwenLacks is what of Qwen's class has no program here.
func (n *Net) qwenLacks() string {
	if n.o.Attention != Flash2 {
		return "Qwen's class has a program with flash-attn alone (attention: flash_attention_2); without, it attends by PyTorch's kernels or written out, by its day"
	}
	if n.o.CPU {
		return "flash-attn, with which Qwen's class has a program here, needs a GPU"
	}
	if n.rotary == 0 {
		return "Qwen's class without rotary positions has no program here"
	}
	return ""
}
