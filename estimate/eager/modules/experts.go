package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// mixture runs a mixture of experts: the router, the routed experts, and those
// that every position uses.
func (n *Net) mixture(l *layer, e model.Experts, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("mlp", &x)
	shape := append([]int64{}, x.Shape()...)
	if e.RouterBias {
		return f.Return(n.groupedMixture(f, l, e, x))
	}
	flat := f.Let(m.Reshape(x, -1, x.Size(-1)))
	var shared torch.Tensor
	if e.Shared > 0 {
		shared = f.Let(n.sharedExperts(l, e, flat))
	}
	route := n.route
	if e.Alternating {
		route = n.routeAmongChosen
	}
	logits, scores, chosen := route(l, e, flat)
	f.Let(logits)
	scores, chosen = f.Let(scores), f.Let(chosen)
	out := f.Let(n.routed(l, e, flat, chosen, scores))
	if e.Shared > 0 {
		if e.SharedGate {
			gate := m.Unary(torch.Sigmoid, n.linear(l.linear("shared_expert_gate", model.RoleSharedExpertMix, model.RoleOther, 0), flat))
			f.Set(&shared, m.Binary(torch.Mul, gate, shared))
		}
		out = m.InPlace(torch.Add, out, shared)
	}
	return f.Return(m.Reshape(out, shape...))
}

// groupedMixture is DeepSeek-V3's: experts are chosen in groups, by scores with
// a correction that only the choice sees.
func (n *Net) groupedMixture(f *torch.Frame, l *layer, e model.Experts, x torch.Tensor) torch.Tensor {
	m := n.m
	shape := append([]int64{}, x.Shape()...)
	residuals := f.Let(x)
	logits, scores, chosen := n.routeInGroups(l, e, x)
	f.Let(logits)
	scores, chosen = f.Let(scores), f.Let(chosen)
	f.Set(&x, m.Reshape(x, -1, x.Size(-1)))
	f.Set(&x, m.Reshape(n.routed(l, e, x, chosen, scores), shape...))
	if e.Shared > 0 {
		f.Set(&x, m.Binary(torch.Add, x, n.sharedExperts(l, e, residuals)))
	}
	return x
}

// route is the top-k router: softmax over all experts, the largest few, shares
// that add up to one.
func (n *Net) route(l *layer, e model.Experts, x torch.Tensor) (logits, scores, chosen torch.Tensor) {
	m := n.m
	f := m.Module("gate", &x)
	logits = f.Let(m.Linear(x, l.one(model.RoleRouter), torch.Tensor{}))
	shares := f.Let(m.Softmax(logits, dtype.F32))
	value, index := m.TopK(shares, int64(e.Active))
	top, chosen := f.Let(value), f.Let(index)
	f.Set(&top, m.Binary(torch.Div, top, m.Sum(top, true, -1)))
	f.Set(&top, m.To(top, logits.Dtype()))
	logits, scores = f.Let(logits), f.Let(top)
	return f.Return3(logits, scores, chosen)
}

// routeInGroups is DeepSeek-V3's router: sigmoid scores, the best groups by the
// two best of each, the best experts of those.
func (n *Net) routeInGroups(l *layer, e model.Experts, x torch.Tensor) (logits, scores, chosen torch.Tensor) {
	m := n.m
	f := m.Module("gate", &x)
	f.Set(&x, m.Reshape(x, -1, x.Size(-1)))
	logits = f.Let(m.Linear(m.To(x, dtype.F32), m.To(l.one(model.RoleRouter), dtype.F32), torch.Tensor{}))
	all := f.Let(m.Unary(torch.Sigmoid, logits))
	corrected := f.Let(m.Binary(torch.Add, all, l.one(model.RoleRouterBias)))
	f.Set(&corrected, m.MaskedFill(corrected, m.Empty("expand", dtype.Bool, x.Size(0), int64(e.Count))))
	value, index := m.TopK(corrected, int64(e.Active))
	m.Drop(value)
	chosen = f.Let(index)
	weights := f.Let(m.Gather(all, 1, chosen))
	sum := f.Let(m.Unary(torch.AddScalar, m.Sum(weights, true, -1)))
	f.Set(&weights, m.Binary(torch.Div, weights, sum))
	f.Set(&weights, m.Unary(torch.MulScalar, weights))
	return f.Return3(logits, weights, chosen)
}

// sharedExperts is the network that every position uses.
func (n *Net) sharedExperts(l *layer, e model.Experts, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("shared_experts", &x)
	gate := n.activation(e.Activation, n.linear(l.linear("gate_proj", model.RoleSharedExpertGate, model.RoleOther, 0), x))
	up := n.linear(l.linear("up_proj", model.RoleSharedExpertUp, model.RoleOther, 0), x)
	return f.Return(n.linear(l.linear("down_proj", model.RoleSharedExpertDown, model.RoleOther, 0), m.Binary(torch.Mul, gate, up)))
}

// experts is the parameters of routed experts: gate and up in one, and down.
func (l *layer) experts() (gateUp, down torch.Tensor) {
	gateUp = l.one(model.RoleExpertGateUp)
	if !gateUp.Defined() {
		gateUp = l.one(model.RoleExpertGate)
	}
	return gateUp, l.one(model.RoleExpertDown)
}

// routed runs the routed experts: [positions, width], the chosen experts of each
// position and their shares.
func (n *Net) routed(l *layer, e model.Experts, x, chosen, shares torch.Tensor) torch.Tensor {
	if !e.Gated || e.Bias && (!e.Alternating || n.o.Experts == BatchedExperts) {
		n.m.Unknown("routed experts without a gate or with biases have no program here")
		return x
	}
	switch n.o.Experts {
	case LoopedExperts:
		if e.Alternating {
			return n.loopedAlternating(l, e, x, chosen, shares)
		}
		return n.looped(l, e, x, chosen, shares)
	case BatchedExperts:
		return n.batched(l, e, x, chosen, shares)
	}
	return n.grouped(l, e, x, chosen, shares)
}

// grouped is grouped_mm_experts_forward: rows sorted by expert, two grouped
// products, rows back in order, and their sum
// (https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/moe.py).
func (n *Net) grouped(l *layer, e model.Experts, x, chosen, shares torch.Tensor) torch.Tensor {
	m := n.m
	outer := m.Module("experts", &x, &chosen, &shares)
	f := m.Function(&x, &chosen, &shares)
	positions, width, active := x.Size(0), x.Size(1), int64(e.Active)
	gateUp, down := l.experts()
	if !e.Alternating { // which are stored as products want them
		gateUp, down = m.Transpose(gateUp, -2, -1), m.Transpose(down, -2, -1)
	}
	sample := f.Let(m.Reshape(shares, -1))
	ids := f.Let(m.Reshape(chosen, -1))
	sorted, order := m.Sort(ids)
	sorted, order = f.Let(sorted), f.Let(order)
	rows := f.Let(m.IndexRows(x, m.Empty("floor_divide", dtype.I64, positions*active)))
	weights := f.Let(m.IndexRows(sample, order))
	ends := f.Let(n.groupEnds(f, sorted, int64(e.Count)))
	var biases torch.Tensor
	product := func(x, weights, bias torch.Tensor) torch.Tensor {
		if bias.Defined() {
			f.Set(&biases, m.IndexRows(bias, sorted))
		}
		x = m.GroupedMM(x, weights, ends)
		if bias.Defined() {
			x = m.InPlace(torch.Add, x, biases)
		}
		return x
	}
	out := f.Let(product(rows, gateUp, l.one(model.RoleExpertGateUpBias)))
	f.Set(&out, n.gated(e, out))
	f.Set(&out, product(out, down, l.one(model.RoleExpertDownBias)))
	weighted := f.Let(m.Binary(torch.Mul, out, m.Unsqueeze(weights, -1)))
	back := f.Let(m.Like("empty_like", order))
	m.Drop(m.Arange(positions * active))
	f.Set(&weighted, m.IndexRows(weighted, back))
	final := f.Let(m.Sum(m.Reshape(weighted, positions, active, width), false, 1))
	return outer.Return(f.Return(m.To(final, x.Dtype())))
}

// groupEnds is where the rows of each expert end.
func (n *Net) groupEnds(f *torch.Frame, sorted torch.Tensor, count int64) torch.Tensor {
	m := n.m
	f.Let(m.To(sorted, dtype.F32))
	f.Let(m.Empty("histc", dtype.F32, count))
	return m.Empty("cumsum", dtype.I32, count)
}

// gated is the gate's activation times the up half.
func (n *Net) gated(e model.Experts, both torch.Tensor) torch.Tensor {
	if e.Alternating {
		return n.alternated(both)
	}
	m := n.m
	f := m.Function(&both)
	width := both.Size(-1) / 2
	halves := m.Split(both, -1, width, width)
	gate, up := f.Let(halves[0]), f.Let(halves[1])
	return f.Return(m.Binary(torch.Mul, n.activation(e.Activation, gate), up))
}

// looped is the experts' own forward: one expert after the other over the rows
// that chose it. How many that are depends on the values; each is given the same
// share here, and those together are all rows in any case.
func (n *Net) looped(l *layer, e model.Experts, x, chosen, shares torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("experts", &x, &chosen, &shares)
	gateUp, down := l.experts()
	final := f.Let(m.Like("zeros_like", x))
	f.Let(m.Empty("one_hot", dtype.I64, x.Size(0), int64(e.Active), int64(e.Count)+1))
	var hidden torch.Tensor
	n.eachExpert(f, e, x, func(state, at torch.Tensor) {
		f.Set(&hidden, n.gated(e, m.Linear(state, m.Select(gateUp, 0), torch.Tensor{})))
		f.Set(&hidden, m.Linear(hidden, m.Select(down, 0), torch.Tensor{}))
		f.Set(&hidden, m.Binary(torch.Mul, hidden, m.Unsqueeze(m.IndexRows(m.Reshape(shares, -1), at), -1)))
		m.IndexAdd(final, at, m.To(hidden, final.Dtype()))
	})
	return f.Return(final)
}

// eachExpert runs something for every expert that rows chose: with the rows, and
// where they stand.
func (n *Net) eachExpert(f *torch.Frame, e model.Experts, x torch.Tensor, run func(state, at torch.Tensor)) {
	m, left := n.m, x.Size(0)*int64(e.Active)
	var at, pos, state torch.Tensor
	for i := range int64(e.Count) {
		rows := left / (int64(e.Count) - i)
		if left -= rows; rows == 0 {
			continue
		}
		f.Set(&pos, m.Empty("where", dtype.I64, rows))
		f.Set(&at, m.Empty("where", dtype.I64, rows))
		f.Set(&state, m.IndexRows(x, at))
		run(state, at)
	}
}

// batched is batched_mm_experts_forward: a copy of the matrices for every row.
func (n *Net) batched(l *layer, e model.Experts, x, chosen, shares torch.Tensor) torch.Tensor {
	m := n.m
	outer := m.Module("experts", &x, &chosen, &shares)
	f := m.Function(&x, &chosen, &shares)
	positions, width, active := x.Size(0), x.Size(1), int64(e.Active)
	gateUp, down := l.experts()
	rows := f.Let(m.IndexRows(x, m.Empty("repeat_interleave", dtype.I64, positions*active)))
	sample := f.Let(m.Reshape(shares, -1))
	ids := f.Let(m.Reshape(chosen, -1))
	each := f.Let(m.IndexRows(gateUp, ids))
	out := f.Let(m.Squeeze(m.Matmul(each, m.Unsqueeze(rows, -1)), -1))
	f.Set(&out, n.gated(e, out))
	f.Set(&each, m.IndexRows(down, ids))
	f.Set(&out, m.Squeeze(m.Matmul(each, m.Unsqueeze(out, -1)), -1))
	weighted := f.Let(m.Binary(torch.Mul, out, m.Unsqueeze(sample, -1)))
	final := f.Let(m.Sum(m.Reshape(weighted, positions, active, width), false, 1))
	return outer.Return(f.Return(m.To(final, x.Dtype())))
}
