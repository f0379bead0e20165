// Package hfmodel reads the model that a Hugging Face config.json describes: one
// of transformers, or the transformer of a diffusers pipeline.
//
// In: the bytes of config.json, and of hf_quant_config.json or
// quantize_config.json where they lie beside it. Out: a [model.Model] with its
// stacks, layers and tensors, and the list of what the configuration says that
// this package did not understand.
//
// A family of models is one row of families_*.go: which keys its configuration
// uses, what its classes assume when a key is absent, how its tensors are
// called, and which blocks it is built of. A block is one file: attention.go,
// dense.go, experts.go and so on. No code here branches on a model's name.
//
// Formats are those that the configuration declares: a checkpoint may have
// been saved in another. It gives a model no name, and does not know weights
// files, engines or cards.
package hfmodel
