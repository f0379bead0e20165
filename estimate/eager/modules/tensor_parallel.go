package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// Tensor parallelism of PyTorch as torchtitan lays it over its Llama: columns of
// query, key, value, gate, up and head, rows of the output projection, of down and of
// the embedding; between them each rank has a part of the positions, over which norms
// run (parallelize_module with ColwiseParallel, RowwiseParallel, SequenceParallel and
// PrepareModuleInput in parallelize_llama.py, the same from June 2024 to June 2025).
// The net is of the rank's own model: its heads, its widths, its part of the vocabulary.
// What DTensor makes beside was recorded (estimate/training/testdata/tensor_parallel).

// maker is a running function, forward or backward, that makes tensors.
type maker interface {
	Empty(f dtype.Format, shape ...int64) torch.Tensor
	Free(t torch.Tensor)
}

// tensorRanks is the ranks that divide each layer; 1 where nobody does.
func (n *Net) tensorRanks() int64 { return max(1, n.o.TensorParallel) }

// gather joins the ranks' parts along a dimension: they come one behind another, and
// are copied to where they belong unless that is where they lie. Worked number: of 2
// sequences of 64 positions and width 384 in 32 bits, 98,304 bytes a rank, two ranks
// gather 196,608 and copy as much.
func (n *Net) gather(b maker, f dtype.Format, dim int, whole []int64) torch.Tensor {
	came := b.Empty(f, whole...)
	if n.m.ViewsGathered() && !slices.ContainsFunc(whole[:dim], func(size int64) bool { return size != 1 }) {
		return came
	}
	out := b.Empty(f, whole...)
	b.Free(came)
	return out
}

// allPositions is a tensor of which each rank has a part of the positions, as all have it.
// Its gradient is summed, of which each rank gets its part.
func (n *Net) allPositions(x torch.Tensor) torch.Tensor {
	return n.exchanged(x, "all_gather", n.tensorRanks(), 1)
}

// ownPositions is the sum of what ranks have, of which each gets a part of the positions.
func (n *Net) ownPositions(x torch.Tensor) torch.Tensor {
	return n.exchanged(x, "reduce_scatter", 1, n.tensorRanks())
}

// exchanged passes between parts of the positions and all of them, and back in
// backward. What is scattered is turned first, so that each rank's part lies together.
func (n *Net) exchanged(x torch.Tensor, name string, grows, shrinks int64) torch.Tensor {
	if n.tensorRanks() == 1 {
		return x
	}
	format, before := x.Dtype(), slices.Clone(x.Shape())
	after := slices.Clone(before)
	after[1] = after[1] * grows / shrinks
	return n.m.Apply1(torch.Function{Name: name,
		Forward: func(c *torch.Call) []torch.Tensor {
			if grows > 1 {
				return []torch.Tensor{n.gather(c, format, 1, after)}
			}
			turned := c.Empty(format, before...)
			part := c.Choose("reduce_scatter", format, after...)
			c.Free(turned)
			return []torch.Tensor{part}
		},
		Backward: func(g *torch.Gradients) {
			if shrinks > 1 {
				g.Give(0, n.gather(g, format, 1, before))
				return
			}
			turned := g.Empty(format, after...)
			g.Give(0, g.Empty(format, before...))
			g.Free(turned)
		},
	}, x)
}

// embeddedAcross is the embedding of tokens of which a rank has some rows. Masks over the
// tokens beside it are not counted. Its gradient is of all rows, on every rank, until
// somebody asks for the rank's own (embedding_dense_backward_strategy of
// torch/distributed/tensor/_ops/_embedding_ops.py). Worked number: of 6,000 rows of 384
// in 32 bits over two ranks, a table of 4,608,000 bytes has a gradient of 9,216,000.
func (n *Net) embeddedAcross(ids torch.Tensor) torch.Tensor {
	table := n.outside.one(model.RoleTokenEmbedding)
	if n.tensorRanks() == 1 {
		return n.embedded(ids)
	}
	format, width := table.Dtype(), table.Size(1)
	return n.ownPositions(n.m.Apply1(torch.Function{Name: "Embedding",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(ids)
			return []torch.Tensor{c.Empty(format, ids.Size(0), ids.Size(1), width)}
		},
		Backward: func(g *torch.Gradients) {
			whole := g.Empty(format, table.Size(0)*n.tensorRanks(), width)
			g.Give(0, g.Alias(whole, table.Shape()...))
		},
	}, table, ids))
}

// allLogits is the logits of the whole vocabulary on every rank; of their gradient each
// keeps its columns.
func (n *Net) allLogits(x torch.Tensor) torch.Tensor {
	if n.tensorRanks() == 1 || n.o.Loss != GatheredLoss {
		return x
	}
	format, part := x.Dtype(), slices.Clone(x.Shape())
	whole := slices.Clone(part)
	last := len(whole) - 1
	whole[last] *= n.tensorRanks()
	return n.m.Apply1(torch.Function{Name: "all_gather",
		Forward: func(c *torch.Call) []torch.Tensor {
			return []torch.Tensor{n.m.AsLogits(n.gather(c, format, last, whole))}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(format, part...)) },
	}, x)
}

// lossAcross is cross entropy over parts of the vocabulary, with a sum of the
// exponentials over ranks: the logarithm of the softmax is kept for backward, where the
// gradient stands beside it, its exponential and the sum of both
// (torch/distributed/tensor/parallel/loss.py). Masks and numbers a row beside these are
// not counted: none of them is there at the height of either. Worked number: of 128
// rows of 3,000 logits in 32 bits, 1,536,000 bytes, backward holds four.
func (n *Net) lossAcross(logits, labels torch.Tensor) torch.Tensor {
	shape, rows := slices.Clone(logits.Shape()), logits.Elements()/logits.Size(-1)
	return n.m.Apply1(torch.Function{Name: "NllLoss",
		Forward: func(c *torch.Call) []torch.Tensor {
			greatest := c.Empty(dtype.F32, rows)
			shifted := n.m.AsLogits(c.Empty(dtype.F32, shape...))
			powers := c.Empty(dtype.F32, shape...)
			sums := c.Empty(dtype.F32, rows)
			c.Free(powers)
			out := n.m.AsLogits(c.Empty(dtype.F32, shape...))
			for _, t := range []torch.Tensor{shifted, greatest, sums} {
				c.Free(t)
			}
			c.Save(out, labels)
			return []torch.Tensor{c.Empty(dtype.F32)}
		},
		Backward: func(g *torch.Gradients) {
			targets := g.Empty(dtype.F32, shape...)
			powers := g.Empty(dtype.F32, shape...)
			sum := g.Empty(dtype.F32, shape...)
			g.Free(powers)
			g.Give(0, g.Empty(dtype.F32, shape...))
			g.Free(sum)
			g.Free(targets)
			g.Release(0)
		},
	}, logits, labels)
}
