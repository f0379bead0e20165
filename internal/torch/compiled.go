package torch

// Flash is flash attention within a function that a compiler made: the output, and
// 4 bytes a query and head. Query and key are [batch, heads, positions, width].
func (c *Call) Flash(q, k Tensor) (out, lse Tensor) {
	o, l, state := c.m.flashKernel(Attention{Causal: true}, q.impl, k.impl)
	c.m.drop(state)
	c.made = append(c.made, o, l)
	return Tensor{impl: o}, Tensor{impl: l}
}

// Flash is flash attention that backward runs again.
func (g *Gradients) Flash(q, k Tensor) (out, lse Tensor) {
	o, l, state := g.p.m.flashKernel(Attention{Causal: true}, q.impl, k.impl)
	g.p.m.drop(state)
	g.made = append(g.made, o, l)
	return Tensor{impl: o}, Tensor{impl: l}
}

// FlashGradients is the backward of flash attention.
func (g *Gradients) FlashGradients(q, k, v Tensor) (dq, dk, dv Tensor) {
	a, b, c := g.p.m.flashGradients(q.impl, k.impl, v.impl)
	g.made = append(g.made, a, b, c)
	return Tensor{impl: a}, Tensor{impl: b}, Tensor{impl: c}
}
