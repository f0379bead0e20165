package hfmodel

import "floodmark/model"

// latent is what a row says of multi-head latent attention, as DeepSeek-V2
// introduced it (arXiv:2405.04434). Its names are those of every family:
// q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, o_proj under the slot
// latent.
type latent struct {
	bias    flag
	indexer bool // sparse families choose positions by an indexer
	gate    flag // the output is multiplied by a gate of the query's width
}

// attendLatent adds one layer of latent attention.
func (c scope) attendLatent(s section, k *stack, hidden int64) model.LatentAttention {
	l := model.LatentAttention{
		QueryHeads: int(s.need(keyHeads)), QueryRank: int(s.or("q_lora_rank", 0)), KVRank: int(s.need("kv_lora_rank")),
		NopeDim: int(s.need("qk_nope_head_dim")), RopeDim: int(s.need("qk_rope_head_dim")),
		QKVBias: s.is(k.latent.bias),
	}
	l.ValueDim = int(s.or("v_head_dim", 0))
	if l.ValueDim == 0 {
		l.ValueDim = int(hidden) / max(1, l.QueryHeads)
	}
	s.has(keyKVHeads + "|" + keyHeadDim + "|qk_head_dim") // they follow from the ranks
	heads, kv := int64(l.QueryHeads), int64(l.KVRank)
	query := heads * int64(l.NopeDim+l.RopeDim)
	in := c.under(k.slot["latent"])
	if rank := int64(l.QueryRank); rank > 0 {
		in.linear(model.RoleQueryDown, "q_a_proj", hidden, rank, model.RoleQueryBias, l.QKVBias)
		in.add(model.RoleLatentNorm, parameter, "q_a_layernorm.weight", rank)
		in.linear(model.RoleQueryUp, "q_b_proj", rank, query, 0, false)
	} else {
		in.linear(model.RoleQuery, "q_proj", hidden, query, 0, false)
	}
	in.linear(model.RoleKVDown, "kv_a_proj_with_mqa", hidden, kv+int64(l.RopeDim), model.RoleKeyBias, l.QKVBias)
	in.add(model.RoleLatentNorm, parameter, "kv_a_layernorm.weight", kv)
	in.linear(model.RoleKVUp, "kv_b_proj", kv, heads*int64(l.NopeDim+l.ValueDim), 0, false)
	in.linear(model.RoleAttentionOutput, "o_proj", heads*int64(l.ValueDim), hidden, model.RoleAttentionOutputBias, l.QKVBias)
	if s.is(k.latent.gate) {
		in.linear(model.RoleAttentionGate, "g_proj", hidden, heads*int64(l.ValueDim), 0, false)
	}
	if width := s.or("index_head_dim", 0); k.latent.indexer && width > 0 && !s.is("indexer_types~shared") {
		l.Indexer = in.index(s, hidden, int64(l.QueryRank), width)
	}
	return l
}

// index adds the indexer of sparse latent attention: queries from the
// compressed query, one key a position, and a weight for each head
// (DeepSeek-V3.2's inference code, class Indexer).
func (c scope) index(s section, hidden, rank, width int64) *model.Indexer {
	x := &model.Indexer{Heads: int(s.need("index_n_heads")), KeyDim: int(width), TopK: int(s.or("index_topk", 0))}
	in, heads := c.under("indexer"), int64(x.Heads)
	in.linear(model.RoleIndexer, "wq_b", rank, heads*width, 0, false)
	in.linear(model.RoleIndexer, "wk", hidden, width, 0, false)
	in.add(model.RoleIndexer, parameter, "k_norm.weight", width)
	in.add(model.RoleIndexer, parameter, "k_norm.bias", width)
	in.add(model.RoleIndexer, linearSpared, "weights_proj.weight", heads, hidden)
	return x
}
