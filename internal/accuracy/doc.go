// Package accuracy scores the program against facts that nobody here wrote.
//
// In: a folder of oracle tables, and causes.yaml, which says of each miss why
// it is one and where the evidence lies. Out: a [Table] for each kind of fact,
// with a row for every scored fact: a row without a figure is a miss, and a
// miss without a cause counts as unexplained. docs/accuracy.md is generated
// from the rows that are committed in testdata/results.jsonl, and the full pass
// compares those rows with what the program says today.
//
// It judges; it does not know how a figure is computed.
package accuracy
