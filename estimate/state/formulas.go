package state

import "floodmark/account"

// The ids of the rules that figures of this package name.
const (
	AttentionFormula = "kv.attention"
	WindowFormula    = "kv.window"
	LatentFormula    = "kv.latent"
	PerHeadFormula   = "kv.latent_per_head"
	IndexerFormula   = "kv.indexer"
	CrossFormula     = "kv.cross"
	RecurrentFormula = "state.recurrent"
)

// Formulas lists the rules. In all of them K and V are combined, and heads are
// those of one rank: max(1, KV heads ÷ tensor-parallel ranks).
func Formulas() []account.Formula {
	return []account.Formula{
		{
			ID:     AttentionFormula,
			Short:  "Σ layers: KV heads × (key + value dim) × positions",
			Rule:   "Σ layers: KV heads × (key + value dim) × positions × sequences × bytes of the format; K and V combined",
			Source: sourceOf(AttentionFormula),
			Worked: "32 layers × 8 × (128 + 128) × 8,192 × 1 × 2 bytes = 1,073,741,824 bytes",
		},
		{
			ID:     WindowFormula,
			Short:  "as kv.attention, of the newest positions of each window",
			Rule:   "as kv.attention, of the newest min(length, window) positions; an engine may reserve more",
			Source: sourceOf(WindowFormula),
			Worked: "8 × (64 + 64) × min(8,192, 128) × 2 bytes = 262,144 bytes a layer",
		},
		{
			ID:     LatentFormula,
			Short:  "latent vector, not divided by tensor parallel",
			Rule:   "Σ layers: latent vector, not divided by tensor parallel: (KV rank + rotary dim) × positions × sequences × bytes of the format",
			Source: sourceOf(LatentFormula),
			Worked: "61 layers × (512 + 64) × 4,096 × 2 bytes = 287,834,112 bytes",
		},
		{
			ID:     PerHeadFormula,
			Short:  "keys and values expanded: heads × (key + value dim)",
			Rule:   "keys and values expanded by transformers: Σ layers: query heads × (key + value dim) × positions × sequences × bytes of the format",
			Source: sourceOf(PerHeadFormula),
			Worked: "61 layers × 128 × (192 + 128) × 512 × 2 bytes = 2,558,525,440 bytes",
		},
		{
			ID:     IndexerFormula,
			Short:  "indexer: key dim in FP8 and its scales",
			Rule:   "layers with an indexer: key dim in FP8 and a 32-bit scale for each 128, for each position",
			Source: sourceOf(IndexerFormula),
			Worked: "128 + 4 = 132 bytes a position and layer",
		},
		{
			ID:     CrossFormula,
			Short:  "keys and values of the other stack",
			Rule:   "layers with cross-attention: KV heads × (key + value dim) × positions of the other stack × sequences × bytes of the format",
			Source: sourceOf(CrossFormula),
			Worked: "8 × (128 + 128) × 1,601 × 2 bytes = 6,557,696 bytes a layer",
		},
		{
			ID:     RecurrentFormula,
			Short:  "Σ recurrent layers: the state of each sequence",
			Rule:   "Σ recurrent layers: the state (heads × dims) and the positions that a convolution still needs, for each sequence, whatever its length",
			Source: sourceOf(RecurrentFormula),
			Worked: "24 layers × (128 × 64 × 128 + 3 × 10,240) × 2 bytes = 51,806,208 bytes",
		},
	}
}

// sourceOf is the public source of a rule.
func sourceOf(id string) string {
	switch id {
	case AttentionFormula, CrossFormula:
		return "https://huggingface.co/docs/transformers/kv_cache"
	case WindowFormula:
		return "https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/v1/kv_cache_interface.py"
	case LatentFormula:
		return "https://arxiv.org/abs/2405.04434"
	case PerHeadFormula:
		return "https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/models/deepseek_v3/modeling_deepseek_v3.py"
	case IndexerFormula:
		return "https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/model_executor/models/deepseek_v2.py"
	case RecurrentFormula:
		return "https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/model_executor/layers/mamba/mamba_utils.py"
	}
	return ""
}
