package megatron

import (
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// headNorm is the norm of heads: its weights are those of one head.
func headNorm(k model.NormKind) model.Norm { return model.Norm{Kind: k} }

// layer is a TransformerLayer of one rank.
type layer struct {
	te                 *te
	heads              *heads
	kernels            workload.MegatronAttention
	qkv                weight  // with the norm before it
	latent             *latent // in place of qkv
	queryNorm, keyNorm weight  // of each head; empty where there are none
	turned             int64   // elements of a head that positions turn; 0 for none
	proj               weight
	up                 weight // with the norm before it
	down               weight
	gate               gate
	experts            *experts // in place of up and down
}

// newLayer makes the parameters of a layer, or says why it has no program.
func (r *run) newLayer(l, whole model.Layer, width int64) (*layer, string) {
	if len(l.Mixers) != 1 || l.Residual != model.PreNorm || len(l.Norms) < 2 {
		return nil, "layers of another order than norm, attention, norm, network are not modelled for Megatron-LM"
	}
	y := &layer{te: r.te}
	if why := y.attention(r, l, width); why != "" {
		return nil, why
	}
	if p := y.proj.eight; p != nil {
		// Attention keeps its result too (SelfAttention of megatron/core/transformer/attention.py).
		p.original = p.recipe != workload.DelayedScaling
	}
	switch f := l.FeedForward.(type) {
	case model.Dense:
		y.gate = gate{gated: f.Gated}
		inner := int64(f.Width)
		if f.Gated {
			inner *= 2
		}
		y.up = r.column(width, inner, f.Bias, l.Norms[1])
		y.down = r.row(int64(f.Width), width, f.Bias)
		r.adapt(upTarget, &y.up, false)
		r.adapt(downTarget, &y.down, false)
		return y, ""
	case model.Experts:
		var why string
		y.experts, why = r.newExperts(f, whole.FeedForward.(model.Experts), l.Norms[1], width)
		return y, why
	}
	return nil, "layers without a network are not modelled for Megatron-LM"
}

// attention makes the parameters of attention, or says why it has no program.
func (y *layer) attention(r *run, l model.Layer, width int64) (why string) {
	window := false
	switch a := l.Mixers[0].(type) {
	case model.Attention:
		if len(r.te.s.OffloadModules) > 0 {
			return "offloading of activations is modelled with latent attention alone for Megatron-LM"
		}
		if a.Chunk > 0 || a.Cross || a.OutputGate {
			return "attention with chunks or gates is not modelled for Megatron-LM"
		}
		if (a.Window > 0 || a.Sinks) && r.te.s.local() {
			return "windows and sinks of mcore's own layers are not modelled (--transformer-impl local)"
		}
		y.heads = &heads{query: int64(a.QueryHeads), kv: int64(a.KVHeads), keyDim: int64(a.KeyDim), valueDim: int64(a.ValueDim), rotary: a.RotaryDim > 0}
		if window = a.Window > 0; a.Sinks {
			y.heads.sinks = r.states.add(false, y.heads.query)
		}
		y.turned = int64(a.RotaryDim)
		if r.te.s.local() {
			r.localAttention(y, width, a.QKVBias, a.OutputBias, l.Norms[0])
		} else {
			y.proj = r.row(y.heads.outWidth(), width, a.OutputBias)
			y.qkv = r.column(width, y.heads.mixed(), a.QKVBias, l.Norms[0])
		}
		r.adapt(qkvTarget, &y.qkv, false)
		if a.QKNorm {
			y.queryNorm, y.keyNorm = r.normOf(headNorm(l.Norms[0].Kind), y.heads.keyDim), r.normOf(headNorm(l.Norms[0].Kind), y.heads.keyDim)
			y.heads.rotary = true // its query and key are new tensors in any case
		}
	case model.LatentAttention:
		if r.te.s.local() {
			return "latent attention of mcore's own layers is not modelled (--transformer-impl local)"
		}
		if y.latent, y.heads, why = r.newLatent(a, l, width, r.latentNorms); why != "" {
			return why
		}
		y.proj = r.row(y.heads.outWidth(), width, r.projectionBias)
	default:
		return "only multi-head and latent attention are modelled for Megatron-LM"
	}
	r.adapt(projTarget, &y.proj, false)
	var runs bool
	if y.kernels, runs = r.te.s.kernels(r.arch, window, y.heads.sinks.Defined()); !runs {
		return "TransformerEngine has no kernels for windows or sinks with this attention, determinism, dropout and context parallelism"
	}
	return ""
}

// forward is one pass: x stays with its holder.
func (l *layer) forward(x torch.Tensor) torch.Tensor {
	e := l.te
	if e.s.local() {
		return l.forwardLocal(x)
	}
	attention, network := l.graphed()
	middle := e.m.Keep(e.replay(attention, x, l.attentionPass))
	out := e.replay(network, middle, l.networkPass)
	e.m.Drop(middle)
	return out
}

// attentionPass is attention with its norm and its residual.
func (l *layer) attentionPass(x torch.Tensor) torch.Tensor {
	if l.latent != nil {
		return l.attendLatent(x)
	}
	return l.te.biasDropoutAdd(l.project(l.attend(l.te.layerNormLinear(x, &l.qkv))), l.proj.bias, x)
}

// networkPass is the network, or the mixture, with its norm and its residual.
func (l *layer) networkPass(middle torch.Tensor) torch.Tensor {
	e := l.te
	if l.experts == nil {
		network := func(args []torch.Tensor) torch.Tensor { return e.network(args[0], &l.up, &l.down, l.gate) }
		return e.biasDropoutAdd(e.again("mlp", network, middle), l.down.bias, middle)
	}
	norm := e.offload("mlp_norm", middle)
	var again *torch.Outputless
	mixture := func(args []torch.Tensor) (made torch.Tensor) {
		made, again = l.experts.forward(e, norm.of(args[0]))
		return made
	}
	made := e.again("moe", mixture, norm.input)
	again.Discard(made)
	return norm.commit(e.biasDropoutAdd(made, torch.Tensor{}, norm.input))
}

// project is the last product of attention.
func (l *layer) project(attended torch.Tensor) torch.Tensor {
	g := l.te.offload("attn_proj", attended)
	var out torch.Tensor
	g.watch(func() { out = l.te.linear(g.input, l.proj.withoutBias()) })
	return g.commit(out)
}

// attendLatent is latent attention with its residual. What is computed again comes
// back when the gradient of what follows is there
// (MultiLatentAttention.forward of megatron/core/transformer/multi_latent_attention.py,
// _forward_attention of megatron/core/transformer/transformer_layer.py).
func (l *layer) attendLatent(x torch.Tensor) torch.Tensor {
	e := l.te
	norm := e.offload("attn_norm", x)
	normed, again := e.normed(norm, &l.latent.norm)
	q, k, v, up := l.latent.forward(e, normed, l.heads)
	core := e.offload("core_attn", q)
	core.release(k, v)
	var attended torch.Tensor
	core.watch(func() { attended = e.core(l.kernels, l.heads, core.input, k, v) })
	attended = core.commit(attended)
	up.Discard(attended)
	out := l.project(attended)
	again.Discard(out)
	return norm.commit(e.biasDropoutAdd(out, l.proj.bias, norm.input))
}

// normed is a norm that is a module of its own, whose result may be given back and
// computed again.
func (e *te) normed(g *group, w *weight) (out torch.Tensor, again *torch.Outputless) {
	g.watch(func() {
		out, again = e.outputless("layernorm", func(args []torch.Tensor) torch.Tensor { return e.norm(args[0], w) }, g.input)
	})
	return e.m.Keep(out), again
}

// outputless runs a module of one result, which is given back where selective
// recomputation names it.
func (e *te) outputless(module string, run func([]torch.Tensor) torch.Tensor, args ...torch.Tensor) (torch.Tensor, *torch.Outputless) {
	if !e.s.recomputes(module) {
		return run(args), nil
	}
	outs, again := e.m.CheckpointWithoutOutput(func(args []torch.Tensor) []torch.Tensor { return []torch.Tensor{run(args)} }, args...)
	return outs[0], again
}

// attend is attention, its queries and keys normed where they are.
func (l *layer) attend(mixed torch.Tensor) torch.Tensor {
	if !l.queryNorm.normW.Defined() {
		return l.te.attend(mixed, l.heads, l.kernels, l.turned)
	}
	q, k, v := l.te.split(mixed, l.heads)
	q, k = l.te.normHeads(q, l.heads.query, &l.queryNorm), l.te.normHeads(k, l.heads.kv, &l.keyNorm)
	return l.te.core(l.kernels, l.heads, l.te.turn(q, l.heads.query, l.turned), l.te.turn(k, l.heads.kv, l.turned), v)
}

// normHeads is a norm of each head by itself.
func (e *te) normHeads(x torch.Tensor, heads int64, w *weight) torch.Tensor {
	rows, width := x.Size(0), x.Size(1)
	return e.m.Reshape(e.norm(e.m.Reshape(x, rows*heads, width/heads), w), rows, width)
}

// again runs a module, once more in backward where selective recomputation names it.
func (e *te) again(module string, run func([]torch.Tensor) torch.Tensor, args ...torch.Tensor) torch.Tensor {
	if e.s.recomputes(module) {
		return e.m.Checkpoint(true, run, args...)
	}
	return run(args)
}

// network is MLP: the bias of its first product goes into the activation, that of
// its second into what follows.
func (e *te) network(x torch.Tensor, up, down *weight, g gate) torch.Tensor {
	wide := e.layerNormLinear(x, up.withoutBias())
	return e.linear(e.activation(wide, up.bias, g), down.withoutBias())
}

// withoutBias is a product that leaves its bias to what follows.
func (w *weight) withoutBias() *weight {
	bare := *w
	bare.bias = torch.Tensor{}
	return &bare
}
