package hfmodel

import "floodmark/model"

// gemma3nFamilies is Gemma 3n (transformers, models/gemma3n): four versions of
// the residual stream (AltUp), of which a layer computes one and corrects the
// others; a low-rank branch beside attention (Laurel); and an embedding for each
// layer.
func gemma3nFamilies() []family {
	const defaults = "head_dim=256 vocab_size=262400 hidden_size=2048 intermediate_size=16384 num_hidden_layers=35 num_attention_heads=8 num_key_value_heads=2" +
		" vocab_size_per_layer_input=262144 hidden_size_per_layer_input=256 altup_num_inputs=4 laurel_rank=64 sliding_window=512 sliding_window_pattern=5 num_kv_shared_layers=15"
	const ignores = "activation_sparsity_pattern altup_active_idx altup_coef_clip altup_correct_scale"
	// One tensor stands for the projections to all versions but the first.
	versions := func(name string) *piece {
		return &piece{name: name + ".*", role: model.RoleOther, class: expertLinear, shape: "altup_num_inputs-1 hidden hidden"}
	}
	k := &stack{names: llamaNames + sandwichNorms, tied: true, residual: model.Sandwich,
		attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead, cacheTail: "num_kv_shared_layers"},
		ffn:  dense{lists: true},
		before: []*piece{
			table(model.RolePerLayerEmbedding, "model.embed_tokens_per_layer", "vocab_size_per_layer_input", "layers*hidden_size_per_layer_input"),
			lin(model.RoleOther, "model.per_layer_model_projection", "layers*hidden_size_per_layer_input", "hidden", ""),
			norming(model.RoleOther, "model.per_layer_projection_norm", "hidden_size_per_layer_input", ""),
			versions("model.altup_projections"), versions("model.altup_unembed_projections"),
		},
		layer: []*piece{
			bare(model.RoleOther, "altup.correct_output_scale", "hidden"),
			lin(model.RoleOther, "altup.correction_coefs", "altup_num_inputs", "altup_num_inputs", ""),
			lin(model.RoleOther, "altup.prediction_coefs", "altup_num_inputs^2", "altup_num_inputs", ""),
			lin(model.RoleOther, "altup.modality_router", "altup_num_inputs", "hidden", ""), norming(model.RoleNorm, "altup.router_norm", "hidden", ""),
			lin(model.RoleOther, "laurel.linear_left", "laurel_rank", "hidden", ""), lin(model.RoleOther, "laurel.linear_right", "hidden", "laurel_rank", ""),
			norming(model.RoleNorm, "laurel.post_laurel_norm", "hidden", ""),
			lin(model.RoleOther, "per_layer_input_gate", "hidden_size_per_layer_input", "hidden", ""),
			lin(model.RoleOther, "per_layer_projection", "hidden", "hidden_size_per_layer_input", ""),
			norming(model.RoleNorm, "post_per_layer_input_norm", "hidden", ""),
		}}
	return []family{
		{types: "gemma3n_text", classes: "Gemma3n", defaults: defaults, ignores: ignores, stacks: []*stack{k}},
		// Its vision tower is timm's MobileNet-V5, which is not known here, so
		// the whole is a lower bound.
		{types: "gemma3n", classes: "Gemma3n", parts: []*part{
			{name: "text", key: "text_config", prefix: "model.language_model.", of: "gemma3n_text", bare: true},
			{name: "vision", key: "vision_config", prefix: "model.vision_tower.", of: "mobilenetv5", use: "Model", optional: true},
			{name: "audio", key: "audio_config", prefix: "model.audio_tower.", of: "gemma3n_audio", use: "Model", optional: true},
		}},
	}
}
