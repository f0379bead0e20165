// Package recipe reads what people have into a training's workload: the
// configuration files of training software, and the commands that start it.
//
// In: files (TrainingArguments and TRL, accelerate, DeepSpeed, axolotl,
// LLaMA-Factory, torchtune, torchtitan) or the words of a command with the files
// that it names. Out: a [Recipe], the model that is named, the workload, where each
// thing was read, and what was not understood: over a key whose bearing on sizes is
// not modelled, nothing is known to fit.
//
// What a key means is a table for each software (tables/); how the keys become
// formats, shards and ranks is a file for each (transformers.go, torchtune.go, …).
// It reads no model, starts nothing, and opens files only through its caller.
package recipe
