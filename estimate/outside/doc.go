// Package outside is the bytes of a process that no PyTorch allocator sees, and
// those that its libraries take from the allocator whatever the model: the
// context and loaded kernels, communicators, what graph capture leaves with the
// driver, and matrix workspaces.
//
// In: the architecture under a rank and its layout. Out: intervals, each with
// its source. Where nobody measured an architecture the figure is unknown and
// says so; where no card is named it spans what was measured on any.
//
// It models no allocation of a tensor and decides nothing.
package outside
