// Package parallel says what each rank holds of a model.
//
// In: a model.Model, the mesh of a workload, and the [Rules] of the engine that
// divides it. Out: one [RankPlan] for each class of ranks that hold the same:
// its layers, its share of each tensor, its KV heads. What is divided and what
// is on every rank follows from a tensor's role and the geometry of its layer.
// A broken rule of the layout (heads that do not divide, say) is a
// [NotSupportedError] that names the rule.
//
// It computes no bytes of activations, knows no engine's budget and no card.
package parallel
