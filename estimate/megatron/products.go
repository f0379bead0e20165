package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// ender ends what it made before its run does.
type ender interface{ Free(t torch.Tensor) }

func free(of ender, list []torch.Tensor) {
	for _, t := range list {
		of.Free(t)
	}
}

// kept is what a product in 8 bits saved for backward beside its input: from one place
// on, so many tensors.
type kept struct{ from, tensors int }

func (k kept) release(g *torch.Gradients) {
	for i := range k.tensors {
		g.Release(k.from + i)
	}
}

// normLinearIn8 is TELayerNormColumnParallelLinear in 8 bits: the norm's result is cast
// and gathered as bytes, and kept as those that backward reads. With one scale a tensor
// what was not gathered yet is kept by rows, since its transpose cannot be gathered
// (_LayerNormLinear of transformer_engine/pytorch/module/layernorm_linear.py).
func (e *te) normLinearIn8(x torch.Tensor, w *weight) torch.Tensor {
	f, rows, q, gathers := e.s.compute, x.Size(0), w.eight, e.gathers(w)
	total := e.tokens(rows, gathers)
	normed := kept{from: 2}
	return e.m.Apply1(torch.Function{
		Name: "_LayerNormLinear",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(x, c.Empty(dtype.F32, rows))
			if w.normB.Defined() {
				c.Save(c.Empty(dtype.F32, rows))
				normed.from++
			}
			t := q.cast(c, ofRows, rows, w.in, true, !gathers || !q.whole())
			if q.recipe != workload.DelayedScaling { // there the norm writes bytes itself
				c.Free(c.Empty(f, rows, w.in))
			}
			if gathers && !e.s.Userbuffers {
				gathered := q.cast(c, ofRows, total, w.in, true, false)
				defer free(c, gathered.both())
			}
			weights := e.product(c, w)
			e.overlapped()
			e.gemm()
			y := c.Empty(f, total, w.out)
			keep := t.toAdd()
			if e.s.release.before(linearStands) {
				keep = t.both()
			}
			normed.tensors = len(keep)
			c.Save(keep...)
			c.Save(weights...)
			return []torch.Tensor{y}
		},
		Backward: func(g *torch.Gradients) {
			slope := q.cast(g, ofRows, total, w.out, true, true)
			in := e.gatherIn8(g, q, gathers && !e.s.Userbuffers, total, w.in)
			e.sumBack(g, w, rows, total)
			in = append(in, e.transposed(g, q, gathers, total, w.in)...)
			e.weightGradient(g, 1, w.out, w.in, linearStands)
			normed.release(g)
			if gathers {
				free(g, append(in, slope.both()...))
			}
			g.Give(0, g.Empty(f, rows, w.in))
			e.vectors(g, 2, w.bias, w.normW, w.normB)
		},
	}, x, w.matrix, w.bias, w.normW, w.normB)
}

// gatherIn8 is the input of a product, gathered again for the gradient of its weight.
func (e *te) gatherIn8(g *torch.Gradients, q *eight, gathers bool, total, in int64) []torch.Tensor {
	if !gathers {
		return nil
	}
	return q.cast(g, ofRows, total, in, q.whole(), !q.whole()).both()
}

// transposed is what was gathered by rows, turned for a product that reads columns.
func (e *te) transposed(g *torch.Gradients, q *eight, gathers bool, total, in int64) []torch.Tensor {
	if !gathers || !q.whole() || q.either {
		return nil
	}
	return []torch.Tensor{g.Empty(dtype.U8, in, total)}
}

// sumBack is the gradient of a product's input, summed over ranks and divided where it
// was gathered: all of it lies in a buffer of Userbuffers where there are any.
func (e *te) sumBack(g *torch.Gradients, w *weight, rows, total int64) torch.Tensor {
	gathered := e.gathers(w)
	if !gathered || !e.s.Userbuffers || w.eight != nil && !w.normW.Defined() {
		if product := g.Empty(e.s.compute, total, w.in); !gathered {
			return product
		}
	}
	return g.Empty(e.s.compute, rows, w.in)
}

// linearIn8 is TELinear and its parallel forms in 8 bits. It keeps its input as the
// bytes that backward reads, or as it came where others keep that too
// (_linear_forward_impl and _linear_backward of
// transformer_engine/pytorch/module/linear.py).
func (e *te) linearIn8(x torch.Tensor, w *weight) torch.Tensor {
	f, rows, q, gathers := e.s.compute, x.Size(0), w.eight, e.gathers(w)
	total := e.tokens(rows, gathers)
	out := total
	if e.scatters(w) {
		out = rows / e.s.tensor
	}
	return e.m.Apply1(torch.Function{
		Name: "_Linear",
		Forward: func(c *torch.Call) []torch.Tensor {
			t := q.cast(c, ofRows, rows, w.in, true, !q.original && !(gathers && q.whole()))
			if gathers {
				gathered := q.cast(c, ofRows, total, w.in, true, false)
				defer free(c, gathered.both())
			}
			weights := e.product(c, w)
			e.overlapped()
			e.gemm()
			y := c.Empty(f, total, w.out)
			if q.original {
				c.Save(x)
			} else {
				c.Save(t.toAdd()...)
			}
			c.Save(weights...)
			if e.scatters(w) {
				y = c.Empty(f, out, w.out)
			}
			return []torch.Tensor{y}
		},
		Backward: func(g *torch.Gradients) {
			slope := e.slopeIn8(g, q, e.scatters(w), out, total, w.out)
			var in []torch.Tensor
			if q.original {
				in = q.cast(g, ofRows, rows, w.in, q.whole(), !gathers || !q.whole()).both()
			}
			in = append(in, e.gatherIn8(g, q, gathers, total, w.in)...)
			product := e.sumBack(g, w, rows, total)
			in = append(in, e.transposed(g, q, gathers, total, w.in)...)
			e.weightGradient(g, 1, w.out, w.in, linearStands)
			free(g, in)
			if e.s.sequence {
				free(g, slope.both())
			}
			g.Give(0, product)
			e.vectors(g, 2, w.bias)
		},
	}, x, w.matrix, w.bias)
}

// slopeIn8 is the gradient of a product's result in 8 bits, gathered where that was
// divided: as bytes by rows with one scale a tensor, else in both directions, those by
// columns through a second tensor where blocks are of 128
// (gather_along_first_dim of transformer_engine/pytorch/distributed.py).
func (e *te) slopeIn8(g *torch.Gradients, q *eight, gathers bool, rows, total, width int64) cast {
	if !gathers {
		return q.cast(g, ofRows, total, width, true, true)
	}
	own := q.cast(g, ofRows, rows, width, true, !q.whole())
	if e.s.Userbuffers { // gathered there, and turned from there
		free(g, own.both())
		return cast{columns: e.transposed(g, q, true, total, width)}
	}
	all := q.cast(g, ofRows, total, width, true, true)
	if q.recipe == workload.BlockScaling {
		g.Free(g.Empty(dtype.U8, width, total))
	}
	free(g, own.both())
	return all
}

// run is the products of a rank's experts and the activation between them. In 8 bits
// each expert's rows are filled up to what such products take, unless the router chose
// so many: a copy on the way in and one on the way out
// (TEGroupedMLP of megatron/core/transformer/moe/experts.py, get_fp8_align_size of
// megatron/core/fp8_utils.py).
func (x *experts) run(e *te, in, probabilities torch.Tensor) torch.Tensor {
	rows, fills := in.Size(0), x.up[0].eight != nil && !e.s.RouterFills
	if fills {
		align := int64(16)
		if e.s.Quantisation == workload.MXScaling {
			align = 32
		}
		in = e.m.Keep(e.moved("_Fp8Padding", in, rows+(align-1)*x.local))
	}
	out := x.worked(e, in, probabilities)
	if fills {
		e.m.Drop(in)
		out = e.moved("_Fp8Unpadding", out, rows)
	}
	return out
}

// groupedIn8 is TEGroupedLinear in 8 bits: the rows of each expert are cast by
// themselves, and kept as the bytes that backward reads
// (transformer_engine/pytorch/module/grouped_linear.py).
func (e *te) groupedIn8(x torch.Tensor, list []weight) torch.Tensor {
	f, rows, q := e.s.compute, x.Size(0), list[0].eight
	in, out := list[0].in, list[0].out
	return e.m.Apply1(torch.Function{
		Name: "_GroupedLinear",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(q.cast(c, ofRows, rows, in, true, true).toAdd()...)
			for i := range list {
				c.Save(e.product(c, &list[i])...)
			}
			e.groupedGEMM()
			return []torch.Tensor{c.Empty(f, rows, out)}
		},
		Backward: func(g *torch.Gradients) {
			q.cast(g, ofRows, rows, out, true, true)
			g.Give(0, g.Empty(f, rows, in))
			e.groupedGradients(g, list)
		},
	}, groupedInputs(x, list)...)
}
