// Package llamacpp is what llama.cpp's server reserves on one device at its
// start: weights, the cells of the cache for every slot, recurrent states, and
// the compute buffer of the largest graph. What runs later takes no more.
//
// In: an estimate.Input; a rank is a device of a split by layers, and a request
// is a slot. Out: an estimate.Result. What differs between builds is a row of
// options with its source; what is not modelled (weights or experts in main
// memory, copies of inputs for overlapping devices) is unknown.
//
// Ollama runs the same library, or its own engine with the same layout, under
// defaults of its own. The package reads no log and knows no other engine.
package llamacpp
