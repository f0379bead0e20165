package hfmodel

import (
	"strconv"

	"floodmark/model"
)

// imageFamilies is the towers that only one family of models uses.
func imageFamilies() []family {
	resampler := func(name, shape string) *piece {
		return bare(model.RoleProjector, "attn_pool."+name, shape)
	}
	return []family{
		// Qwen-VL's tower: OpenCLIP's bigG and a resampler of 256 queries
		// (modeling files of Qwen/Qwen-VL, visual.py).
		{types: "qwen_vl_visual", expects: "image_size=448", rename: map[string]string{keyHidden: "width", keyHeads: "heads",
			keyLayers: "layers"}, stacks: []*stack{tower(
			"layers=transformer.resblocks norms=ln_1,ln_2 qkv=attn.in_proj o=attn.out_proj up=mlp.c_fc down=mlp.c_proj", []*piece{
				patch("conv1", "hidden 3 patch_size patch_size", ""),
				bare(model.RolePositionEmbedding, "positional_embedding", "256 hidden"),
				norming(model.RoleNorm, "ln_pre", "hidden", "yes"),
			}, []*piece{
				resampler("pos_embed", "256 output_dim"), resampler("query", "256 output_dim"),
				project("attn_pool.kv_proj", "output_dim", "hidden", ""),
				resampler("attn.in_proj_weight", "3*output_dim output_dim"), resampler("attn.in_proj_bias", "3*output_dim"),
				project("attn_pool.attn.out_proj", "output_dim", "output_dim", "yes"),
				norming(model.RoleProjector, "attn_pool.ln_q", "output_dim", "yes"),
				norming(model.RoleProjector, "attn_pool.ln_kv", "output_dim", "yes"),
				norming(model.RoleFinalNorm, "ln_post", "output_dim", "yes"), bare(model.RoleProjector, "proj", "output_dim output_dim"),
			})}},
		// CLIP with fused projections, as DeepSeek-OCR carries it.
		{types: "clip_fused", rename: map[string]string{keyHidden: "width", keyHeads: "heads", keyLayers: "layers"}, stacks: []*stack{tower(
			"layers=transformer.layers norms=layer_norm1,layer_norm2 qkv=self_attn.qkv_proj o=self_attn.out_proj up=mlp.fc1 down=mlp.fc2", []*piece{
				bare(model.RolePatchEmbedding, "embeddings.class_embedding", "hidden"),
				patch("embeddings.patch_embedding", "hidden 3 patch_size patch_size", ""),
				table(model.RolePositionEmbedding, "embeddings.position_embedding", "patches+1", "hidden"),
				positions("embeddings.position_ids", "1 patches+1"),
				norming(model.RoleNorm, "pre_layrnorm", "hidden", "yes"),
			}, nil)}},
		{types: "sam_vit", rename: map[string]string{keyHidden: "width", keyHeads: "heads", keyLayers: "layers"},
			defaults: "image_size=1024 patch_size=16", stacks: []*stack{sam()}},
		{types: "convnext_xxlarge",
			defaults: "stage0_width=384 stage0_depth=3 stage1_width=768 stage1_depth=4 stage2_width=1536 stage2_depth=30 stage3_width=3072 stage3_depth=3 head_width=1024",
			stacks:   convNeXt()},
	}
}

// sam is Segment Anything's encoder with relative positions, over windows of
// 14 patches but in the layers that see all 64 (segment_anything,
// modeling/image_encoder.py), and the convolutions that DeepSeek-OCR adds.
func sam() *stack {
	at := func(role model.Role, name, shape string) *piece {
		return &piece{name: name, role: role, class: convolution, shape: shape}
	}
	k := tower("layers=blocks norms=norm1,norm2 qkv=attn.qkv o=attn.proj up=mlp.lin1 down=mlp.lin2", []*piece{
		patch("patch_embed.proj", "hidden 3 patch_size patch_size", "yes"),
		bare(model.RolePositionEmbedding, "pos_embed", "1 image_size/patch_size image_size/patch_size hidden"),
	}, []*piece{
		at(model.RoleProjector, "neck.0", "256 hidden 1 1"), norming(model.RoleProjector, "neck.1", "256", "yes"),
		at(model.RoleProjector, "neck.2", "256 256 3 3"), norming(model.RoleProjector, "neck.3", "256", "yes"),
		at(model.RoleProjector, "net_2", "downsample_channels@0 256 3 3"), at(model.RoleProjector, "net_3", "downsample_channels@1 downsample_channels@0 3 3"),
	})
	for _, axis := range []string{"attn.rel_pos_h", "attn.rel_pos_w"} {
		k.layer = append(k.layer,
			only("global_attn_indexes@layer", bare(model.RoleRelativeBias, axis, "127 hidden/heads")),
			only("!global_attn_indexes@layer", bare(model.RoleRelativeBias, axis, "27 hidden/heads")))
	}
	return k
}

// positions is a table of indices that a checkpoint stores as 64-bit integers.
func positions(name, shape string) *piece {
	p := bare(model.RoleBuffer, name, shape)
	p.i64 = true
	return p
}

// convNeXt is four stages of depthwise convolutions, each with twice the width
// of the one before, which it halves in resolution.
func convNeXt() []*stack {
	var stages []*stack
	for i := range 4 {
		stage := strconv.Itoa(i)
		k := &stack{names: names("layers=stages." + stage + ".blocks"), kind: model.Vision, usual: absent,
			rename: map[string]string{keyHidden: "stage" + stage + "_width", keyLayers: "stage" + stage + "_depth"},
			layer: []*piece{
				{name: "conv_dw", role: model.RoleMixerConv, class: convolution, shape: "hidden 1 7 7", bias: "yes"},
				norming(model.RoleNorm, "norm", "hidden", "yes"),
				lin(model.RoleUp, "mlp.fc1", "4*hidden", "hidden", "yes"), lin(model.RoleDown, "mlp.fc2", "hidden", "4*hidden", "yes"),
				bare(model.RoleOther, "weight", "hidden"),
			}}
		if i == 0 {
			k.before = []*piece{patch("stem.0", "hidden 3 4 4", "yes"), norming(model.RoleNorm, "stem.1", "hidden", "yes")}
		} else {
			before := "stage" + strconv.Itoa(i-1) + "_width"
			k.before = []*piece{
				norming(model.RoleNorm, "stages."+stage+".downsample.0", before, "yes"),
				{name: "stages." + stage + ".downsample.1", role: model.RoleOther, class: convolution, shape: "hidden " + before + " 2 2",
					bias: "yes"},
			}
		}
		stages = append(stages, k)
	}
	stages[3].after = []*piece{norming(model.RoleFinalNorm, "head.norm", "hidden", "yes"),
		lin(model.RoleClassifier, "head.fc", "head_width", "hidden", "yes")}
	return stages
}
