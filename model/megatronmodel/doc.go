// Package megatronmodel makes a model.Model of the arguments with which
// Megatron-LM's pretrain_gpt.py builds one.
//
// In: arguments by name, without their dashes. Out: a model with a tensor for each
// parameter, as Megatron's modules have them before they are divided: query, key
// and value in one matrix, gate and up in one. What Megatron takes for an absent
// argument is taken here. Arguments that are not about the model are left alone;
// one that is, and that is not understood, is the model's Unknown.
//
// It divides nothing, and knows no engine.
package megatronmodel
