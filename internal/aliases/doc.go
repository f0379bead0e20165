// Package aliases bounds what a YAML text stands for before a decoder writes it out.
//
// In: a YAML text. Out: an error where its aliases stand for more values than a
// person writes or its tags make other ones, and a bound of how deep it nests. A few lines of aliases of aliases
// stand for more values than memory holds, and a decoder takes time and memory that
// grow with the square of the nesting.
//
// It knows nothing of what the text is for.
package aliases
