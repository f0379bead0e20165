// Package state is the memory that layers keep of each sequence between steps:
// keys and values, compressed vectors, indexer keys, and the states of
// recurrent layers.
//
// In: a model, the layers that one rank runs of it, the lengths of sequences,
// and how an engine keeps what it caches ([Options]). Out: payload and
// reservation as two figures, and what of them lies in main memory. A layer of
// a kind that is not known makes its figure unknown; it is never charged as
// full attention and never as nothing.
//
// It knows no budget and no engine's version: whoever calls it turns those into
// options. The rules are in [Formulas].
package state
