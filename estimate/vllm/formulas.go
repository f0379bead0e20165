package vllm

import (
	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
)

// The ids of the rules that figures of this package name.
const (
	budgetFormula   = "vllm.budget"
	weightsFormula  = "vllm.weights"
	rotaryFormula   = "vllm.rotary"
	relaidFormula   = "vllm.relaid"
	slotsFormula    = "vllm.adapter_slots"
	loadFormula     = "vllm.load"
	forwardFormula  = "vllm.profile_forward"
	samplerFormula  = "vllm.profile_sampler"
	expertsFormula  = "vllm.experts"
	mediaFormula    = "vllm.media"
	initialFormula  = "vllm.initial"
	nonTorchFormula = "vllm.non_torch"
	heldFormula     = "vllm.held"
	blocksFormula   = "vllm.blocks"
	cacheFormula    = "vllm.cache"
	promptFormula   = "vllm.prompt_logprobs"
	roundingFormula = "vllm.rounding"

	allocatorSource = "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp"
)

// formulas lists the rules. Their sources are those of the last version that was
// read; a figure names that of its own.
func formulas() []account.Formula {
	last := table()[len(table())-1]
	list := []account.Formula{
		{ID: budgetFormula, Short: "share × card − weights − peak − non-torch (− graphs)", Source: last.link("vllm/v1/worker/gpu_worker.py"),
			Rule:   "share × total of the card, less weights, the higher peak of the trial run, what came into use outside the allocator, and from 0.21 the estimated graphs; the rest is the cache",
			Worked: "0.95 × 79.19 − 14.99 − 1.89 − 0.25 = 58.11 GiB for Llama-3.1-8B on H100"},
		{ID: weightsFormula, Short: "stored tensors, rows padded to 64, divided", Source: last.link("vllm/model_executor/layers/vocab_parallel_embedding.py"),
			Rule:   "the stored bytes of the rank's part of each tensor; the vocabulary is padded to 64 rows",
			Worked: "8,030,261,248 parameters of 2 bytes are 14.96 GiB"},
		{ID: rotaryFormula, Short: "positions × turned elements × width", Source: last.link("vllm/model_executor/layers/rotary_embedding/base.py"),
			Rule: "sines and cosines of every position that the model declares", Worked: "131,072 × 128 × 2 bytes are 32 MiB; 1,048,576 positions take 256 MiB"},
		{ID: relaidFormula, Short: "other layouts of MXFP4 experts, latent heads twice", Source: last.link("vllm/model_executor/layers/quantization/utils/mxfp4_utils.py"),
			Rule:   "on Hopper packed sizes are padded to 64 bytes and the scales stay beside the kernel's copies; elsewhere up to a tenth of the experts; latent attention holds its up-projection a second time",
			Worked: "gpt-oss-20b: 13.64 GiB beside 12.82 in the file"},
		{ID: slotsFormula, Short: "slots × rank × Σ(in + out) × 2", Source: last.link("vllm/lora/layers/base_linear.py"),
			Rule:   "for as many adapters as may be on the card at once, of the highest rank, whether any is loaded",
			Worked: "4 slots of rank 16 on Llama-3.1-8B: 4 × 16 × 32 × 81,920 × 2 bytes are 335,544,320"},
		{ID: loadFormula, Short: "up to the largest tensor on its way", Source: last.link("vllm/model_executor/model_loader/base_loader.py"),
			Rule: "from nothing to the largest tensor beside its place", Worked: "Qwen3-8B: 15.33 GiB at the peak of loading and 15.27 after it"},
		{ID: forwardFormula, Short: "tokens × width × (3 ffn + 3.77 hidden)", Source: startups,
			Rule:   "positions of one step × bytes of an element × (3 × the network's width on the rank + 3.77 × the hidden size), the last fitted; an earlier stage holds what it sends and receives",
			Worked: "8,192 × 2 × (3 × 11,008 + 3.77 × 4,096) bytes and 32 MiB are 0.77 GiB for CodeLlama-7B, which measured 0.77"},
		{ID: samplerFormula, Short: "requests × vocabulary × 14, and 4 a processor", Source: last.link("vllm/v1/sample/ops/topk_topp_sampler.py"),
			Rule:   "logits, their copy in 32 bits, probabilities and noise of each dummy request, and a row for each processor that filters",
			Worked: "1,024 × 128,256 × 14 + 132 × 128,256 × 4 bytes, 8,192 + 2,048 hidden states and 32 MiB are 1.89 GiB for Llama-3.1-8B, which measured 1.89"},
		{ID: expertsFormula, Short: "tokens × active × (max(f, h) + max(2f, h)) × width", Source: last.link("vllm/model_executor/layers/fused_moe/fused_moe.py"),
			Rule:   "workspaces of fused experts, which stay after the first step",
			Worked: "8,192 × 4 × (2,048 + 2,816) × 2 bytes are 304 MiB for Qwen1.5-MoE"},
		{ID: mediaFormula, Short: "positions of images, and their pixels", Source: last.link("vllm/v1/worker/gpu_model_runner.py"),
			Rule:   "what the tower made of the images of one step, and the images, to the end of the trial run; families differ",
			Worked: "Gemma-3-12B: 32 × 896 × 896 × 3 × 2 + 8,192 × 3,840 × 2 bytes are 0.20 GiB"},
		{ID: initialFormula, Short: "measured: in use before the model", Source: startups,
			Rule: "measured intervals: context, and communicators that are built before the engine first looks", Worked: "H100: 0.51 GiB; with tensor parallelism 1.51 to 2.07"},
		{ID: nonTorchFormula, Short: "measured: what the forward pass adds outside", Source: startups,
			Rule: "measured intervals: kernels, and buffers of collectives", Worked: "H100: 0.24 to 0.46 GiB; with tensor parallelism 2.06 to 2.21"},
		{ID: heldFormula, Short: "measured: segments of which a part is in use", Source: startups,
			Rule:   "what the allocator holds beyond the tensors when the trial run is over: free and total memory, less contexts, kernels and weights; the budget does not pay for it",
			Worked: "Qwen3-8B on H100: 79.19 − 61.84 − 0.51 − 0.25 − 15.27 = 1.32 GiB"},
		{ID: blocksFormula, Short: "room ÷ bytes of a block, least of all ranks", Source: last.link("vllm/v1/core/kv_cache_utils.py"),
			Rule:   "the room for the cache divided by what one block takes in all layers of a group, and the least of all ranks",
			Worked: "58.11 GiB ÷ (16 × 131,072 bytes) are 29,751 blocks, 476,016 tokens"},
		{ID: cacheFormula, Short: "blocks × page × layers of a group", Source: last.link("vllm/v1/core/kv_cache_utils.py"),
			Rule:   "blocks × the bytes of one block in one layer × layers of a group, padded",
			Worked: "Gemma-3-27B: 10 global and 52 windowed layers are 7 groups of 10: 573,440 bytes a token beside 507,904"},
		{ID: roundingFormula, Short: "segments of 2 MiB steps, of which ≤ 1 MiB stays", Source: allocatorSource,
			Rule:   "a tensor of 10 MiB and more takes steps of 2 MiB, and 1 MiB or less is not split off; what is loaded as one matrix is one tensor",
			Worked: "Qwen2.5-7B: 56 MiB over 28 layers, by which 14.25 GiB exceed 14.19"},
		{ID: promptFormula, Short: "positions of a step × vocabulary × 6", Source: "https://github.com/vllm-project/vllm/pull/52054",
			Rule: "logits of all positions of a step and a copy in 32 bits", Worked: "8,192 × 152,064 × 6 bytes are 7,474,249,728"},
	}
	list = append(list, state.Formulas()...)
	return append(list, outside.Formulas()...)
}
