package megatron

import (
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// layer is a TransformerLayer of one rank.
type layer struct {
	te      *te
	heads   heads
	kernels workload.MegatronAttention
	qkv     weight // with the norm before it
	proj    weight
	up      weight // with the norm before it
	down    weight
	gated   bool
}

// newLayer makes the parameters of a dense layer, or says why it has no program.
func (r *run) newLayer(l model.Layer, width int64) (*layer, string) {
	if len(l.Mixers) != 1 || l.Residual != model.PreNorm || len(l.Norms) != 2 {
		return nil, "layers of another order than norm, attention, norm, network are not modelled for Megatron-LM"
	}
	a, is := l.Mixers[0].(model.Attention)
	if !is {
		return nil, "only multi-head attention is modelled for Megatron-LM"
	}
	d, is := l.FeedForward.(model.Dense)
	if !is {
		return nil, "experts are not modelled for Megatron-LM"
	}
	if a.Window > 0 || a.Chunk > 0 || a.Cross || a.Sinks || a.OutputGate || a.QKNorm {
		return nil, "attention with windows, sinks, gates or norms of heads is not modelled for Megatron-LM"
	}
	y := &layer{te: r.te, kernels: r.te.s.kernels(r.arch, l), gated: d.Gated}
	y.heads = heads{query: int64(a.QueryHeads), kv: int64(a.KVHeads), keyDim: int64(a.KeyDim), valueDim: int64(a.ValueDim), rotary: a.RotaryDim > 0, causal: a.Causal}
	y.proj = r.row(y.heads.outWidth(), width, a.OutputBias)
	y.qkv = r.column(width, y.heads.mixed(), a.QKVBias, l.Norms[0])
	inner := int64(d.Width)
	if d.Gated {
		inner *= 2
	}
	y.up = r.column(width, inner, d.Bias, l.Norms[1])
	y.down = r.row(int64(d.Width), width, d.Bias)
	return y, ""
}

// forward is one pass: x stays with its holder.
func (l *layer) forward(x torch.Tensor) torch.Tensor {
	e := l.te
	attended := e.attend(e.layerNormLinear(x, &l.qkv), l.heads, l.kernels)
	middle := e.m.Keep(e.biasDropoutAdd(e.linear(attended, l.proj.withoutBias()), l.proj.bias, x))
	out := e.network(middle, &l.up, &l.down, l.gated)
	out = e.biasDropoutAdd(out, l.down.bias, middle)
	e.m.Drop(middle)
	return out
}

// network is MLP: the bias of its first product goes into the activation, that of
// its second into what follows.
func (e *te) network(x torch.Tensor, up, down *weight, gated bool) torch.Tensor {
	wide := e.layerNormLinear(x, up.withoutBias())
	return e.linear(e.activation(wide, up.bias, gated), down.withoutBias())
}

// withoutBias is a product that leaves its bias to what follows.
func (w *weight) withoutBias() *weight {
	bare := *w
	bare.bias = torch.Tensor{}
	return &bare
}
