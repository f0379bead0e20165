package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What gpt-oss does in a way of its own
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/gpt_oss/modeling_gpt_oss.py).

// Sinks reports a model whose attention has sinks, for which classes have their
// eager attention alone.
func Sinks(source *model.Model) bool {
	return source.Attends(func(a model.Attention) bool { return a.Sinks })
}

// turnsHalves reports that heads are turned by tables of half their width.
func (n *Net) turnsHalves() bool {
	return n.model.Attends(func(a model.Attention) bool { return a.RotaryHalves })
}

// rotateHalves turns the two halves of each head apart and joins them.
func (n *Net) rotateHalves(q, k, cos, sin torch.Tensor) (torch.Tensor, torch.Tensor) {
	m := n.m
	return n.eachTurned(q, k, cos, sin, func(x, cos, sin torch.Tensor) torch.Tensor {
		half := x.Size(-1) / 2
		f := m.Function(&x)
		parts := m.Split(x, -1, half, half)
		first, second := f.Let(parts[0]), f.Let(parts[1])
		near := f.Let(m.Binary(torch.Sub, m.Binary(torch.Mul, first, cos), m.Binary(torch.Mul, second, sin)))
		far := f.Let(m.Binary(torch.Add, m.Binary(torch.Mul, second, cos), m.Binary(torch.Mul, first, sin)))
		return f.Return(m.Cat(-1, near, far))
	})
}

// sunkAttention is attention whose softmax has one more column, a learned logit
// of each head, and is taken in the format of the scores.
func (n *Net) sunkAttention(sinks, q, k, v, mask torch.Tensor) torch.Tensor {
	m, batch, heads, length := n.m, q.Size(0), q.Size(1), q.Size(2)
	f := m.Function(&q, &k, &v, &mask)
	groups := groupsOf(q, k)
	keys := f.Let(n.repeated(k, groups))
	values := f.Let(n.repeated(v, groups))
	scores := f.Let(m.Unary(torch.MulScalar, m.Matmul(q, m.Transpose(keys, 2, 3))))
	if mask.Defined() {
		f.Set(&scores, m.Binary(torch.Add, scores, mask))
	}
	sunk := f.Let(m.Expand(m.Reshape(sinks, 1, -1, 1, 1), batch, heads, length, 1))
	all := f.Let(m.Cat(-1, scores, sunk))
	most, at := m.Max(all, -1, true)
	m.Drop(at)
	f.Set(&all, m.Binary(torch.Sub, all, most))
	shares := f.Let(m.Softmax(all, dtype.Unknown))
	f.Set(&scores, n.dropped(m.Slice(shares, -1, 0, k.Size(2)), n.manner().Dropout.Attention))
	out := f.Let(m.Matmul(scores, values))
	f.Set(&out, m.Contiguous(m.Transpose(out, 1, 2)))
	return f.Return(out)
}

// routeAmongChosen is the router whose shares are a softmax over the chosen
// experts alone.
func (n *Net) routeAmongChosen(l *layer, e model.Experts, x torch.Tensor) (logits, scores, chosen torch.Tensor) {
	m := n.m
	f := m.Module("router", &x)
	logits = f.Let(m.Linear(x, l.one(model.RoleRouter), l.one(model.RoleRouterBias)))
	value, index := m.TopK(logits, int64(e.Active))
	top, chosen := f.Let(value), f.Let(index)
	scores = f.Let(m.Softmax(top, dtype.Unknown))
	return f.Return3(logits, scores, chosen)
}

// alternated is the activation where gate and up alternate in one projection: both
// clamped, the gate times the sigmoid of a multiple of it, and up by one more.
func (n *Net) alternated(both torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&both)
	gate, up := f.Let(m.SliceEvery(both, -1, 2)), f.Let(m.SliceEvery(both, -1, 2))
	f.Set(&gate, m.Unary(torch.Clamp, gate))
	f.Set(&up, m.Unary(torch.Clamp, up))
	glu := f.Let(m.Binary(torch.Mul, gate, m.Unary(torch.Sigmoid, m.Unary(torch.MulScalar, gate))))
	return f.Return(m.Binary(torch.Mul, m.Unary(torch.AddScalar, up), glu))
}

// loopedAlternating is the experts' own forward, one after the other, with biases:
// what the loop names lasts until it names it again.
func (n *Net) loopedAlternating(l *layer, e model.Experts, x, chosen, shares torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("experts", &x, &chosen, &shares)
	gateUp, down := l.experts()
	final := f.Let(m.Like("zeros_like", x))
	f.Let(m.Empty("one_hot", dtype.I64, x.Size(0), int64(e.Active), int64(e.Count)))
	product := func(x, weights, bias torch.Tensor) torch.Tensor {
		return m.Binary(torch.Add, m.Matmul(x, m.Select(weights, 0)), m.Select(bias, 0))
	}
	var both, gated, out, weighted torch.Tensor
	n.eachExpert(f, e, x, func(state, at torch.Tensor) {
		f.Set(&both, product(state, gateUp, l.one(model.RoleExpertGateUpBias)))
		f.Set(&gated, n.gated(e, both))
		f.Set(&out, product(gated, down, l.one(model.RoleExpertDownBias)))
		f.Set(&weighted, m.Binary(torch.Mul, out, m.Unsqueeze(m.IndexRows(m.Reshape(shares, -1), at), -1)))
		m.IndexAdd(final, at, m.To(weighted, final.Dtype()))
	})
	return f.Return(final)
}
