// Package dtype names the element types and quantised blocks in which tensors
// are stored, and says how many bytes a shape takes in each.
//
// In: a format's name as PyTorch, safetensors or GGUF writes it, and a shape.
// Out: exact bytes. A [Format] says how elements are stored; the format in
// which a kernel computes is another field of whoever needs it. Scales that a
// checkpoint keeps as tensors of their own are tensors, not part of a format.
//
// It knows nothing of models or files.
package dtype
