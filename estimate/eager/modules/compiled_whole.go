package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
)

// torch.compile of a whole model ends a graph at each layer that fully_shard put hooks
// on: dynamo does not read hooks of torch.distributed, and a function with such a break
// in a loop is left to eager mode, but for what it calls. So layers are compiled one by
// one, and the last norm by itself; the head, the cast of the logits and the loss are
// not (https://github.com/pytorch/pytorch/blob/v2.3.0/torch/_dynamo/symbolic_convert.py,
// break_graph_if_unsupported and has_backedge; recorded with fully_shard of that release
// and torchtitan's model of 2024-03-28, testdata/compiled/whole.txt).

// compiledNorm is the last norm as a compiled region, which keeps a number of 32 bits a
// position beside its input and its weight. Worked number: over 16,384 positions 65,536
// bytes, where the norm of operators keeps two tensors of 32 bits and one of 16 of the
// stream's width.
func (n *Net) compiledNorm(w, x torch.Tensor) torch.Tensor {
	format, shape := x.Dtype(), slices.Clone(x.Shape())
	return n.m.Apply1(torch.Function{Name: "CompiledFunction",
		Forward: func(c *torch.Call) []torch.Tensor {
			rows, out := c.Empty(dtype.F32, x.Elements()/x.Size(-1)), c.Empty(format, shape...)
			c.Save(x, w, rows)
			return []torch.Tensor{out}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(1, g.Empty(w.Dtype(), w.Shape()...))
			g.Give(0, g.Empty(format, shape...))
			for i := range 3 {
				g.Release(i)
			}
		},
	}, x, w)
}

// titanLastNorm is the norm before the head.
func (n *Net) titanLastNorm(w, x torch.Tensor) torch.Tensor {
	if n.o.Compiles && !n.o.Release.compilesBlocks() {
		return n.compiledNorm(w, x)
	}
	return n.titanNorm(w, x)
}
