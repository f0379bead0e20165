// Package megatron is what Megatron-LM's training step holds on one rank:
// parameters, gradient buffers, the optimizer's states, the activations of the
// micro-batches that its pipeline schedule keeps in flight, and what its libraries
// keep.
//
// In: an estimate.Input. Out: an estimate.Result whose timeline is a program on
// internal/torch: modules of TransformerEngine and mcore as functions that allocate,
// save and free in the order of their sources, under the schedule of the stage. What
// a rank sends to the next stage is deallocated, and what the model was last given
// stays until the next micro-batch. Layers, losses and settings without a program
// make the activations unknown, with the reason.
//
// Phases: forward is the forward passes before the first backward of a step,
// backward everything from there to the last backward, forward passes between
// included. Micro-batches that repeat what others did are left out.
//
// It trains nothing, and knows no other engine.
package megatron
