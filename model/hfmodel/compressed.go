package hfmodel

import (
	"floodmark/dtype"
	"floodmark/model"
)

// attendCompressed adds one layer of DeepSeek-V4's attention (transformers,
// models/deepseek_v4): one head of keys that are also the values, kept for the
// positions of a window; before it one entry for every few positions, which in
// the denser layers an indexer chooses among; and an output projection by
// groups of heads. Its names are those of DeepSeek's checkpoints.
func (c scope) attendCompressed(s section, hidden int64) model.LatentAttention {
	heads, width, rank := s.need(keyHeads), s.need(keyHeadDim), s.need("q_lora_rank")
	groups, out := s.need("o_groups"), s.need("o_lora_rank")
	rope, ratio := s.or("qk_rope_head_dim", 0), s.or("compress_ratios", 0)
	s.has(keyKVHeads)
	in := c.under("attn")
	in.linear(model.RoleQueryDown, "wq_a", hidden, rank, 0, false)
	in.add(model.RoleLatentNorm, parameter, "q_norm.weight", rank)
	in.linear(model.RoleQueryUp, "wq_b", rank, heads*width, 0, false)
	in.linear(model.RoleKVDown, "wkv", hidden, width, 0, false)
	in.add(model.RoleLatentNorm, parameter, "kv_norm.weight", width)
	in.linear(model.RoleAttentionOutput, "wo_a", heads*width/max(1, groups), groups*out, 0, false)
	in.linear(model.RoleAttentionOutput, "wo_b", groups*out, hidden, 0, false)
	in.store32(in.add(model.RoleSinks, parameter, "attn_sink", heads), true)
	l := model.LatentAttention{
		QueryHeads: int(heads), QueryRank: int(rank), KVRank: int(width - min(rope, width)), NopeDim: int(width - min(rope, width)),
		RopeDim: int(rope), ValueDim: int(width), CompressedEvery: int(ratio), Window: int(s.window()),
	}
	if ratio == 0 {
		return l
	}
	const overlapping = 4 // windows of that many positions overlap, and are chosen among
	in.compressor(hidden, width, ratio, ratio == overlapping)
	if index := s.or("index_head_dim", 0); ratio == overlapping && index > 0 {
		l.Indexer = &model.Indexer{Heads: int(s.need("index_n_heads")), KeyDim: int(index), TopK: int(s.or("index_topk", 0))}
		at := in.under("indexer")
		at.linear(model.RoleIndexer, "wq_b", rank, int64(l.Indexer.Heads)*index, 0, false)
		at.add(model.RoleIndexer, linearSpared, "weights_proj.weight", int64(l.Indexer.Heads), hidden)
		at.compressor(hidden, index, ratio, true)
	}
	return l
}

// compressor adds what makes one entry of a window of positions: a projection,
// its gate, a bias for each position, and a norm. Overlapping windows need two
// of each width.
func (c scope) compressor(hidden, width, ratio int64, overlapping bool) {
	both := width
	if overlapping {
		both *= 2
	}
	in := c.under("compressor")
	in.add(model.RoleIndexer, linearSpared, "wkv.weight", both, hidden)
	in.add(model.RoleIndexer, linearSpared, "wgate.weight", both, hidden)
	in.store(in.add(model.RoleIndexer, parameter, "ape", ratio, both), dtype.F32)
	in.add(model.RoleLatentNorm, parameter, "norm.weight", width)
}
