package advice

import (
	"slices"

	"floodmark/account"
)

// Switch is one thing that somebody can change about a workload.
type Switch struct {
	ID string // the key of a setting: "weights" of weights=int8
	// Reaches is the terms that it can lower.
	Reaches []account.TermID
	// During is the phases in which it does; empty for all.
	During []account.PhaseID
	Cost   string // in kind: what it takes away
	Check  string // what to look at before it is kept; empty for nothing
	Not    string // why it does not reach the other terms, where people expect that it does
}

// training is the phases of an optimizer step.
func training() []account.PhaseID {
	return []account.PhaseID{account.PhaseForward, account.PhaseLoss, account.PhaseBackward, account.PhaseOptimizerStep}
}

// Of lists the switches of an operation in the order in which they are tried:
// what leaves the answers alone comes first. Of a generation the operation is
// "generation"; others are those that train and evaluate.
func Of(operation string) []Switch {
	if operation == "generation" {
		return generation()
	}
	return trained()
}

// generation is the switches of a workload that generates. The cache of latent
// attention is not divided by tensor parallelism, and that of few KV heads only
// as far as there are heads, so that what it gives there is for an estimate to
// say.
func generation() []Switch {
	kept := []account.TermID{account.TermKVCache, account.TermRecurrentState}
	work := []account.TermID{account.TermActivations, account.TermTemporaries, account.TermLogits, account.TermAllocatorCache, account.TermAllocatorRounding}
	weights := []account.TermID{account.TermWeights, account.TermBuffers, account.TermQuantisationMetadata}
	return []Switch{
		{ID: "tensor_parallel", Reaches: slices.Concat(weights, kept, work), Cost: "more cards, which talk in each layer"},
		{ID: "pipeline_parallel", Reaches: slices.Concat(weights, kept, []account.TermID{account.TermLogits}), Cost: "more cards, which wait for each other"},
		{ID: "attention", Reaches: []account.TermID{account.TermActivations, account.TermTemporaries, account.TermAllocatorCache},
			Cost: "a kernel that card and model must support", Not: "it makes no scores, and keeps what it attends to"},
		{ID: "recurrence", Reaches: []account.TermID{account.TermActivations, account.TermAllocatorCache},
			Cost: "packages to install: mamba-ssm, causal-conv1d, flash-linear-attention", Not: "kernels keep the same states"},
		{ID: "engine", Reaches: slices.Concat([]account.TermID{account.TermKVCache}, work), Cost: "another program, with kernels of its own"},
		{ID: "max_length", Reaches: []account.TermID{account.TermKVCache}, Cost: "longer requests are turned away"},
		{ID: "cache", Reaches: []account.TermID{account.TermKVCache, account.TermAllocatorCache, account.TermTemporaries},
			Cost: "latency: the cache crosses the bus at each step", Check: "main memory holds it (--host-capacity)"},
		{ID: "sequences", Reaches: slices.Concat(kept, work), Cost: "throughput: fewer at a time", Not: "it changes nothing of what is loaded"},
		{ID: "cache_format", Reaches: []account.TermID{account.TermKVCache, account.TermAllocatorCache, account.TermTemporaries},
			Cost: "quality: check answers over long contexts", Check: "answers on your own task; that the engine keeps this format"},
		{ID: "weights", Reaches: slices.Concat(weights, []account.TermID{account.TermTemporaries}), Cost: "quality: check the answers",
			Check: "answers on your own task; that kernels compute on packed weights", Not: "it stores the weights otherwise, and nothing else"},
		{ID: "generated", Reaches: kept[:1], During: []account.PhaseID{account.PhaseDecode}, Cost: "shorter answers"},
		{ID: "context", Reaches: slices.Concat(kept[:1], work), Cost: "another task, if what is cut off was needed", Check: "what the prompts lose"},
		{ID: "data_parallel", Not: "each replica holds all of it"},
	}
}

// trained is the switches of a workload that trains. Evaluation runs no backward
// pass and steps no optimizer, so that only its own batch reaches it.
func trained() []Switch {
	activations := []account.TermID{account.TermActivations, account.TermTemporaries, account.TermLogits, account.TermAllocatorCache}
	states := []account.TermID{account.TermMasterCopy, account.TermOptimizerState, account.TermPagedState}
	stepped := slices.Concat(states, []account.TermID{account.TermGradients, account.TermTemporaries, account.TermAllocatorCache})
	step := []account.PhaseID{account.PhaseOptimizerStep}
	return []Switch{
		{ID: "optimizer_implementation", Reaches: []account.TermID{account.TermTemporaries, account.TermAllocatorCache}, During: step,
			Cost: "duration, where parameters are taken one by one", Not: "it makes fewer temporaries, and keeps the same states"},
		{ID: "zero_grad", Reaches: []account.TermID{account.TermGradients}, During: []account.PhaseID{account.PhaseForward, account.PhaseLoss},
			Cost: "gradients are made anew in each step", Not: "backward makes gradients all the same"},
		{ID: "micro_batch", Reaches: activations, During: training(), Cost: "more steps for one batch", Not: "it is the batch of a training step"},
		{ID: "checkpointing", Reaches: []account.TermID{account.TermActivations, account.TermAllocatorCache}, During: training(),
			Cost: "duration: what a block does not keep runs twice", Check: "the duration of a step; that results stay the same", Not: "it keeps fewer activations; everything else stays"},
		{ID: "optimizer", Reaches: slices.Concat(states[1:], []account.TermID{account.TermTemporaries, account.TermAllocatorCache}), During: training(),
			Cost: "another trajectory of training", Check: "that training still converges", Not: "it keeps other states, and updates the same parameters"},
		{ID: "precision", Reaches: slices.Concat(stepped, []account.TermID{account.TermWeights, account.TermActivations, account.TermAutocastCache}),
			Cost: "quality: small updates are lost in narrow formats", Check: "that training still converges", Not: "formats of training's tensors change nothing of it"},
		{ID: "lora_rank", Reaches: slices.Concat(stepped, []account.TermID{account.TermAdapters}), During: training(),
			Cost: "fewer parameters learn (lora_targets as declared, else all-linear)", Check: "quality of the result", Not: "activations still pass through the frozen base"},
		{ID: "base_format", Reaches: []account.TermID{account.TermWeights}, Cost: "quality: the frozen weights are rounded", Check: "results beside those of the wide format", Not: "it stores what is frozen otherwise, and nothing else"},
		{ID: "sharding", Reaches: slices.Concat(states, []account.TermID{account.TermGradients, account.TermWeights, account.TermBuckets}), Cost: "duration: ranks gather and scatter in every pass (KIND@RANKS: more cards too)", Not: "each rank still runs its own batch"},
		{ID: "offload", Reaches: slices.Concat(states, []account.TermID{account.TermGradients, account.TermWeights}), Cost: "duration: states cross the bus in every step, which runs on the CPU",
			Check: "main memory holds it (--host-capacity)", Not: "what runs on the device stays there"},
		{ID: "save_on", Reaches: []account.TermID{account.TermGathered, account.TermSavedCopy, account.TermSavedStates}, During: []account.PhaseID{account.PhaseSave}, Cost: "main memory of rank 0, or parts that are joined later",
			Check: "main memory holds it (--host-capacity); that what loads the checkpoint reads parts", Not: "it is how a checkpoint is put together"},
		{ID: "batch", Reaches: activations, During: []account.PhaseID{account.PhaseEvaluation}, Cost: "a longer evaluation", Not: "it is the batch of the evaluation"},
		{ID: "logits_chunk", Reaches: []account.TermID{account.TermLogits, account.TermAllocatorCache}, During: []account.PhaseID{account.PhaseEvaluation},
			Cost: "duration: the head runs once for each chunk", Not: "it divides the logits of an evaluation, and nothing else"},
		{ID: "context", Reaches: activations, Cost: "another task, if what is cut off was needed", Check: "what the samples lose"},
		{ID: "weights", Reaches: []account.TermID{account.TermWeights}, Cost: "quality", Check: "results beside those of the wide format"},
	}
}

// Can reports whether the switch lowers a term in a phase.
func (s Switch) Can(term account.TermID, phase account.PhaseID) bool {
	return slices.Contains(s.Reaches, term) && (len(s.During) == 0 || slices.Contains(s.During, phase))
}

// Why says why the switch does not reach a term in a phase.
func (s Switch) Why(term account.TermID, phase account.PhaseID) string {
	switch {
	case slices.Contains(s.Reaches, term):
		return "it does nothing in " + string(phase)
	case s.Not != "":
		return s.Not
	}
	return "it lowers other terms"
}
