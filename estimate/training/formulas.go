package training

import (
	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
	"floodmark/workload"
)

// The ids of the rules that figures of this package name.
const (
	weightsFormula   = "weights.stored"
	loadFormula      = "training.load"
	adapterFormula   = "training.adapter"
	gradientFormula  = "training.gradients"
	masterFormula    = "training.master_copy"
	autocastFormula  = "training.autocast_cache"
	temporaryFormula = "training.temporaries"
	inputFormula     = "training.input"
	keptFormula      = "training.kept_predictions"
	logitsFormula    = "training.logits"
	copyFormula      = "training.copy"
	revertFormula    = "training.reverted"
	mergeFormula     = "training.merge"
	resumeFormula    = "training.resume"
	operatorFormula  = "training.operators"
	lengthsFormula   = "training.lengths"
	bucketFormula    = "sharding.buckets"
	gatherFormula    = "sharding.gathered"
	offloadFormula   = "sharding.offloaded"
	pagedFormula     = "optimizer.paged"
	momentsFormula   = "optimizer.moments"
	blockFormula     = "optimizer.blockwise"
	wideFormula      = "optimizer.32_bits"
	factoredFormula  = "optimizer.factored"
)

const (
	pytorch      = "https://github.com/pytorch/pytorch/blob/v2.9.0/torch/"
	bitsandbytes = "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.49.0/bitsandbytes/optim/optimizer.py"
	transformers = "https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/"
	deepspeed    = "https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/"
	peft         = "https://github.com/huggingface/peft/blob/v0.18.0/src/peft/"
)

// stateFormula is the rule of an optimizer's states.
func stateFormula(o workload.Optimizer) string {
	switch {
	case o.Bits == 8:
		return blockFormula
	case o.Bits != 0:
		return wideFormula
	case o.Name == workload.Adafactor:
		return factoredFormula
	}
	return momentsFormula
}

// sourceOf is the public source of a rule.
func sourceOf(id string) string {
	for _, f := range rules() {
		if f.ID == id {
			return f.Source
		}
	}
	return ""
}

// Formulas lists the rules, and those of what stands around them.
func Formulas() []account.Formula {
	list := append(rules(), outside.Formulas()...)
	return append(list, state.Formulas()...)
}

func rules() []account.Formula {
	return []account.Formula{
		{ID: weightsFormula, Short: "Σ tensors: shape × stored format", Rule: "Σ tensors of the rank: elements × bytes of the stored format, shared storage once; packed words as stored",
			Source: "https://github.com/huggingface/safetensors#format", Worked: "[4096, 4096] in BF16 is 33,554,432 bytes"},
		{ID: loadFormula, Short: "one tensor on its way", Rule: "nothing where tensors are copied into place, at most the largest where one is moved and then cast",
			Source: transformers + "modeling_utils.py", Worked: "an embedding of [128256, 4096] in BF16 is 1,050,673,152 bytes"},
		{ID: adapterFormula, Short: "Σ modules: rank × (in + out), modules saved whole", Rule: "Σ targeted modules: rank × (in + out) elements, DoRA: out more; modules saved whole: their shape; in the adapter's format",
			Source: peft + "tuners/lora/layer.py", Worked: "rank 16 on [4096, 4096] in 32 bits is 16 × 8192 × 4 = 524,288 bytes"},
		{ID: gradientFormula, Short: "trained elements × format of gradients", Rule: "Σ trained tensors: elements × bytes of the gradients' format; born in backward, freed after the step unless they are kept",
			Source: pytorch + "csrc/autograd/functions/accumulate_grad.h", Worked: "7,000,000,000 × 2 bytes = 14,000,000,000 bytes"},
		{ID: masterFormula, Short: "trained elements × format of the master copy", Rule: "Σ trained tensors: elements × bytes of the master copy's format, from when the optimizer is made",
			Source: "https://arxiv.org/abs/1710.03740", Worked: "7,000,000,000 × 4 bytes = 28,000,000,000 bytes"},
		{ID: autocastFormula, Short: "matrices of 32 bits × autocast's format", Rule: "Σ trained matrices of 32 bits but embeddings: elements × 2 bytes, from their first use to the end of autocast's context",
			Source: "https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/autocast_mode.cpp", Worked: "[4096, 4096] is 33,554,432 bytes"},
		{ID: temporaryFormula, Short: "temporaries of the optimizer, by its source", Rule: "AdamW: foreach one root for all parameters, for_loop a root and two quotients of one; Adafactor and Muon: one parameter at a time; kernels that update in place none",
			Source: pytorch + "optim/adam.py", Worked: "foreach over 7,000,000,000 parameters with moments in BF16: 14,000,000,000 bytes"},
		{ID: operatorFormula, Short: "each operator's allocations, in order", Rule: "the model's modules as a program of operators: what each allocates, keeps for backward and frees, in PyTorch's order",
			Source: "https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/llama/modeling_llama.py", Worked: "a linear layer of [4096, 4096] over 2,048 positions in BF16 makes 16,777,216 bytes and keeps its input"},
		{ID: lengthsFormula, Short: "what orders of lengths leave reserved", Rule: "peak of reserved bytes over the runs of 64 lengths, quantiles of the declared ones, in 6 orders drawn by fixed seeds over as many sequences as there are, each left when nothing has risen for as long as it took to get there, less that of steps whose sequences all have the longest length; from the lowest order to the highest",
			Source: "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp", Worked: "requests of 20, 30 and 40 MiB after one another reserve 90 MiB, in the other order 40"},
		{ID: inputFormula, Short: "8 bytes a token: ids, labels, mask, positions", Rule: "8 bytes a token of a micro-batch: ids at least; ids, labels, mask and positions at most",
			Source: "https://huggingface.co/docs/transformers/main_classes/data_collator", Worked: "4 × 2048 × 8 = 65,536 bytes"},
		{ID: keptFormula, Short: "batches × batch × positions × vocabulary × format, twice", Rule: "batches × sequences (of all ranks, which gather each other's) × positions × vocabulary × bytes of the format, twice: what is there stands beside the new tensor that it is joined into",
			Source: transformers + "trainer_pt_utils.py", Worked: "4 × 180 × 128,256 × 4 = 369,377,280 bytes a batch"},
		{ID: logitsFormula, Short: "sequences × positions × vocabulary × format", Rule: "sequences × positions (or a chunk of them) × vocabulary × bytes of the format, while log-probabilities are made of them",
			Source: "https://github.com/THUDM/slime/issues/2253", Worked: "11,600 × 248,320 × 4 = 11,522,048,000 bytes; 1,024 of them 1,017,118,720"},
		{ID: copyFormula, Short: "parameters × format of the copy", Rule: "Σ parameters: elements × bytes of the copy's format",
			Source: "https://docs.pytorch.org/docs/stable/distributed.checkpoint.html", Worked: "6,738,415,616 × 4 = 26,953,662,464 bytes"},
		{ID: revertFormula, Short: "gate and up of routed experts, cut apart", Rule: "Σ tensors that the class holds in another form than the files, which are all copied before the first is written: gate and up of routed experts, which a class of transformers 5 holds in one",
			Source: "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/core_model_loading.py", Worked: "32 layers × 8 experts × 2 × 14,336 × 4,096 × 2 bytes = 60,129,542,144"},
		{ID: mergeFormula, Short: "one module: product, its scaled copy", Rule: "one module at a time: out × in in the adapter's format, twice; the unpacked weight and the sum where it is packed",
			Source: peft + "tuners/lora/layer.py", Worked: "[14336, 4096] in 32 bits is 234,881,024 bytes, twice"},
		{ID: resumeFormula, Short: "what a checkpoint holds, while it is taken over", Rule: "weights that are read onto the device, once more; states are kept as they are read, and are a copy more before PyTorch 2.1, up to one where their format changes",
			Source: pytorch + "optim/optimizer.py", Worked: "9,329,280 elements in 32 bits with AdamW, read whole: 149,268,480 bytes at once, 111,951,360 when the checkpoint is gone"},
		{ID: bucketFormula, Short: "buffers through which ranks exchange gradients", Rule: "DDP: the gradients again, in buckets of 25 MiB; DeepSpeed: reduce_bucket_size elements, twice where it overlaps; FSDP: the padded gradients of a unit and the part of the rank",
			Source: "https://github.com/pytorch/pytorch/blob/v2.9.0/torch/nn/parallel/distributed.py", Worked: "500,000,000 elements in BF16 are 1,000,000,000 bytes"},
		{ID: gatherFormula, Short: "whole parameters of a unit, while it runs", Rule: "Σ parameters of the units that are gathered at once, padding included; twice where they are copied out of what the ranks sent",
			Source: pytorch + "distributed/fsdp/_fully_shard/_fsdp_collectives.py", Worked: "a layer of 218,112,000 elements in BF16: 436,224,000 bytes, and as much on its way"},
		{ID: offloadFormula, Short: "what lives in main memory", Rule: "Σ parts that are offloaded: parameters, gradients, master copies and moments in their formats",
			Source: deepspeed + "offload_config.py", Worked: "7,000,000,000 × 16 bytes over 8 ranks are 14,000,000,000 bytes on each"},
		{ID: momentsFormula, Short: "trained elements × format of each moment", Rule: "Σ trained tensors: elements × bytes of the format, for each moment; born in the first step",
			Source: pytorch + "optim/adam.py", Worked: "AdamW: 2 × 1,235,814,400 × 2 = 4,943,257,600 bytes"},
		{ID: blockFormula, Short: "8 bits and a maximum for 256; small tensors 32 bits", Rule: "Σ trained tensors, for each state: 1 byte an element and 4 for each 256, tensors below 4,096 elements 4 bytes an element; two tables of 1,024 bytes",
			Source: bitsandbytes, Worked: "[4096, 4096], two states: 2 × (16,777,216 + 262,144) = 34,078,720 bytes"},
		{ID: wideFormula, Short: "trained elements × 32 bits, for each state", Rule: "Σ trained tensors, for each state: 4 bytes an element, whatever format the parameters have",
			Source: bitsandbytes, Worked: "Lion: [4096, 4096], one state: 16,777,216 × 4 = 67,108,864 bytes"},
		{ID: pagedFormula, Short: "states in managed memory, on the device or not", Rule: "states of tensors of 100,000 elements and more are in managed memory: outside of PyTorch's counters, from none to all of them on the device",
			Source: bitsandbytes, Worked: "[4096, 4096] in 32 bits, two states: 0 to 134,217,728 bytes"},
		{ID: factoredFormula, Short: "matrices: 4 × (rows + columns); vectors 4 each", Rule: "Σ trained matrices: 4 bytes for each row and column; vectors 4 bytes an element",
			Source: transformers + "optimization.py", Worked: "[4096, 4096] is 4 × 8,192 = 32,768 bytes"},
	}
}
