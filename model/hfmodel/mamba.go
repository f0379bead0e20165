package hfmodel

import "floodmark/model"

// mambaRow is what a row says of selective state-space mixers. The names are
// those of every implementation, under the slot mamba.
type mambaRow struct {
	version int
	norms   bool // version 1: the time step and the two state projections are normalised
	bias    flag // of the projections
	float32 bool // the state's parameters are stored in 32 bits
}

const (
	keyState   = "ssm_state_size|state_size|mamba_d_state"
	keyConv    = "conv_kernel|mamba_d_conv|d_conv"
	keyExpand  = "expand|mamba_expand"
	keyDTRank  = "time_step_rank|mamba_dt_rank"
	keyMHeads  = "mamba_num_heads|mamba_n_heads|n_mamba_heads|num_heads"
	keyMDim    = "mamba_head_dim|mamba_d_head|mamba_headdim|head_dim"
	keyMGroups = "n_groups|mamba_n_groups|mamba_ngroups"
)

func (c scope) mambaMixer(s section, k *stack, hidden int64) model.Mamba {
	if k.mamba.version == 2 {
		return c.mamba2(s, k, hidden)
	}
	return c.mamba1(s, k, hidden)
}

// mamba1 adds a mixer of the first version (arXiv:2312.00752). A stated inner
// width rules over the expansion factor, which published files get wrong.
func (c scope) mamba1(s section, k *stack, hidden int64) model.Mamba {
	m := model.Mamba{Version: 1, State: int(s.need(keyState)), Conv: int(s.need(keyConv)), DTRank: int(s.or(keyDTRank, (hidden+15)/16))}
	inner := s.or(k.slot["inner"], hidden*s.or(keyExpand, 2))
	m.Inner = int(inner)
	state, rank, bias := int64(m.State), int64(m.DTRank), s.is(k.mamba.bias)
	in := c.under(k.slot["mamba"])
	in.linear(model.RoleMixerIn, "in_proj", hidden, 2*inner, model.RoleMixerIn, bias)
	in.add(model.RoleMixerConv, convolution, "conv1d.weight", inner, 1, int64(m.Conv))
	if s.is("use_conv_bias|mamba_conv_bias=true") {
		in.add(model.RoleMixerConv, parameter, "conv1d.bias", inner)
	}
	in.linear(model.RoleMixerGate, "x_proj", inner, rank+2*state, 0, false)
	in.linear(model.RoleMixerGate, "dt_proj", rank, inner, model.RoleMixerGate, true)
	in.add(model.RoleMixerState, parameter, "A_log", inner, state)
	in.add(model.RoleMixerState, parameter, "D", inner)
	if k.mamba.norms {
		in.add(model.RoleMixerNorm, parameter, "dt_layernorm.weight", rank)
		in.add(model.RoleMixerNorm, parameter, "b_layernorm.weight", state)
		in.add(model.RoleMixerNorm, parameter, "c_layernorm.weight", state)
	}
	in.linear(model.RoleMixerOut, "out_proj", inner, hidden, model.RoleMixerOut, bias)
	return m
}

// mamba2 adds a mixer of the second version (arXiv:2405.21060).
func (c scope) mamba2(s section, k *stack, hidden int64) model.Mamba {
	heads, width := s.need(keyMHeads), s.need(keyMDim)
	m := model.Mamba{
		Version: 2, Inner: int(heads * width), State: int(s.need(keyState)), Conv: int(s.need(keyConv)),
		Heads: int(heads), HeadDim: int(width), Groups: int(s.or(keyMGroups, 1)), Chunk: int(s.or("chunk_size|mamba_chunk_size", 256)),
	}
	inner, bias := heads*width, s.is(k.mamba.bias)
	mixed := inner + 2*int64(m.Groups)*int64(m.State)
	in := c.under(k.slot["mamba"])
	in.linear(model.RoleMixerIn, "in_proj", hidden, inner+mixed+heads, model.RoleMixerIn, bias)
	in.add(model.RoleMixerConv, convolution, "conv1d.weight", mixed, 1, int64(m.Conv))
	if s.is("use_conv_bias|mamba_conv_bias=true") {
		in.add(model.RoleMixerConv, parameter, "conv1d.bias", mixed)
	}
	for _, name := range []string{"A_log", "D", "dt_bias"} {
		in.state(name, k.mamba.float32, heads)
	}
	in.add(model.RoleMixerNorm, parameter, "norm.weight", inner)
	in.linear(model.RoleMixerOut, "out_proj", inner, hidden, model.RoleMixerOut, bias)
	return m
}
