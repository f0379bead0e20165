// Package cli is the command line: flags in, one call into package floodmark,
// a record out as text or JSON, and an exit code.
//
// It is the only package that speaks. Results go to standard output, errors and
// progress to standard error. Rules of its texts: an error begins with
// "floodmark:", is lower case and has no full stop; a hint stands on a line of
// its own. With --json the error is a record too, even when a flag is wrong.
//
// Standard output is written once, at the end, so that no failed write goes
// unseen. A run ends with its context, whatever it reads.
//
// It computes nothing.
package cli
