package hfmodel

import "floodmark/model"

// kimiFamilies is Kimi K3: Kimi Linear with residuals that attend over blocks
// of layers, experts in a narrower space, and gates on both kinds of attention
// (arXiv:2607.24653; the names are those of its checkpoint).
func kimiFamilies() []family {
	const gated = "routed_expert_hidden_size"
	residuals := []*piece{
		norming(model.RoleOther, "self_attention_res_norm", "hidden", ""), {name: "self_attention_res_proj", role: model.RoleOther, shape: "1 hidden"},
		norming(model.RoleOther, "mlp_res_norm", "hidden", ""), {name: "mlp_res_proj", role: model.RoleOther, shape: "1 hidden"},
	}
	return []family{
		{types: "kimi_linear", classes: "KimiLinear", when: gated, ignores: "moe_layer_freq mla_use_nope attn_res_block_size latent_moe_use_norm linear_attn_config.gate_lower_bound",
			stacks: []*stack{{names: llamaNames + mixtralExperts + " shared=block_sparse_moe.shared_experts latent=self_attn delta=self_attn" +
				" correction=block_sparse_moe.gate.e_score_correction_bias latent_in=block_sparse_moe.routed_expert_down_proj" +
				" latent_out=block_sparse_moe.routed_expert_up_proj latent_norm=block_sparse_moe.routed_expert_norm",
				latent:  &latent{gate: "mla_use_output_gate"},
				delta:   &deltaRow{channelwise: true, fullGate: "linear_attn_config.use_full_rank_gate", convolved32: true, decays: 128},
				experts: &experts{correction: "yes", float32: true}, layer: residuals,
				after: []*piece{
					norming(model.RoleOther, "model.output_attn_res_norm", "hidden", ""), {name: "model.output_attn_res_proj", role: model.RoleOther, shape: "1 hidden"},
				}}}},
		{types: "kimi_k3", classes: "KimiK3", parts: []*part{text("kimi_linear", "language_model."), towerOf("moonvit_rms", "vision_tower.")}, around: []*piece{
			project("mm_projector.proj.0", "vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1",
				"vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1", ""),
			project("mm_projector.proj.2", "vision.text_hidden_size", "vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1", ""),
			norming(model.RoleProjector, "mm_projector.post_norm", "vision.text_hidden_size", ""),
		}},
		{types: "moonvit_rms", ignores: "init_pos_emb_time", stacks: []*stack{{
			names: "layers=encoder.blocks norms=norm0,norm1 qkv=wqkv o=wo up=mlp.fc0 down=mlp.fc1 final=encoder.final_layernorm",
			kind:  model.Vision, noRotary: true, derive: map[string]string{"vt_head_dim": "qkv_hidden_size/vt_num_attention_heads"},
			rename: map[string]string{keyHidden: "vt_hidden_size", keyHeads: "vt_num_attention_heads", keyLayers: "vt_num_hidden_layers", keyFFN: "vt_intermediate_size", keyHeadDim: "vt_head_dim"},
			attn:   attentionBias("attn_bias"), ffn: dense{plain: true, bias: "linear_bias"},
			before: []*piece{
				patch("patch_embed.proj", "hidden 3 patch_size patch_size", "patch_embed_proj_bias"),
				{name: "patch_embed.pos_emb", role: model.RolePositionEmbedding, shape: "init_pos_emb_height init_pos_emb_width hidden"},
			}}}},
	}
}
