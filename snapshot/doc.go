// Package snapshot reads PyTorch CUDA memory snapshots and makes a timeline of
// each device.
//
// In: a source that torch.cuda.memory._dump_snapshot wrote (a pickle of any
// protocol, from PyTorch 1.13 on), the C++ pickle of the same structure, the
// list that torch.cuda.memory_snapshot() returns, a gzip of one, the HTML page
// that torch.cuda._memory_viz makes of one, or JSON of that structure. Out: a
// [Snapshot], which is segments, blocks and the trace of each device as
// columns, and from it a [Recording] of each device: a timeline of requested
// bytes with what lived before its first event, and levels in every scope,
// anchored at the end. An [Explanation] says what each allocation of a recording
// is for and by which evidence, what is alive at any entry, and where it came
// from.
//
// Unknown keys are counted and otherwise ignored; what a file says twice and
// differently becomes a warning. The package does not know how the allocator
// rounds, splits or searches: the sizes of blocks that are gone come from
// package replay.
package snapshot
