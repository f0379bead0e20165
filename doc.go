// Package floodmark tells whether a workload fits on each GPU that it uses, at
// its most demanding moment, and which bytes a peak is made of.
//
// [Estimate] predicts, from a model and a workload, without a GPU. [Explain]
// reads evidence of any kind that [Open] recognises: a PyTorch memory
// snapshot, an out-of-memory text, a record. Both give accounts (package
// account) and a record (package record) that can be printed, written and read
// back.
//
// Every figure is an interval of bytes with its origin and source, and unknown
// is a value: it is never zero. A verdict names its rank, phase and term.
//
// This package and package record are stable within v0; other packages may
// change.
package floodmark
