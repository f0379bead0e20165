package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
)

// compiledLoss is cross_entropy of widened logits as a compiled region: inductor fuses
// what lies between the logits and the loss, so that no logits in 32 bits are made.
// Forward keeps the logits and their labels as they came, the greatest and the
// logarithm of each row, and how many labels count; backward makes a sum a row and the
// gradient of the logits in their own format, and lets go of what was kept when that
// is made (code that inductor wrote for a CPU, release 2.15, and the partition of
// releases 2.6 and 2.15; testdata/compiled). Worked number: of 8,192 rows of 128,256
// logits in bf16 it keeps 65,540 bytes beside the logits, and its backward holds
// 2,101,346,304 for their gradient and 32,768 for the sums.
func (n *Net) compiledLoss(logits, labels torch.Tensor) torch.Tensor {
	shape, format := slices.Clone(logits.Shape()), logits.Dtype()
	rows := logits.Elements() / logits.Size(-1)
	return n.m.Apply1(torch.Function{Name: "CompiledFunction",
		Forward: func(c *torch.Call) []torch.Tensor {
			greatest, logarithm := c.Empty(dtype.F32, rows), c.Empty(dtype.F32, rows)
			sum, count, loss := c.Empty(dtype.F32), c.Empty(dtype.F32), c.Empty(dtype.F32)
			c.Free(sum)
			c.Save(logits, labels, greatest, logarithm, count)
			return []torch.Tensor{loss}
		},
		Backward: func(g *torch.Gradients) {
			sums := g.Empty(dtype.F32, rows)
			g.Give(0, g.Empty(format, shape...))
			for i := range 5 {
				g.Release(i)
			}
			g.Free(sums)
		},
	}, logits, labels)
}
