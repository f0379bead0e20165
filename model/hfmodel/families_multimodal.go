package hfmodel

import "floodmark/model"

// text and seen are the parts that most models of images and text have.
func text(of, prefix string) part {
	return part{name: "text", key: "text_config", prefix: prefix, of: of, inline: true}
}

func seen(of, prefix string) part {
	return part{name: "vision", key: "vision_config", prefix: prefix, of: of, use: "Model"}
}

// towerOf is a vision part whose own model_type names the whole model.
func towerOf(of, prefix string) part {
	p := seen(of, prefix)
	p.fixed = true
	return p
}

// multimodalFamilies is the families that join a text model with towers.
func multimodalFamilies() []family {
	return []family{
		{types: "llava", classes: "Llava", parts: []part{text("llama", "language_model."), seen("clip_vision_model", "vision_tower.")}, around: []piece{
			project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias=true"),
			project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias=true"),
		}},
		{types: "llava_next", classes: "LlavaNext", parts: []part{text("llama", "language_model."), seen("clip_vision_model", "vision_tower.")}, around: []piece{
			bare(model.RoleProjector, "image_newline", "text.hidden"),
			project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias=true"),
			project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias=true"),
		}},
		{types: "mistral3", classes: "Mistral3 LightOnOCR", parts: []part{text("mistral", "language_model."), seen("pixtral", "vision_tower.")}, around: []piece{
			norming(model.RoleProjector, "multi_modal_projector.norm", "vision.hidden", ""),
			project("multi_modal_projector.patch_merger.merging_layer", "vision.hidden", "vision.hidden*spatial_merge_size^2", ""),
			project("multi_modal_projector.linear_1", "text.hidden", "vision.hidden", "multimodal_projector_bias"),
			project("multi_modal_projector.linear_2", "text.hidden", "text.hidden", "multimodal_projector_bias"),
		}, defaults: "spatial_merge_size=2"},
		{types: "paligemma", classes: "PaliGemma", parts: []part{text("gemma", "language_model."), seen("siglip_vision_model", "vision_tower.")}, around: []piece{
			project("multi_modal_projector.linear", "vision.projection_dim", "vision.hidden", "yes"),
		}},
		{types: "gemma3", classes: "Gemma3", parts: []part{text("gemma3_text", "language_model."), seen("siglip_vision_model", "vision_tower.")}, around: []piece{
			bare(model.RoleProjector, "multi_modal_projector.mm_input_projection_weight", "vision.hidden text.hidden"),
			norming(model.RoleProjector, "multi_modal_projector.mm_soft_emb_norm", "vision.hidden", ""),
		}},
		{types: "qwen2_vl", classes: "Qwen2VL", parts: []part{text("qwen2", ""), towerOf("qwen2_vl_vision", "visual.")}},
		{types: "qwen2_5_vl", classes: "Qwen2_5_VL", parts: []part{text("qwen2", ""), towerOf("qwen2_5_vl_vision", "visual.")}},
		{types: "qwen3_vl", classes: "Qwen3VL", parts: []part{text("qwen3", "model.language_model."), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_vl_moe", classes: "Qwen3VLMoe", parts: []part{text("qwen3_vl_moe_text", "model.language_model."), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_5", classes: "Qwen3_5", parts: []part{text("qwen3_5_text", "model.language_model."), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "qwen3_5_moe", classes: "Qwen3_5Moe", parts: []part{text("qwen3_5_moe_text", "model.language_model."), towerOf("qwen3_vl_vision", "model.visual.")}},
		{types: "internvl_chat", classes: "InternVLChat", parts: []part{
			{name: "text", key: "llm_config", prefix: "language_model.", use: "ForCausalLM", untied: true}, seen("intern_vit_6b", "vision_model.")}, around: []piece{
			norming(model.RoleProjector, "mlp1.0", "vision.hidden*4", "yes"),
			project("mlp1.1", "text.hidden", "vision.hidden*4", "yes"),
			project("mlp1.3", "text.hidden", "text.hidden", "yes"),
		}},
		{types: "locateanything", classes: "LocateAnything", expects: "mlp_connector_layers=2", parts: []part{
			{name: "text", key: "text_config", prefix: "language_model.", of: "qwen2", use: "ForCausalLM", untied: true}, seen("moonvit", "vision_model.")}, around: []piece{
			norming(model.RoleProjector, "mlp1.0", "vision.hidden*vision.merge_kernel_size", "yes"),
			project("mlp1.1", "text.hidden", "vision.hidden*vision.merge_kernel_size", "yes"),
			project("mlp1.3", "text.hidden", "text.hidden", "yes"),
		}},
		{types: "llama4", classes: "Llama4", parts: []part{text("llama4_text", "language_model."), seen("llama4_vision_model", "vision_model.")}, around: []piece{
			project("multi_modal_projector.linear_1", "text.hidden", "vision.vision_output_dim", ""),
		}},
	}
}
