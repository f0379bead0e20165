// Package modules says what the modules of transformers call, in order, as
// operators of a [torch.Machine]: which values have names and until when, what
// is cast, copied or repeated, and how the loss is taken. What the operators
// allocate, keep for backward and free follows there.
//
// In: a model, and how it is run: the format of its weights, the attention, the
// experts, what is trained, adapters, checkpointing. Out: a [Net] on a machine,
// whose forward passes a program of training or evaluation calls.
//
// It is driven by what a layer is, never by the name of a family or of a tensor.
// [Net.Unsupported] says which models have no program (linear attention, sparse
// attention and others; a decoder beside towers has one for words alone); what turns out on the way
// becomes an unknown of the machine.
// It knows no optimizer, no phase and no workload.
//
// The programs are those of transformers 5.24, as recordings of its modules on a
// CPU show them (oracle/, testdata/eager). Which of them are those of which earlier
// releases, as those were recorded, is a table ([Recorded]); what differs between
// releases are the constants beside it.
package modules
