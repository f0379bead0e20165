package hfmodel

import (
	"strings"

	"floodmark/model"
)

// gemma4Families is Gemma 4 and its towers (transformers,
// models/gemma4/modeling_gemma4.py).
func gemma4Families() []family {
	const moe = "enable_moe_block"
	perLayer := func(p *piece) *piece { return only("hidden_size_per_layer_input", p) }
	textModel := &stack{names: llamaNames + sandwichNorms +
		" router=router.proj experts=experts e_gate_up=gate_up_proj e_down=down_proj shared=mlp",
		tied: true, residual: model.Sandwich,
		norms: []choice{{moe, "input_layernorm,post_attention_layernorm,pre_feedforward_layernorm,post_feedforward_layernorm," +
			"post_feedforward_layernorm_1,post_feedforward_layernorm_2,pre_feedforward_layernorm_2"}},
		attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead, keyValue: "attention_k_eq_v",
			cacheTail: "num_kv_shared_layers",
			fullKeys: map[string]string{keyHeadDim: "global_head_dim|head_dim",
				keyKVHeads: "num_global_key_value_heads|num_key_value_heads"}},
		ffn: dense{wide: "use_double_wide_mlp"}, experts: &experts{fused: true, outFirst: true, beside: true},
		before: []*piece{
			perLayer(table(model.RolePerLayerEmbedding, "model.embed_tokens_per_layer", "vocab_size_per_layer_input", "layers*hidden_size_per_layer_input")),
			perLayer(lin(model.RoleOther, "model.per_layer_model_projection", "layers*hidden_size_per_layer_input", "hidden", "")),
			perLayer(norming(model.RoleOther, "model.per_layer_projection_norm", "hidden_size_per_layer_input", "")),
		},
		layer: []*piece{
			bare(model.RoleBuffer, "layer_scalar", "1"),
			only(moe, bare(model.RoleOther, "router.scale", "hidden")), only(moe,
				bare(model.RoleOther, "router.per_expert_scale", "num_experts")),
			perLayer(lin(model.RoleOther, "per_layer_input_gate", "hidden_size_per_layer_input", "hidden", "")),
			perLayer(lin(model.RoleOther, "per_layer_projection", "hidden", "hidden_size_per_layer_input", "")),
			perLayer(norming(model.RoleNorm, "post_per_layer_input_norm", "hidden", "")),
		}}
	return []family{
		{types: "gemma4_text", classes: "Gemma4", stacks: []*stack{textModel},
			defaults: "head_dim=256 global_head_dim=512 sliding_window_pattern=6 vocab_size=262144 hidden_size_per_layer_input=256 vocab_size_per_layer_input=262144"},
		{types: "gemma4", classes: "Gemma4", parts: []*part{
			{name: "text", key: "text_config", prefix: "model.language_model.", of: "gemma4_text", bare: true},
			{name: "vision", key: "vision_config", prefix: "model.vision_tower.", of: "gemma4_vision", use: "Model", optional: true},
			{name: "audio", key: "audio_config", prefix: "model.audio_tower.", of: "gemma4_audio", use: "Model", optional: true},
		}, around: []*piece{
			only("vision_config.hidden_size", project("model.embed_vision.embedding_projection", "text.hidden", "vision.hidden", "")),
			only("audio_config.hidden_size",
				project("model.embed_audio.embedding_projection", "text.hidden", "audio.output_proj_dims", "")),
		}},
		{types: "gemma4_vision", stacks: []*stack{{names: "layers=encoder.layers" + sandwichNorms +
			" q_norm=self_attn.q_norm k_norm=self_attn.k_norm" +
			" q=self_attn.q_proj.linear k=self_attn.k_proj.linear v=self_attn.v_proj.linear o=self_attn.o_proj.linear gate=mlp.gate_proj.linear up=mlp.up_proj.linear down=mlp.down_proj.linear",
			kind: model.Vision, residual: model.Sandwich, attn: attention{qkNorm: perHead,
				fullKeys: map[string]string{keyHeadDim: "global_head_dim|head_dim"}},
			before: []*piece{
				lin(model.RolePatchEmbedding, "patch_embedder.input_proj", "hidden", "3*patch_size^2", ""),
				bare(model.RolePositionEmbedding, "patch_embedder.position_embedding_table", "2 position_embedding_size hidden"),
			},
			layer: clips("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate_proj mlp.up_proj mlp.down_proj"),
			after: []*piece{
				only("standardize", bare(model.RoleBuffer, "std_bias", "hidden")), only("standardize",
					bare(model.RoleBuffer, "std_scale", "hidden")),
			}}}},
		{types: "gemma4_audio", stacks: []*stack{gemma4Audio()}},
	}
}

// clips is the four bounds that Gemma 4 stores with each clipped linear layer.
func clips(modules string) []*piece {
	var pieces []*piece
	for module := range strings.FieldsSeq(modules) {
		for _, bound := range []string{"input_min", "input_max", "output_min", "output_max"} {
			pieces = append(pieces, only("use_clipped_linears", bare(model.RoleBuffer, module+"."+bound, "")))
		}
	}
	return pieces
}

// gemma4Audio is a conformer: two feed-forward networks around attention and a
// light convolution.
func gemma4Audio() *stack {
	k := &stack{names: "layers=layers norms=norm_pre_attn,norm_post_attn,norm_out" +
		" q=self_attn.q_proj.linear k=self_attn.k_proj.linear v=self_attn.v_proj.linear o=self_attn.post.linear up=feed_forward1.ffw_layer_1.linear down=feed_forward1.ffw_layer_2.linear",
		kind: model.Audio, noRotary: true, ffn: dense{plain: true, times: 4},
		before: []*piece{
			{name: "subsample_conv_projection.layer0.conv", role: model.RolePatchEmbedding, class: convolution,
				shape: "subsampling_conv_channels@0 1 3 3"},
			norming(model.RolePatchEmbedding, "subsample_conv_projection.layer0.norm", "subsampling_conv_channels@0", ""),
			{name: "subsample_conv_projection.layer1.conv", role: model.RolePatchEmbedding, class: convolution,
				shape: "subsampling_conv_channels@1 subsampling_conv_channels@0 3 3"},
			norming(model.RolePatchEmbedding, "subsample_conv_projection.layer1.norm", "subsampling_conv_channels@1", ""),
			lin(model.RolePatchEmbedding, "subsample_conv_projection.input_proj_linear", "hidden", "subsampling_conv_channels@0/4*subsampling_conv_channels@1", ""),
		},
		layer: []*piece{
			bare(model.RoleOther, "self_attn.per_dim_scale", "hidden/heads"),
			lin(model.RoleRelativeBias, "self_attn.relative_k_proj", "hidden", "hidden", ""),
			lin(model.RoleUp, "feed_forward2.ffw_layer_1.linear", "4*hidden", "hidden", ""),
			lin(model.RoleDown, "feed_forward2.ffw_layer_2.linear", "hidden", "4*hidden", ""),
			lin(model.RoleMixerIn, "lconv1d.linear_start.linear", "2*hidden", "hidden", ""),
			lin(model.RoleMixerOut, "lconv1d.linear_end.linear", "hidden", "hidden", ""),
			{name: "lconv1d.depthwise_conv1d", role: model.RoleMixerConv, class: convolution, shape: "hidden 1 conv_kernel_size"},
		},
		after: []*piece{lin(model.RoleProjector, "output_proj", "output_proj_dims", "hidden", "yes")}}
	for _, norm := range []string{"feed_forward1.pre_layer_norm", "feed_forward1.post_layer_norm", "feed_forward2.pre_layer_norm", "feed_forward2.post_layer_norm", "lconv1d.pre_layer_norm", "lconv1d.conv_norm"} {
		k.layer = append(k.layer, norming(model.RoleNorm, norm, "hidden", ""))
	}
	k.layer = append(k.layer, clips("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.post feed_forward1.ffw_layer_1 feed_forward1.ffw_layer_2"+
		" feed_forward2.ffw_layer_1 feed_forward2.ffw_layer_2 lconv1d.linear_start lconv1d.linear_end")...)
	return k
}
