// Package fakenvml builds a libnvidia-ml.so.1 that says what a test wants.
//
// In: a scenario, as testdata/nvml.c describes it. Out: the library, in a folder
// of the test's own. It needs a C compiler, without which the test is skipped,
// or fails where CI=true. It is for tests.
package fakenvml
