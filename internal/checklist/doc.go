// Package checklist ties tests to the statements that the project must honour.
//
// In: calls of [Covers] in tests. Out: docs/checklist.md, a table of every
// statement and the tests that cover it, generated from the sources of the
// tests by this package's own test (with -update) and compared otherwise.
//
// statements.tsv holds the statements in short: number, mark and text,
// separated by tabs. The marks are C computation, M measurement protocol,
// I interface, R reporting, A advice. The package is for tests only and does
// not know what any statement means.
package checklist
