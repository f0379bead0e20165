package hfmodel

import "floodmark/model"

// embedder is diffusers' embedding of a time step, a guidance or a pooled text:
// two linear layers (models/embeddings.py, TimestepEmbedding).
func embedder(name, in string, when flag) []*piece {
	return []*piece{
		only(when, lin(model.RoleOther, name+".linear_1", "hidden", in, "yes")),
		only(when, lin(model.RoleOther, name+".linear_2", "hidden", "hidden", "yes")),
	}
}

// diffusionFamilies is the transformers of diffusers pipelines. Their
// configurations name the class alone, and no format.
func diffusionFamilies() []family {
	return []family{
		{classes: "FluxTransformer2D", ignores: "axes_dims_rope", stacks: flux(),
			defaults: "patch_size=1 in_channels=64 num_layers=19 num_single_layers=38 attention_head_dim=128 num_attention_heads=24 joint_attention_dim=4096 pooled_projection_dim=768"},
		{classes: "QwenImageTransformer2D", expects: "use_additional_t_cond=false", ignores: "axes_dims_rope guidance_embeds use_layer3d_rope zero_cond_t", stacks: []*stack{qwenImage()},
			defaults: "patch_size=2 in_channels=64 out_channels=16 num_layers=60 attention_head_dim=128 num_attention_heads=24 joint_attention_dim=3584"},
		// Wan 2.1's own files for text to video; those for images have more parts.
		{types: "wan t2v", classes: "Wan", when: "!has_image_input~true", ignores: "text_len", defaults: "freq_dim=256 text_dim=4096", stacks: []*stack{wan()}},
		{classes: "MochiTransformer3D", expects: "activation_fn=swiglu qk_norm=rms_norm", ignores: "max_sequence_length", stacks: []*stack{mochi()},
			defaults: "patch_size=2 in_channels=12 num_layers=48 attention_head_dim=128 num_attention_heads=24 pooled_projection_dim=1536 text_embed_dim=4096 time_embed_dim=256"},
	}
}

// diffusionStack is what the stacks of diffusers share: heads that are stated
// by number and width, and norms without weights whose scales a linear layer
// makes of the time step.
func diffusionStack(n names) stack {
	return stack{names: n + " q_norm=attn.norm_q k_norm=attn.norm_k q=attn.to_q k=attn.to_k v=attn.to_v", kind: model.Vision,
		derive: map[string]string{"inner_size": "num_attention_heads*attention_head_dim"},
		rename: map[string]string{keyHidden: "inner_size", keyHeadDim: "attention_head_dim"}}
}

// flux is FLUX.1: layers that keep text and image apart but for attention, then
// layers of both together (diffusers, models/transformers/transformer_flux.py).
func flux() []*stack {
	apart := diffusionStack("layers=transformer_blocks o=attn.to_out.0 up=ff.net.0.proj down=ff.net.2")
	apart.attn = attention{bias: "yes", outBias: "yes", qkNorm: perHead}
	apart.ffn = dense{plain: true, bias: "yes", times: 4}
	apart.before = append(apart.before,
		lin(model.RolePatchEmbedding, "x_embedder", "hidden", "in_channels", "yes"),
		lin(model.RoleProjector, "context_embedder", "hidden", "joint_attention_dim", "yes"))
	apart.before = append(apart.before, embedder("time_text_embed.timestep_embedder", "256", "yes")...)
	apart.before = append(apart.before, embedder("time_text_embed.guidance_embedder", "256", "guidance_embeds")...)
	apart.before = append(apart.before, embedder("time_text_embed.text_embedder", "pooled_projection_dim", "yes")...)
	apart.layer = append(textStream("ff_context"),
		lin(model.RoleOther, "norm1.linear", "6*hidden", "hidden", "yes"), lin(model.RoleOther, "norm1_context.linear", "6*hidden", "hidden", "yes"))
	joint := diffusionStack("layers=single_transformer_blocks up=proj_mlp down=proj_out")
	joint.rename[keyLayers], joint.residual = "num_single_layers", model.Parallel
	joint.attn = attention{bias: "yes", qkNorm: perHead}
	joint.ffn = dense{plain: true, bias: "yes", times: 4, joined: true}
	joint.layer = []*piece{lin(model.RoleOther, "norm.linear", "3*hidden", "hidden", "yes")}
	joint.after = diffusionEnd("patch_size^2*out_channels|in_channels")
	return []*stack{&apart, &joint}
}

// qwenImage is Qwen-Image: FLUX's separate layers alone, each with its own scales
// for text and image (diffusers, models/transformers/transformer_qwenimage.py).
func qwenImage() *stack {
	k := diffusionStack("layers=transformer_blocks o=attn.to_out.0 up=img_mlp.net.0.proj down=img_mlp.net.2")
	k.attn = attention{bias: "yes", outBias: "yes", qkNorm: perHead}
	k.ffn = dense{plain: true, bias: "yes", times: 4}
	k.before = append(embedder("time_text_embed.timestep_embedder", "256", "yes"),
		lin(model.RolePatchEmbedding, "img_in", "hidden", "in_channels", "yes"),
		norming(model.RoleProjector, "txt_norm", "joint_attention_dim", ""), project("txt_in", "hidden", "joint_attention_dim", "yes"))
	k.layer = append(textStream("txt_mlp"),
		lin(model.RoleOther, "img_mod.1", "6*hidden", "hidden", "yes"), lin(model.RoleOther, "txt_mod.1", "6*hidden", "hidden", "yes"))
	k.after = diffusionEnd("patch_size^2*out_channels")
	return &k
}

// wan is Wan 2.1: attention over video, then over text (wan/modules/model.py of
// Wan-Video/Wan2.1).
func wan() *stack {
	k := tower("layers=blocks norms=norm3 q=self_attn.q k=self_attn.k v=self_attn.v o=self_attn.o q_norm=self_attn.norm_q k_norm=self_attn.norm_k"+
		" cross=cross_attn xq=q xk=k xv=v xo=o up=ffn.0 down=ffn.2", []*piece{
		patch("patch_embedding", "hidden in_dim 1 2 2", "yes"),
		project("text_embedding.0", "hidden", "text_dim", "yes"), project("text_embedding.2", "hidden", "hidden", "yes"),
		lin(model.RoleOther, "time_embedding.0", "hidden", "freq_dim", "yes"), lin(model.RoleOther, "time_embedding.2", "hidden", "hidden", "yes"),
		lin(model.RoleOther, "time_projection.1", "6*hidden", "hidden", "yes"),
	}, []*piece{lin(model.RoleOther, "head.head", "4*out_dim", "hidden", "yes"), bare(model.RoleOther, "head.modulation", "1 2 hidden")})
	k.attn.qkNorm = allHeads
	k.layer = []*piece{bare(model.RoleOther, "modulation", "1 6 hidden")}
	return k
}

// textStream is what a layer has for text of the image's width, beside what it
// has for the image.
func textStream(network string) []*piece {
	return []*piece{
		lin(model.RoleQuery, "attn.add_q_proj", "hidden", "hidden", "yes"), lin(model.RoleKey, "attn.add_k_proj", "hidden", "hidden", "yes"),
		lin(model.RoleValue, "attn.add_v_proj", "hidden", "hidden", "yes"), lin(model.RoleAttentionOutput, "attn.to_add_out", "hidden", "hidden", "yes"),
		norming(model.RoleQueryNorm, "attn.norm_added_q", "head_dim", ""), norming(model.RoleKeyNorm, "attn.norm_added_k", "head_dim", ""),
		lin(model.RoleUp, network+".net.0.proj", "4*hidden", "hidden", "yes"), lin(model.RoleDown, network+".net.2", "hidden", "4*hidden", "yes"),
	}
}

// diffusionEnd is the norm's scale and the projection to patches.
func diffusionEnd(out string) []*piece {
	return []*piece{lin(model.RoleOther, "norm_out.linear", "2*hidden", "hidden", "yes"), lin(model.RoleOther, "proj_out", out, "hidden", "yes")}
}

// mochi is Mochi 1, whose text is narrower than its video and ends before the
// last layer's network (diffusers, models/transformers/transformer_mochi.py).
func mochi() *stack {
	const text, wide, narrow = "pooled_projection_dim", "network_size", "pooled_projection_dim*8/3"
	k := diffusionStack("layers=transformer_blocks o=attn1.to_out.0 gate_up=ff.net.0.proj down=ff.net.2")
	k.names += " q_norm=attn1.norm_q k_norm=attn1.norm_k q=attn1.to_q k=attn1.to_k v=attn1.to_v"
	k.derive[wide], k.rename[keyFFN] = "num_attention_heads*attention_head_dim*8/3", wide
	k.attn = attention{outBias: "yes", qkNorm: perHead}
	k.before = append(embedder("time_embed.timestep_embedder", "time_embed_dim", "yes"),
		patch("patch_embed.proj", "hidden in_channels patch_size patch_size", "yes"),
		bare(model.RolePositionEmbedding, "pos_frequencies", "3 heads head_dim/2"),
		project("time_embed.pooler.to_kv", "2*text_embed_dim", "text_embed_dim", "yes"), project("time_embed.pooler.to_q", "text_embed_dim", "text_embed_dim", "yes"),
		project("time_embed.pooler.to_out", "hidden", "text_embed_dim", "yes"), project("time_embed.caption_proj", text, "text_embed_dim", "yes"))
	k.layer = []*piece{
		lin(model.RoleOther, "norm1.linear", "4*hidden", "hidden", "yes"),
		lin(model.RoleQuery, "attn1.add_q_proj", "hidden", text, ""), lin(model.RoleKey, "attn1.add_k_proj", "hidden", text, ""),
		lin(model.RoleValue, "attn1.add_v_proj", "hidden", text, ""),
		norming(model.RoleQueryNorm, "attn1.norm_added_q", "head_dim", ""), norming(model.RoleKeyNorm, "attn1.norm_added_k", "head_dim", ""),
	}
	k.last = []*piece{lin(model.RoleOther, "norm1_context.linear_1", text, "hidden", "yes")}
	k.butLast = []*piece{
		lin(model.RoleOther, "norm1_context.linear", "4*"+text, "hidden", "yes"), lin(model.RoleAttentionOutput, "attn1.to_add_out", text, "hidden", "yes"),
		lin(model.RoleGateUp, "ff_context.net.0.proj", "2*"+narrow, text, ""), lin(model.RoleDown, "ff_context.net.2", text, narrow, ""),
	}
	k.after = diffusionEnd("patch_size^2*out_channels|in_channels")
	return &k
}
