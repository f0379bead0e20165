// Package pickle reads Python pickles as plain data, one opcode at a time, and
// executes nothing.
//
// In: a stream of known size in any of protocols 0 to 5, as CPython's pickler
// or PyTorch's C++ pickler writes it. Out: calls of a [Builder], which turns
// each finished dict, list and tuple into a reference of its own, so that no
// tree of objects for the whole file ever exists. Strings are interned in a
// [Strings] table; the memo holds eight bytes a value.
//
// The list of opcodes is closed. Names of code are refused unless the caller
// lists them in [Options], and a listed name is only ever handed to a callback
// of the caller. Whatever else is found is a *source.FormatError with its
// offset: extension codes, cycles, lengths beyond the rest of the file, nesting
// deeper than [MaxDepth].
//
// It does not know what a memory snapshot or a checkpoint looks like.
package pickle
