// Package safetensors reads what a .safetensors file says of its tensors, and
// the index that lists the shards of a checkpoint.
//
// In: a [source.Source] with a whole file, with a header alone, or with an
// index (model.safetensors.index.json and pytorch_model.bin.index.json share
// one form). Out: [Header], the tensors in the order of their data with exact
// bytes; or [Index], which tensor is in which shard.
//
// Tensor data is never read. The package must not know what a tensor's name
// means, which model a file belongs to, or whether a shard is on this disk.
//
// The format is documented in the README of
// https://github.com/huggingface/safetensors, the index in
// https://huggingface.co/docs/safetensors/metadata_parsing.
package safetensors
