package hfmodel

import "floodmark/model"

// hybridFamilies is the families with layers of state, and those of nothing
// else.
func hybridFamilies() []family {
	mambaNames := names("embed=backbone.embeddings layers=backbone.layers final=backbone.norm_f head=lm_head norms=norm mamba=mixer")
	// What the original code calls its sizes stands beside transformers' names in
	// converted files (state-spaces/mamba-130m-hf, config.json).
	const original = "d_inner rms_norm fused_add_norm pad_vocab_size_multiple d_model n_layer ssm_cfg residual_in_fp32"
	return []family{
		{types: "mamba", classes: "Mamba", ignores: original, stacks: []*stack{{names: mambaNames + " inner=intermediate_size", tied: true, usual: mamba,
			mamba: &mambaRow{version: 1, bias: "use_bias"}}}},
		{types: "falcon_mamba", classes: "FalconMamba", ignores: original, stacks: []*stack{{names: mambaNames + " inner=intermediate_size", tied: true,
			usual: mamba, mamba: &mambaRow{version: 1, bias: "use_bias"}}}},
		{types: "mamba2", classes: "Mamba2", ignores: "chunk_size norm_before_gate expand intermediate_size " + original,
			stacks: []*stack{{names: mambaNames, usual: mamba, mamba: &mambaRow{version: 2, bias: "use_bias"}}}},
		{types: "zamba2", classes: "Zamba2", ignores: "mamba_expand chunk_size use_mem_eff_path kv_channels num_query_groups hybrid_layer_ids adapter_rank use_mem_rope use_long_context attention_head_dim attention_hidden_size use_shared_attention_adapter num_mem_blocks",
			defaults: "mamba_expand=2 mamba_d_state=64 mamba_d_conv=4 n_mamba_heads=8 adapter_rank=128",
			stacks: []*stack{{names: "embed=model.embed_tokens layers=model.layers final=model.final_layernorm head=lm_head norms=input_layernorm mamba=mamba",
				tied: true, noRotary: true, usual: mamba, blocks: true, derive: map[string]string{"mamba_headdim": "mamba_expand*hidden/n_mamba_heads"},
				mamba: &mambaRow{version: 2, bias: "add_bias_linear"}}}},
		{types: "rwkv5", classes: "Rwkv Rwkv5", base: "rwkv.", stacks: []*stack{{
			names: "embed=rwkv.embeddings layers=rwkv.blocks final=rwkv.ln_out head=head norms=ln1,ln2 rwkv=attention channel_mix=feed_forward",
			norm:  model.LayerNorm, normBias: "yes", noRotary: true, usual: recur,
			first: []*piece{norming(model.RoleNorm, "pre_ln", "hidden", "yes")}}}},
		{types: "jamba", classes: "Jamba", stacks: []*stack{{names: llamaNames +
			" final=model.final_layernorm norms=input_layernorm,pre_ff_layernorm gate=feed_forward.gate_proj up=feed_forward.up_proj down=feed_forward.down_proj" +
			" mamba=mamba router=feed_forward.router experts=feed_forward.experts e_gate=gate_proj e_up=up_proj e_down=down_proj",
			noRotary: true, mamba: &mambaRow{version: 1, norms: true, bias: "mamba_proj_bias"}, experts: &experts{}}},
			defaults: "attn_layer_period=8 attn_layer_offset=4 expert_layer_period=2 expert_layer_offset=1"},
		{types: "nemotron_h", classes: "NemotronH", ignores: "chunk_size expand",
			rename: map[string]string{keyHeadDim: "attention_head_dim|head_dim", keyMDim: "mamba_head_dim"},
			stacks: []*stack{{names: "embed=backbone.embeddings layers=backbone.layers final=backbone.norm_f head=lm_head norms=norm" +
				" q=mixer.q_proj k=mixer.k_proj v=mixer.v_proj o=mixer.o_proj up=mixer.up_proj down=mixer.down_proj mamba=mixer" +
				" router=mixer.gate correction=mixer.gate.e_score_correction_bias experts=mixer.experts e_up=up_proj e_down=down_proj shared=mixer.shared_experts latent_in=mixer.fc1_latent_proj latent_out=mixer.fc2_latent_proj",
				noRotary: true, mamba: &mambaRow{version: 2, bias: "mamba_proj_bias|use_bias", float32: true},
				attn: attentionBias("attention_bias"), ffn: dense{plain: true, bias: "mlp_bias"}, experts: &experts{plain: true,
					correction: "yes", float32: true}}}},
		{types: "qwen3_next", classes: "Qwen3Next",
			unsaid: "checkpoints of this family may also store a prediction layer, which the configuration does not state",
			stacks: []*stack{{names: llamaNames + qwenExperts +
				" delta=linear_attn shared=mlp.shared_expert shared_mix=mlp.shared_expert_gate",
				offset: true, delta: &deltaRow{}, attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead, gate: "yes"},
				experts: &experts{}}},
			defaults: "full_attention_interval=4"},
		{types: "qwen3_5_text qwen3_5_moe_text", classes: "Qwen3_5 Qwen3_5Moe", stacks: []*stack{{names: llamaNames +
			" mtp=mtp.layers delta=linear_attn router=mlp.gate experts=mlp.experts e_gate_up=gate_up_proj e_down=down_proj shared=mlp.shared_expert shared_mix=mlp.shared_expert_gate",
			offset: true, delta: &deltaRow{split: true, float32: true}, attn: attention{bias: "attention_bias", outBias: "attention_bias",
				qkNorm: perHead, gate: "attn_output_gate=true"}, experts: &experts{fused: true, outFirst: true},
			predict: &predictor{key: "mtp_num_hidden_layers", shared: []*piece{
				{name: "mtp.fc", role: model.RoleProjector, class: linearSpared, shape: "hidden 2*hidden"},
				norming(model.RoleNorm, "mtp.pre_fc_norm_embedding", "hidden", ""),
				norming(model.RoleNorm, "mtp.pre_fc_norm_hidden", "hidden", ""),
				norming(model.RoleFinalNorm, "mtp.norm", "hidden", ""),
			}}}},
			defaults: "full_attention_interval=4", ignores: "full_attention_interval"},
	}
}
