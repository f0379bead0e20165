package megatron

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// heads is one rank's part of attention.
type heads struct {
	query, kv        int64
	keyDim, valueDim int64
	rotary           bool
	sinks            torch.Tensor // a learned logit of each head; empty where there are none
}

func (h *heads) queryWidth() int64 { return h.query * h.keyDim }
func (h *heads) keyWidth() int64   { return h.kv * h.keyDim }
func (h *heads) valueWidth() int64 { return h.kv * h.valueDim }
func (h *heads) outWidth() int64   { return h.query * h.valueDim }

// mixed is the columns of one product for query, key and value.
func (h *heads) mixed() int64 { return h.queryWidth() + h.keyWidth() + h.valueWidth() }

// together reports that query, key and value stay views of the product that made
// them: nothing turns them, and each query head has its own key
// (get_qkv_layout of transformer_engine/pytorch/attention/dot_product_attention/utils.py
// copies what does not lie as a kernel takes it).
func (h *heads) together() bool { return !h.rotary && h.query == h.kv }

// attend is the attention of query, key and value that one product made, by the
// kernels that were chosen.
func (e *te) attend(mixed torch.Tensor, h *heads, kernels workload.MegatronAttention, turned int64) torch.Tensor {
	if kernels == workload.FusedKernels && h.together() && e.s.context == 1 {
		return e.core(kernels, h, mixed)
	}
	q, k, v := e.split(mixed, h)
	return e.core(kernels, h, e.turn(q, h.query, turned), e.turn(k, h.kv, turned), v)
}

// core is core attention, which may be run again in backward instead of keeping
// what it makes.
func (e *te) core(kernels workload.MegatronAttention, h *heads, inputs ...torch.Tensor) torch.Tensor {
	run := func(args []torch.Tensor) torch.Tensor {
		if kernels == workload.UnfusedAttention {
			return e.unfused(args[0], args[1], args[2], h)
		}
		return e.kernel(kernels, h, args...)
	}
	return e.again("core_attn", run, inputs...)
}

// split is query, key and value in memory of their own. In backward their
// gradients are brought together again.
func (e *te) split(mixed torch.Tensor, h *heads) (q, k, v torch.Tensor) {
	f, rows := e.s.compute, mixed.Size(0)
	parts := e.m.Apply(torch.Function{
		Name: "SplitAlongDim",
		Forward: func(c *torch.Call) []torch.Tensor {
			return []torch.Tensor{c.Empty(f, rows, h.queryWidth()), c.Empty(f, rows, h.keyWidth()), c.Empty(f, rows, h.valueWidth())}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, rows, h.mixed())) },
	}, mixed)
	return parts[0], parts[1], parts[2]
}

// kernel is attention that makes no scores: it keeps what it reads, its result and
// a number of 32 bits for each position and head, with the logits of sinks as cuDNN
// takes them. A window changes nothing of that. flash-attn lays batches outermost,
// so that its result is copied for the stream, whose positions are; so does the
// exchange of heads for positions (context parallelism a2a).
func (e *te) kernel(kernels workload.MegatronAttention, h *heads, inputs ...torch.Tensor) torch.Tensor {
	f, rows := e.s.compute, inputs[0].Size(0)
	copied := kernels == workload.FlashKernels && e.s.batch > 1 || e.s.context > 1 && e.s.ContextExchange == "a2a"
	name := "FusedAttnFunc"
	if kernels == workload.FlashKernels {
		name = "FlashAttnFunc"
	}
	exchanged := e.s.context > 1 && e.s.ContextExchange != "a2a"
	var widths []int64
	for _, in := range inputs {
		widths = append(widths, in.Size(1))
	}
	return e.m.Apply1(torch.Function{
		Name: name,
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(inputs...)
			if exchanged { // the part of the next rank arrives while this one is read
				next := c.Empty(f, rows, 2*(h.keyWidth()+h.valueWidth()))
				defer c.Free(next)
			}
			out := c.Empty(f, rows, h.outWidth())
			c.Save(out, c.Empty(dtype.F32, rows, h.query))
			if h.sinks.Defined() {
				c.Save(c.Empty(dtype.F32, h.query))
			}
			if copied {
				return []torch.Tensor{c.Empty(f, rows, h.outWidth())}
			}
			return []torch.Tensor{out}
		},
		Backward: func(g *torch.Gradients) {
			if copied {
				g.Empty(f, rows, h.outWidth())
			}
			if exchanged {
				next := g.Empty(f, rows, 4*(h.keyWidth()+h.valueWidth()))
				defer g.Free(next)
			}
			for i, width := range widths {
				g.Give(i, g.Empty(f, rows, width))
			}
			e.vectors(g, len(widths), h.sinks)
			if kernels == workload.FlashKernels {
				// The gradient of the query is added up in 32 bits, and each query head has a
				// key's of its own (mha_bwd of csrc/flash_attn/flash_api.cpp).
				g.Empty(dtype.F32, rows, h.query)
				g.Empty(dtype.F32, rows, h.queryWidth())
				if h.query != h.kv {
					g.Empty(f, rows, h.query*h.keyDim)
					g.Empty(f, rows, h.query*h.valueDim)
				}
			}
		},
	}, append(slices.Clone(inputs), h.sinks)...)
}

// unfused is attention in products, a masked softmax and dropout
// (UnfusedDotProductAttention of
// transformer_engine/pytorch/attention/dot_product_attention/backends.py).
func (e *te) unfused(q, k, v torch.Tensor, h *heads) torch.Tensor {
	m, b := e.m, e.s.batch
	s := q.Size(0) / b
	heads4 := func(t torch.Tensor, n, d int64) torch.Tensor { // [s, b·n, d] → [b·n, s, d]
		return m.Transpose(m.Reshape(t, s, b*n, d), 0, 1)
	}
	if h.query != h.kv {
		k, v = e.repeat(k, h, h.keyDim), e.repeat(v, h, h.valueDim)
	}
	room := m.Empty("empty", e.s.compute, b*h.query, s, s)
	scores := m.Baddbmm(room, heads4(q, h.query, h.keyDim), m.Transpose(heads4(k, h.query, h.keyDim), 1, 2), true)
	var probabilities torch.Tensor
	if h.sinks.Defined() {
		probabilities = e.sunkSoftmax(scores, h)
	} else {
		probabilities = e.maskedSoftmax(scores)
	}
	if e.s.attentionDropout {
		probabilities = m.Dropout(probabilities)
	}
	out := m.Matmul(probabilities, heads4(v, h.query, h.valueDim))
	out = m.Contiguous(m.Permute(m.Reshape(out, b, h.query, s, h.valueDim), 2, 0, 1, 3))
	return m.Reshape(out, s*b, h.outWidth())
}

// repeat gives each query head a key or value of its own (repeat_interleave).
func (e *te) repeat(t torch.Tensor, h *heads, dim int64) torch.Tensor {
	f, rows := e.s.compute, t.Size(0)
	return e.m.Apply1(torch.Function{
		Name:     "repeat_interleave",
		Forward:  func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(f, rows, h.query*dim)} },
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, rows, h.kv*dim)) },
	}, t)
}

// sunkSoftmax is the softmax over scores beside which stands a column of sinks, which is
// cut off again: no kernel takes so many columns, so that it is PyTorch's, in 32 bits,
// over a copy that is masked in place (UnfusedDotProductAttention of
// transformer_engine/pytorch/attention/dot_product_attention/backends.py and
// forward_torch_softmax of softmax.py).
func (e *te) sunkSoftmax(scores torch.Tensor, h *heads) torch.Tensor {
	m, b, s := e.m, e.s.batch, scores.Size(1)
	mask := m.Keep(m.Empty("get_full_mask", dtype.Bool, s, s+1))
	column := m.To(m.To(m.Reshape(h.sinks, 1, h.query, 1, 1), dtype.F32), e.s.compute)
	column = m.Reshape(m.Expand(column, b, h.query, s, 1), b*h.query, s, 1)
	wide := m.To(m.Cat(2, scores, column), dtype.F32)
	probabilities := m.To(m.Softmax(e.masked(wide, false), dtype.Unknown), e.s.compute)
	m.Drop(mask)
	return m.Slice(probabilities, 2, 0, s)
}

// maskedSoftmax is the fused softmax over scores below the diagonal: it keeps its
// result, and its backward writes into the gradient that it is given
// (transformer_engine/pytorch/softmax.py).
func (e *te) maskedSoftmax(scores torch.Tensor) torch.Tensor {
	shape := []int64{scores.Size(0), scores.Size(1), scores.Size(2)}
	return e.m.Apply1(torch.Function{
		Name: "ScaledUpperTriangMaskedSoftmax",
		Forward: func(c *torch.Call) []torch.Tensor {
			out := c.Empty(e.s.compute, shape...)
			c.Save(out)
			return []torch.Tensor{out}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Grad(0)) },
	}, scores)
}
