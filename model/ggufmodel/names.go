package ggufmodel

import (
	"strconv"
	"strings"

	"floodmark/model"
)

// place is where a tensor stands by its name: blk.3.attn_q.weight is attn_q,
// a weight, in layer 3 of the stack blk.
type place struct {
	stack  string // "blk", "enc.blk", "v.blk"; empty outside
	layer  int
	module string // "attn_q", "ffn_gate_exps"
	bias   bool
}

// parse takes a name apart. Numbers of experts, as the first Mixtral files
// have them (ffn_gate.3.weight), are left out.
func parse(name string) place {
	p := place{layer: -1}
	rest := name
	if before, after, found := cutBlock(name); found {
		number, more, dot := strings.Cut(after, ".")
		if n, err := strconv.Atoi(number); dot && err == nil && n >= 0 && n < maxLayers {
			p.stack, p.layer, rest = before+"blk", n, more
		}
	}
	switch {
	case strings.HasSuffix(rest, ".bias"):
		p.bias = true
		rest = strings.TrimSuffix(rest, ".bias")
	default:
		rest = strings.TrimSuffix(rest, ".weight")
	}
	if i := strings.LastIndexByte(rest, '.'); i > 0 && strings.HasPrefix(rest, "ffn_") {
		if _, err := strconv.Atoi(rest[i+1:]); err == nil {
			rest = rest[:i] + "_exps"
		}
	}
	p.module = rest
	return p
}

// cutBlock cuts "enc.blk.3.attn_q" around "blk.".
func cutBlock(name string) (before, after string, found bool) {
	for _, prefix := range []string{"", "enc.", "dec.", "v.", "a."} {
		if after, found := strings.CutPrefix(name, prefix+"blk."); found {
			return prefix, after, true
		}
	}
	return "", "", false
}

// kind is what a stack is for, by the beginning of its tensors' names.
func kind(stack string, encoder bool) model.StackKind {
	switch stack {
	case "enc.blk":
		return model.Encoder
	case "v.blk":
		return model.Vision
	case "a.blk":
		return model.Audio
	}
	if encoder {
		return model.Encoder
	}
	return model.Decoder
}

// role is what a module's weight is for. The names are those of LLM_TENSOR_NAMES
// in src/llama-arch.cpp of llama.cpp, and of tools/mtmd/clip-impl.h for towers.
func role(p place) model.Role {
	if p.layer < 0 {
		return outside(p)
	}
	weight, bias := inLayer(p.module)
	if p.bias {
		return bias
	}
	return weight
}

// outside is the roles of tensors that stand in no layer. rope_freqs counts as
// a parameter, as llama.cpp and Ollama count it.
func outside(p place) model.Role {
	switch p.module {
	case "token_embd":
		return model.RoleTokenEmbedding
	case "position_embd", "v.position_embd":
		return model.RolePositionEmbedding
	case "token_types":
		return model.RoleTypeEmbedding
	case "per_layer_token_embd":
		return model.RolePerLayerEmbedding
	case "output":
		if p.bias {
			return model.RoleHeadBias
		}
		return model.RoleHead
	case "output_norm", "dec.output_norm", "enc.output_norm", "v.post_ln":
		return model.RoleFinalNorm
	case "token_embd_norm", "per_layer_proj_norm", "v.pre_ln":
		if p.bias {
			return model.RoleNormBias
		}
		return model.RoleNorm
	case "cls", "cls.output", "rerank":
		return model.RoleClassifier
	case "v.patch_embd", "a.conv1d.1", "a.conv1d.2":
		return model.RolePatchEmbedding
	}
	if strings.HasPrefix(p.module, "mm.") || strings.HasPrefix(p.module, "resampler.") {
		return model.RoleProjector
	}
	return model.RoleOther
}

// inLayer is the roles of a module's weight and of its bias.
func inLayer(module string) (weight, bias model.Role) {
	for _, find := range []func(string) (weight, bias model.Role, known bool){attentionRoles, forwardRoles, mixerRoles} {
		if w, b, known := find(module); known {
			return w, b
		}
	}
	if strings.HasSuffix(module, "norm") || strings.HasPrefix(module, "ln") {
		return model.RoleNorm, model.RoleNormBias
	}
	return model.RoleOther, model.RoleOther
}

func attentionRoles(module string) (weight, bias model.Role, known bool) {
	switch module {
	case "attn_q", "cross_attn_q":
		return model.RoleQuery, model.RoleQueryBias, true
	case "attn_k", "cross_attn_k":
		return model.RoleKey, model.RoleKeyBias, true
	case "attn_v", "cross_attn_v":
		return model.RoleValue, model.RoleValueBias, true
	case "attn_qkv":
		return model.RoleQKV, model.RoleQKVBias, true
	case "attn_output", "attn_o", "attn_out", "cross_attn_o":
		return model.RoleAttentionOutput, model.RoleAttentionOutputBias, true
	case "attn_q_norm":
		return model.RoleQueryNorm, model.RoleQueryNorm, true
	case "attn_k_norm":
		return model.RoleKeyNorm, model.RoleKeyNorm, true
	case "attn_sinks":
		return model.RoleSinks, model.RoleSinks, true
	case "attn_gate":
		return model.RoleAttentionGate, model.RoleAttentionGate, true
	case "attn_rel_b", "cross_attn_rel_b":
		return model.RoleRelativeBias, model.RoleRelativeBias, true
	case "attn_q_a":
		return model.RoleQueryDown, model.RoleQueryBias, true
	case "attn_q_b":
		return model.RoleQueryUp, model.RoleQueryBias, true
	case "attn_kv_a_mqa":
		return model.RoleKVDown, model.RoleKVDown, true
	case "attn_kv_b", "attn_k_b", "attn_v_b":
		return model.RoleKVUp, model.RoleKVUp, true
	case "attn_q_a_norm", "attn_kv_a_norm":
		return model.RoleLatentNorm, model.RoleLatentNorm, true
	}
	if strings.HasPrefix(module, "indexer.") {
		return model.RoleIndexer, model.RoleIndexer, true
	}
	return 0, 0, false
}

func forwardRoles(module string) (weight, bias model.Role, known bool) {
	switch module {
	case "ffn_gate":
		return model.RoleGate, model.RoleGateBias, true
	case "ffn_up":
		return model.RoleUp, model.RoleUpBias, true
	case "ffn_down":
		return model.RoleDown, model.RoleDownBias, true
	case "ffn_gate_inp":
		return model.RoleRouter, model.RoleRouterBias, true
	case "exp_probs_b":
		return model.RoleRouterBias, model.RoleRouterBias, true
	case "ffn_gate_exps":
		return model.RoleExpertGate, model.RoleExpertGateUpBias, true
	case "ffn_up_exps":
		return model.RoleExpertUp, model.RoleExpertGateUpBias, true
	case "ffn_gate_up_exps":
		return model.RoleExpertGateUp, model.RoleExpertGateUpBias, true
	case "ffn_down_exps":
		return model.RoleExpertDown, model.RoleExpertDownBias, true
	case "ffn_gate_shexp":
		return model.RoleSharedExpertGate, model.RoleGateBias, true
	case "ffn_up_shexp":
		return model.RoleSharedExpertUp, model.RoleUpBias, true
	case "ffn_down_shexp":
		return model.RoleSharedExpertDown, model.RoleDownBias, true
	case "ffn_gate_inp_shexp":
		return model.RoleSharedExpertMix, model.RoleSharedExpertMix, true
	}
	return 0, 0, false
}

func mixerRoles(module string) (weight, bias model.Role, known bool) {
	switch module {
	case "ssm_in", "ssm_x", "ssm_dt", "ssm_ba", "ssm_beta_alpha", "ssm_alpha", "ssm_beta", "shortconv.in_proj":
		return model.RoleMixerIn, model.RoleMixerState, true
	case "ssm_out", "shortconv.out_proj":
		return model.RoleMixerOut, model.RoleMixerOut, true
	case "ssm_conv1d", "shortconv.conv":
		return model.RoleMixerConv, model.RoleMixerConv, true
	case "ssm_a", "ssm_d":
		return model.RoleMixerState, model.RoleMixerState, true
	case "ssm_norm", "ssm_dt_norm", "ssm_b_norm", "ssm_c_norm":
		return model.RoleMixerNorm, model.RoleMixerNorm, true
	}
	if strings.HasPrefix(module, "time_mix_") || strings.HasPrefix(module, "channel_mix_") {
		return model.RoleMixerState, model.RoleMixerState, true
	}
	return 0, 0, false
}
