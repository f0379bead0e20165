package ggufmodel

import (
	"fmt"

	"floodmark/model"
)

// drawn is the tensors of one layer by module.
type drawn struct {
	index  int
	shapes map[string][]int64
	biases map[string]bool
}

func (d drawn) has(module string) bool { return d.shapes[module] != nil }

// rows is how many rows a matrix has; 0 where it is not there.
func (d drawn) rows(module string) int {
	if s := d.shapes[module]; len(s) > 1 {
		return int(min(s[len(s)-2], maxSize))
	}
	return 0
}

// layer makes a layer of what its tensors are and what the metadata says.
func (b *builder) layer(d drawn) model.Layer {
	l := model.Layer{Index: d.index, Mixers: b.mixers(d), FeedForward: b.feedForward(d), Residual: residual(d)}
	kind := model.LayerNorm
	if b.has("attention.layer_norm_rms_epsilon") {
		kind = model.RMSNorm
	}
	for _, module := range []string{"attn_norm", "attn_norm_2", "post_attention_norm", "attn_output_norm", "ffn_norm", "post_ffw_norm", "layer_output_norm"} {
		if s := d.shapes[module]; len(s) == 1 {
			l.Norms = append(l.Norms, model.Norm{Kind: kind, Width: int(min(s[0], maxSize)), Bias: d.biases[module]})
		}
	}
	return l
}

// residual tells by the norms how the parts of a layer are joined.
func residual(d drawn) model.Residual {
	switch {
	case d.has("layer_output_norm"), !d.has("attn_norm") && d.has("post_attention_norm"):
		return model.PostNorm
	case d.has("post_attention_norm") && d.has("post_ffw_norm"):
		return model.Sandwich
	case d.has("attn_norm") && !d.has("ffn_norm") && !d.has("post_attention_norm") && d.has("ffn_down") && d.has("attn_output"):
		return model.Parallel
	}
	return model.PreNorm
}

// mixers tells by the tensors what moves information between positions.
func (b *builder) mixers(d drawn) []model.Mixer {
	var list []model.Mixer
	switch {
	case d.has("attn_kv_a_mqa"):
		b.require(d.index, "attention.head_count", "attention.kv_lora_rank", "rope.dimension_count")
		list = append(list, b.latent(d))
	case d.has("attn_qkv") && (d.has("ssm_ba") || d.has("ssm_beta_alpha") || d.has("ssm_beta")):
		b.require(d.index, "ssm.group_count", "ssm.time_step_rank", "ssm.state_size", "ssm.inner_size", "ssm.conv_kernel")
		list = append(list, b.delta())
	case d.has("attn_q") || d.has("attn_qkv"):
		b.require(d.index, "attention.head_count", "embedding_length")
		list = append(list, b.attention(d))
	}
	switch {
	case d.has("ssm_in"):
		b.require(d.index, "ssm.inner_size", "ssm.state_size", "ssm.conv_kernel")
		list = append(list, b.mamba())
	case d.has("shortconv.conv"):
		b.require(d.index, "shortconv.l_cache")
		list = append(list, model.ShortConv{Width: b.width, Kernel: b.number("shortconv.l_cache")})
	case d.has("time_mix_key"):
		b.require(d.index, "wkv.head_size")
		size := max(1, b.number("wkv.head_size"))
		list = append(list, model.LinearAttention{Heads: b.width / size, KeyDim: size, ValueDim: size, TokenShift: 2})
	}
	if d.has("cross_attn_q") {
		cross := b.attention(d)
		cross.Cross, cross.Causal = true, false
		list = append(list, cross)
	}
	return list
}

// attention reads one layer of plain attention. Where the width of a head is
// not stated, it is that of the stream over the heads.
func (b *builder) attention(d drawn) model.Attention {
	heads := b.at("attention.head_count", d.index, 0)
	a := model.Attention{
		QueryHeads: heads, KVHeads: b.at("attention.head_count_kv", d.index, int64(heads)),
		Causal: !b.encoder, CacheOf: -1, QKNorm: d.has("attn_q_norm"), QKVBias: d.biases["attn_q"] || d.biases["attn_qkv"],
		OutputBias: d.biases["attn_output"], Sinks: d.has("attn_sinks"), OutputGate: d.has("attn_gate"),
		SoftCap: b.float("attn_logit_softcapping"),
	}
	usual := 0
	if heads > 0 {
		usual = b.width / heads
	}
	a.KeyDim = b.at("attention.key_length", -1, int64(usual))
	a.ValueDim = b.at("attention.value_length", -1, int64(usual))
	a.RotaryDim = b.at("rope.dimension_count", -1, int64(a.KeyDim))
	b.fit(a)
	if window := b.number("attention.sliding_window"); window > 0 {
		slides, known := b.windowed(d.index)
		if !known {
			b.doubt("attention.sliding_window", "which layers of this architecture see a window is not known here")
		}
		if slides {
			a.Window = window
			a.KeyDim = b.at("attention.key_length_swa", -1, int64(a.KeyDim))
			a.ValueDim = b.at("attention.value_length_swa", -1, int64(a.ValueDim))
		}
	}
	if chunk := b.number("attention.chunk_size"); chunk > 0 && (d.index+1)%4 != 0 {
		a.Chunk = chunk
	}
	if shared := b.number("attention.shared_kv_layers"); shared > 0 && d.index >= b.blocks-shared {
		a.CacheOf = b.source(d.index, shared, a.Window > 0)
	}
	return a
}

// maxHeads is far above every model.
const maxHeads = 1 << 16

// fit doubts heads that no attention can have, so that their cache is never
// taken for an empty one.
func (b *builder) fit(a model.Attention) {
	switch {
	case a.QueryHeads <= 0:
		return // which require has said
	case a.QueryHeads > maxHeads || a.KeyDim == 0 || a.ValueDim == 0:
		b.doubt("attention.head_count", fmt.Sprintf("says %d heads, which have no width in a stream of %d, or are more than any model has", a.QueryHeads, b.width))
	case a.KVHeads == 0:
		b.doubt("attention.head_count_kv", "is 0 in a layer that has attention")
	case a.QueryHeads%a.KVHeads != 0:
		b.doubt("attention.head_count_kv", fmt.Sprintf("is %d, of which %d query heads are no multiple", a.KVHeads, a.QueryHeads))
	}
}

// source is the layer whose cache a layer of the shared ones reads: the last
// of its own kind before them.
func (b *builder) source(layer, shared int, slides bool) int {
	for i := b.blocks - shared - 1; i >= 0; i-- {
		if w, _ := b.windowed(i); w == slides {
			return i
		}
	}
	return layer
}

// latent reads multi-head latent attention. Newer files state the sizes of one
// head under _mla, since their key_length is that of the cache.
func (b *builder) latent(d drawn) model.LatentAttention {
	l := model.LatentAttention{
		QueryHeads: b.at("attention.head_count", d.index, 0), QueryRank: b.number("attention.q_lora_rank"), KVRank: b.number("attention.kv_lora_rank"),
		RopeDim: b.number("rope.dimension_count"),
	}
	key := b.at("attention.key_length_mla", -1, int64(b.number("attention.key_length")))
	l.NopeDim = max(0, key-l.RopeDim)
	l.ValueDim = b.at("attention.value_length_mla", -1, int64(b.number("attention.value_length")))
	if heads := b.number("attention.indexer.head_count"); heads > 0 {
		l.Indexer = &model.Indexer{Heads: heads, KeyDim: b.number("attention.indexer.key_length"), TopK: b.number("attention.indexer.top_k")}
	}
	return l
}

// mamba reads the state-space keys: groups are what version 2 has and version 1
// has not.
func (b *builder) mamba() model.Mamba {
	m := model.Mamba{Version: 1, Inner: b.number("ssm.inner_size"), State: b.number("ssm.state_size"), Conv: b.number("ssm.conv_kernel"), DTRank: b.number("ssm.time_step_rank")}
	if groups := b.number("ssm.group_count"); groups > 0 && m.DTRank > 0 {
		m.Version, m.Groups, m.Heads, m.HeadDim, m.DTRank = 2, groups, m.DTRank, m.Inner/m.DTRank, 0
	}
	return m
}

func (b *builder) delta() model.GatedDelta {
	heads := max(1, b.number("ssm.time_step_rank"))
	return model.GatedDelta{KeyHeads: b.number("ssm.group_count"), ValueHeads: heads, KeyDim: b.number("ssm.state_size"),
		ValueDim: b.number("ssm.inner_size") / heads, Conv: b.number("ssm.conv_kernel")}
}

// feedForward tells by the tensors what a layer does to each position.
func (b *builder) feedForward(d drawn) model.FeedForward {
	if d.has("ffn_gate_inp") {
		b.require(d.index, "expert_count", "expert_used_count")
		shared := b.number("expert_shared_count")
		e := model.Experts{
			Count: b.number("expert_count"), Active: b.number("expert_used_count"), Width: d.rows("ffn_up_exps"),
			Gated: d.has("ffn_gate_exps") || d.has("ffn_gate_up_exps"), Bias: d.biases["ffn_up_exps"],
			Shared: shared, SharedWidth: d.rows("ffn_up_shexp"), SharedGate: d.has("ffn_gate_inp_shexp"), RouterBias: d.has("exp_probs_b") || d.biases["ffn_gate_inp"],
		}
		if e.Width == 0 {
			e.Width = b.at("expert_feed_forward_length", d.index, 0)
		}
		if e.SharedWidth > 0 && e.Shared == 0 {
			e.Shared = 1
		}
		return e
	}
	if !d.has("ffn_down") {
		return nil
	}
	width, gated := d.rows("ffn_up"), d.has("ffn_gate")
	if s := d.shapes["ffn_down"]; len(s) > 1 && !gated && width == 2*int(s[len(s)-1]) {
		// Gate and up are one matrix, as Phi-3 has them.
		width, gated = width/2, true
	}
	return model.Dense{Width: width, Gated: gated, Bias: d.biases["ffn_up"]}
}
