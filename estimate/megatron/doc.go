// Package megatron is what Megatron-LM's training step holds on one rank:
// parameters, gradient buffers, the distributed optimizer's states, and the
// activations of the micro-batches that its pipeline schedule keeps in flight.
//
// In: an estimate.Input. Out: an estimate.Result. What differs between versions
// is a row of a table with its source.
//
// It trains nothing, and knows no other engine.
package megatron
