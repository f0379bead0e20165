package megatron

import (
	"floodmark/internal/torch"
	"floodmark/workload"
)

// plainDropoutAdd is bias, dropout and residual as three operators, beside what the
// module returned, which has a name until they are done
// (_bias_dropout_add_func of megatron/core/fusions/fused_bias_dropout.py).
func (e *te) plainDropoutAdd(y, bias, residual torch.Tensor) torch.Tensor {
	y = e.m.Keep(y)
	sum := y
	if bias.Defined() {
		sum = e.m.Binary(torch.Add, sum, bias)
	}
	if e.s.hiddenDropout {
		sum = e.m.Dropout(sum)
	}
	out := e.m.Binary(torch.Add, residual, sum)
	e.m.Drop(y)
	return out
}

// plainActivation is the activation as operators: the bias first, and of a gated one
// the two halves as views, clamped where that is asked for, of which the second is
// copied, for an offset, of zero too, is added to it (forward of
// megatron/core/transformer/mlp.py and glu of megatron/core/transformer/moe/experts.py).
// quick_gelu, which is compiled, keeps and makes what silu does.
func (e *te) plainActivation(x, bias torch.Tensor, a gate) torch.Tensor {
	m := e.m
	if bias.Defined() {
		x = m.Binary(torch.Add, x, bias)
	}
	if !a.gated {
		return m.Unary(torch.GELU, x)
	}
	parts := e.halves(x, a.clamped)
	made := m.Unary(torch.SiLU, parts[0])
	return m.Binary(torch.Mul, made, m.Unary(torch.AddScalar, parts[1]))
}

// gate is how a network is gated.
type gate struct {
	gated   bool
	clamped bool // gate and up are clamped
	quick   bool // by quick_gelu, whose fused kernel takes what is clamped already
}

// halves are gate and up, which one product made.
func (e *te) halves(x torch.Tensor, clamped bool) []torch.Tensor {
	half := x.Size(1) / 2
	parts := e.m.Split(x, 1, half, half)
	if clamped {
		for i := range parts {
			parts[i] = e.m.Unary(torch.Clamp, parts[i])
		}
	}
	return parts
}

// plainWeighted is rows times their probabilities, cast where those are wider.
func (e *te) plainWeighted(x, probabilities torch.Tensor) torch.Tensor {
	rows, positions, count := x.Size(0), probabilities.Size(0), probabilities.Size(1)
	y := e.m.Binary(torch.Mul, x, e.m.Apply1(torch.Function{
		Name:     "masked_select",
		Forward:  func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(probabilities.Dtype(), rows, 1)} },
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(probabilities.Dtype(), positions, count)) },
	}, probabilities))
	if y.Dtype() != e.s.compute {
		y = e.m.To(y, e.s.compute)
	}
	return y
}

// turn gives queries or keys their positions in operators of their own, which keep
// cosines and sines of the computation's format, made anew each time
// (_apply_rotary_pos_emb_bshd of
// megatron/core/models/common/embeddings/rope_utils.py). The fused kernel keeps
// nothing beside its table, and its result stands in the tensor that [te.split] made.
func (e *te) turn(x torch.Tensor, heads, turned int64) torch.Tensor {
	if !e.s.unfused(workload.RopeFusion) || turned == 0 {
		return x
	}
	m, rows, width := e.m, x.Size(0), x.Size(1)
	positions, dim := e.angles.Size(0), width/heads
	table := func(op torch.UnaryOp) torch.Tensor {
		angles := m.Unary(torch.MulScalar, m.Unary(op, m.Reshape(e.angles, positions, 1, turned)))
		return m.Keep(m.To(angles, e.s.compute))
	}
	x = m.Keep(m.Reshape(x, positions, rows/positions*heads, dim))
	cos, sin := table(torch.Cos), table(torch.Sin)
	part := m.Keep(m.Slice(x, 2, 0, turned))
	first := m.Binary(torch.Mul, part, cos)
	halves := m.Split(part, 2, turned/2, turned/2)
	second := m.Binary(torch.Mul, m.Cat(2, m.Unary(torch.Neg, halves[1]), halves[0]), sin)
	out := m.Cat(2, m.Binary(torch.Add, first, second), m.Slice(x, 2, turned, dim))
	m.Drop(part, x, cos, sin)
	return m.Reshape(out, rows, width)
}
