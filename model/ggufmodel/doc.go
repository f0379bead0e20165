// Package ggufmodel reads a model from the header of a GGUF file, or from its
// shards.
//
// In: what internal/gguf found: metadata and the list of tensors. Out: a
// model.Model in which every tensor has its role, stack and layer, and each key
// that bears on size and was not understood is listed as unknown.
//
// It reads no weights, and knows no engine that runs them.
package ggufmodel
