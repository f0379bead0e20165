// Package packed opens texts that are embedded in the program packed, so that it
// stays small.
//
// In: the bytes of a gzip file. Out: its text. The text lies beside its packed file in
// the tree, and a test holds the two equal (go test ./internal -update -run Packed).
//
// It knows nothing of what a text is for.
package packed
