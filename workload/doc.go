// Package workload is the work that a model is to do: the operation, its
// inputs, what stays resident together, precision, optimizer, adapters and
// engine options.
//
// In: flags, workload files and launch commands, through their readers. Out: a
// [Workload], and the list of what it does not say. A dimension that nobody
// gave is missing, not a default.
//
// It knows no model, no card and no rule by which bytes follow.
package workload
