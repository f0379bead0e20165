package hfmodel

import "floodmark/model"

const (
	clipNames = "layers=vision_model.encoder.layers norms=layer_norm1,layer_norm2" +
		" q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.out_proj up=mlp.fc1 down=mlp.fc2"
	blockNames = "layers=blocks norms=norm1,norm2 qkv=attn.qkv o=attn.proj up=mlp.fc1 down=mlp.fc2"
)

// tower is a vision stack whose projections have biases and whose norms are
// layer norms, which most are.
func tower(n names, before, after []*piece) *stack {
	return &stack{names: n, kind: model.Vision, norm: model.LayerNorm, normBias: "yes", noRotary: true,
		attn: attentionBias("yes"), ffn: dense{plain: true, bias: "yes", times: 4}, before: before, after: after}
}

// towerFamilies is the families of vision encoders.
func towerFamilies() []family {
	return []family{
		{types: "clip_vision_model", classes: "CLIPVision", ignores: "projection_dim vocab_size",
			defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 num_channels=3 image_size=224 patch_size=32",
			stacks: []*stack{tower(clipNames, []*piece{
				bare(model.RolePatchEmbedding, "vision_model.embeddings.class_embedding", "hidden"),
				patch("vision_model.embeddings.patch_embedding", "hidden num_channels patch_size patch_size", ""),
				table(model.RolePositionEmbedding, "vision_model.embeddings.position_embedding", "patches+1", "hidden"),
				norming(model.RoleNorm, "vision_model.pre_layrnorm", "hidden", "yes"),
			}, []*piece{norming(model.RoleFinalNorm, "vision_model.post_layernorm", "hidden", "yes")})}},
		{types: "siglip_vision_model", classes: "SiglipVision",
			defaults: "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 num_channels=3 image_size=224 patch_size=16",
			stacks: []*stack{tower(clipNames, []*piece{
				patch("vision_model.embeddings.patch_embedding", "hidden num_channels patch_size patch_size", "yes"),
				table(model.RolePositionEmbedding, "vision_model.embeddings.position_embedding", "patches", "hidden"),
			}, append([]*piece{norming(model.RoleFinalNorm, "vision_model.post_layernorm", "hidden", "yes")}, siglipHead("vision_use_head=true")...))}},
		{types: "qwen2_vl_vision",
			defaults: "depth=32 embed_dim=1280 hidden_size=3584 num_heads=16 mlp_ratio=4 in_channels=3 patch_size=14 temporal_patch_size=2 spatial_merge_size=2",
			rename:   map[string]string{keyHidden: "embed_dim"},
			stacks: []*stack{tower(blockNames, []*piece{patch("patch_embed.proj", "hidden in_channels|in_chans temporal_patch_size patch_size|spatial_patch_size patch_size|spatial_patch_size", "")}, []*piece{
				norming(model.RoleProjector, "merger.ln_q", "hidden", "yes"),
				project("merger.mlp.0", "hidden*spatial_merge_size^2", "hidden*spatial_merge_size^2", "yes"),
				project("merger.mlp.2", "hidden_size", "hidden*spatial_merge_size^2", "yes"),
			})}},
		{types: "qwen2_5_vl_vision",
			defaults: "depth=32 hidden_size=3584 intermediate_size=3420 num_heads=16 in_channels=3 patch_size=14 temporal_patch_size=2 spatial_merge_size=2 out_hidden_size=3584",
			stacks: []*stack{{names: blockNames + " gate=mlp.gate_proj up=mlp.up_proj down=mlp.down_proj", kind: model.Vision,
				attn: attentionBias("yes"), ffn: dense{bias: "yes"},
				before: []*piece{patch("patch_embed.proj", "hidden in_channels|in_chans temporal_patch_size patch_size|spatial_patch_size patch_size|spatial_patch_size", "")},
				after: []*piece{
					norming(model.RoleProjector, "merger.ln_q", "hidden", ""),
					project("merger.mlp.0", "hidden*spatial_merge_size^2", "hidden*spatial_merge_size^2", "yes"),
					project("merger.mlp.2", "out_hidden_size", "hidden*spatial_merge_size^2", "yes"),
				}}}},
		{types: "qwen3_vl_vision",
			defaults: "depth=27 hidden_size=1152 intermediate_size=4304 num_heads=16 in_channels=3 patch_size=16 temporal_patch_size=2 spatial_merge_size=2 out_hidden_size=3584 num_position_embeddings=2304",
			stacks: []*stack{tower(blockNames+" up=mlp.linear_fc1 down=mlp.linear_fc2", []*piece{
				patch("patch_embed.proj", "hidden in_channels temporal_patch_size patch_size patch_size", "yes"),
				table(model.RolePositionEmbedding, "pos_embed", "num_position_embeddings", "hidden"),
			}, []*piece{
				norming(model.RoleProjector, "merger.norm", "hidden", "yes"),
				project("merger.linear_fc1", "hidden*spatial_merge_size^2", "hidden*spatial_merge_size^2", "yes"),
				project("merger.linear_fc2", "out_hidden_size", "hidden*spatial_merge_size^2", "yes"),
				forEach("deepstack_visual_indexes",
					norming(model.RoleProjector, "deepstack_merger_list.*.norm", "hidden*spatial_merge_size^2", "yes")),
				forEach("deepstack_visual_indexes",
					project("deepstack_merger_list.*.linear_fc1", "hidden*spatial_merge_size^2", "hidden*spatial_merge_size^2", "yes")),
				forEach("deepstack_visual_indexes",
					project("deepstack_merger_list.*.linear_fc2", "out_hidden_size", "hidden*spatial_merge_size^2", "yes")),
			})}},
	}
}

// moreTowerFamilies is further vision encoders, each of another maker.
func moreTowerFamilies() []family {
	return []family{
		{types: "intern_vit_6b", classes: "InternVision", defaults: "num_channels=3", stacks: []*stack{{
			names: "layers=encoder.layers norms=norm1,norm2 qkv=attn.qkv o=attn.proj up=mlp.fc1 down=mlp.fc2 q_norm=attn.q_norm k_norm=attn.k_norm",
			kind:  model.Vision, norm: model.LayerNorm, normBias: "norm_type~layer", noRotary: true,
			attn: attention{bias: "qkv_bias", outBias: "yes", qkNorm: allHeads, qkIf: "qk_normalization"}, ffn: dense{plain: true,
				bias: "yes"},
			layer: []*piece{bare(model.RoleOther, "ls1", "hidden"), bare(model.RoleOther, "ls2", "hidden")},
			before: []*piece{
				bare(model.RolePatchEmbedding, "embeddings.class_embedding", "1 1 hidden"),
				patch("embeddings.patch_embedding", "hidden num_channels patch_size patch_size", "yes"),
				bare(model.RolePositionEmbedding, "embeddings.position_embedding", "1 patches+1 hidden"),
			}}}},
		{types: "pixtral", classes: "PixtralVision", ignores: "image_size",
			defaults: "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 num_channels=3 image_size=1024 patch_size=16",
			stacks: []*stack{{
				names: "layers=transformer.layers norms=attention_norm,ffn_norm q=attention.q_proj k=attention.k_proj v=attention.v_proj o=attention.o_proj" +
					" gate=feed_forward.gate_proj up=feed_forward.up_proj down=feed_forward.down_proj",
				kind: model.Vision, before: []*piece{
					patch("patch_conv", "hidden num_channels patch_size patch_size", ""), norming(model.RoleNorm, "ln_pre", "hidden", ""),
				}}}},
		{types: "moonvit", classes: "MoonVit", defaults: "init_pos_emb_height=64 init_pos_emb_width=64", stacks: []*stack{moonvit()}},
		{types: "llama4_vision_model", classes: "Llama4Vision", ignores: "pixel_shuffle_ratio",
			defaults: "hidden_size=768 num_hidden_layers=34 num_attention_heads=16 num_channels=3 intermediate_size=5632 vision_output_dim=7680 image_size=448 patch_size=14" +
				" pixel_shuffle_ratio=0.5 projector_input_dim=4096 projector_output_dim=4096",
			stacks: []*stack{tower("layers=model.layers norms=input_layernorm,post_attention_layernorm q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.o_proj up=mlp.fc1 down=mlp.fc2", []*piece{
				bare(model.RolePatchEmbedding, "class_embedding", "hidden"),
				lin(model.RolePatchEmbedding, "patch_embedding.linear", "hidden", "num_channels*patch_size^2", ""),
				bare(model.RolePositionEmbedding, "positional_embedding_vlm", "patches+1 hidden"),
				norming(model.RoleNorm, "layernorm_pre", "hidden", "yes"), norming(model.RoleNorm, "layernorm_post", "hidden", "yes"),
			}, []*piece{
				project("vision_adapter.mlp.fc1", "projector_input_dim", "ffn", ""),
				project("vision_adapter.mlp.fc2", "projector_output_dim", "projector_output_dim", ""),
			})}},
	}
}

// siglipHead is SigLIP's pooling head, by multi-head attention with a learned
// query.
func siglipHead(when flag) []*piece {
	pieces := []*piece{
		bare(model.RoleClassifier, "vision_model.head.probe", "1 1 hidden"),
		bare(model.RoleClassifier, "vision_model.head.attention.in_proj_weight", "3*hidden hidden"),
		bare(model.RoleClassifier, "vision_model.head.attention.in_proj_bias", "3*hidden"),
		lin(model.RoleClassifier, "vision_model.head.attention.out_proj", "hidden", "hidden", "yes"),
		norming(model.RoleClassifier, "vision_model.head.layernorm", "hidden", "yes"),
		lin(model.RoleClassifier, "vision_model.head.mlp.fc1", "ffn", "hidden", "yes"),
		lin(model.RoleClassifier, "vision_model.head.mlp.fc2", "hidden", "ffn", "yes"),
	}
	for i := range pieces {
		pieces[i].when = when
	}
	return pieces
}

// forEach makes a piece for every item of a list.
func forEach(key string, p *piece) *piece {
	p.each = key
	return p
}
