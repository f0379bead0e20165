package megatron

import (
	"floodmark/internal/torch"
	"floodmark/model"
)

// latent is multi-head latent attention of one rank
// (megatron/core/transformer/multi_latent_attention.py). Its down-projections are on
// every rank and work on the rank's part of the stream; a norm before an
// up-projection is one module with it.
type latent struct {
	norm              weight // before the down-projections, a module of its own
	query             weight // whole, where the query is not compressed
	queryDown, kvDown weight
	queryUp, kvUp     weight
	rank, rope        int64 // of key and value together; positions beside them
	width             int64 // of key and value of all heads before positions
}

// newLatent makes the parameters of latent attention.
func (r *run) newLatent(a model.LatentAttention, l model.Layer, width int64, normed bool) (*latent, *heads, string) {
	if a.Indexer != nil || a.CompressedEvery > 1 || a.Window > 0 || a.QKVBias {
		return nil, nil, "latent attention that chooses or compresses positions is not modelled for Megatron-LM"
	}
	n := int64(a.QueryHeads)
	h := &heads{query: n, kv: n, keyDim: int64(a.NopeDim + a.RopeDim), valueDim: int64(a.ValueDim), rotary: true}
	t := &latent{rank: int64(a.KVRank), rope: int64(a.RopeDim), width: n * int64(a.NopeDim+a.ValueDim)}
	t.norm = r.normOf(l.Norms[0], width)
	up := func(in, out int64) weight {
		if normed {
			return r.column(in, out, false, l.Norms[0])
		}
		return r.plainColumn(in, out)
	}
	if a.QueryRank > 0 {
		t.queryDown = r.whole(width, int64(a.QueryRank))
		t.queryUp = up(int64(a.QueryRank), h.queryWidth())
	} else {
		t.query = r.plainColumn(width, h.queryWidth())
	}
	t.kvDown = r.whole(width, t.rank+t.rope)
	t.kvUp = up(t.rank, t.width)
	return t, h, ""
}

// forward is query, key and value of a normed stream, which it ends. The
// up-projections may run again in backward.
func (t *latent) forward(e *te, normed torch.Tensor, h *heads) (q, k, v torch.Tensor, again *torch.Outputless) {
	g := e.offload("qkv_linear", normed)
	g.watch(func() {
		q = g.input
		if !t.query.matrix.Defined() {
			q = e.linear(g.input, &t.queryDown)
		}
		parts := e.cut(e.linear(g.input, &t.kvDown), t.rank, t.rope)
		run := func(args []torch.Tensor) []torch.Tensor {
			q := e.up(args[0], t.queryOf())
			k, v := e.positioned(e.up(args[1], &t.kvUp), args[2], h)
			return []torch.Tensor{q, k, v}
		}
		args, made := []torch.Tensor{q, parts[0], parts[1]}, []torch.Tensor(nil)
		if e.s.recomputes("mla_up_proj") {
			made, again = e.m.CheckpointWithoutOutput(run, args...)
		} else {
			made = run(args)
		}
		q, k, v = made[0], made[1], made[2]
	})
	q = g.commit(q)
	e.m.Drop(normed)
	return q, k, v, again
}

// queryOf is the product that makes the query.
func (t *latent) queryOf() *weight {
	if t.query.matrix.Defined() {
		return &t.query
	}
	return &t.queryUp
}

// up is an up-projection, with its norm where it has one.
func (e *te) up(x torch.Tensor, w *weight) torch.Tensor {
	if w.normW.Defined() {
		return e.layerNormLinear(x, w)
	}
	return e.linear(x, w)
}

// cut is the compressed key and value, which the next product takes contiguous, and
// the positions' part, gathered over the ranks that divide positions.
func (e *te) cut(x torch.Tensor, rank, rope int64) []torch.Tensor {
	f, rows := e.s.compute, x.Size(0)
	return e.m.Apply(torch.Function{
		Name: "split",
		Forward: func(c *torch.Call) []torch.Tensor {
			return []torch.Tensor{c.Empty(f, rows, rank), c.Empty(f, e.tokens(rows, e.s.sequence), rope)}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, rows, rank+rope)) },
	}, x)
}

// positioned is key and value of every head: each key gets the part that positions
// turn, and the value is cut out (fused_apply_mla_rope_for_kv of
// megatron/core/fusions/fused_mla_yarn_rope_apply.py; without the fusion the same
// tensors are made by concatenation and a copy).
func (e *te) positioned(kv, positions torch.Tensor, h *heads) (k, v torch.Tensor) {
	f, rows, width, rope := e.s.compute, kv.Size(0), kv.Size(1), positions.Size(1)
	parts := e.m.Apply(torch.Function{
		Name: "ApplyMLARotaryEmbKV",
		Forward: func(c *torch.Call) []torch.Tensor {
			return []torch.Tensor{c.Empty(f, rows, h.keyWidth()), c.Empty(f, rows, h.valueWidth())}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(0, g.Empty(f, rows, width))
			g.Give(1, g.Empty(f, rows, rope))
		},
	}, kv, positions)
	return parts[0], parts[1]
}
