package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// exchange brings rows to the ranks of their experts and back. What is sent, what
// arrives and what goes back have names in the function that calls them all, so that
// they live beside what becomes of them
// (custom_forward of megatron/core/transformer/moe/moe_layer.py,
// MoEAlltoAllTokenDispatcher of megatron/core/transformer/moe/token_dispatcher.py). The
// dispatcher keeps where rows belong until the next micro-batch.
func (x *experts) exchange(e *te, normed, probabilities, routes torch.Tensor) torch.Tensor {
	m, rows := e.m, normed.Size(0)
	permuted := rows * x.active
	arriving := permuted
	switch {
	case e.s.Capacity > 0 && e.s.Padded:
		permuted = e.received(rows, x) / max(1, e.groupOf())
		arriving = permuted
	case e.s.Imbalance > 1:
		arriving = int64(float64(permuted) * e.s.Imbalance)
	}
	sent, places := x.permute(e, normed, permuted)
	arrived := m.Keep(x.exchanged(e, sent, arriving))
	computed := x.compute(e, arrived, probabilities)
	back := m.Keep(x.exchanged(e, computed, permuted))
	m.Drop(computed)
	out := e.unpermute(back, places, rows)
	m.Drop(back, arrived, sent)
	m.Drop(x.held...)
	x.held = []torch.Tensor{probabilities, routes, places}
	return out
}

// gather lets every rank read the positions of all ranks of its experts and keep those
// of its own; what experts made is added up over the ranks
// (MoEAllGatherTokenDispatcher). The positions are gathered into the buffer that stays.
func (x *experts) gather(e *te, normed, probabilities, routes torch.Tensor) torch.Tensor {
	m, f := e.m, e.s.compute
	rows, width := normed.Size(0), normed.Size(1)
	all, own := rows*x.group(e), e.received(rows, x)
	parts := m.Apply(torch.Function{
		Name: "gather_from_sequence_parallel_region",
		Forward: func(c *torch.Call) []torch.Tensor {
			if all > rows {
				e.gather(all * width)
			}
			format, index := x.placesOf(e, all, own)
			places := c.Empty(format, index...)
			c.Save(places, c.Empty(probabilities.Dtype(), all, x.local), c.Empty(dtype.Bool, all, x.local))
			return []torch.Tensor{c.Empty(f, own, width), places}
		},
		Backward: func(g *torch.Gradients) {
			whole := g.Empty(f, all, width)
			if all > rows {
				whole = g.Empty(f, rows, width)
			}
			g.Give(0, whole)
		},
	}, normed)
	places := m.Keep(parts[1])
	made := m.Keep(x.run(e, parts[0], probabilities))
	out := e.unpermute(made, places, all)
	m.Drop(made)
	if all > rows {
		whole := m.Keep(out)
		out = e.moved("reduce_scatter_to_sequence_parallel_region", whole, rows)
		m.Drop(whole)
	}
	m.Drop(probabilities, routes)
	m.Drop(x.held...)
	x.held = []torch.Tensor{places}
	return out
}

// group is the ranks that hold parts of the layer's experts.
func (x *experts) group(e *te) int64 { return x.count / x.local * e.groupOf() }

// placesOf is where each of so many rows belongs: an index of 8 bytes a row, with
// TransformerEngine's kernels one of 4 bytes for each position and twice the experts
// that it may go to and one (make_row_id_map of
// transformer_engine/pytorch/triton/permutation.py, permute of
// megatron/core/transformer/moe/moe_utils.py).
func (x *experts) placesOf(e *te, positions, rows int64) (dtype.Format, []int64) {
	switch {
	case !e.s.PermuteFusion:
		return dtype.I64, []int64{rows}
	case e.s.Dispatcher == workload.AllToAll:
		return dtype.I32, []int64{positions, 2*x.count + 1}
	}
	return dtype.I32, []int64{positions, 2*x.local + 1}
}

// permute is the rows by their experts, with where each came from, which backward and
// the way back read.
func (x *experts) permute(e *te, normed torch.Tensor, rows int64) (sent, places torch.Tensor) {
	f, from, width := e.s.compute, normed.Size(0), normed.Size(1)
	parts := e.m.Apply(torch.Function{
		Name: "_Permute",
		Forward: func(c *torch.Call) []torch.Tensor {
			format, index := x.placesOf(e, from, rows)
			places := c.Empty(format, index...)
			c.Save(places)
			return []torch.Tensor{c.Empty(f, rows, width), places}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, from, width)) },
	}, normed)
	return e.m.Keep(parts[0]), e.m.Keep(parts[1])
}

// compute is the rows that arrived through the rank's experts, as they are sent back,
// for its caller to drop (routed_experts_compute).
func (x *experts) compute(e *te, arrived, probabilities torch.Tensor) torch.Tensor {
	in, own := arrived, arrived.Size(0)
	if e.groupOf() > 1 {
		in = e.moved("gather_from_sequence_parallel_region", in, own*e.groupOf())
	}
	if x.local > 1 {
		in = e.moved("sort_chunks_by_idxs", in, in.Size(0))
	}
	made := e.m.Keep(x.run(e, in, probabilities))
	out := made
	if x.local > 1 {
		out = e.moved("sort_chunks_by_idxs", out, out.Size(0))
	}
	if e.groupOf() > 1 {
		out = e.moved("reduce_scatter_to_sequence_parallel_region", out, own)
	}
	out = e.m.Keep(out)
	e.m.Drop(made)
	return out
}

// exchanged is rows on their way to or from the ranks of their experts, and so many that
// come from others; one rank alone
// sends nothing (all_to_all of megatron/core/tensor_parallel/mappings.py).
func (x *experts) exchanged(e *te, rows torch.Tensor, others int64) torch.Tensor {
	if x.count == x.local {
		return rows
	}
	return e.moved("_AllToAll", rows, others)
}

// moved is rows in another order or on another rank: nothing is kept of them.
func (e *te) moved(name string, x torch.Tensor, rows int64) torch.Tensor {
	f, from, width := e.s.compute, x.Size(0), x.Size(1)
	return e.m.Apply1(torch.Function{
		Name:     name,
		Forward:  func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(f, rows, width)} },
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, from, width)) },
	}, x)
}

// unpermute brings rows back to their positions and adds up those of one position;
// it keeps where each row belongs.
func (e *te) unpermute(x, places torch.Tensor, rows int64) torch.Tensor {
	f, from, width := e.s.compute, x.Size(0), x.Size(1)
	return e.m.Apply1(torch.Function{
		Name: "_Unpermute",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(places)
			return []torch.Tensor{c.Empty(f, rows, width)}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, from, width)) },
	}, x, places)
}
