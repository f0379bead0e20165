// Package parallel says what each rank holds of a model.
//
// In: a model.Model and the mesh of a workload. Out: one [RankPlan] for each
// class of ranks that hold the same: its layers, its share of each tensor, its
// KV heads. A broken rule of the layout (heads that do not divide, say) is an
// error that names the rule.
//
// It computes no bytes of activations, knows no engine and no card.
package parallel
