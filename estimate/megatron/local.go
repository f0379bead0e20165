package megatron

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// localRefuses is what mcore's own layers do not run; empty where nothing
// (DotProductAttention, and WrappedTorchNorm of megatron/core/transformer/torch_norm.py).
func (s *settings) localRefuses(m *model.Model) string {
	switch {
	case !s.local():
	case s.context > 1:
		return "mcore's own layers (--transformer-impl local) do not run context parallelism"
	case s.sequence && slices.ContainsFunc(m.Stacks, rootNorms):
		return "mcore's own layers (--transformer-impl local) have no RMSNorm for sequence parallelism"
	}
	return ""
}

// rootNorms reports a stack whose layers begin with a root mean square.
func rootNorms(s model.Stack) bool {
	return len(s.Layers) > 0 && len(s.Layers[0].Norms) > 0 && s.Layers[0].Norms[0].Kind == model.RMSNorm
}

// forwardLocal is one pass through a layer of mcore's own modules (--transformer-impl
// local): the norms are modules beside the products, and attention writes its scores
// (get_gpt_layer_local_submodules of megatron/core/models/gpt/gpt_layer_specs.py).
// What a norm made has a name until its half of the layer is done (_forward_attention
// and _forward_mlp of megatron/core/transformer/transformer_layer.py).
func (l *layer) forwardLocal(x torch.Tensor) torch.Tensor {
	e, m := l.te, l.te.m
	normed := m.Keep(e.localNorm(x, &l.qkv))
	attended := l.attendLocal(e.linear(normed, &l.qkv))
	middle := m.Keep(e.biasDropoutAdd(e.linear(attended, l.proj.withoutBias()), l.proj.bias, x))
	m.Drop(normed)
	var out torch.Tensor
	if l.experts != nil {
		normed = m.Keep(e.localNorm(middle, &l.experts.norm))
		mixture := func(args []torch.Tensor) torch.Tensor { return l.experts.mixture(e, args[0]) }
		out = e.biasDropoutAdd(e.again("moe", mixture, normed), torch.Tensor{}, middle)
	} else {
		normed = m.Keep(e.localNorm(middle, &l.up))
		network := func(args []torch.Tensor) torch.Tensor {
			wide := e.linear(args[0], l.up.withoutBias())
			return e.linear(e.activation(wide, l.up.bias, l.gate), l.down.withoutBias())
		}
		out = e.biasDropoutAdd(e.again("mlp", network, normed), l.down.bias, middle)
	}
	m.Drop(normed, middle)
	return out
}

// localNorm is a norm of mcore's own: Apex' layer norm, which keeps what
// TransformerEngine's does, and PyTorch's RMSNorm (LocalSpecProvider.layer_norm of
// megatron/core/models/backends.py).
func (e *te) localNorm(x torch.Tensor, w *weight) torch.Tensor {
	if w.normB.Defined() {
		return e.norm(x, w)
	}
	return e.m.RMSNorm(x, w.normW)
}

// lastNorm is the norm behind the layers.
func (e *te) lastNorm(x torch.Tensor, w *weight) torch.Tensor {
	if e.s.local() {
		return e.localNorm(x, w)
	}
	return e.norm(x, w)
}

// localLinear is ColumnParallelLinear and RowParallelLinear: what is gathered lies in
// the buffer that stays, a bias is added to the product, and what a row-parallel
// product makes is reduced and divided by a function of its own
// (LinearWithGradAccumulationAndAsyncCommunication and RowParallelLinear of
// megatron/core/tensor_parallel/layers.py, reduce_scatter_to_sequence_parallel_region
// of megatron/core/tensor_parallel/mappings.py).
func (e *te) localLinear(x torch.Tensor, w *weight) torch.Tensor {
	f, rows := e.s.compute, x.Size(0)
	total := e.tokens(rows, e.gathers(w))
	y := e.m.Apply1(torch.Function{
		Name: "LinearWithGradAccumulationAndAsyncCommunication",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(x, w.matrix)
			if e.gathers(w) {
				e.gather(total * w.in)
			}
			e.m.Workspace(false)
			y := c.Empty(f, total, w.out)
			if w.bias.Defined() {
				y = c.Empty(f, total, w.out)
			}
			return []torch.Tensor{y}
		},
		Backward: func(g *torch.Gradients) {
			e.m.Workspace(true)
			if e.gathers(w) {
				e.gather(total * w.in)
			}
			product := g.Empty(f, total, w.in)
			if e.gathers(w) {
				product = g.Empty(f, rows, w.in)
			}
			e.weightGradient(g, 1, w.out, w.in, plainStands)
			g.Give(0, product)
			e.vectors(g, 2, w.bias)
		},
	}, x, w.matrix, w.bias)
	if e.scatters(w) {
		return e.moved("_ReduceScatterToSequenceParallelRegion", y, rows/e.s.tensor)
	}
	return y
}

// attendLocal is the attention of one product for query, key and value, which stay
// views of it where nothing norms or turns them
// (get_query_key_value_tensors and forward of megatron/core/transformer/attention.py).
func (l *layer) attendLocal(mixed torch.Tensor) torch.Tensor {
	e, m, h := l.te, l.te.m, l.heads
	s, b, each := mixed.Size(0)/l.te.s.batch, l.te.s.batch, h.query/h.kv
	parts := m.Split(m.Reshape(mixed, s, b, h.kv, each*h.keyDim+h.keyDim+h.valueDim), 3, each*h.keyDim, h.keyDim, h.valueDim)
	q, k, v := m.Reshape(parts[0], s, b, h.query, h.keyDim), parts[1], parts[2]
	if l.queryNorm.normW.Defined() {
		q, k = e.localNormHeads(q, &l.queryNorm), e.localNormHeads(k, &l.keyNorm)
	}
	if l.turned > 0 {
		q, k = e.turnedHeads(q), e.turnedHeads(k)
	}
	q, k, v = m.Keep(q), m.Keep(k), m.Keep(v)
	run := func(args []torch.Tensor) torch.Tensor { return e.scored(args[0], args[1], args[2]) }
	out := e.again("core_attn", run, q, k, v)
	m.Drop(q, k, v)
	return out
}

// localNormHeads is a norm of each head by itself, which reads a copy that has no
// gaps.
func (e *te) localNormHeads(x torch.Tensor, w *weight) torch.Tensor {
	s, b, n, width := x.Size(0), x.Size(1), x.Size(2), x.Size(3)
	return e.m.Reshape(e.localNorm(e.m.Reshape(x, s*b*n, width), w), s, b, n, width)
}

// turnedHeads is heads turned by their positions, by TransformerEngine's kernel
// (fused_apply_rotary_pos_emb of megatron/core/models/common/embeddings/rope_utils.py).
func (e *te) turnedHeads(x torch.Tensor) torch.Tensor {
	f, shape := e.s.compute, slices.Clone(x.Shape())
	return e.m.Apply1(torch.Function{
		Name:     "FusedRoPEFunc",
		Forward:  func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(f, shape...)} },
		Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(f, shape...)) },
	}, x)
}

// scored is DotProductAttention: scores in a tensor of their own beside the buffer
// that stays, into which they would be added; a softmax, dropout and a product. The
// scores have a name until all is done
// (megatron/core/transformer/dot_product_attention.py).
func (e *te) scored(q, k, v torch.Tensor) torch.Tensor {
	m := e.m
	s, b, n := q.Size(0), q.Size(1), q.Size(2)
	each := n / k.Size(2)
	k, v = e.repeatHeads(k, each), e.repeatHeads(v, each)
	heads3 := func(t torch.Tensor) torch.Tensor { // [s, b, n, d] → [b·n, s, d]
		return m.Transpose(m.Reshape(t, s, b*n, t.Size(3)), 0, 1)
	}
	e.gather(b * n * s * s)
	scores := m.Keep(m.Baddbmm(e.shared, heads3(q), m.Transpose(heads3(k), 1, 2), true))
	probabilities := e.localSoftmax(scores)
	if e.s.attentionDropout {
		probabilities = m.Dropout(probabilities)
	}
	probabilities = m.Keep(probabilities)
	width := v.Size(3)
	out := m.Matmul(probabilities, heads3(v))
	out = m.Contiguous(m.Permute(m.Reshape(out, b, n, s, width), 2, 0, 1, 3))
	m.Drop(probabilities, scores)
	return m.Reshape(out, s*b, n*width)
}

// repeatHeads gives each query head a key or value of its own (repeat_interleave).
func (e *te) repeatHeads(x torch.Tensor, times int64) torch.Tensor {
	if times == 1 {
		return x
	}
	s, b, n, width := x.Size(0), x.Size(1), x.Size(2), x.Size(3)
	wide := e.m.Expand(e.m.Unsqueeze(x, 3), s, b, n, times, width)
	return e.m.Reshape(e.m.Clone(wide, true), s, b, n*times, width)
}

// widestRow and rowsOfBlock are what Apex' kernel of a masked softmax takes: rows of
// 17 to 4096 scores in 16 bits, a multiple of four, and as many rows of heads as a
// block works on (is_kernel_available of megatron/core/fusions/fused_softmax.py,
// get_batch_per_block of Apex' scaled_masked_softmax.h: four warps, each of two rows up
// to 128 scores).
const widestRow = 4096

func rowsOfBlock(scores int64) int64 {
	if scores <= 128 {
		return 8
	}
	return 4
}

// localSoftmax is FusedScaleMaskSoftmax: Apex' kernel, or else operators one after
// another, in 32 bits where they were asked for, which mask the scores in place.
func (e *te) localSoftmax(scores torch.Tensor) torch.Tensor {
	rows, s := scores.Size(0), scores.Size(2)
	kernel := !e.s.unfused(workload.MaskedSoftmaxFusion) && e.s.compute.Bits() == 16 && s > 16 && s <= widestRow && s%4 == 0 && rows%rowsOfBlock(s) == 0
	if kernel {
		return e.maskedSoftmax(scores)
	}
	wide := e.s.WideSoftmax && e.s.compute != dtype.F32
	if wide {
		scores = e.m.To(scores, dtype.F32)
	}
	probabilities := e.m.Softmax(e.masked(scores, !wide), dtype.Unknown)
	if wide {
		probabilities = e.m.To(probabilities, e.s.compute)
	}
	return probabilities
}

// masked is masked_fill_: the scores themselves. Where they are a view of the product
// that made them, as all but a copy are, what comes back is laid into a tensor of
// zeros, and masked in a copy of a copy (AsStridedBackward0 and CopySlices of
// torch/csrc/autograd/functions/tensor.cpp).
func (e *te) masked(scores torch.Tensor, view bool) torch.Tensor {
	f, shape := scores.Dtype(), slices.Clone(scores.Shape())
	same := func(name string, x torch.Tensor, copies int) torch.Tensor {
		return e.m.Apply1(torch.Function{
			Name:    name,
			Forward: func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Alias(x, shape...)} },
			Backward: func(g *torch.Gradients) {
				for range copies {
					g.Empty(f, shape...)
				}
				g.Give(0, g.Empty(f, shape...))
			},
		}, x)
	}
	if !view {
		return same("masked_fill_", scores, 0)
	}
	return same("as_strided", same("CopySlices", scores, 2), 0)
}

// sequential is the experts of a rank one after another, each on its part of the
// rows, and their results joined
// (SequentialMLP of megatron/core/transformer/moe/experts.py).
func (x *experts) sequential(e *te, rows, probabilities torch.Tensor) torch.Tensor {
	m := e.m
	if x.local == 1 {
		return x.one(e, 0, rows, probabilities)
	}
	var outs []torch.Tensor
	for i, part := range m.Split(rows, 0, parts(rows.Size(0), x.local)...) {
		outs = append(outs, m.Keep(x.one(e, i, part, probabilities)))
	}
	joined := m.Cat(0, outs...)
	m.Drop(outs...)
	return joined
}

// one is one expert on its rows.
func (x *experts) one(e *te, i int, rows, probabilities torch.Tensor) torch.Tensor {
	return e.localLinear(e.weighted(e.localLinear(rows, &x.up[i]), probabilities, x.gate), &x.down[i])
}

// parts cuts rows into parts that differ by one at most.
func parts(rows, count int64) []int64 {
	list := make([]int64, count)
	for i := range list {
		list[i] = rows*int64(i+1)/count - rows*int64(i)/count
	}
	return list
}

// localAttention makes what a layer of mcore's own modules has before its attention, in
// the order of its modules: the norm first, and the product for query, key and value
// last.
func (r *run) localAttention(y *layer, width int64, qkvBias, outBias bool, n model.Norm) {
	norm := r.normOf(n, width)
	y.proj = r.row(y.heads.outWidth(), width, outBias)
	y.qkv = r.plainColumn(width, y.heads.mixed())
	if qkvBias {
		y.qkv.bias = r.states.add(false, y.heads.mixed())
	}
	y.qkv.normW, y.qkv.normB = norm.normW, norm.normB
}
