// Package oracle finds the folder of published facts against which tests check
// the program, and which is too large for the tree.
//
// In: the environment variable ORACLES. Out: the folder, or a test that is
// skipped because the variable is not set. When it is set and the folder cannot
// be read, the test fails: somebody relied on it.
//
// It is for tests named TestOracle… only, and does not know what lies in the
// folder.
package oracle
