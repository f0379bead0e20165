// Package aliases bounds what the aliases of a YAML text stand for.
//
// In: a YAML text. Out: an error where its aliases stand for more values than a
// person writes. A few lines of aliases of aliases stand for more values than
// memory holds, and a decoder writes them all out.
//
// It knows nothing of what the text is for.
package aliases
