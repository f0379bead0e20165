package ggufmodel_test

import (
	"testing"

	"floodmark/model"
)

// What the names of llama.cpp's converter stand for.
func TestRoles(t *testing.T) {
	type place struct {
		role  model.Role
		stack string
		layer int32
	}
	for name, want := range map[string]place{
		"token_embd.weight":               {model.RoleTokenEmbedding, "", -1},
		"position_embd.weight":            {model.RolePositionEmbedding, "", -1},
		"token_types.weight":              {model.RoleTypeEmbedding, "", -1},
		"per_layer_token_embd.weight":     {model.RolePerLayerEmbedding, "", -1},
		"token_embd_norm.bias":            {model.RoleNormBias, "", -1},
		"output.weight":                   {model.RoleHead, "", -1},
		"output.bias":                     {model.RoleHeadBias, "", -1},
		"output_norm.weight":              {model.RoleFinalNorm, "", -1},
		"cls.output.weight":               {model.RoleClassifier, "", -1},
		"rope_freqs.weight":               {model.RoleOther, "", -1},
		"mm.0.weight":                     {model.RoleProjector, "", -1},
		"v.patch_embd.weight":             {model.RolePatchEmbedding, "", -1},
		"v.blk.0.attn_q.weight":           {model.RoleQuery, "v.blk", 0},
		"a.blk.0.ln1.weight":              {model.RoleNorm, "a.blk", 0},
		"enc.blk.0.attn_o.weight":         {model.RoleAttentionOutput, "enc.blk", 0},
		"dec.blk.0.cross_attn_q.weight":   {model.RoleQuery, "dec.blk", 0},
		"dec.blk.0.attn_rel_b.weight":     {model.RoleRelativeBias, "dec.blk", 0},
		"blk.0.attn_qkv.bias":             {model.RoleQKVBias, "blk", 0},
		"blk.0.attn_k_norm.weight":        {model.RoleKeyNorm, "blk", 0},
		"blk.0.attn_sinks.weight":         {model.RoleSinks, "blk", 0},
		"blk.0.attn_gate.weight":          {model.RoleAttentionGate, "blk", 0},
		"blk.0.attn_q_a_norm.weight":      {model.RoleLatentNorm, "blk", 0},
		"blk.0.attn_v_b.weight":           {model.RoleKVUp, "blk", 0},
		"blk.0.indexer.proj.weight":       {model.RoleIndexer, "blk", 0},
		"blk.0.ffn_gate.3.weight":         {model.RoleExpertGate, "blk", 0},
		"blk.0.ffn_down_exps.bias":        {model.RoleExpertDownBias, "blk", 0},
		"blk.0.ffn_gate_up_exps.weight":   {model.RoleExpertGateUp, "blk", 0},
		"blk.0.ffn_down_shexp.weight":     {model.RoleSharedExpertDown, "blk", 0},
		"blk.0.ffn_gate_inp_shexp.weight": {model.RoleSharedExpertMix, "blk", 0},
		"blk.0.exp_probs_b.bias":          {model.RoleRouterBias, "blk", 0},
		"blk.0.ssm_a":                     {model.RoleMixerState, "blk", 0},
		"blk.0.ssm_conv1d.weight":         {model.RoleMixerConv, "blk", 0},
		"blk.0.ssm_norm.weight":           {model.RoleMixerNorm, "blk", 0},
		"blk.0.time_mix_w1.weight":        {model.RoleMixerState, "blk", 0},
		"blk.0.post_ffw_norm.weight":      {model.RoleNorm, "blk", 0},
		"blk.0.laurel_l.weight":           {model.RoleOther, "blk", 0},
		"blk.99999.attn_q.weight":         {model.RoleOther, "", -1},
		"blk.x.attn_q.weight":             {model.RoleOther, "", -1},
	} {
		m := read(t, "llama", map[string]any{"embedding_length": 8}, []matrix{{name, []int64{8, 8}}})
		got := m.Tensors[0]
		stack := ""
		if got.Stack >= 0 {
			stack = m.Stacks[got.Stack].Name
		}
		if got.Role != want.role || stack != want.stack || got.Layer != want.layer {
			t.Errorf("%s: role %d in %q, layer %d; want %+v", name, got.Role, stack, got.Layer, want)
		}
	}
}

// Which layers see a window, by the list in a file, its period, or the rule of
// the architecture; and whose cache the last layers of Gemma 3n read.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		name, architecture string
		keys               map[string]any
		window, cacheOf    []int
	}{
		{"each second", "gemma2", nil, []int{4, 0, 4, 0, 4, 0}, []int{-1, -1, -1, -1, -1, -1}},
		{"each sixth is without", "gemma3", nil, []int{4, 4, 4, 4, 4, 0}, []int{-1, -1, -1, -1, -1, -1}},
		{"a list", "gemma4", map[string]any{"attention.sliding_window_pattern": []int{1, 1, 0, 1, 1, 0}}, []int{4, 4, 0, 4, 4, 0}, []int{-1, -1, -1, -1, -1, -1}},
		{"a period", "novel", map[string]any{"attention.sliding_window_pattern": 3}, []int{4, 4, 0, 4, 4, 0}, []int{-1, -1, -1, -1, -1, -1}},
		{"an architecture that ignores the key", "llama", nil, []int{0, 0, 0, 0, 0, 0}, []int{-1, -1, -1, -1, -1, -1}},
		{"the last three read the caches of earlier ones", "gemma3n", map[string]any{"attention.shared_kv_layers": 3, "attention.sliding_window_pattern": []int{1, 0, 1, 1, 0, 1}},
			[]int{4, 0, 4, 4, 0, 4}, []int{-1, -1, -1, 2, 1, 2}},
	} {
		keys := map[string]any{"embedding_length": 8, "block_count": 6, "attention.head_count": 2, "attention.sliding_window": 4}
		for key, value := range c.keys {
			keys[key] = value
		}
		var tensors []matrix
		for _, layer := range []string{"blk.0", "blk.1", "blk.2", "blk.3", "blk.4", "blk.5"} {
			tensors = append(tensors, in(layer, matrix{"attn_q", []int64{8, 8}})...)
		}
		m := read(t, c.architecture, keys, tensors)
		for i, l := range m.Stacks[0].Layers {
			a := l.Mixers[0].(model.Attention)
			if a.Window != c.window[i] || a.CacheOf != c.cacheOf[i] {
				t.Errorf("%s, layer %d: window %d, cache of %d; want %d and %d", c.name, i, a.Window, a.CacheOf, c.window[i], c.cacheOf[i])
			}
		}
		// "novel" is no architecture of llama.cpp, which is all that is unknown of it.
		if len(m.Unknown) > 0 && m.Unknown[0].Field != "general.architecture" || len(m.Unknown) > 1 {
			t.Errorf("%s: unknown %v", c.name, m.Unknown)
		}
	}
}
