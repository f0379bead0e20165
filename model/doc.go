// Package model is a neural network as far as memory cares: stacks of layers,
// enough of each to run it as operators, and every stored tensor with its
// role, shape and format.
//
// In: nothing; readers (model/hfmodel, model/ggufmodel) build a [Model]. Out:
// parameter counts, bytes by role, layer and stack, and the list of what a
// reader did not understand. Differences between families of models are data
// in the readers; below them no code looks at a tensor's name.
//
// It does not know files, engines, cards or workloads.
package model
