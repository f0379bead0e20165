package ggufmodel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/gguf"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/ggufmodel"
)

// in names tensors of a layer.
func in(layer string, list ...matrix) []matrix {
	for i := range list {
		list[i].name = layer + "." + list[i].name + ".weight"
	}
	return list
}

// Each kind of layer, told by its tensors and the keys of its architecture.
func TestLayers(t *testing.T) {
	rms := func(norms ...int) []model.Norm {
		var list []model.Norm
		for _, w := range norms {
			list = append(list, model.Norm{Kind: model.RMSNorm, Width: w})
		}
		return list
	}
	const eps = "attention.layer_norm_rms_epsilon"
	plain := []matrix{{"attn_norm", []int64{8}}, {"attn_q", []int64{8, 8}}, {"attn_k", []int64{4, 8}}, {"attn_v", []int64{4, 8}}, {"attn_output", []int64{8, 8}},
		{"ffn_norm", []int64{8}}, {"ffn_gate", []int64{16, 8}}, {"ffn_up", []int64{16, 8}}, {"ffn_down", []int64{8, 16}}}
	clone := func(list []matrix) []matrix { return append([]matrix{}, list...) }
	for _, c := range []struct {
		name, architecture string
		keys               map[string]any
		tensors            []matrix
		want               model.Layer
	}{
		{"grouped heads", "llama", map[string]any{"attention.head_count": 2, "attention.head_count_kv": 1}, in("blk.0", clone(plain)...),
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 2, KVHeads: 1, KeyDim: 4, ValueDim: 4, RotaryDim: 4, Causal: true, CacheOf: -1}},
				FeedForward: model.Dense{Width: 16, Gated: true}, Norms: rms(8, 8), Residual: model.PreNorm}},
		{"heads by layer", "openelm", map[string]any{"attention.head_count": []int{2}, "attention.head_count_kv": []int{1}, "attention.key_length": 16, "attention.value_length": 8}, in("blk.0", clone(plain)...),
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 2, KVHeads: 1, KeyDim: 16, ValueDim: 8, RotaryDim: 16, Causal: true, CacheOf: -1}},
				FeedForward: model.Dense{Width: 16, Gated: true}, Norms: rms(8, 8), Residual: model.PreNorm}},
		{"a window in every layer but each sixth", "gemma3", map[string]any{"attention.head_count": 2, "attention.sliding_window": 512}, in("blk.0", append(clone(plain), matrix{"post_attention_norm", []int64{8}}, matrix{"post_ffw_norm", []int64{8}}, matrix{"attn_q_norm", []int64{4}})...),
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 2, KVHeads: 2, KeyDim: 4, ValueDim: 4, RotaryDim: 4, Window: 512, Causal: true, CacheOf: -1, QKNorm: true}},
				FeedForward: model.Dense{Width: 16, Gated: true}, Norms: rms(8, 8, 8, 8), Residual: model.Sandwich}},
		{"latent attention", "deepseek2", map[string]any{"attention.head_count": 4, "attention.kv_lora_rank": 5, "attention.q_lora_rank": 6, "rope.dimension_count": 2, "attention.key_length": 7, "attention.key_length_mla": 5, "attention.value_length_mla": 3},
			in("blk.0", matrix{"attn_norm", []int64{8}}, matrix{"attn_q_a", []int64{6, 8}}, matrix{"attn_q_b", []int64{20, 6}}, matrix{"attn_kv_a_mqa", []int64{7, 8}}, matrix{"attn_kv_b", []int64{24, 5}}),
			model.Layer{Mixers: []model.Mixer{model.LatentAttention{QueryHeads: 4, QueryRank: 6, KVRank: 5, NopeDim: 3, RopeDim: 2, ValueDim: 3}}, Norms: rms(8), Residual: model.PreNorm}},
		{"experts", "qwen3moe", map[string]any{"expert_count": 4, "expert_used_count": 2},
			in("blk.0", matrix{"ffn_norm", []int64{8}}, matrix{"ffn_gate_inp", []int64{4, 8}}, matrix{"ffn_gate_exps", []int64{4, 6, 8}}, matrix{"ffn_up_exps", []int64{4, 6, 8}}, matrix{"ffn_down_exps", []int64{4, 8, 6}}, matrix{"ffn_up_shexp", []int64{12, 8}}),
			model.Layer{FeedForward: model.Experts{Count: 4, Active: 2, Width: 6, Gated: true, Shared: 1, SharedWidth: 12}, Norms: rms(8), Residual: model.PreNorm}},
		{"state space, second version", "nemotron_h", map[string]any{"ssm.conv_kernel": 4, "ssm.inner_size": 16, "ssm.state_size": 32, "ssm.time_step_rank": 4, "ssm.group_count": 2},
			in("blk.0", matrix{"attn_norm", []int64{8}}, matrix{"ssm_in", []int64{40, 8}}, matrix{"ssm_out", []int64{8, 16}}),
			model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 2, Inner: 16, State: 32, Conv: 4, Heads: 4, HeadDim: 4, Groups: 2}}, Norms: rms(8), Residual: model.PreNorm}},
		{"state space, first version", "mamba", map[string]any{"ssm.conv_kernel": 4, "ssm.inner_size": 16, "ssm.state_size": 8, "ssm.time_step_rank": 2},
			in("blk.0", matrix{"ssm_in", []int64{32, 8}}, matrix{"ssm_out", []int64{8, 16}}),
			model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 1, Inner: 16, State: 8, Conv: 4, DTRank: 2}}, Residual: model.PreNorm}},
		{"gated delta rule", "qwen3next", map[string]any{"ssm.conv_kernel": 4, "ssm.inner_size": 16, "ssm.state_size": 8, "ssm.time_step_rank": 4, "ssm.group_count": 2},
			in("blk.0", matrix{"attn_qkv", []int64{32, 8}}, matrix{"ssm_ba", []int64{8, 8}}),
			model.Layer{Mixers: []model.Mixer{model.GatedDelta{KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 4, Conv: 4}}, Residual: model.PreNorm}},
		{"short convolution", "lfm2", map[string]any{"shortconv.l_cache": 3}, in("blk.0", matrix{"shortconv.conv", []int64{8, 3}}),
			model.Layer{Mixers: []model.Mixer{model.ShortConv{Width: 8, Kernel: 3}}, Residual: model.PreNorm}},
		{"gate and up in one matrix", "phi3", nil, in("blk.0", matrix{"ffn_up", []int64{32, 8}}, matrix{"ffn_down", []int64{8, 16}}),
			model.Layer{FeedForward: model.Dense{Width: 16, Gated: true}, Residual: model.PreNorm}},
		{"side by side", "falcon", map[string]any{"attention.head_count": 2}, in("blk.0", matrix{"attn_norm", []int64{8}}, matrix{"attn_qkv", []int64{24, 8}}, matrix{"attn_output", []int64{8, 8}}, matrix{"ffn_up", []int64{16, 8}}, matrix{"ffn_down", []int64{8, 16}}),
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 2, KVHeads: 2, KeyDim: 4, ValueDim: 4, RotaryDim: 4, Causal: true, CacheOf: -1}},
				FeedForward: model.Dense{Width: 16}, Norms: rms(8), Residual: model.Parallel}},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys := map[string]any{"embedding_length": 8, "block_count": 1, eps: 0}
			for key, value := range c.keys {
				keys[key] = value
			}
			m := read(t, c.architecture, keys, c.tensors)
			if diff := cmp.Diff(c.want, m.Stacks[0].Layers[0]); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(m.Unknown) > 0 {
				t.Errorf("unknown: %v", m.Unknown)
			}
		})
	}
}

// A head that the file leaves out is the token embedding; one that it stores
// counts, even where both are the same.
func TestHead(t *testing.T) {
	embedding, head := matrix{"token_embd.weight", []int64{32, 8}}, matrix{"output.weight", []int64{32, 8}}
	for _, c := range []struct {
		name       string
		tensors    []matrix
		parameters int64
		tied       bool
	}{
		{"left out", []matrix{embedding}, 256, true},
		{"stored", []matrix{embedding, head}, 512, false},
	} {
		m := read(t, "llama", map[string]any{"embedding_length": 8}, c.tensors)
		last := m.Tensors[len(m.Tensors)-1]
		if n, exact := m.Parameters().IsExact(); n != c.parameters || !exact || m.Vocab != 32 {
			t.Errorf("%s: %d parameters, exact %v, vocabulary %d", c.name, n, exact, m.Vocab)
		}
		if last.Role != model.RoleHead || (last.TiedTo != model.NotTied) != c.tied {
			t.Errorf("%s: the head is %+v", c.name, last)
		}
	}
}

// Layers that only predict further tokens are a stack of their own.
func TestPredictionLayers(t *testing.T) {
	m := read(t, "glm4moe", map[string]any{"embedding_length": 8, "block_count": 2, "nextn_predict_layers": 1},
		append(in("blk.0", matrix{"attn_norm", []int64{8}}), in("blk.1", matrix{"attn_norm", []int64{8}}, matrix{"nextn.eh_proj", []int64{8, 16}})...))
	var kinds []model.StackKind
	for _, s := range m.Stacks {
		kinds = append(kinds, s.Kind)
		if len(s.Layers) != 1 {
			t.Errorf("%s has %d layers", s.Name, len(s.Layers))
		}
	}
	if !cmp.Equal(kinds, []model.StackKind{model.Decoder, model.Predictor}) {
		t.Errorf("stacks %v", kinds)
	}
}

// What bears on sizes and is not understood is said; it makes no byte unknown.
func TestUnknownKeys(t *testing.T) {
	m := read(t, "novel", map[string]any{"embedding_length": 8, "block_count": 2, "attention.head_count": 2, "attention.sliding_window": 64, "attention.latent_count": 3, "logit_scale": 1},
		append(in("blk.0", matrix{"attn_q", []int64{8, 8}}), in("blk.1", matrix{"attn_q", []int64{8, 8}})...))
	var fields []string
	for _, u := range m.Unknown {
		fields = append(fields, u.Field)
	}
	if want := []string{"general.architecture", "novel.attention.sliding_window", "novel.attention.latent_count"}; !cmp.Equal(fields, want) {
		t.Errorf("unknown %q, want %q", fields, want)
	}
	if n, exact := m.WeightsBytes().IsExact(); !exact || n != 2*2*64 {
		t.Errorf("%d bytes, exact %v", n, exact)
	}
}

// A key that a layer's state depends on is never taken for 0.
func TestAbsentKeys(t *testing.T) {
	for tensor, want := range map[string]string{
		"attn_q": "novel.attention.head_count", "attn_kv_a_mqa": "novel.attention.kv_lora_rank", "ssm_in": "novel.ssm.state_size",
		"shortconv.conv": "novel.shortconv.l_cache", "time_mix_key": "novel.wkv.head_size", "ffn_gate_inp": "novel.expert_used_count",
	} {
		m := read(t, "novel", map[string]any{"embedding_length": 8}, in("blk.0", matrix{tensor, []int64{8, 8}}))
		found := false
		for _, u := range m.Unknown {
			found = found || u.Field == want
		}
		if !found {
			t.Errorf("%s: unknown %v, want %s among them", tensor, m.Unknown, want)
		}
	}
}

// Counts that no model can have are said, with the key: what depends on them is
// never taken for nothing.
func TestImpossibleCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		keys  map[string]any
		field string
		whole bool // the weights are all there
	}{
		{"more heads than the stream is wide", map[string]any{"attention.head_count": 1 << 30}, "attention.head_count", true},
		{"the same with a stated width", map[string]any{"attention.head_count": 1 << 30, "attention.key_length": 4, "attention.value_length": 4}, "attention.head_count", true},
		{"heads in words", map[string]any{"attention.head_count": "two"}, "attention.head_count", true},
		{"no heads of keys", map[string]any{"attention.head_count_kv": 0}, "attention.head_count_kv", true},
		{"heads of keys in words", map[string]any{"attention.head_count_kv": "one"}, "attention.head_count_kv", true},
		{"a list of heads for fewer layers", map[string]any{"attention.head_count_kv": []int{1}}, "attention.head_count_kv", true},
		{"more heads of keys than of queries", map[string]any{"attention.head_count_kv": 4}, "attention.head_count_kv", true},
		{"layers in words", map[string]any{"block_count": "two"}, "block_count", true},
		{"no layers", map[string]any{"block_count": 0}, "block_count", true},
		{"fewer layers than are there", map[string]any{"block_count": 1}, "block_count", true},
		{"more layers than are there", map[string]any{"block_count": 80}, "block_count", false},
	} {
		keys := map[string]any{"embedding_length": 8, "block_count": 2, "attention.head_count": 2}
		for key, value := range c.keys {
			keys[key] = value
		}
		m := read(t, "llama", keys, append(in("blk.0", matrix{"attn_q", []int64{8, 8}}), in("blk.1", matrix{"attn_q", []int64{8, 8}})...))
		found := false
		for _, u := range m.Unknown {
			found = found || u.Field == "llama."+c.field
		}
		if _, exact := m.WeightsBytes().IsExact(); !found || exact != c.whole {
			t.Errorf("%s: unknown %+v, weights %v", c.name, m.Unknown, m.WeightsBytes())
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, files := range map[string][]*gguf.File{"no file": nil, "no architecture": {file(t, "", nil, nil)}, "an adapter": {file(t, "llama", map[string]any{"general.type": "adapter"}, nil)}} {
		_, err := ggufmodel.Read(files)
		var e *source.FormatError
		if !errors.As(err, &e) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
