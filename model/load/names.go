package load

import (
	"strings"

	"floodmark/model"
)

// This file is all that is known here about the names of tensors: how one
// checkpoint spells what a configuration's own classes spell otherwise.

// star replaces the number of an expert by a star: the tensors of all experts
// of a layer are one tensor of a model.
func star(name string) string {
	const container = "experts."
	i := strings.Index(name, container)
	if i < 0 {
		return name
	}
	from := i + len(container)
	to := from
	for to < len(name) && name[to] >= '0' && name[to] <= '9' {
		to++
	}
	if to == from || to == len(name) || name[to] != '.' {
		return name
	}
	return name[:from] + "*" + name[to:]
}

// respelling is a beginning that a checkpoint may use for another.
type respelling struct{ from, to string }

// respellings lists beginnings by which checkpoints of one class differ: saved
// from the bare model or from the one with a head, and before or after
// transformers moved the parts of models of images and text under "model."
// (v4.52, the _checkpoint_conversion_mapping of its classes).
func respellings() []respelling {
	return []respelling{
		{"", "model."}, {"model.", ""},
		{"", "transformer."}, {"transformer.", ""},
		{"", "bert."}, {"", "roberta."}, {"", "gpt_neox."}, {"", "model.decoder."}, {"decoder.", "model.decoder."},
		{"language_model.model.", "model.language_model."}, {"model.language_model.", "language_model.model."},
		{"language_model.lm_head.", "lm_head."}, {"lm_head.", "language_model.lm_head."},
		{"model.", "model.language_model."}, {"model.language_model.", "model."}, {"language_model.", ""},
		{"visual.", "model.visual."}, {"model.visual.", "visual."},
		{"vision_tower.", "model.vision_tower."}, {"model.vision_tower.", "vision_tower."},
		{"vision_model.", "model.vision_model."}, {"multi_modal_projector.", "model.multi_modal_projector."},
		{"base_model.model.", ""}, {"module.", ""}, {"_orig_mod.", ""},
	}
}

// spellings calls try with a name and its other spellings until one is known.
func spellings(name string, others []respelling, try func(string) bool) bool {
	if try(name) {
		return true
	}
	for _, r := range others {
		if rest, has := strings.CutPrefix(name, r.from); has && try(r.to+rest) {
			return true
		}
	}
	return false
}

// companion is an ending by which packed weights and what belongs to them are
// called after the weight that they stand for.
type companion struct {
	ending string
	weight string     // what the ending replaces; the words' own ending has role 0
	role   model.Role // RoleOther for the words themselves
}

// companions lists the endings of each way of packing: GPTQ and AWQ, the
// scaled floats of DeepSeek and transformers, ModelOpt and compressed-tensors,
// bitsandbytes, MXFP4, MLX, and caches in 8 bits. The longer of two endings
// stands first.
func companions() []companion {
	const w = ".weight"
	return []companion{
		{".qweight", w, model.RoleOther}, {".weight_packed", w, model.RoleOther},
		{"_blocks", "", model.RoleOther}, {".blocks", "", model.RoleOther},
		{".qzeros", w, model.RoleZeroPoint}, {".scales", w, model.RoleScale}, {".g_idx", w, model.RoleQuantised}, {".biases", w, model.RoleZeroPoint},
		{".weight_scale_inv", w, model.RoleScale}, {".weight_scale_2", w, model.RoleScale}, {".weight_scale", w, model.RoleScale},
		{".input_scale", w, model.RoleScale}, {".output_scale", w, model.RoleScale},
		{".weight_global_scale", w, model.RoleScale}, {".input_global_scale", w, model.RoleScale},
		{".weight_zero_point", w, model.RoleZeroPoint}, {".weight_shape", w, model.RoleQuantised}, {".weight_g_idx", w, model.RoleQuantised},
		{".SCB", w, model.RoleScale}, {".weight_format", w, model.RoleQuantised},
		{".weight.nested_absmax", w, model.RoleScale}, {".weight.absmax", w, model.RoleScale},
		{".weight.nested_quant_map", w, model.RoleQuantised}, {".weight.quant_map", w, model.RoleQuantised},
		{".weight.quant_state.bitsandbytes__nf4", w, model.RoleQuantised}, {".weight.quant_state.bitsandbytes__fp4", w, model.RoleQuantised},
		{"_scales", "", model.RoleScale}, {".k_scale", w, model.RoleScale}, {".v_scale", w, model.RoleScale},
		{"_weight_scale_inv", "", model.RoleScale}, {"_scale_inv", "", model.RoleScale},
	}
}

// packed says which weight a name belongs to by its ending.
func packed(name string, list []companion) (companion, string, bool) {
	for _, c := range list {
		if base, has := strings.CutSuffix(name, c.ending); has {
			return c, base + c.weight, true
		}
	}
	return companion{}, "", false
}

// calling is a role by the end of a name.
type calling struct {
	ending string
	role   model.Role
}

// callings lists the endings that many families share, for tensors that the
// configuration does not name. A longer ending stands before a shorter one.
func callings() []calling {
	return []calling{
		{"embed_tokens.weight", model.RoleTokenEmbedding}, {"wte.weight", model.RoleTokenEmbedding}, {"word_embeddings.weight", model.RoleTokenEmbedding},
		{"tok_embeddings.weight", model.RoleTokenEmbedding}, {"embed_in.weight", model.RoleTokenEmbedding}, {"wpe.weight", model.RolePositionEmbedding},
		{"position_embeddings.weight", model.RolePositionEmbedding}, {"token_type_embeddings.weight", model.RoleTypeEmbedding},
		{"lm_head.weight", model.RoleHead}, {"embed_out.weight", model.RoleHead}, {"lm_head.bias", model.RoleHeadBias},
		{"experts.*.gate_proj.weight", model.RoleExpertGate}, {"experts.*.up_proj.weight", model.RoleExpertUp}, {"experts.*.down_proj.weight", model.RoleExpertDown},
		{"experts.*.w1.weight", model.RoleExpertGate}, {"experts.*.w3.weight", model.RoleExpertUp}, {"experts.*.w2.weight", model.RoleExpertDown},
		{"experts.gate_up_proj", model.RoleExpertGateUp}, {"experts.down_proj", model.RoleExpertDown},
		{"shared_experts.gate_proj.weight", model.RoleSharedExpertGate}, {"shared_experts.up_proj.weight", model.RoleSharedExpertUp}, {"shared_experts.down_proj.weight", model.RoleSharedExpertDown},
		{"shared_expert.gate_proj.weight", model.RoleSharedExpertGate}, {"shared_expert.up_proj.weight", model.RoleSharedExpertUp}, {"shared_expert.down_proj.weight", model.RoleSharedExpertDown},
		{"q_proj.weight", model.RoleQuery}, {"k_proj.weight", model.RoleKey}, {"v_proj.weight", model.RoleValue}, {"o_proj.weight", model.RoleAttentionOutput}, {"out_proj.weight", model.RoleAttentionOutput},
		{"q_proj.bias", model.RoleQueryBias}, {"k_proj.bias", model.RoleKeyBias}, {"v_proj.bias", model.RoleValueBias}, {"o_proj.bias", model.RoleAttentionOutputBias},
		{"qkv_proj.weight", model.RoleQKV}, {"query_key_value.weight", model.RoleQKV}, {"c_attn.weight", model.RoleQKV}, {"qkv.weight", model.RoleQKV},
		{"query_key_value.bias", model.RoleQKVBias}, {"c_attn.bias", model.RoleQKVBias}, {"qkv.bias", model.RoleQKVBias},
		{"q_norm.weight", model.RoleQueryNorm}, {"k_norm.weight", model.RoleKeyNorm},
		{"gate_up_proj.weight", model.RoleGateUp}, {"gate_proj.weight", model.RoleGate}, {"up_proj.weight", model.RoleUp}, {"down_proj.weight", model.RoleDown},
		{"fc1.weight", model.RoleUp}, {"fc2.weight", model.RoleDown}, {"fc1.bias", model.RoleUpBias}, {"fc2.bias", model.RoleDownBias},
		{"dense_h_to_4h.weight", model.RoleUp}, {"dense_4h_to_h.weight", model.RoleDown},
		{"e_score_correction_bias", model.RoleRouterBias}, {"inv_freq", model.RoleBuffer}, {"position_ids", model.RoleBuffer}, {"masked_bias", model.RoleBuffer}, {"num_batches_tracked", model.RoleBuffer},
		{"layernorm.weight", model.RoleNorm}, {"norm.weight", model.RoleNorm}, {"layernorm.bias", model.RoleNormBias}, {"norm.bias", model.RoleNormBias},
	}
}

// called is the role that the end of a name tells; RoleOther for none.
func called(name string, list []calling) model.Role {
	for _, c := range list {
		if strings.HasSuffix(name, c.ending) {
			return c.role
		}
	}
	return model.RoleOther
}

// layerNames are the components before the number of a layer.
func isLayerName(component string) bool {
	switch component {
	case "layers", "layer", "h", "blocks", "block", "blk", "resblocks", "transformer_blocks", "single_transformer_blocks":
		return true
	}
	return false
}

// layerOf finds the stack and the layer that a name stands in, as in
// "model.layers.3.mlp": the first number after such a component.
func layerOf(name string) (stack string, layer int, ok bool) {
	at := 0
	for at < len(name) {
		end := strings.IndexByte(name[at:], '.')
		if end < 0 {
			return "", 0, false
		}
		component := name[at : at+end]
		at += end + 1
		if !isLayerName(component) {
			continue
		}
		digits := at
		for digits < len(name) && digits-at < 6 && name[digits] >= '0' && name[digits] <= '9' {
			layer = layer*10 + int(name[digits]-'0')
			digits++
		}
		if digits > at && digits < len(name) && name[digits] == '.' {
			return name[:at-1], layer, true
		}
		layer = 0
	}
	return "", 0, false
}
