// Package child runs another program and never waits for it longer than it was
// told to.
//
// In: a program, its arguments and environment, how long it may take and how
// much it may say. Out: what it said on standard output, on standard error and
// on a pipe of its own, and how it ended. When its time is over, it and all that
// it started in its process group are killed.
//
// It does not know what the programs are for.
package child
