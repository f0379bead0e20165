// Package enginelog reads what a program printed about its memory.
//
// In: the text of a log, a traceback or a pasted message, or a gzip of one, as a
// byte source. Beside PyTorch's failures it reads what vLLM, SGLang,
// TensorRT-LLM, TGI, llama.cpp and Ollama say of their memory, DeepSpeed and
// axolotl, and what nvidia-smi and DCGM print of cards.
// Out: a [Log] of components, each a number of bytes keyed by component,
// device and kind, with its line; the out-of-memory failures in it, each with
// its class, the line of the program that failed, and what would and would not
// help; and an account of every such moment. A printed number is an interval, that of its rounding.
//
// Texts are streamed, so that a log may be of any length. Whatever it does not
// understand is counted and passed over.
//
// It knows nothing of models, cards or what was predicted.
package enginelog
