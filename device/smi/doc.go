// Package smi reads NVIDIA's cards through the program nvidia-smi, where its
// library cannot be loaded.
//
// In: the program on PATH. Out: a [device.Reader]. It prints whole MiB, so that
// every figure is an interval of its rounding, and of MIG instances it tells no
// memory. A watch is one nvidia-smi that goes on printing.
//
// It must not know of models, runs or verdicts.
package smi
