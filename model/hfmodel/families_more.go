package hfmodel

import (
	"strconv"

	"floodmark/model"
)

// moreEncoders is encoders that are built as BERT with other names or parts.
func moreEncoders() []family {
	post := stack{kind: model.Encoder, norm: model.LayerNorm, normBias: "yes", residual: model.PostNorm, noRotary: true,
		attn: attentionBias("yes"), ffn: dense{plain: true, bias: "yes"}}
	distil, electra, mpnet := post, post, post
	distil.names = "embed=embeddings.word_embeddings layers=transformer.layer norms=sa_layer_norm,output_layer_norm" +
		" q=attention.q_lin k=attention.k_lin v=attention.v_lin o=attention.out_lin up=ffn.lin1 down=ffn.lin2"
	distil.text.Activation, distil.text.DropsAnswers = "relu", true
	distil.before = []*piece{
		table(model.RolePositionEmbedding, "embeddings.position_embeddings", "positions", "hidden"),
		norming(model.RoleNorm, "embeddings.LayerNorm", "hidden", "yes"),
	}
	distil.heads = map[string][]*piece{
		"ForMaskedLM": {
			lin(model.RoleHead, "vocab_transform", "hidden", "hidden", "yes"), norming(model.RoleNorm, "vocab_layer_norm", "hidden", "yes"),
			bare(model.RoleHeadBias, "vocab_projector.bias", "vocab"),
		},
		"ForSequenceClassification": {lin(model.RoleClassifier, "pre_classifier", "hidden", "hidden", "yes"), classifier("classifier", "labels")},
		"ForTokenClassification":    {classifier("classifier", "labels")}, "ForQuestionAnswering": {classifier("qa_outputs", "2")},
	}
	electra.names, electra.before = bertNames, bertEmbeddings("embedding_size")
	electra.before = append(electra.before, lin(model.RoleOther, "embeddings_project", "hidden", "embedding_size", "yes"))
	generator := []*piece{
		norming(model.RoleNorm, "generator_predictions.LayerNorm", "embedding_size", "yes"),
		lin(model.RoleHead, "generator_predictions.dense", "embedding_size", "hidden", "yes"), bare(model.RoleHeadBias, "generator_lm_head.bias", "vocab"),
	}
	electra.heads = map[string][]*piece{
		"ForMaskedLM": generator, "ForCausalLM": generator,
		"ForSequenceClassification": {lin(model.RoleClassifier, "classifier.dense", "hidden", "hidden", "yes"), classifier("classifier.out_proj", "labels")},
		"ForTokenClassification":    {classifier("classifier", "labels")}, "ForQuestionAnswering": {classifier("qa_outputs", "2")},
		"ForPreTraining": {lin(model.RoleClassifier, "discriminator_predictions.dense", "hidden", "hidden", "yes"), classifier("discriminator_predictions.dense_prediction", "1")},
	}
	mpnet.names = bertNames +
		" norms=attention.LayerNorm,output.LayerNorm q=attention.attn.q k=attention.attn.k v=attention.attn.v o=attention.attn.o"
	mpnet.before = []*piece{
		table(model.RolePositionEmbedding, "embeddings.position_embeddings", "positions", "hidden"),
		norming(model.RoleNorm, "embeddings.LayerNorm", "hidden", "yes"),
	}
	mpnet.after = []*piece{table(model.RoleRelativeBias, "encoder.relative_attention_bias", "relative_attention_num_buckets", "heads")}
	mpnet.heads = map[string][]*piece{"Model": {pooler("pooler.dense")},
		"ForMaskedLM": {
			lin(model.RoleHead, "lm_head.dense", "hidden", "hidden", "yes"), norming(model.RoleNorm, "lm_head.layer_norm", "hidden", "yes"),
			bare(model.RoleHeadBias, "lm_head.bias", "vocab"),
		},
		"ForSequenceClassification": {lin(model.RoleClassifier, "classifier.dense", "hidden", "hidden", "yes"), classifier("classifier.out_proj", "labels")},
		"ForTokenClassification":    {classifier("classifier", "labels")}, "ForQuestionAnswering": {classifier("qa_outputs", "2")},
	}
	return []family{
		{types: "distilbert", classes: "DistilBert", wrap: "distilbert.", ignores: "tie_weights_", defaults: "dropout=0.1 attention_dropout=0.1 seq_classif_dropout=0.2",
			rename: map[string]string{keyFFN: "hidden_dim", keyDropEmbedding: "dropout"},
			stacks: []*stack{&distil}},
		{types: "electra", classes: "Electra", wrap: "electra.", defaults: "type_vocab_size=2 embedding_size=128",
			stacks: []*stack{&electra}},
		{types: "mpnet", classes: "MPNet", wrap: "mpnet.", defaults: "relative_attention_num_buckets=32", stacks: []*stack{&mpnet}},
		{types: "swin", classes: "Swin", wrap: "swin.", ignores: "hidden_size num_layers image_size",
			defaults: "image_size=224 patch_size=4 num_channels=3 window_size=7 mlp_ratio=4", stacks: swin()},
	}
}

// swin is four stages of windowed attention; each but the last halves the
// resolution and doubles the width (transformers, models/swin).
func swin() []*stack {
	var stages []*stack
	for i, width := range []string{"embed_dim", "embed_dim*2", "embed_dim*4", "embed_dim*8"} {
		n := strconv.Itoa(i)
		at := "encoder.layers." + n
		k := &stack{names: names("layers=" + at +
			".blocks norms=layernorm_before,layernorm_after q=attention.self.query k=attention.self.key v=attention.self.value o=attention.output.dense up=intermediate.dense down=output.dense"),
			kind: model.Vision, norm: model.LayerNorm, normBias: "yes", noRotary: true,
			derive: map[string]string{"stage_width": width},
			rename: map[string]string{keyHidden: "stage_width", keyLayers: "depths@" + n, keyHeads: "num_heads@" + n, keyFFN: "stage_ffn"},
			attn:   attention{bias: "qkv_bias=true", outBias: "yes"}, ffn: dense{plain: true, bias: "yes", times: 4},
			layer: []*piece{
				table(model.RoleRelativeBias, "attention.self.relative_position_bias_table", "4*window_size^2-4*window_size+1", "heads"),
				positions("attention.self.relative_position_index", "window_size^2 window_size^2"),
			}}
		if i == 0 {
			k.before = []*piece{patch("embeddings.patch_embeddings.projection", "embed_dim num_channels patch_size patch_size", "yes"),
				norming(model.RoleNorm, "embeddings.norm", "embed_dim", "yes")}
		}
		if i < 3 {
			k.after = []*piece{lin(model.RoleOther, at+".downsample.reduction", "2*hidden", "4*hidden", ""),
				norming(model.RoleNorm, at+".downsample.norm", "4*hidden", "yes")}
		} else {
			k.after = []*piece{norming(model.RoleFinalNorm, "layernorm", "hidden", "yes")}
			k.heads = map[string][]*piece{"ForImageClassification": {classifier("classifier", "labels")}}
		}
		stages = append(stages, k)
	}
	return stages
}

// moreDecoders is further decoders, dense, sparse and hybrid.
func moreDecoders() []family {
	dbrx := map[string]string{keyExperts: "ffn_config.moe_num_experts", keyExpertWidth: "ffn_config.ffn_hidden_size",
		keyActive: "ffn_config.moe_top_k", keyKVHeads: "attn_config.kv_n_heads"}
	return []family{
		{types: "olmo", classes: "Olmo", ignores: "clip_qkv", stacks: []*stack{{names: llamaNames + " norms= final=",
			attn: attentionBias("attention_bias")}}},
		{types: "dots1", classes: "Dots1", stacks: []*stack{{names: llamaNames + deepseekExperts, attn: attention{bias: "attention_bias",
			outBias: "attention_bias", qkNorm: perHead},
			experts: &experts{correction: "yes", float32: true}}}},
		// Poolside's Laguna (transformers, models/laguna): heads by layer, and a
		// gate for each head or each element of the output.
		{types: "laguna", classes: "Laguna", rename: map[string]string{keyHeads: "num_attention_heads_per_layer|num_attention_heads"}, ignores: "gating_types",
			stacks: []*stack{{names: llamaNames + qwenExperts + " shared=mlp.shared_expert correction=mlp.gate.e_score_correction_bias",
				attn:    attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead},
				experts: &experts{correction: "yes", float32: true},
				layer: []*piece{
					only("gating~head", lin(model.RoleAttentionGate, "self_attn.g_proj", "heads", "hidden", "")),
					only("gating~element", lin(model.RoleAttentionGate, "self_attn.g_proj", "heads*head_dim", "hidden", "")),
				}}}},
		{types: "dbrx", classes: "Dbrx", base: "transformer.", rename: dbrx,
			ignores: "attn_config.clip_qkv ffn_config.moe_normalize_expert_weights", stacks: []*stack{{
				names: "embed=transformer.wte layers=transformer.blocks final=transformer.norm_f head=lm_head norms=norm_attn_norm.norm_1,norm_attn_norm.norm_2 qkv=norm_attn_norm.attn.Wqkv o=norm_attn_norm.attn.out_proj" +
					" router=ffn.router.layer experts=ffn.experts e_gate=w1 e_up=v1 e_down=w2", norm: model.LayerNorm, experts: &experts{}}}},
		{types: "bamba", classes: "Bamba", stacks: []*stack{{usual: mamba, names: llamaNames +
			" mamba=mamba norms=input_layernorm,pre_ff_layernorm final=model.final_layernorm gate=feed_forward.gate_proj up=feed_forward.up_proj down=feed_forward.down_proj",
			attn: attentionBias("attention_bias"), ffn: dense{bias: "mlp_bias"}, mamba: &mambaRow{version: 2, bias: "mamba_proj_bias"}}},
			rename: map[string]string{keyMHeads: "mamba_n_heads", keyMDim: "mamba_d_head"}, ignores: "mamba_expand mamba_chunk_size"},
		{types: "granitemoehybrid", classes: "GraniteMoeHybrid", stacks: []*stack{{
			names: llamaNames +
				" mamba=mamba up= down= gate= router=block_sparse_moe.router.layer experts=block_sparse_moe e_gate_up=input_linear.weight e_down=output_linear.weight",
			attn: attentionBias("attention_bias"), mamba: &mambaRow{version: 2, bias: "mamba_proj_bias"}, experts: &experts{fused: true,
				outFirst: true},
			layer: []*piece{lin(model.RoleSharedExpertUp, "shared_mlp.input_linear", "2*shared_intermediate_size", "hidden", ""),
				lin(model.RoleSharedExpertDown, "shared_mlp.output_linear", "hidden", "shared_intermediate_size", "")}}},
			rename:  map[string]string{keyMHeads: "mamba_n_heads", keyMDim: "mamba_d_head"},
			ignores: "mamba_expand mamba_chunk_size intermediate_size"},
		{types: "kimi_linear", classes: "KimiLinear", when: "!routed_expert_hidden_size", ignores: "moe_layer_freq mla_use_nope",
			stacks: []*stack{{names: llamaNames + mixtralExperts +
				" shared=block_sparse_moe.shared_experts latent=self_attn delta=self_attn correction=block_sparse_moe.gate.e_score_correction_bias",
				latent: &latent{}, delta: &deltaRow{channelwise: true}, experts: &experts{correction: "yes", float32: true}}}},
	}
}

// moreJoined is further models of images and text.
func moreJoined() []family {
	return []family{
		{types: "idefics3 smolvlm", classes: "Idefics3 SmolVLM", parts: []*part{
			{name: "text", key: "text_config", prefix: "model.text_model.", of: "llama", bare: true},
			seen("idefics3_vision", "model.vision_model."),
		}, defaults: "scale_factor=2",
			around: []*piece{project("model.connector.modality_projection.proj", "text.hidden", "vision.hidden*scale_factor^2", "")}},
		{types: "idefics3_vision smolvlm_vision",
			defaults: "hidden_size=1152 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=16 num_channels=3 image_size=224 patch_size=32",
			stacks: []*stack{tower("layers=encoder.layers norms=layer_norm1,layer_norm2 q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.out_proj up=mlp.fc1 down=mlp.fc2", []*piece{
				patch("embeddings.patch_embedding", "hidden num_channels patch_size patch_size", "yes"),
				table(model.RolePositionEmbedding, "embeddings.position_embedding", "patches", "hidden"),
			}, []*piece{norming(model.RoleFinalNorm, "post_layernorm", "hidden", "yes")})}},
		{types: "kimi_vl", classes: "KimiVL", parts: []*part{text("deepseek_v3", "language_model."), seen("moonvit", "vision_tower.")},
			around: []*piece{
				norming(model.RoleProjector, "multi_modal_projector.pre_norm", "vision.hidden", "yes"),
				project("multi_modal_projector.linear_1", "vision.hidden*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "vision.hidden*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
				project("multi_modal_projector.linear_2", "text.hidden", "vision.hidden*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
			}},
	}
}

// minimaxM3Families is MiniMax-M3: dense layers, then sparse ones whose
// attention reads blocks of positions that an indexer of its own heads chooses
// (transformers, models/minimax_m3_vl). How its prediction layers are stored is
// not public, so a configuration that states them is a lower bound.
func minimaxM3Families() []family {
	const at = "sparse_attention_config."
	const compression = "img_token_compression_config.spatial_merge_size img_token_compression_config.temporal_patch_size"
	indexer := func(when flag, heads, width string) []*piece {
		return []*piece{
			only(when, lin(model.RoleIndexer, "self_attn.index_q_proj", heads+"*"+width, "hidden", "")),
			only(when, lin(model.RoleIndexer, "self_attn.index_k_proj", width, "hidden", "")),
			only(when, norming(model.RoleIndexer, "self_attn.index_q_norm", width, "")), only(when, norming(model.RoleIndexer, "self_attn.index_k_norm", width, "")),
		}
	}
	k := &stack{names: llamaNames + mixtralExperts + " shared=block_sparse_moe.shared_experts correction=block_sparse_moe.e_score_correction_bias",
		attn: attention{qkNorm: perHead}, ffn: dense{key: "dense_intermediate_size"},
		experts: &experts{correction: "use_routing_bias=true", always: 1}, sparseWord: "minimax_m3_sparse",
		layer: append(indexer(at+"sparse_attention_freq", at+"sparse_num_index_heads", at+"sparse_index_dim"), indexer("layer_types~minimax_m3_sparse", "index_n_heads", "index_head_dim")...)}
	return []family{
		{types: "minimax_m3 minimax_m3_vl_text", classes: "MiniMaxM3 MiniMaxM3VL MiniMaxM3Sparse", when: "!text_config.hidden_size",
			expects: "qk_norm_type=per_head use_qk_norm=true attention_output_gate=false", stacks: []*stack{k},
			ignores: "index_block_size index_topk_blocks index_local_blocks index_n_heads index_head_dim use_gemma_norm sparse_attention_config.sparse_disable_index_value" +
				" sparse_attention_config.sparse_block_size sparse_attention_config.sparse_topk_blocks sparse_attention_config.sparse_local_block sparse_attention_config.sparse_init_block sparse_attention_config.use_sparse_attention"},
		{types: "minimax_m3_vl", classes: "MiniMaxM3Sparse", when: "text_config.hidden_size", parts: []*part{
			text("minimax_m3", "language_model."), towerOf("minimax_m3_vl_vision", "vision_tower."),
		}, ignores: "multimodal_projector_bias vision_feature_layer " + compression,
			defaults: "merged_hidden_size=24576 projector_hidden_size=6144", around: []*piece{
				project("multi_modal_projector.linear_1", "projector_hidden_size", "vision.hidden", "yes"), project("multi_modal_projector.linear_2", "text.hidden", "projector_hidden_size", "yes"),
				project("patch_merge_mlp.linear_1", "projector_hidden_size", "merged_hidden_size", "yes"), project("patch_merge_mlp.linear_2", "text.hidden", "projector_hidden_size", "yes"),
			}},
		{types: "minimax_m3_vl_vision", defaults: "temporal_patch_size=2 num_channels=3", ignores: "vocab_size image_size spatial_merge_size projection_dim vision_segment_max_frames " + compression,
			stacks: []*stack{tower("layers=layers norms=layer_norm1,layer_norm2 q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.out_proj up=mlp.fc1 down=mlp.fc2",
				[]*piece{patch("embeddings.proj", "hidden num_channels temporal_patch_size patch_size patch_size", ""), norming(model.RoleNorm, "pre_layrnorm", "hidden", "yes")}, nil)}},
	}
}
