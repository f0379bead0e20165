// Package eager predicts generation without compilation on one rank: PyTorch's
// plain loop as transformers runs it ([Engine]), and what any serving engine
// must hold for the same work ([Serving]).
//
// In: an estimate.Input. Out: a timeline over model_load, prefill and decode.
// Weights are allocations; what depends on kernels, on the software's version or
// on the machine is an interval between what the fused form must hold and what
// the unfused form can. What is not modelled stands there as an unknown with its
// reason, so that no total can pass for a requirement.
//
// It knows no engine's budget, no card and no file format.
package eager
