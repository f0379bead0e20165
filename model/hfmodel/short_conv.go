package hfmodel

import "floodmark/model"

// shortConv adds one gated causal convolution (LFM2's Lfm2ShortConv). Its names
// stand under the slot conv.
func (c scope) shortConv(s section, k *stack, hidden int64) model.ShortConv {
	m := model.ShortConv{Width: int(s.or("conv_dim", hidden)), Kernel: int(s.need("conv_L_cache"))}
	s.has("conv_dim_out|block_dim") // the hidden size, again
	bias := s.is("conv_bias")
	width := int64(m.Width)
	in := c.under(k.slot["conv"])
	in.linear(model.RoleMixerIn, "in_proj", hidden, 3*width, model.RoleMixerIn, bias)
	in.add(model.RoleMixerConv, convolution, "conv.weight", width, 1, int64(m.Kernel))
	if bias {
		in.add(model.RoleMixerConv, parameter, "conv.bias", width)
	}
	in.linear(model.RoleMixerOut, "out_proj", width, hidden, model.RoleMixerOut, bias)
	return m
}
