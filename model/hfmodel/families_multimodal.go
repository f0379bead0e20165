package hfmodel

import "floodmark/model"

// text and seen are the parts that most models of images and text have.
func text(of, prefix string) *part {
	return &part{name: "text", key: "text_config", prefix: prefix, of: of, inline: true}
}

func seen(of, prefix string) *part {
	return &part{name: "vision", key: "vision_config", prefix: prefix, of: of, use: "Model"}
}

// textBare is a text part as newer classes name it: "model.language_model.layers".
func textBare(of string) *part {
	p := text(of, "model.language_model.")
	p.bare = true
	return p
}

// read is a text part that its class runs alone where there are no pictures, along
// axes of positions (modeling_qwen2_vl.py, modeling_qwen3_vl.py of transformers).
func read(p *part, axes model.Axes) *part {
	p.alone, p.axes = true, axes
	return p
}

// towerOf is a vision part whose own model_type names the whole model.
func towerOf(of, prefix string) *part {
	p := seen(of, prefix)
	p.fixed = true
	return p
}

// multimodalFamilies is the families that join a text model with towers.
func multimodalFamilies() []family {
	return []family{
		{types: "llava", classes: "Llava", parts: []*part{read(text("llama", "language_model."), ""), seen("clip_vision_model", "vision_tower.")},
			around: []*piece{
				project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias=true"),
				project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias=true"),
			}},
		{types: "llava_next llava_onevision", classes: "LlavaNext LlavaOnevision", parts: []*part{read(text("llama", "language_model."), ""),
			seen("clip_vision_model", "vision_tower.")}, around: []*piece{
			bare(model.RoleProjector, "image_newline", "text.hidden"),
			project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias=true"),
			project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias=true"),
		}},
		{types: "mistral3", classes: "Mistral3 LightOnOCR", parts: []*part{read(text("mistral", "language_model."), ""),
			seen("pixtral", "vision_tower.")}, around: []*piece{
			norming(model.RoleProjector, "multi_modal_projector.norm", "vision.hidden", ""),
			project("multi_modal_projector.patch_merger.merging_layer", "vision.hidden", "vision.hidden*spatial_merge_size^2", ""),
			project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias"),
			project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias"),
		}, defaults: "spatial_merge_size=2"},
		{types: "paligemma", classes: "PaliGemma", parts: []*part{read(text("gemma", "language_model."), ""),
			seen("siglip_vision_model", "vision_tower.")}, around: []*piece{
			project("multi_modal_projector.linear", "vision.projection_dim", "vision.hidden", "yes"),
		}},
		{types: "gemma3", classes: "Gemma3", parts: []*part{read(text("gemma3_text", "language_model."), ""),
			seen("siglip_vision_model", "vision_tower.")}, around: []*piece{
			bare(model.RoleProjector, "multi_modal_projector.mm_input_projection_weight", "vision.hidden text.hidden"),
			norming(model.RoleProjector, "multi_modal_projector.mm_soft_emb_norm", "vision.hidden", ""),
		}},
		{types: "qwen2_vl", classes: "Qwen2VL", parts: []*part{read(text("qwen2", ""), model.SectionedAxes), towerOf("qwen2_vl_vision", "visual.")}},
		{types: "qwen2_5_vl", classes: "Qwen2_5_VL", parts: []*part{read(text("qwen2", ""), model.SectionedAxes), towerOf("qwen2_5_vl_vision", "visual.")}},
		{types: "qwen3_vl", classes: "Qwen3VL", parts: []*part{read(textBare("qwen3"), model.InterleavedAxes), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_vl_moe", classes: "Qwen3VLMoe", parts: []*part{read(textBare("qwen3_vl_moe_text"), model.InterleavedAxes),
			towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_5", classes: "Qwen3_5", parts: []*part{read(textBare("qwen3_5_text"), model.InterleavedAxes), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_5_moe", classes: "Qwen3_5Moe", parts: []*part{read(textBare("qwen3_5_moe_text"), model.InterleavedAxes),
			towerOf("qwen3_vl_vision", "model.visual.")}},
	}
}

// customFamilies is families of images and text that publish their own code.
func customFamilies() []family {
	return []family{
		{types: "internvl_chat", classes: "InternVL InternVLChat", expects: "downsample_ratio=0.5", parts: []*part{
			{name: "text", key: "llm_config", prefix: "language_model.", use: "ForCausalLM", untied: true},
			seen("intern_vit_6b", "vision_model.")}, around: []*piece{
			norming(model.RoleProjector, "mlp1.0", "vision.hidden*4", "yes"),
			project("mlp1.1", "text.hidden", "vision.hidden*4", "yes"),
			project("mlp1.3", "text.hidden", "text.hidden", "yes"),
		}},
		{types: "locateanything", classes: "LocateAnything", expects: "mlp_connector_layers=2", parts: []*part{
			{name: "text", key: "text_config", prefix: "language_model.", of: "qwen2", use: "ForCausalLM", untied: true},
			seen("moonvit", "vision_model.")}, around: []*piece{
			norming(model.RoleProjector, "mlp1.0", "vision.hidden*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
			project("mlp1.1", "text.hidden", "vision.hidden*vision.merge_kernel_size@0*vision.merge_kernel_size@1", "yes"),
			project("mlp1.3", "text.hidden", "text.hidden", "yes"),
		}},
		{types: "DeepseekOCR deepseek_ocr", classes: "DeepseekOCR", expects: "vision_config.image_size=1024 vision_config.mlp_ratio=3.7362",
			parts: []*part{
				{name: "text", key: "text_config", of: "deepseek_v2", inline: true},
				{name: "sam", key: "vision_config.width.sam_vit_b", prefix: "model.sam_model.", of: "sam_vit", fixed: true, use: "Model"},
				{name: "clip", key: "vision_config.width.clip-l-14-224", prefix: "model.vision_model.", of: "clip_fused", fixed: true,
					use: "Model"},
			}, around: []*piece{
				project("model.projector.layers", "projector_config.n_embed", "projector_config.input_dim", "yes"),
				bare(model.RoleProjector, "model.image_newline", "text.hidden"),
				bare(model.RoleProjector, "model.view_seperator", "text.hidden"),
			}},
		logics(),
		{types: "llama4", classes: "Llama4", parts: []*part{text("llama4_text", "language_model."),
			seen("llama4_vision_model", "vision_model.")}, around: []*piece{
			project("multi_modal_projector.linear_1", "text.hidden", "vision.vision_output_dim", ""),
		}},
	}
}

// logics is Qwen3 with two towers: OpenCLIP's ConvNeXt-XXLarge (timm,
// models/convnext.py) and SigLIP without its last layer and its head.
func logics() family {
	const at = "model.vision_tower.vision_towers."
	return family{types: "logics", classes: "Logics", expects: "mm_vision_select_layer=-2 mm_hidden_size=4224",
		parts: []*part{
			{name: "convnext", key: "convnext_config", built: true, prefix: at + "0.vision_tower.", of: "convnext_xxlarge", fixed: true,
				use: "Model"},
			{name: "siglip", key: "siglip_config", prefix: at + "1.vision_tower.", of: "siglip_vision_model", fixed: true, use: "Model",
				fewer: 1, defaults: "vision_use_head=false"},
			text("qwen3", ""),
		},
		around: []*piece{
			project("model.mm_projector.0", "text.hidden", "siglip.hidden+convnext.stage3_width", "yes"),
			project("model.mm_projector.2", "text.hidden", "text.hidden", "yes"),
			bare(model.RoleProjector, "model.image_newline", "text.hidden"),
		}}
}
