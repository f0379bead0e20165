package hfmodel

import (
	"strconv"

	"floodmark/model"
)

// hybridLayer adds a layer of Zamba2 that runs a block of attention and a
// network before its state-space mixer. The block reads the residual stream and
// the embedding side by side, and a few blocks serve all such layers in turn;
// low-rank adapters tell the uses of one block apart (arXiv:2411.15242;
// transformers, models/zamba2).
func (c scope) hybridLayer(s section, k *stack, hidden int64) model.Layer {
	kinds := s.texts("layer_types|layers_block_type")
	use, uses := 0, 0
	for i, kind := range kinds {
		if mixing(kind) == hybrid {
			uses++
			if i < int(c.layer) {
				use++
			}
		}
	}
	blocks := int(max(1, s.or("num_mem_blocks", 1)))
	from := len(c.drafts)
	attention, network := c.sharedBlock(s, hidden)
	if use < blocks {
		c.blocks = append(c.blocks, from)
		for i := use; i < uses; i += blocks {
			c.adapters(s, i, hidden, int64(network.Width))
		}
	} else {
		c.tie(from, c.blocks[use%blocks])
	}
	c.linear(model.RoleOther, "linear", hidden, hidden, 0, false)
	in := c.under("mamba_decoder")
	norm := k.residualNorm(s, hidden)
	in.norm(model.RoleNorm, "input_layernorm", norm)
	return model.Layer{Index: int(c.layer), Residual: model.PreNorm, Norms: []model.Norm{norm}, FeedForward: network,
		Mixers: []model.Mixer{attention, in.mambaMixer(s, k, hidden)}}
}

// sharedBlock adds the block itself.
func (c scope) sharedBlock(s section, hidden int64) (model.Attention, model.Dense) {
	wide, heads := s.or("attention_hidden_size", 2*hidden), s.need(keyHeads)
	kv, dim := s.or(keyKVHeads, heads), s.or("attention_head_dim", wide/max(1, heads))
	in, width := c.under("shared_transformer"), s.or(keyFFN, 4*hidden)
	in.linear(model.RoleQuery, "self_attn.q_proj", wide, heads*dim, 0, false)
	in.linear(model.RoleKey, "self_attn.k_proj", wide, kv*dim, 0, false)
	in.linear(model.RoleValue, "self_attn.v_proj", wide, kv*dim, 0, false)
	in.linear(model.RoleAttentionOutput, "self_attn.o_proj", heads*dim, hidden, 0, false)
	bias := s.is("add_bias_linear")
	in.linear(model.RoleGateUp, "feed_forward.gate_up_proj", hidden, 2*width, model.RoleGateUpBias, bias)
	in.linear(model.RoleDown, "feed_forward.down_proj", width, hidden, model.RoleDownBias, bias)
	in.add(model.RoleNorm, parameter, "input_layernorm.weight", wide)
	in.add(model.RoleNorm, parameter, "pre_ff_layernorm.weight", hidden)
	a := model.Attention{QueryHeads: int(heads), KVHeads: int(kv), KeyDim: int(dim), ValueDim: int(dim), Causal: true, CacheOf: -1}
	if s.is("use_mem_rope") {
		a.RotaryDim = int(dim)
	}
	return a, model.Dense{Width: int(width), Gated: true, Activation: s.text(keyAct), Bias: bias}
}

// adapters adds what tells one use of a block from its others.
func (c scope) adapters(s section, use int, hidden, width int64) {
	rank, wide, n := s.need("adapter_rank"), s.or("attention_hidden_size", 2*hidden), strconv.Itoa(use)
	in := c.under("shared_transformer")
	pair := func(list string, from, to int64) {
		in.linear(model.RoleOther, list+"."+n+".0", from, rank, 0, false)
		in.linear(model.RoleOther, list+"."+n+".1", rank, to, 0, false)
	}
	if s.is("use_shared_attention_adapter") {
		for _, name := range []string{"q", "k", "v"} {
			pair("self_attn.linear_"+name+"_adapter_list", wide, wide)
		}
	}
	pair("feed_forward.gate_up_proj_adapter_list", hidden, 2*width)
}
