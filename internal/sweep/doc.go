// Package sweep varies one dimension, with a new process for each value, on this
// machine or through Slurm.
//
// In: the values or the limit to bracket, the order, and a function that measures
// one value. Out: a point for each value, whether it passed or failed, and the
// largest pass and smallest fail. Trials under different policies are not pooled.
//
// It does not know how a value is measured.
package sweep
