// Package sweep varies one dimension, with a new process for each value, on this
// machine or through Slurm.
//
// In: a [Plan] (the dimension and its values, or the limit to bracket, the order
// and the policy), a folder, and a function that measures one value. Out: a point
// for each value, written to the folder's ledger as soon as it is known, and the
// [Boundary] between the largest pass and the smallest fail. A sweep that was
// stopped goes on from its ledger; nothing is run twice and nothing overwritten.
//
// It does not know how a value is measured. Trials under different policies are
// not pooled: a folder holds one plan.
package sweep
