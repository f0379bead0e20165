// Package eager predicts PyTorch's eager execution on one rank.
//
// In: estimate.Input. Out: a timeline of what is allocated: weights are one
// allocation a tensor, born in model_load. What this version does not predict
// (activations, logits, what the process holds outside the allocator) stands in
// the timeline as an unknown with its reason, so that no total can pass for a
// requirement.
//
// It knows no other engine, no card and no file format.
package eager
