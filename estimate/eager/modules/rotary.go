package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// position is what all layers of a stack share: positions, masks and rotary
// tables. The stack's frame holds them until it returns.
type position struct {
	ids                torch.Tensor
	encoded            torch.Tensor // what another stack made
	full, window       torch.Tensor // masks, where there are any
	cos, sin           torch.Tensor
	localCos, localSin torch.Tensor // of layers with a window, where those have their own
}

// positionIDs is arange plus the length of the cache, as one row.
func (n *Net) positionIDs(f *torch.Frame, ids *torch.Tensor, length int64) {
	f.Set(ids, n.m.Unary(torch.AddScalar, n.m.Arange(length)))
	f.Set(ids, n.m.Unsqueeze(*ids, 0))
}

// rotary is the tables of cosines and sines, in the format of the stream
// (LlamaRotaryEmbedding). They are computed in 32 bits.
func (n *Net) rotaryTables(ids torch.Tensor, format dtype.Format) (cos, sin torch.Tensor) {
	m := n.m
	f := m.Module("rotary_emb", &ids)
	angles := f.Let(m.Binary(torch.Mul, m.To(m.Unsqueeze(ids, -1), dtype.F32), n.frequencies))
	both := angles
	switch {
	case n.manner().Axes != "":
		cos, sin = n.axesTables(f, angles)
		return f.Return2(m.To(cos, format), m.To(sin, format))
	case !n.turnsHalves():
		both = f.Let(m.Cat(-1, angles, angles))
	}
	c := f.Let(m.Unary(torch.MulScalar, m.Unary(torch.Cos, both)))
	s := f.Let(m.Unary(torch.MulScalar, m.Unary(torch.Sin, both)))
	return f.Return2(m.To(c, format), m.To(s, format))
}

// axesTables is the tables of positions along three axes: those of all frequencies
// along each, and put together, each frequency of its own axis
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/qwen2_vl/modeling_qwen2_vl.py,
// …/models/qwen3_vl/modeling_qwen3_vl.py, whose axes are written over the first).
func (n *Net) axesTables(f *torch.Frame, angles torch.Tensor) (cos, sin torch.Tensor) {
	m := n.m
	cos = f.Let(m.Unary(torch.MulScalar, m.Unary(torch.Cos, angles)))
	sin = f.Let(m.Unary(torch.MulScalar, m.Unary(torch.Sin, angles)))
	together := func(x torch.Tensor) torch.Tensor {
		g := m.Function(&x)
		own := g.Let(m.Select(x, 0))
		if n.manner().Axes == model.SectionedAxes {
			g.Set(&own, m.Cat(-1, own))
		}
		return g.Return(m.Cat(-1, own, own))
	}
	f.Set(&sin, together(sin))
	f.Set(&cos, together(cos))
	return cos, sin
}

// rotate is apply_rotary_pos_emb: query and key, both [batch, heads, length,
// dim], turned by tables of [1, length, dim].
func (n *Net) rotate(q, k, cos, sin torch.Tensor) (torch.Tensor, torch.Tensor) {
	m := n.m
	return n.eachTurned(q, k, cos, sin, func(x, cos, sin torch.Tensor) torch.Tensor {
		plain := m.Binary(torch.Mul, x, cos)
		return m.Binary(torch.Add, plain, m.Binary(torch.Mul, n.rotateHalf(x), sin))
	})
}

// eachTurned turns query and key, one after the other, by tables for all heads.
func (n *Net) eachTurned(q, k, cos, sin torch.Tensor, turned func(x, cos, sin torch.Tensor) torch.Tensor) (torch.Tensor, torch.Tensor) {
	m := n.m
	f := m.Function(&q, &k, &cos, &sin)
	f.Set(&cos, m.Unsqueeze(cos, 1))
	f.Set(&sin, m.Unsqueeze(sin, 1))
	qs := f.Let(turned(q, cos, sin))
	ks := f.Let(turned(k, cos, sin))
	return f.Return2(qs, ks)
}

// rotatePart turns the first elements of each head and joins them with the
// others, as classes with a partial rotary factor do.
func (n *Net) rotatePart(q, k, cos, sin torch.Tensor) (torch.Tensor, torch.Tensor) {
	m, dim := n.m, cos.Size(-1)
	f := m.Function(&q, &k, &cos, &sin)
	f.Set(&cos, m.Unsqueeze(cos, 1))
	f.Set(&sin, m.Unsqueeze(sin, 1))
	part := func(x torch.Tensor) (turning, rest torch.Tensor) {
		return f.Let(m.Slice(x, -1, 0, dim)), f.Let(m.Slice(x, -1, dim, x.Size(-1)))
	}
	turned := func(x, rest torch.Tensor) torch.Tensor {
		plain := m.Binary(torch.Mul, x, cos)
		sum := m.Binary(torch.Add, plain, m.Binary(torch.Mul, n.rotateHalf(x), sin))
		return f.Let(m.Cat(-1, sum, rest))
	}
	qTurning, qRest := part(q)
	kTurning, kRest := part(k)
	qs := turned(qTurning, qRest)
	return f.Return2(qs, turned(kTurning, kRest))
}

// rotateHalf is the second half of the last dimension, negated, before the
// first.
func (n *Net) rotateHalf(x torch.Tensor) torch.Tensor {
	m, dim := n.m, x.Size(-1)
	f := m.Function(&x)
	first := f.Let(m.Slice(x, -1, 0, dim/2))
	second := f.Let(m.Slice(x, -1, dim/2, dim))
	return f.Return(m.Cat(-1, m.Unary(torch.Neg, second), first))
}
