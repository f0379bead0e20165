// Package training predicts training, fine-tuning, evaluation, saving, merging,
// export and resumption in PyTorch's plain loop on one rank: what is held in
// which phase, from loading to the second step and beyond.
//
// In: an estimate.Input whose workload says the format of each kind of tensor,
// the optimizer and what is trained. Out: a timeline. Weights, adapters,
// gradients, master copies, optimizer states and the optimizer's temporaries are
// allocations in the order in which the software makes them; what depends on
// operators of the model is unknown with the reason, and never zero.
//
// It knows no card, no budget and no file format. The rules are in [Formulas].
package training
