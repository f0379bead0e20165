package hfmodel

import "floodmark/model"

// gptFamilies is the families of dense decoders with names of their own, most
// of them older than Llama.
func gptFamilies() []family {
	return []family{
		{types: "gpt2", classes: "GPT2", base: "transformer.", stacks: []*stack{{names: gptNames, tied: true, norm: model.LayerNorm,
			normBias: "yes", noRotary: true, conv1D: true,
			before: []*piece{table(model.RolePositionEmbedding, "transformer.wpe", "positions", "hidden")},
			attn:   attentionBias("yes"), ffn: dense{plain: true, bias: "yes", times: 4}}},
			defaults: "embd_pdrop=0.1 resid_pdrop=0.1 attn_pdrop=0.1 activation_function=gelu_new"},
		{types: "gpt_bigcode", classes: "GPTBigCode", base: "transformer.", stacks: []*stack{{names: gptNames, tied: true,
			norm: model.LayerNorm, normBias: "yes", noRotary: true,
			before: []*piece{table(model.RolePositionEmbedding, "transformer.wpe", "positions", "hidden")},
			attn:   attention{bias: "yes", outBias: "yes", oneKV: "multi_query=true"}, ffn: dense{plain: true, bias: "yes", times: 4}}}},
		{types: "gptj", classes: "GPTJ", base: "transformer.", stacks: []*stack{{names: gptNames +
			" qkv= q=attn.q_proj k=attn.k_proj v=attn.v_proj o=attn.out_proj up=mlp.fc_in down=mlp.fc_out norms=ln_1",
			norm: model.LayerNorm, normBias: "yes", headBias: "yes", residual: model.Parallel, ffn: dense{plain: true, bias: "yes",
				times: 4}}}},
		{types: "gpt_neo", classes: "GPTNeo", ignores: "attention_types attention_layers", base: "transformer.", stacks: []*stack{{names: gptNames +
			" qkv= q=attn.attention.q_proj k=attn.attention.k_proj v=attn.attention.v_proj o=attn.attention.out_proj",
			tied: true, norm: model.LayerNorm, normBias: "yes", noRotary: true,
			before: []*piece{table(model.RolePositionEmbedding, "transformer.wpe", "positions", "hidden")},
			attn:   attention{outBias: "yes"}, ffn: dense{plain: true, bias: "yes", times: 4}}}},
		{types: "gpt_neox gpt_neox_reward_model", classes: "GPTNeoX", base: "gpt_neox.", stacks: []*stack{{names: neoxNames,
			norm: model.LayerNorm, normBias: "yes", residual: model.Parallel,
			attn: attentionBias("attention_bias=true"), ffn: dense{plain: true, bias: "yes"},
			heads: map[string][]*piece{"RewardModel": {lin(model.RoleClassifier, "out_proj", "1", "hidden", "yes")}}}}},
		{types: "phi-msft", classes: "PhiMSFT", base: "transformer.",
			stacks: []*stack{{names: "embed=transformer.embd.wte layers=transformer.h final=lm_head.ln head=lm_head.linear norms=ln qkv=mixer.Wqkv o=mixer.out_proj up=mlp.fc1 down=mlp.fc2",
				norm: model.LayerNorm, normBias: "yes", headBias: "yes", residual: model.Parallel, attn: attentionBias("yes"),
				ffn: dense{plain: true, bias: "yes", times: 4}}}},
		{types: "opt", classes: "OPT", stacks: []*stack{{names: llamaNames +
			" embed=model.decoder.embed_tokens layers=model.decoder.layers final= o=self_attn.out_proj up=fc1 down=fc2 norms=self_attn_layer_norm,final_layer_norm",
			tied: true, norm: model.LayerNorm, normBias: "layer_norm_elementwise_affine=true", noRotary: true,
			before: []*piece{table(model.RolePositionEmbedding, "model.decoder.embed_positions", "positions+2", "hidden")},
			after: []*piece{
				only("do_layer_norm_before=true",
					norming(model.RoleFinalNorm, "model.decoder.final_layer_norm", "hidden", "layer_norm_elementwise_affine=true")),
				only("!do_layer_norm_before=true", lin(model.RoleOther, "model.decoder.project_in", "hidden", "word_embed_proj_dim", "")),
				only("!do_layer_norm_before=true", lin(model.RoleOther, "model.decoder.project_out", "word_embed_proj_dim", "hidden", "")),
			},
			attn: attention{bias: "enable_bias=true", outBias: "enable_bias=true", scaled: true}, ffn: dense{plain: true, bias: "enable_bias=true"}}},
			defaults: "dropout=0.1 activation_function=relu"},
	}
}

// namedFamilies is further families of dense decoders with names of their own.
func namedFamilies() []family {
	return []family{
		{types: "bloom", classes: "Bloom", base: "transformer.", stacks: []*stack{{names: bloomNames, tied: true, norm: model.LayerNorm,
			normBias: "yes", noRotary: true,
			before: []*piece{norming(model.RoleNorm, "transformer.word_embeddings_layernorm", "hidden", "yes")},
			attn:   attentionBias("yes"), ffn: dense{plain: true, bias: "yes", times: 4}}}},
		{types: "falcon RefinedWeb RefinedWebModel", classes: "Falcon RW", base: "transformer.", stacks: []*stack{{names: bloomNames,
			norm: model.LayerNorm, normBias: "yes", residual: model.Parallel,
			norms: []choice{{"new_decoder_architecture", "ln_attn,ln_mlp"}, {"parallel_attn=true", "input_layernorm"}},
			attn:  attention{bias: "bias", outBias: "bias", oneKV: "multi_query=true", oneKVNot: "new_decoder_architecture"},
			ffn:   dense{plain: true, bias: "bias", times: 4}}}},
		{types: "mpt", classes: "Mpt MPT", base: "transformer.", rename: map[string]string{keyKVHeads: "attn_config.kv_n_heads"},
			stacks: []*stack{{
				names: "embed=transformer.wte layers=transformer.blocks final=transformer.norm_f head=lm_head norms=norm_1,norm_2 qkv=attn.Wqkv o=attn.out_proj up=ffn.up_proj down=ffn.down_proj q_norm=attn.q_ln k_norm=attn.k_ln",
				tied:  true, norm: model.LayerNorm, normBias: "!no_bias=true", noRotary: true,
				before: []*piece{only("!attn_config.alibi=true", table(model.RolePositionEmbedding, "transformer.wpe", "positions", "hidden"))},
				attn:   attention{bias: "!no_bias=true", outBias: "!no_bias=true", qkNorm: allHeads, qkIf: "attn_config.qk_ln"},
				ffn:    dense{plain: true, bias: "!no_bias=true", times: 4}}}},
		// Where none of bf16, fp16 and fp32 is set, the class sets bf16 and casts
		// the model (modeling_qwen.py of Qwen/Qwen-7B, QWenLMHeadModel.__init__).
		{types: "qwen", classes: "QWen Qwen", base: "transformer.", converts: "bfloat16", defaults: "hidden_act=silu", parts: []*part{{name: "visual", key: "visual",
			prefix: "transformer.visual.", of: "qwen_vl_visual", fixed: true, use: "Model", optional: true}},
			stacks: []*stack{{names: gptNames + " gate=mlp.w1 up=mlp.w2 down=mlp.c_proj",
				attn: attention{bias: "yes", outBias: "!no_bias=true", kvAll: true}, ffn: dense{halved: true, bias: "!no_bias=true"}}}},
		{types: "internlm2", classes: "InternLM2",
			stacks: []*stack{{names: "embed=model.tok_embeddings layers=model.layers final=model.norm head=output norms=attention_norm,ffn_norm" +
				" qkv=attention.wqkv o=attention.wo gate=feed_forward.w1 up=feed_forward.w3 down=feed_forward.w2",
				attn: attentionBias("bias=true")}}},
		{types: "chatglm", classes: "ChatGLM", base: "transformer.", rename: map[string]string{keyKVHeads: "multi_query_group_num",
			keyVocab: "padded_vocab_size|vocab_size"}, stacks: []*stack{{
			names: "embed=transformer.embedding.word_embeddings layers=transformer.encoder.layers final=transformer.encoder.final_layernorm head=transformer.output_layer" +
				" norms=input_layernorm,post_attention_layernorm qkv=self_attention.query_key_value o=self_attention.dense gate_up=mlp.dense_h_to_4h down=mlp.dense_4h_to_h",
			attn: attention{bias: "add_qkv_bias", outBias: "add_bias_linear"}, ffn: dense{bias: "add_bias_linear"},
			after: []*piece{bare(model.RoleBuffer, "transformer.rotary_pos_emb.inv_freq", "kv_channels/4")},
			heads: map[string][]*piece{"Model": {lin(model.RoleHead, "output_layer", "vocab", "hidden", "add_bias_linear")}}}}},
		{types: "exaone", classes: "Exaone", base: "transformer.",
			stacks: []*stack{{names: "embed=transformer.wte layers=transformer.h final=transformer.ln_f head=lm_head norms=ln_1,ln_2" +
				" q=attn.attention.q_proj k=attn.attention.k_proj v=attn.attention.v_proj o=attn.attention.out_proj gate=mlp.c_fc_0 up=mlp.c_fc_1 down=mlp.c_proj"}}},
		{types: "lfm2", classes: "Lfm2", ignores: "conv_L_cache", rename: map[string]string{keyFFN: "block_ff_dim|intermediate_size"}, stacks: []*stack{{
			names: llamaNames +
				" final=model.embedding_norm norms=operator_norm,ffn_norm o=self_attn.out_proj q_norm=self_attn.q_layernorm k_norm=self_attn.k_layernorm" +
				" gate=feed_forward.w1 up=feed_forward.w3 down=feed_forward.w2 conv=conv",
			tied: true, conv: true, attn: attention{qkNorm: perHead}, ffn: dense{adjust: "block_auto_adjust_ff_dim=true"}}}},
	}
}
