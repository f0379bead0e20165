// Command tally reads the events of `go test -json` and counts them.
//
// In: events on standard input. Out: a line a package and the output of what
// failed on standard output; with -ledger, one line a test appended to a file,
// in the form that scripts/ledger.sh writes for every other check.
//
// A skipped test is a failure unless its name is allowed to be skipped: a test
// that silently does nothing is worse than none. It knows nothing of what the
// tests test.
package main
