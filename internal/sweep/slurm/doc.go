// Package slurm runs the values of a sweep as a job array.
//
// In: a sweep's ledger in a folder that the nodes share, the command that runs
// one value there and writes its line, and options for sbatch. Out: a line in the
// ledger for each value: the task's own, or one that says what Slurm says of a
// task that ended without writing any. A job that is still queued when the sweep
// is resumed is waited for, not submitted again.
//
// It speaks through sbatch, squeue, scontrol and scancel, and knows nothing of
// what a value measures. It needs no accounting database.
package slurm
