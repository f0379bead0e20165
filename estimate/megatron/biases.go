package megatron

import (
	"floodmark/internal/torch"
	"floodmark/workload"
)

// groupedInputs is what a product of experts reads: rows, matrices, and the biases that
// it adds.
func groupedInputs(x torch.Tensor, list []weight) []torch.Tensor {
	inputs := []torch.Tensor{x}
	for i := range list {
		inputs = append(inputs, list[i].matrix)
	}
	for i := range list {
		inputs = append(inputs, list[i].bias)
	}
	return inputs
}

// groupedGradients are those of the matrices and biases of a product of experts.
func (e *te) groupedGradients(g *torch.Gradients, list []weight) {
	for i := range list {
		e.weightGradient(g, 1+i, list[i].out, list[i].in, groupedStands)
	}
	for i := range list {
		e.vectors(g, 1+len(list)+i, list[i].bias)
	}
}

// addBiases adds the bias of each expert, times the probability of each row, to its
// rows: sums of one expert after another, which are then joined; in the format of the
// probabilities where that is wider, and cast back. Backward has a gradient for the rows
// of each expert, which are joined again (_apply_bias of TEGroupedMLP of
// megatron/core/transformer/moe/experts.py).
func (e *te) addBiases(x, probabilities torch.Tensor, biases []torch.Tensor) torch.Tensor {
	if len(biases) == 0 {
		return x
	}
	rows, width, f := x.Size(0), x.Size(1), e.s.compute
	positions, count, sums := probabilities.Size(0), probabilities.Size(1), probabilities.Dtype()
	each := (rows + int64(len(biases)) - 1) / int64(len(biases))
	parts := e.m.Split(x, 0, rows)
	y := e.m.Apply1(torch.Function{
		Name: "_apply_bias",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Empty(sums, rows, width)
			return []torch.Tensor{c.Empty(sums, rows, width)}
		},
		Backward: func(g *torch.Gradients) {
			through := g.Grad(0)
			if sums != f {
				through = g.Empty(f, rows, width)
			}
			g.Give(0, through)
			g.Empty(sums, each, width) // of one expert, summed for the probabilities
			if g.Needs(2) {
				g.Empty(sums, each, width) // and for its bias
			}
			g.Give(1, g.Empty(sums, positions, count))
			e.vectors(g, 2, biases...)
		},
	}, append([]torch.Tensor{parts[0], probabilities}, biases...)...)
	if sums == f {
		return y
	}
	return e.m.To(y, f)
}

// beforeInner is the elements of a row that an activation of experts keeps beside what
// comes in and what goes out, of whose width inner is.
func (e *te) beforeInner(a gate, inner int64) int64 {
	switch unfused := e.s.unfused(workload.BiasActivationFusion); {
	case !a.gated:
		return inner
	case unfused && a.clamped:
		return 4 * inner // the clamped gate, both factors, and their product
	case unfused:
		return 3 * inner
	case a.clamped && a.quick:
		return 2 * inner
	}
	return 0
}
