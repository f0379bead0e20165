package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// embed is LanguageModelEmbedding: rows of the rank's part of the vocabulary, summed
// over ranks, positions added, and dropout
// (megatron/core/models/common/embeddings/language_model_embedding.py).
func (r *run) embed(ids torch.Tensor) torch.Tensor {
	f, width := r.te.s.compute, r.hidden
	all, own := r.te.s.tokens(), r.te.s.resident()
	x := r.te.m.Apply1(torch.Function{
		Name: "VocabParallelEmbedding",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(ids)
			rows := c.Empty(f, all, width)
			if r.te.s.sequence {
				part := c.Empty(f, own, width)
				c.Free(rows)
				return []torch.Tensor{part}
			}
			if r.position.Defined() {
				added := c.Empty(f, all, width)
				positions := c.Empty(f, all, width)
				c.Free(positions)
				c.Free(rows)
				rows = added
			}
			turned := c.Empty(f, all, width) // positions outermost
			c.Free(rows)
			return []torch.Tensor{turned}
		},
		Backward: func(g *torch.Gradients) {
			if r.te.s.sequence {
				g.Empty(f, all, width)
			}
			for i, table := range []torch.Tensor{r.embedding, r.position} {
				if table.Defined() && g.Needs(i) {
					g.Give(i, g.Empty(table.Dtype(), table.Shape()...))
				}
			}
		},
	}, r.embedding, r.position)
	if r.te.s.hiddenDropout {
		x = r.te.m.Dropout(x)
	}
	return x
}

// logits is the output layer: a product of PyTorch's, whose input is gathered into a
// buffer that stays (LinearWithGradAccumulationAndAsyncCommunication of
// megatron/core/tensor_parallel/layers.py). Frozen it keeps no input, and gathers it
// into a tensor that goes (linear_with_frozen_weight).
func (r *run) logits(x torch.Tensor) torch.Tensor {
	e, f := r.te, r.te.s.compute
	rows, vocab, width := x.Size(0), r.head.Size(0), r.hidden
	total := e.tokens(rows, e.s.sequence)
	return e.m.Apply1(torch.Function{
		Name: "LinearWithGradAccumulationAndAsyncCommunication",
		Forward: func(c *torch.Call) []torch.Tensor {
			switch {
			case e.s.frozen():
				if c.Save(r.head); e.s.sequence {
					c.Empty(f, total, width)
				}
			case e.s.sequence:
				c.Save(x, r.head)
				e.gather(total * width)
			default:
				c.Save(x, r.head)
			}
			e.m.Workspace(false)
			return []torch.Tensor{e.m.AsLogits(c.Empty(f, total, vocab))}
		},
		Backward: func(g *torch.Gradients) {
			e.m.Workspace(true)
			product := g.Empty(f, total, width)
			if e.s.sequence {
				product = g.Empty(f, rows, width)
			}
			e.weightGradient(g, 1, vocab, width, plainStands)
			g.Give(0, product)
		},
	}, x, r.head)
}

// loss is cross entropy over the parts of the vocabulary. Unfused and compiled it
// computes in place in a copy of 32 bits, which it keeps; TransformerEngine's own
// writes the gradient in place of the logits, since 2.18 in a tensor of 32 bits beside
// them. The gradient of the compiled one is made in a copy of those 32 bits and cast:
// an element of each position is changed, which torch.compile does in a buffer of its own
// (output of torch._inductor for calculate_gradients of
// megatron/core/fusions/fused_cross_entropy.py, PyTorch 2.15; golden runs on H100 peak
// such a copy above those without it)
// (megatron/core/tensor_parallel/cross_entropy.py,
// transformer_engine/pytorch/triton/cross_entropy.py).
func (r *run) loss(logits, labels torch.Tensor) torch.Tensor {
	rows, vocab := logits.Size(0), logits.Size(1)
	inPlace := r.te.s.CrossEntropy == workload.TEFusedLoss && !r.te.s.WideLoss
	return r.te.m.Apply1(torch.Function{
		Name: "VocabParallelCrossEntropy",
		Forward: func(c *torch.Call) []torch.Tensor {
			if inPlace {
				c.Save(logits)
				c.Empty(dtype.F32, 3*rows)
				return []torch.Tensor{c.Empty(dtype.F32, rows)}
			}
			wide := r.te.m.AsLogits(c.Empty(dtype.F32, rows, vocab))
			c.Empty(dtype.F32, rows) // the maxima
			c.Save(wide, c.Empty(dtype.Bool, rows), c.Empty(dtype.I64, rows))
			return []torch.Tensor{c.Empty(dtype.F32, rows)}
		},
		Backward: func(g *torch.Gradients) {
			if r.te.s.CrossEntropy != workload.NativeFusedLoss {
				g.Give(0, g.Saved(0))
				return
			}
			r.te.m.AsLogits(g.Empty(dtype.F32, rows, vocab))
			g.Give(0, r.te.m.AsLogits(g.Empty(dtype.BF16, rows, vocab)))
		},
	}, logits)
}
