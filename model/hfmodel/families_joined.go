package hfmodel

import "floodmark/model"

// joinedFamilies is further families that join a text model with towers.
func joinedFamilies() []family {
	return []family{
		{types: "mllama", classes: "Mllama", parts: []*part{read(text("mllama_text_model", "language_model."), ""),
			seen("mllama_vision_model", "vision_model.")}, around: []*piece{
			project("multi_modal_projector", "text.hidden", "vision.vision_output_dim", "yes"),
		}},
		{types: "mllama_text_model", stacks: []*stack{{names: llamaNames + " crossing=cross_attn", vocabExtra: 8, crossing: true}},
			defaults: "hidden_size=4096 intermediate_size=14336 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 vocab_size=128256"},
		{types: "mllama_vision_model", expects: "max_num_tiles=4", ignores: "intermediate_layers_indices", stacks: mllamaVision(),
			defaults: "hidden_size=1280 intermediate_size=5120 num_hidden_layers=32 num_global_layers=8 attention_heads=16 image_size=448 patch_size=14 num_channels=3 vision_output_dim=7680 max_num_tiles=4"},
		{types: "glm4v", classes: "Glm4v", parts: []*part{read(text("glm4v_text", ""), model.SectionedAxes), towerOf("glm4v_vision", "visual.")}},
		{types: "glm4v_moe", classes: "Glm4vMoe", parts: []*part{read(text("glm4v_moe_text", "model.language_model."), model.SectionedAxes),
			towerOf("glm4v_vision", "model.visual.")}},
		{types: "glm4v_vision",
			defaults: "depth=24 hidden_size=1536 num_heads=12 intermediate_size=13696 image_size=336 patch_size=14 out_hidden_size=4096 spatial_merge_size=2 temporal_patch_size=2 in_channels=3",
			stacks: []*stack{{names: blockNames + " gate=mlp.gate_proj up=mlp.up_proj down=mlp.down_proj final=post_layernorm",
				kind: model.Vision,
				attn: attention{bias: "attention_bias"}, ffn: dense{key: "out_hidden_size"},
				before: []*piece{
					patch("patch_embed.proj", "hidden in_channels temporal_patch_size patch_size patch_size", "yes"),
					table(model.RolePositionEmbedding, "embeddings.position_embedding", "patches", "hidden"),
					norming(model.RoleNorm, "post_conv_layernorm", "hidden", ""),
				},
				after: []*piece{
					{name: "downsample", role: model.RoleProjector, class: convolution,
						shape: "out_hidden_size hidden spatial_merge_size spatial_merge_size", bias: "yes"},
					project("merger.proj", "out_hidden_size", "out_hidden_size", ""),
					norming(model.RoleProjector, "merger.post_projection_norm", "out_hidden_size", "yes"),
					project("merger.gate_proj", "ffn", "out_hidden_size", ""), project("merger.up_proj", "ffn", "out_hidden_size", ""),
					project("merger.down_proj", "out_hidden_size", "ffn", ""),
				}}}},
	}
}

// furtherJoinedFamilies is more families that join a text model with towers.
func furtherJoinedFamilies() []family {
	const clipL = "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 image_size=336 patch_size=14"
	return []family{
		{types: "kimi_k25", classes: "KimiK25", parts: []*part{text("deepseek_v3", "language_model."),
			towerOf("moonvit_3d", "vision_tower.")}, around: []*piece{
			norming(model.RoleProjector, "mm_projector.pre_norm", "vision.mm_hidden_size", "yes"),
			project("mm_projector.proj.0", "vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
			project("mm_projector.proj.2", "vision.text_hidden_size", "vision.mm_hidden_size*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
		}},
		{types: "moonvit_3d", ignores: "init_pos_emb_time", rename: map[string]string{keyHidden: "vt_hidden_size",
			keyHeads: "vt_num_attention_heads", keyLayers: "vt_num_hidden_layers", keyFFN: "vt_intermediate_size"},
			stacks: []*stack{moonvit()}},
		{types: "minicpmv", classes: "MiniCPMV", parts: []*part{
			{name: "text", key: "text_config", prefix: "llm.", of: "llama", inline: true},
			{name: "vision", key: "vision_config", prefix: "vpm.", of: "siglip_vision_model", use: "Model",
				defaults: "vision_use_head=false"},
		}, expects: "version=4.0 query_num=64 drop_vision_last_layer=false",
			ignores: "image_size patch_size vision_batch_size slice_config.patch_size slice_config.max_slice_nums slice_config.scale_resolution",
			around: []*piece{
				bare(model.RoleProjector, "resampler.query", "query_num text.hidden"),
				bare(model.RoleProjector, "resampler.proj", "text.hidden text.hidden"),
				project("resampler.kv_proj", "text.hidden", "vision.hidden", ""),
				bare(model.RoleProjector, "resampler.attn.in_proj_weight", "3*text.hidden text.hidden"),
				bare(model.RoleProjector, "resampler.attn.in_proj_bias", "3*text.hidden"),
				project("resampler.attn.out_proj", "text.hidden", "text.hidden", "yes"),
				norming(model.RoleProjector, "resampler.ln_q", "text.hidden", "yes"),
				norming(model.RoleProjector, "resampler.ln_kv", "text.hidden", "yes"),
				norming(model.RoleProjector, "resampler.ln_post", "text.hidden", "yes"),
			}},
		{types: "qwen2_audio", classes: "Qwen2Audio", parts: []*part{text("qwen2", "language_model."), {name: "audio", key: "audio_config",
			prefix: "audio_tower.", of: "qwen2_audio_encoder", use: "Model"}}, around: []*piece{
			project("multi_modal_projector.linear", "text.hidden", "audio.hidden", "yes"),
		}},
		{types: "phi3_v", classes: "Phi3V", parts: []*part{text("phi3", ""),
			{name: "vision", key: "img_processor", prefix: "model.vision_embed_tokens.img_processor.", of: "clip_vision_model", fixed: true,
				use: "Model", defaults: clipL}},
			ignores: "img_processor.num_img_tokens img_processor.image_dim_out", around: []*piece{
				bare(model.RoleProjector, "model.vision_embed_tokens.glb_GN", "1 1 4*vision.hidden"),
				bare(model.RoleProjector, "model.vision_embed_tokens.sub_GN", "1 1 1 4*vision.hidden"),
				project("model.vision_embed_tokens.img_projection.0", "text.hidden", "4*vision.hidden", "yes"),
				project("model.vision_embed_tokens.img_projection.2", "text.hidden", "text.hidden", "yes"),
			}},
		{types: "clip", classes: "CLIP", parts: []*part{
			{name: "text", key: "text_config", of: "clip_text_model", use: "Model"}, seen("clip_vision_model", ""),
		}, around: []*piece{
			project("text_projection", "projection_dim", "text.hidden", ""),
			project("visual_projection", "projection_dim", "vision.hidden", ""), bare(model.RoleOther, "logit_scale", ""),
		}, defaults: "projection_dim=512"},
		{types: "clip_text_model", classes: "CLIPText", ignores: "projection_dim",
			defaults: "hidden_size=512 intermediate_size=2048 num_hidden_layers=12 num_attention_heads=8 vocab_size=49408 max_position_embeddings=77",
			stacks:   []*stack{clipText()}},
	}
}

func clipText() *stack {
	k := tower("embed=text_model.embeddings.token_embedding layers=text_model.encoder.layers norms=layer_norm1,layer_norm2 final=text_model.final_layer_norm"+
		" q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.out_proj up=mlp.fc1 down=mlp.fc2",
		[]*piece{table(model.RolePositionEmbedding, "text_model.embeddings.position_embedding", "positions", "hidden")}, nil)
	k.kind = model.Encoder
	return k
}

// moonvit is Kimi-VL's tower over patches of any resolution.
func moonvit() *stack {
	return tower("layers=encoder.blocks norms=norm0,norm1 qkv=wqkv o=wo up=mlp.fc0 down=mlp.fc1 final=encoder.final_layernorm", []*piece{
		patch("patch_embed.proj", "hidden 3 patch_size patch_size", "yes"),
		{name: "patch_embed.pos_emb", role: model.RolePositionEmbedding, shape: "init_pos_emb_height init_pos_emb_width hidden"},
	}, nil)
}

// mllamaVision is the tower of Llama 3.2 Vision: tiles with gated positions,
// local layers, then gated global ones (transformers,
// models/mllama/modeling_mllama.py).
func mllamaVision() []*stack {
	layers := names("norms=input_layernorm,post_attention_layernorm q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.o_proj up=mlp.fc1 down=mlp.fc2")
	local := tower(layers+" layers=transformer.layers", []*piece{
		bare(model.RolePatchEmbedding, "class_embedding", "hidden"),
		patch("patch_embedding", "hidden num_channels patch_size patch_size", ""),
		bare(model.RolePositionEmbedding, "gated_positional_embedding.gate", "1"),
		bare(model.RolePositionEmbedding, "gated_positional_embedding.embedding", "patches+1 hidden"),
		table(model.RolePositionEmbedding, "gated_positional_embedding.tile_embedding", "#supported_aspect_ratios+1", "max_num_tiles*patches*hidden+max_num_tiles*hidden"),
		bare(model.RolePositionEmbedding, "pre_tile_positional_embedding.gate", "1"),
		table(model.RolePositionEmbedding, "pre_tile_positional_embedding.embedding", "#supported_aspect_ratios+1", "max_num_tiles*hidden"),
		bare(model.RolePositionEmbedding, "post_tile_positional_embedding.gate", "1"),
		table(model.RolePositionEmbedding, "post_tile_positional_embedding.embedding", "#supported_aspect_ratios+1", "max_num_tiles*hidden"),
		norming(model.RoleNorm, "layernorm_pre", "hidden", "yes"), norming(model.RoleNorm, "layernorm_post", "hidden", "yes"),
	}, nil)
	global := tower(layers+" layers=global_transformer.layers", nil, nil)
	global.rename = map[string]string{keyLayers: "num_global_layers"}
	global.layer = []*piece{bare(model.RoleOther, "gate_attn", "1"), bare(model.RoleOther, "gate_ffn", "1")}
	local.attn, global.attn = attention{}, attention{}
	return []*stack{local, global}
}
