package megatron

import (
	"floodmark/account"
	"floodmark/estimate/outside"
)

// The ids of the rules that figures of this package name.
const (
	weightsFormula   = "megatron.parameters"
	eightFormula     = "megatron.weights_in_8_bits"
	gradientFormula  = "megatron.gradient_buffer"
	masterFormula    = "megatron.master_copy"
	stateFormula     = "megatron.moments"
	workspaceFormula = "megatron.workspaces"
	inputFormula     = "megatron.inputs"
	operatorFormula  = "megatron.operators"
	expertFormula    = "megatron.uneven_experts"
	adapterFormula   = "megatron.adapters"
	offloadFormula   = "megatron.offloaded_activations"
	graphFormula     = "megatron.graphs"
)

const (
	megatron = "https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/"
	bridge   = "https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/33655ef8456869f57f29ee189a8238b898bf1ad6/src/megatron/bridge/"
	engine   = "https://github.com/NVIDIA/TransformerEngine/blob/d0067d0da6cb01811b8072a7d304f0e00344ce2b/transformer_engine/"
)

// Formulas lists the rules.
func Formulas() []account.Formula {
	list := []account.Formula{
		{ID: weightsFormula, Short: "elements × 2 bytes, padded", Rule: "Σ parameters of the rank: elements × bytes of the computation's format, 1 where they are kept in 8 bits; with the distributed optimizer in one buffer, a parameter from a multiple of 64 elements on, a bucket to a multiple of the ranks and of 128",
			Source: megatron + "core/distributed/param_and_grad_buffer.py", Worked: "64,109,568 × 2 bytes = 128,219,136 bytes"},
		{ID: eightFormula, Short: "by rows and by columns, with scales", Rule: "weights of products in 8 bits: a copy, its bytes by rows and by columns, or of parameters that are kept in 8 bits the columns alone, which Blackwell does without where a tensor has one scale; scales of 4 bytes a tensor or 128 × 128 elements, or of 1 byte for 32 in each direction; beside them the angles of positions. Before parameters that are kept in 8 bits are written, all that the rank updates of them stands in the computation's format beside the rest, but with scales of 32",
			Source: engine + "pytorch/csrc/quantizer.cpp", Worked: "512 × 1,536 elements on Hopper: 2 × 786,432 + 4 bytes"},
		{ID: gradientFormula, Short: "elements × format of gradients, padded", Rule: "one buffer of the elements of the parameters' buffer, in the gradients' format; of 16 bits what the rank updates is copied into 32 from one optimizer step to the next",
			Source: megatron + "core/distributed/param_and_grad_buffer.py", Worked: "64,109,568 × 4 bytes = 256,438,272 bytes"},
		{ID: masterFormula, Short: "updated elements × 4 bytes", Rule: "Σ parameters that the rank updates: elements × bytes of the master copy's format; with the distributed optimizer its share of each bucket",
			Source: megatron + "core/optimizer/distrib_optimizer.py", Worked: "64,109,568 / 8 × 4 bytes = 32,054,784 bytes"},
		{ID: stateFormula, Short: "updated elements × 8 bytes", Rule: "two moments of what the rank updates, made in the first step",
			Source: megatron + "core/optimizer/distrib_optimizer.py", Worked: "64,109,568 / 8 × 8 bytes = 64,109,568 bytes"},
		{ID: workspaceFormula, Short: "of TransformerEngine once, of cuBLAS for each thread", Rule: "TransformerEngine: 32 MiB from compute capability 9 on, 4 MiB before; cuBLAS: CUBLAS_WORKSPACE_CONFIG, for the thread of the program and that of backward; gradients that stand for fused ones: one tensor of each shape; the gathered input of the output layer",
			Source: engine + "pytorch/cpp_extensions/gemm.py", Worked: "33,554,432 + 2 × 33,554,432 = 100,663,296 bytes on H100 with :4096:8"},
		{ID: inputFormula, Short: "28 bytes a token, and a mask", Rule: "first stage: tokens and positions, 8 bytes each for each token; last stage: labels, 8 bytes, and the mask of the loss, 4; the mask of attention that the data loader makes: micro-batch × positions² bytes; of all micro-batches of a step where a release keeps them (0.18)",
			Source: megatron + "training/utils.py", Worked: "4 × 1,024² = 4,194,304 bytes of mask"},
		{ID: operatorFormula, Short: "what each operator makes and keeps", Rule: "operators of mcore and TransformerEngine in the order of the program and of the pipeline's schedule: results, what is kept for backward, temporaries",
			Source: engine + "pytorch/module/layernorm_linear.py", Worked: "norm and product keep 2 × 4,194,304 bytes of a stream of 4 × 1,024 × 512 × 2 bytes"},
		{ID: adapterFormula, Short: "rank × (columns in + columns out) × 2 bytes, divided", Rule: "Σ modules that are targets: two matrices in the format of the computation, each divided over the tensor ranks by what it makes, the first beside a row-parallel module by what it reads; frozen modules have neither gradients nor states",
			Source: bridge + "peft/utils.py", Worked: "32 × (4,096 + 6,144) × 2 bytes / 2 ranks = 327,680 bytes beside linear_qkv of Qwen3-8B"},
		{ID: expertFormula, Short: "rows of experts, from even to the worst", Rule: "where nobody says how full the fullest rank is: from nothing to what the experts of a rank would keep if all ranks of their group sent it every row that they can; × layers with experts × micro-batches in flight, of what is offloaded or computed again × 3 layers",
			Source: megatron + "core/transformer/moe/token_dispatcher.py", Worked: "1 of 4 experts over 2 ranks: at worst twice the rows"},
		{ID: offloadFormula, Short: "what modules save, each tensor by itself", Rule: "what the modules of --offload-modules save for backward, of tensors from --min-offloaded-tensor-size elements on: each in page-locked main memory of the next power of two, used again from micro-batch to micro-batch; the last of each module of the micro-batch that goes back first stays on the device, and each comes back when backward leaves the one a layer before it",
			Source: megatron + "core/pipeline_parallel/fine_grained_activation_offload.py", Worked: "scores of 16 heads over 4,096² positions that the softmax and the product keep: 2 × 536,870,912 bytes"},
		{ID: graphFormula, Short: "inputs of their own, and a pool", Rule: "graphs of layers: an input of the stream's size for each pass between its forward and its backward, with attention a mask too, and one gradient; what they keep for backward, in a pool that stays reserved and counts as allocated while it captures; the driver's part is not known",
			Source: engine + "pytorch/graph.py", Worked: "94 × 1,024 × 8,192 × 2 bytes = 1,577,058,304 bytes of inputs"},
	}
	return append(list, outside.Formulas()...)
}

// sourceOf is the public source of a rule.
func sourceOf(id string) string {
	for _, f := range Formulas() {
		if f.ID == id {
			return f.Source
		}
	}
	return ""
}

// requested is the provenance of bytes that a rule of this package calculates.
func requested(formula string) account.Provenance {
	return account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: formula, Source: sourceOf(formula)}
}

// ruleOf is the rule by which the bytes of a term follow.
func ruleOf(id account.TermID) string {
	switch id {
	case account.TermWeights:
		return weightsFormula
	case account.TermBuffers:
		return eightFormula
	case account.TermGradients:
		return gradientFormula
	case account.TermMasterCopy:
		return masterFormula
	case account.TermOptimizerState:
		return stateFormula
	case account.TermWorkspace:
		return workspaceFormula
	case account.TermAdapters:
		return adapterFormula
	case account.TermInput:
		return inputFormula
	}
	return ""
}
