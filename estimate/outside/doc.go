// Package outside is the bytes of a process that no PyTorch allocator sees: the
// context, loaded kernels, NCCL's buffers, and what graph capture leaves with the
// driver.
//
// In: the memory of a rank as its engine's input describes it, the layout, and the
// engine with its version. Out: intervals, each with its source; an architecture
// or a version without a measurement makes its bytes unknown.
//
// It models no allocation of a tensor and decides nothing.
package outside
