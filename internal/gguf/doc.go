// Package gguf reads what a GGUF file says of itself: its metadata and, for
// each tensor, name, shape, format and exact bytes.
//
// In: a [source.Source] of version 2 or 3, little-endian. Out: [File]. The
// lists of a tokenizer are counted and passed over; tensor data is never read.
// A model that is split over files is one [File] a part; [CheckParts] says
// whether the parts are a whole.
//
// The package must not know what a key or a tensor's name means to a model; it
// reads the few keys that describe the file (general.alignment, split.*).
//
// The format is documented in docs/gguf.md of
// https://github.com/ggml-org/ggml; what a reader must refuse follows
// ggml/src/gguf.cpp of https://github.com/ggml-org/llama.cpp.
package gguf
