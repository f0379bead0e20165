package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// te is TransformerEngine's modules, or mcore's own, on a machine, for one rank.
type te struct {
	m *torch.Machine
	s settings

	offloaded *offloads // nil where activations stay

	workspace  int64                     // of its products; made with the first
	either     bool                      // products in 8 bits read a tensor along both sides
	made       bool                      // there is one
	spread     bool                      // there are those of products of experts
	replays    bool                      // graphs have been captured
	exchanging bool                      // there are those of products that run beside an exchange
	shared     torch.Tensor              // the buffer into which inputs are gathered (GlobalMemoryBuffer "mpu")
	angles     torch.Tensor              // of positions, for attention of several heads
	dummies    map[[2]int64]torch.Tensor // gradients that stand for those that were added to their buffer
}

// gemm is a product of TransformerEngine's: its workspace is made once
// (get_cublas_workspace of transformer_engine/pytorch/cpp_extensions/gemm.py).
func (e *te) gemm() {
	if !e.made {
		e.made = true
		e.m.Scratch(dtype.U8, e.workspace)
	}
}

// gather makes the buffer into which inputs are gathered, a larger one in place of one
// that is too small (GlobalMemoryBuffer of megatron/core/utils.py).
func (e *te) gather(elements int64) {
	if e.shared.Defined() && e.shared.Elements() >= elements {
		return
	}
	e.m.Drop(e.shared)
	e.shared = e.m.Scratch(e.s.compute, elements)
}

// weight is a matrix [out, in] with the norm and bias that its module has.
type weight struct {
	matrix, bias     torch.Tensor
	normW, normB     torch.Tensor
	out, in          int64
	column, parallel bool   // how tensor parallelism divides it
	eight            *eight // its products are in 8 bits; nil where they are not
	lora             *lora
}

// gathers reports that the module's input is divided along the positions and
// gathered for its product.
func (e *te) gathers(w *weight) bool { return e.s.sequence && w.parallel && w.column }

// scatters reports that the module's result is summed over ranks and divided.
func (e *te) scatters(w *weight) bool { return e.s.sequence && w.parallel && !w.column }

// layerNormLinear is TELayerNormColumnParallelLinear, a norm and a product, with what
// an adapter that reads the norm's result adds.
func (e *te) layerNormLinear(x torch.Tensor, w *weight) torch.Tensor {
	if w.eight != nil {
		return e.normLinearIn8(x, w)
	}
	parts := e.normedProduct(x, w)
	if w.lora == nil {
		return parts[0]
	}
	return w.lora.beside(e, parts[0], parts[1])
}

// normedProduct is a norm and a product, and for an adapter the norm's result, gathered
// where the adapter does not gather it. It keeps its input, the norm's result before it
// is gathered, and the norm's statistics; of a frozen matrix the norm's result goes,
// unless an adapter was given it
// (_LayerNormLinear of transformer_engine/pytorch/module/layernorm_linear.py).
func (e *te) normedProduct(x torch.Tensor, w *weight) []torch.Tensor {
	f, rows := e.s.compute, x.Size(0)
	statistics := 1
	if w.normB.Defined() {
		statistics = 2
	}
	kept := !e.s.frozen() || w.lora != nil
	returned := w.lora != nil && (w.lora.local || !e.gathers(w))
	return e.m.Apply(torch.Function{
		Name: "_LayerNormLinear",
		Forward: func(c *torch.Call) []torch.Tensor {
			normed := c.Empty(f, rows, w.in)
			c.Save(x, w.matrix)
			if kept {
				c.Save(normed)
			}
			for range statistics {
				c.Save(c.Empty(dtype.F32, rows))
			}
			total, read := e.tokens(rows, e.gathers(w)), normed
			if e.gathers(w) && !e.s.Userbuffers {
				read = c.Empty(f, total, w.in)
			}
			e.overlapped()
			e.gemm()
			y := c.Empty(f, total, w.out)
			switch {
			case w.lora == nil:
				return []torch.Tensor{y}
			case returned:
				return []torch.Tensor{y, normed}
			}
			return []torch.Tensor{y, read}
		},
		Backward: func(g *torch.Gradients) {
			total := g.Grad(0).Size(0)
			if e.gathers(w) && g.Needs(1) && !e.s.Userbuffers {
				gathered := g.Empty(f, total, w.in)
				defer g.Free(gathered)
			}
			e.sumBack(g, w, rows, total)
			e.weightGradient(g, 1, w.out, w.in, linearStands)
			if !e.s.frozen() {
				g.Release(2)
			}
			if returned {
				g.Empty(f, rows, w.in) // the sum with the adapter's gradient
			}
			g.Give(0, g.Empty(f, rows, w.in))
			e.vectors(g, 2, w.bias, w.normW, w.normB)
		},
	}, x, w.matrix, w.bias, w.normW, w.normB)
}

// linear is TELinear and its parallel forms without a norm, with what an adapter beside
// it adds.
func (e *te) linear(x torch.Tensor, w *weight) torch.Tensor {
	if e.s.local() {
		return e.localLinear(x, w)
	}
	if w.eight != nil {
		return e.linearIn8(x, w)
	}
	if w.lora == nil {
		return e.multiply(x, w)
	}
	x = e.m.Keep(x)
	y, read := e.multiply(x, w), x
	if e.gathers(w) && !w.lora.local {
		read = e.moved("gather_from_sequence_parallel_region", x, x.Size(0)*e.s.tensor)
	}
	y = w.lora.beside(e, y, read)
	e.m.Drop(x)
	return y
}

// multiply is a product without a norm. It keeps its input, where its matrix is trained
// (_Linear of transformer_engine/pytorch/module/linear.py).
func (e *te) multiply(x torch.Tensor, w *weight) torch.Tensor {
	f, rows := e.s.compute, x.Size(0)
	total := e.tokens(rows, e.gathers(w))
	out := total
	if e.scatters(w) {
		out = rows / e.s.tensor
	}
	return e.m.Apply1(torch.Function{
		Name: "_Linear",
		Forward: func(c *torch.Call) []torch.Tensor {
			if c.Save(w.matrix); !e.s.frozen() {
				c.Save(x)
			}
			if e.gathers(w) {
				gathered := c.Empty(f, total, w.in)
				defer c.Free(gathered)
			}
			e.overlapped()
			e.gemm()
			y := c.Empty(f, total, w.out)
			if !e.scatters(w) {
				return []torch.Tensor{y}
			}
			return []torch.Tensor{c.Empty(f, out, w.out)}
		},
		Backward: func(g *torch.Gradients) {
			if e.scatters(w) && !e.s.Userbuffers {
				g.Empty(f, total, w.out)
			}
			if e.gathers(w) && g.Needs(1) {
				gathered := g.Empty(f, total, w.in)
				defer g.Free(gathered)
			}
			product := g.Empty(f, total, w.in)
			if e.gathers(w) {
				product = g.Empty(f, rows, w.in)
			}
			e.weightGradient(g, 1, w.out, w.in, linearStands)
			g.Give(0, product)
			e.vectors(g, 2, w.bias)
		},
	}, x, w.matrix, w.bias)
}

// tokens is the rows of a product whose input may be gathered first.
func (e *te) tokens(rows int64, gathered bool) int64 {
	if gathered {
		return rows * e.s.tensor
	}
	return rows
}

// weightGradient is the gradient of a matrix: added to its buffer by the product
// itself, with a tensor of the same shape that all matrices of that shape share and
// that stays since a release (get_dummy_wgrad of
// transformer_engine/pytorch/module/base.py, which mcore's own layers use too); else a
// tensor of its own that goes, and that is added where nothing else was.
func (e *te) weightGradient(g *torch.Gradients, input int, out, in int64, since release) {
	if !g.Needs(input) {
		return
	}
	if !e.s.fusion || e.s.release.before(since) {
		g.Give(input, g.Empty(e.s.compute, out, in))
		return
	}
	key := [2]int64{out, in}
	if _, has := e.dummies[key]; !has {
		e.dummies[key] = e.m.Scratch(e.s.compute, out, in)
	}
	g.Give(input, g.Alias(e.dummies[key], out, in))
}

// vectors are the gradients of biases and norms.
func (e *te) vectors(g *torch.Gradients, first int, list ...torch.Tensor) {
	for i, v := range list {
		if v.Defined() && g.Needs(first+i) {
			g.Give(first+i, g.Empty(v.Dtype(), v.Shape()...))
		}
	}
}

// norm is TENorm: it keeps its input and its statistics.
func (e *te) norm(x torch.Tensor, w *weight) torch.Tensor {
	rows, width := x.Size(0), x.Size(1)
	return e.m.Apply1(torch.Function{
		Name: "LayerNorm",
		Forward: func(c *torch.Call) []torch.Tensor {
			out := c.Empty(e.s.compute, rows, width)
			c.Save(x, c.Empty(dtype.F32, rows))
			if w.normB.Defined() {
				c.Save(c.Empty(dtype.F32, rows))
			}
			return []torch.Tensor{out}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(0, g.Empty(e.s.compute, rows, width))
			e.vectors(g, 1, w.normW, w.normB)
		},
	}, x, w.normW, w.normB)
}

// biasDropoutAdd adds a module's result to the stream, with its bias and dropout.
// It keeps the mask of a byte an element, and nothing without dropout
// (megatron/core/fusions/fused_bias_dropout.py; compiled, the sum with the bias and
// what dropout leaves are never written).
func (e *te) biasDropoutAdd(y, bias, residual torch.Tensor) torch.Tensor {
	if e.s.unfused(workload.BiasDropoutFusion) {
		return e.plainDropoutAdd(y, bias, residual)
	}
	rows, width, drops := y.Size(0), y.Size(1), e.s.hiddenDropout
	return e.m.Apply1(torch.Function{
		Name: "bias_dropout_add",
		Forward: func(c *torch.Call) []torch.Tensor {
			if drops {
				c.Save(c.Empty(dtype.Bool, rows, width))
			}
			return []torch.Tensor{c.Empty(e.s.compute, rows, width)}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(2, g.Grad(0))
			through := g.Grad(0)
			if drops {
				through = g.Empty(e.s.compute, rows, width)
			}
			g.Give(0, through)
			e.vectors(g, 1, bias)
		},
	}, y, bias, residual)
}

// activation is bias_gelu_impl and bias_swiglu_impl: they keep what comes in
// (megatron/core/fusions/fused_bias_gelu.py and fused_bias_swiglu.py).
func (e *te) activation(x, bias torch.Tensor, a gate) torch.Tensor {
	if e.s.unfused(workload.BiasActivationFusion) {
		return e.plainActivation(x, bias, a)
	}
	rows, width := x.Size(0), x.Size(1)
	out := width
	if a.gated {
		out /= 2
	}
	return e.m.Apply1(torch.Function{
		Name: "bias_activation",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(x)
			return []torch.Tensor{c.Empty(e.s.compute, rows, out)}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(0, g.Empty(e.s.compute, rows, width))
			e.vectors(g, 1, bias)
		},
	}, x, bias)
}
