package eager

import (
	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
)

// The ids of the rules that figures of this package name.
const (
	weightsFormula    = "weights.stored"
	adaptersFormula   = "adapters.stored"
	bufferFormula     = "buffers.class"
	activationFormula = "activations.layer"
	logitsFormula     = "logits.vocabulary"
	temporaryFormula  = "temporaries.step"
	roundingFormula   = "allocator.rounding"
	cacheFormula      = "allocator.cached"
)

// formulas lists the rules that the figures of both engines name.
func formulas() []account.Formula {
	own := []account.Formula{
		{
			ID:     weightsFormula,
			Short:  "stored bytes of each tensor, shared storage once",
			Rule:   "the stored bytes of each tensor of the rank, shared storage once",
			Worked: "7,000,000,000 elements of 2 bytes are 14,000,000,000 bytes",
		},
		{
			ID:     adaptersFormula,
			Short:  "stored bytes of each adapter",
			Rule:   "the stored bytes of each adapter, up to all of them on each rank",
			Worked: "rank 16 on q and v of 16 layers of width 2,048 with 8 × 64 for v: 16 × 16 × (4,096 + 2,560) parameters of 4 bytes are 6,815,744 bytes",
		},
		{
			ID:     bufferFormula,
			Short:  "masks, or sines and cosines, that the class keeps",
			Rule:   "up to one byte for each pair of positions that the model declares, where its class keeps a mask (transformers before 4.42); in serving, up to the sines and cosines of all those positions",
			Worked: "8,192 × 8,192 = 67,108,864 bytes; 131,072 × 128 × 2 bytes = 33,554,432 bytes, by which vLLM's weights of Llama-3.1-8B exceed the file's",
		},
		{
			ID:     activationFormula,
			Short:  "positions at work × the most that one keeps alive",
			Rule:   "positions at work × the most that one keeps alive in a layer: stream, its copies in 32 bits, q, k, v and their turned copies, or gate, up and product; from one position to all of prefill; where ranks share experts, up to all positions of the other replicas routed to this rank",
			Worked: "8,192 positions × (4 × 4,096 + 3 × 11,008) × 2 bytes = 809,500,672 bytes; vLLM 0.19 measured 0.77 GiB for CodeLlama-7B",
		},
		{
			ID:     logitsFormula,
			Short:  "positions × vocabulary, copies in 32 bits, sampling",
			Rule:   "positions × vocabulary × the bytes of the format, and up to 8 more for its copies in 32 bits; 33 for sampling one position of each sequence",
			Worked: "8,192 × 128,256 × 4 bytes = 4,202,692,608 bytes for one copy in 32 bits",
		},
		{
			ID:     temporaryFormula,
			Short:  "loading copies, workspaces, expanded or repeated tensors",
			Rule:   "while loading, from nothing to the largest tensor moved before it is cast; then workspaces of matrix libraries; in decode up to the key or value of one layer copied; keys and values repeated for each query head; the largest packed weight expanded",
			Worked: "6,144 × 24,576 × (2 + 4) bytes = 905,969,664 bytes for a weight of 4 bits that is computed in 32",
		},
		{
			ID:     roundingFormula,
			Short:  "512 bytes a block, up to 1 MiB for each tensor",
			Rule:   "512 bytes a block; a block that is larger than its tensor by 1 MiB or less is not split, so up to 1 MiB for each tensor that is not laid out",
			Worked: "11 tensors of a layer and 4 beside them: up to 15 MiB",
		},
		{
			ID:     cacheFormula,
			Short:  "blocks that are kept for later; given back when needed",
			Rule:   "from nothing to one block for each tensor of a layer that no other of its size serves, and segments partly filled; in decode up to all that prefill used. It is given back before a request fails",
			Worked: "the allocator's segments of 20 and 2 MiB, and 64 MiB of rounding",
		},
	}
	for i := range own {
		own[i].Source = sourceOf(own[i].ID)
	}
	return append(append(own, state.Formulas()...), outside.Formulas()...)
}

// sourceOf is the public source of a rule.
func sourceOf(id string) string {
	switch id {
	case weightsFormula:
		return "https://pytorch.org/docs/stable/tensor_attributes.html"
	case adaptersFormula:
		return "https://huggingface.co/docs/peft/main/en/developer_guides/checkpoint"
	case bufferFormula:
		return "https://github.com/huggingface/transformers/blob/v4.35.0/src/transformers/models/gpt_bigcode/modeling_gpt_bigcode.py"
	case activationFormula:
		return "https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/models/llama/modeling_llama.py"
	case logitsFormula:
		return "https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/generation/utils.py"
	case temporaryFormula:
		return "https://github.com/huggingface/transformers/blob/v4.51.3/src/transformers/cache_utils.py"
	case cacheFormula, roundingFormula:
		return "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp"
	}
	return ""
}
