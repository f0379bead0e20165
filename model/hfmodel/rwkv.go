package hfmodel

import "floodmark/model"

// timeMix adds the attention of one layer of RWKV-5 (arXiv:2404.05892): a
// decaying state for each head, with every input mixed with that of the
// position before.
func (c scope) timeMix(s section, k *stack, hidden int64) model.LinearAttention {
	dim := s.need("head_size")
	width := s.or("attention_hidden_size", hidden)
	heads := width / max(1, dim)
	in := c.under(k.slot["rwkv"])
	for _, name := range []string{"key", "value", "receptance", "gate"} {
		in.add(model.RoleMixerState, parameter, "time_mix_"+name, 1, 1, hidden)
		in.linear(model.RoleMixerIn, name, hidden, width, 0, false)
	}
	in.add(model.RoleMixerState, parameter, "time_decay", heads, dim)
	in.add(model.RoleMixerState, parameter, "time_faaaa", heads, dim)
	in.add(model.RoleMixerNorm, parameter, "ln_x.weight", width)
	in.add(model.RoleMixerNorm, parameter, "ln_x.bias", width)
	in.linear(model.RoleMixerOut, "output", width, hidden, 0, false)
	return model.LinearAttention{Heads: int(heads), KeyDim: int(dim), ValueDim: int(dim), TokenShift: 2}
}

// channelMix adds RWKV's feed-forward network: 3.5 times as wide as the model,
// in multiples of 32, where the configuration does not say, and gated by a
// square matrix. Worked number: 2560 is 8960 wide.
func (c scope) channelMix(s section, k *stack, hidden int64) model.Dense {
	width := s.or(keyFFN, hidden*7/2/32*32)
	in := c.under(k.slot["channel_mix"])
	in.add(model.RoleMixerState, parameter, "time_mix_key", 1, 1, hidden)
	in.add(model.RoleMixerState, parameter, "time_mix_receptance", 1, 1, hidden)
	in.linear(model.RoleUp, "key", hidden, width, 0, false)
	in.linear(model.RoleGate, "receptance", hidden, hidden, 0, false)
	in.linear(model.RoleDown, "value", width, hidden, 0, false)
	return model.Dense{Width: int(width), Gated: true, Activation: "relu2"}
}
