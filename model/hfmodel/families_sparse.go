package hfmodel

import "floodmark/model"

const (
	qwenExperts     = " router=mlp.gate experts=mlp.experts e_gate=gate_proj e_up=up_proj e_down=down_proj"
	mixtralExperts  = " router=block_sparse_moe.gate experts=block_sparse_moe.experts e_gate=w1 e_up=w3 e_down=w2 correction=block_sparse_moe.e_score_correction_bias"
	deepseekExperts = qwenExperts + " shared=mlp.shared_experts correction=mlp.gate.e_score_correction_bias latent=self_attn"
)

// nextToken is what joins the hidden state with the embedding of the next
// token in DeepSeek-V3's prediction layers (arXiv:2412.19437, section 2.2).
func nextToken() []*piece {
	return []*piece{
		norming(model.RoleNorm, "enorm", "hidden", ""), norming(model.RoleNorm, "hnorm", "hidden", ""),
		{name: "eh_proj", role: model.RoleProjector, class: linearSpared, shape: "hidden 2*hidden"},
		norming(model.RoleFinalNorm, "shared_head.norm", "hidden", ""),
	}
}

// sparseFamilies is the families of decoders with mixtures of experts.
func sparseFamilies() []family {
	return []family{
		{types: "mixtral", classes: "Mixtral", stacks: []*stack{{names: llamaNames + mixtralExperts, experts: &experts{}}}},
		{types: "qwen2_moe", classes: "Qwen2Moe", defaults: "use_sliding_window=false", stacks: []*stack{{names: llamaNames + qwenExperts +
			" shared=mlp.shared_expert shared_mix=mlp.shared_expert_gate",
			attn: attention{bias: "qkv_bias=true"}, experts: &experts{}}}},
		{types: "qwen3_moe", classes: "Qwen3Moe", expects: "use_qk_norm=true", defaults: "use_sliding_window=false",
			stacks: []*stack{{names: llamaNames + qwenExperts,
				attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead}, experts: &experts{}}}},
		{types: "qwen3_vl_moe_text", stacks: []*stack{{names: llamaNames + qwenExperts + " e_gate_up=gate_up_proj",
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead}, experts: &experts{fused: true}}}},
		{types: "olmoe", classes: "Olmoe", stacks: []*stack{{names: llamaNames + qwenExperts, attn: attention{bias: "attention_bias",
			outBias: "attention_bias", qkNorm: allHeads}, experts: &experts{}}},
			defaults: "num_experts=64 num_experts_per_tok=8"},
		{types: "deepseek deepseek_v2", classes: "Deepseek DeepseekV2", stacks: []*stack{{names: llamaNames + deepseekExperts,
			attn:   attentionBias("attention_bias"),
			latent: &latent{bias: "attention_bias"}, experts: &experts{}}}},
		{types: "deepseek_v3 kimi_k2 deepseek_v32", classes: "DeepseekV3 DeepseekV32",
			stacks: []*stack{{names: llamaNames + deepseekExperts, attn: attentionBias("attention_bias"),
				latent: &latent{bias: "attention_bias", indexer: true}, experts: &experts{correction: "topk_method~noaux", float32: true},
				predict: &predictor{key: "num_nextn_predict_layers", joint: nextToken(), copies: true}}}},
		{types: "glm4_moe glm4v_moe_text", classes: "Glm4Moe", stacks: []*stack{{names: llamaNames + deepseekExperts,
			attn:    attention{bias: "attention_bias", qkNorm: perHead, qkIf: "use_qk_norm", rotaryCut: true},
			experts: &experts{correction: "yes", float32: true}, predict: &predictor{key: "num_nextn_predict_layers", joint: nextToken(),
				copies: true, unsure: true}}}},
		{types: "glm4_moe_lite", classes: "Glm4MoeLite", stacks: []*stack{{names: llamaNames + deepseekExperts,
			latent:  &latent{bias: "attention_bias"},
			experts: &experts{correction: "yes", float32: true}, predict: &predictor{key: "num_nextn_predict_layers", joint: nextToken(),
				copies: true}}}},
		{types: "glm_moe_dsa", classes: "GlmMoeDsa", ignores: "index_skip_topk_offset index_topk_freq",
			stacks: []*stack{{names: llamaNames + deepseekExperts, latent: &latent{bias: "attention_bias", indexer: true},
				experts: &experts{correction: "yes", float32: true}, predict: &predictor{key: "num_nextn_predict_layers",
					joint: nextToken()}}}},
		{types: "minicpm3", classes: "MiniCPM3", stacks: []*stack{{names: llamaNames + " latent=self_attn", tied: true,
			latent: &latent{bias: "attention_bias"}}}},
	}
}

// furtherSparseFamilies is more families of decoders with mixtures of experts.
func furtherSparseFamilies() []family {
	return []family{
		{types: "phimoe", classes: "PhiMoE Phimoe", stacks: []*stack{{names: llamaNames + mixtralExperts, norm: model.LayerNorm,
			normBias: "yes", headBias: "lm_head_bias",
			attn: attentionBias("attention_bias"), experts: &experts{}}}},
		{types: "granitemoe", classes: "GraniteMoe", stacks: []*stack{{names: llamaNames +
			" router=block_sparse_moe.router.layer experts=block_sparse_moe e_gate_up=input_linear.weight e_down=output_linear.weight",
			attn: attentionBias("attention_bias"), experts: &experts{fused: true, outFirst: true}}}},
		{types: "gpt_oss", classes: "GptOss", stacks: []*stack{{names: llamaNames +
			" sinks=self_attn.sinks router=mlp.router experts=mlp.experts e_gate_up=gate_up_proj e_down=down_proj",
			attn: attention{bias: "attention_bias=true", outBias: "attention_bias=true", fullSink: "yes", slideSink: "yes", halves: true}, wide: true,
			experts: &experts{fused: true, bias: true, alternate: true}}}},
		{types: "minimax_m2", classes: "MiniMaxM2", ignores: "num_mtp_modules mtp_transformer_layers use_mtp",
			stacks: []*stack{{names: llamaNames + mixtralExperts,
				attn: attention{qkNorm: allHeads, qkIf: "use_qk_norm=true", rotaryCut: true}, experts: &experts{correction: "use_routing_bias=true"}}}},
		{types: "minimax_m1 minimax_text_01 minimax", classes: "MiniMaxM1 MiniMaxText01 MiniMax",
			stacks: []*stack{{names: llamaNames + mixtralExperts + " lightning=self_attn",
				lightning: true, experts: &experts{router32: true}}}},
		{types: "mimo_v2_flash", classes: "MiMoV2Flash",
			unsaid:  "checkpoints of this family also store prediction layers, and the configuration does not say how many",
			ignores: "attention_chunk_size", stacks: []*stack{{names: llamaNames + deepseekExperts +
				" sinks=self_attn.attention_sink_bias",
				attn: attention{bias: "attention_bias", fullSink: "add_full_attention_sink_bias", slideSink: "add_swa_attention_sink_bias",
					slideKeys: map[string]string{keyHeads: "swa_num_attention_heads", keyKVHeads: "swa_num_key_value_heads",
						keyHeadDim: "swa_head_dim", "v_head_dim": "swa_v_head_dim"}},
				experts: &experts{correction: "topk_method~noaux", float32: true}}}},
		{types: "llama4_text", classes: "Llama4", ignores: "use_qk_norm intermediate_size_mlp", stacks: []*stack{{names: llamaNames +
			" gate=feed_forward.gate_proj up=feed_forward.up_proj down=feed_forward.down_proj" +
			" router=feed_forward.router experts=feed_forward.experts e_gate_up=gate_up_proj e_down=down_proj shared=feed_forward.shared_expert",
			attn: attentionBias("attention_bias"), ffn: dense{key: "intermediate_size_mlp"}, chunks: true, experts: &experts{fused: true, always: 1}}}},
	}
}
