package megatron

import "floodmark/internal/torch"

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
// the two halves as views, of which the second is copied, for an offset of zero is
// added to it (forward of megatron/core/transformer/mlp.py).
func (e *te) plainActivation(x, bias torch.Tensor, gated bool) torch.Tensor {
	m := e.m
	if bias.Defined() {
		x = m.Binary(torch.Add, x, bias)
	}
	if !gated {
		return m.Unary(torch.GELU, x)
	}
	half := x.Size(1) / 2
	parts := m.Split(x, 1, half, half)
	made := m.Unary(torch.SiLU, parts[0])
	return m.Binary(torch.Mul, made, m.Unary(torch.AddScalar, parts[1]))
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
