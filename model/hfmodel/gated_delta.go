package hfmodel

import (
	"floodmark/dtype"
	"floodmark/model"
)

// deltaRow is what a row says of the gated delta rule. Its names stand under
// the slot delta.
type deltaRow struct {
	split       bool  // the projections are stored one by one
	channelwise bool  // every channel decays by itself, as in Kimi Delta Attention
	fullGate    flag  // the output gate of such a mixer is one matrix instead of two through a bottleneck
	convolved32 bool  // its convolutions and its norm are stored in 32 bits
	decays      int64 // for how many heads its decays are stored, padding included; 0 for as many as there are
	float32     bool  // the state's parameters are stored in 32 bits
}

// store32 keeps a tensor in 32 bits where a family does.
func (c scope) store32(at int32, on bool) {
	if on {
		c.store(at, dtype.F32)
	}
}

// state adds a small parameter of a recurrent mixer's state.
func (c scope) state(name string, float32 bool, shape ...int64) {
	c.store32(c.add(model.RoleMixerState, parameter, name, shape...), float32)
}

// gatedDelta adds one layer of gated delta rule (Qwen3-Next's
// Qwen3NextGatedDeltaNet): one projection makes query, key, value and output
// gate, another the two gates of the state.
func (c scope) gatedDelta(s section, k *stack, hidden int64) model.GatedDelta {
	if k.delta.channelwise {
		return c.channelDelta(s, k, hidden)
	}
	d := model.GatedDelta{
		KeyHeads: int(s.need("linear_num_key_heads")), ValueHeads: int(s.need("linear_num_value_heads")),
		KeyDim: int(s.need("linear_key_head_dim")), ValueDim: int(s.need("linear_value_head_dim")),
		Conv: int(s.need("linear_conv_kernel_dim")),
	}
	keys, values, heads := int64(d.KeyHeads*d.KeyDim), int64(d.ValueHeads*d.ValueDim), int64(d.ValueHeads)
	in := c.under(k.slot["delta"])
	if k.delta.split {
		in.linear(model.RoleMixerIn, "in_proj_qkv", hidden, 2*keys+values, 0, false)
		in.linear(model.RoleMixerIn, "in_proj_z", hidden, values, 0, false)
		in.linear(model.RoleMixerGate, "in_proj_a", hidden, heads, 0, false)
		in.linear(model.RoleMixerGate, "in_proj_b", hidden, heads, 0, false)
	} else {
		in.linear(model.RoleMixerIn, "in_proj_qkvz", hidden, 2*keys+2*values, 0, false)
		in.linear(model.RoleMixerGate, "in_proj_ba", hidden, 2*heads, 0, false)
	}
	in.add(model.RoleMixerConv, convolution, "conv1d.weight", 2*keys+values, 1, int64(d.Conv))
	in.state("A_log", k.delta.float32, heads)
	in.state("dt_bias", k.delta.float32, heads)
	in.store32(in.add(model.RoleMixerNorm, parameter, "norm.weight", int64(d.ValueDim)), k.delta.float32)
	in.linear(model.RoleMixerOut, "out_proj", values, hidden, 0, false)
	return d
}

// lightning adds one layer of lightning attention (MiniMax-M1's
// MiniMaxM1LightningAttention).
func (c scope) lightning(s section, k *stack, hidden int64) model.LinearAttention {
	a := s.attentionSizes(k)
	width := a.heads * a.keyDim
	in := c.under(k.slot["lightning"])
	in.linear(model.RoleQKV, "qkv_proj", hidden, 3*width, 0, false)
	in.linear(model.RoleMixerGate, "output_gate", hidden, width, 0, false)
	in.add(model.RoleMixerNorm, parameter, "norm.weight", width)
	in.linear(model.RoleMixerOut, "out_proj", width, hidden, 0, false)
	return model.LinearAttention{Heads: int(a.heads), KeyDim: int(a.keyDim), ValueDim: int(a.keyDim)}
}

// channelDelta adds one layer of Kimi Delta Attention (arXiv:2510.26692): three
// convolved projections, and two gates through a bottleneck of a head's width.
func (c scope) channelDelta(s section, k *stack, hidden int64) model.GatedDelta {
	heads, dim, kernel := s.need("linear_attn_config.num_heads"), s.need("linear_attn_config.head_dim"), s.need("linear_attn_config.short_conv_kernel_size")
	width := heads * dim
	in := c.under(k.slot["delta"])
	for _, name := range []string{"q", "k", "v"} {
		in.linear(model.RoleMixerIn, name+"_proj", hidden, width, 0, false)
		at := in.add(model.RoleMixerConv, convolution, name+"_conv1d.weight", width, 1, kernel)
		in.store32(at, k.delta.convolved32)
	}
	in.linear(model.RoleMixerGate, "f_a_proj", hidden, dim, 0, false)
	in.linear(model.RoleMixerGate, "f_b_proj", dim, width, 0, false)
	if s.is(k.delta.fullGate) {
		in.linear(model.RoleMixerGate, "g_proj", hidden, width, 0, false)
	} else {
		in.linear(model.RoleMixerGate, "g_a_proj", hidden, dim, 0, false)
		in.linear(model.RoleMixerGate, "g_b_proj", dim, width, 0, false)
	}
	in.linear(model.RoleMixerGate, "b_proj", hidden, heads, 0, false)
	in.state("A_log", true, 1, 1, max(heads, k.delta.decays), 1)
	in.state("dt_bias", true, width)
	in.store32(in.add(model.RoleMixerNorm, parameter, "o_norm.weight", dim), k.delta.convolved32)
	in.linear(model.RoleMixerOut, "o_proj", width, hidden, 0, false)
	return model.GatedDelta{KeyHeads: int(heads), ValueHeads: int(heads), KeyDim: int(dim), ValueDim: int(dim), Conv: int(kernel)}
}
