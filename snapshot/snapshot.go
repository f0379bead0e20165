package snapshot

import (
	"floodmark/account"
	"floodmark/timeline"
)

// Snapshot is the content of one file. All slices are indexed as the fields of
// the other types say; addresses and stream handles have all 64 bits.
type Snapshot struct {
	Name        string
	Segments    []Segment
	Blocks      []Block // of all segments, in the order of the segments
	Traces      []Trace // by device ordinal; an empty one where nothing was recorded
	NoSegments  bool    // the file has no list of segments: what is held is not known
	Annotations []Annotation
	Settings    *Settings // at the moment of the dump; nil when the file has none

	// The same for page-locked main memory, from PyTorch 2.13 on; mostly empty.
	HostSegments []Segment
	HostTraces   []Trace

	Stacks  timeline.StackTable // Strings is shared with every Text index
	Streams []uint64            // handles; index 0 is the default stream, 0
	Pools   []Pool              // index 0 is the default pool, (0, 0)

	Unknown  []UnknownKey
	Warnings []account.Warning
}

// Segment is memory that the driver gave: one cudaMalloc, or one contiguous
// mapped range of an expandable segment. Sizes are in bytes.
type Segment struct {
	Device     int32
	Address    uint64
	Total      int64
	Allocated  int64 // as the file counts, as are Active and Requested
	Active     int64
	Requested  int64
	Stream     uint32 // index into Streams
	Pool       uint32 // index into Pools
	Stack      uint32 // index into Stacks, or timeline.NoStack
	Small      bool   // of the pool of small blocks
	Expandable bool
	First      int // its blocks are Blocks[First:First+Count]
	Count      int
}

// Block is a piece of a segment.
type Block struct {
	Address   uint64
	Size      int64  // in bytes, rounded
	Requested int64  // in bytes; 0 for an inactive block
	Stack     uint32 // index into Stacks, or timeline.NoStack
	State     State
	placed    bool // the file gave its address
}

// Pool is the identity of a memory pool; (0, 0) is the default one, any other
// belongs to a CUDA graph or a MemPool.
type Pool struct{ A, B uint64 }

// Trace is the entries of one device, oldest first, as parallel columns. The
// order is the truth; times are informative. A column that no entry has is nil.
type Trace struct {
	Action   []Action
	Addr     []uint64 // of the block or segment; for OutOfMemory the bytes that the driver had free
	Size     []int64  // in bytes, see Action
	Stream   []uint32 // index into Streams
	Stack    []uint32 // index into Stacks, or timeline.NoStack
	Time     []int64  // microseconds since 1970; nil up to PyTorch 2.1
	Pool     []uint32 // index into Pools; nil before PyTorch 2.12
	Context  []uint32 // compile_context: index into Stacks.Strings, 0 for none
	Metadata []uint32 // user_metadata: index into Stacks.Strings, 0 for none
}

// Len is the number of entries.
func (t *Trace) Len() int { return len(t.Action) }

// Annotation is one end of a named interval.
type Annotation struct {
	Name   string
	Start  bool
	Device int32
	Time   int64 // microseconds since 1970
}

// Settings are the allocator's, at the moment of the dump.
type Settings struct {
	Conf                          string // PYTORCH_CUDA_ALLOC_CONF as it was last set
	MaxSplitSize                  int64  // in bytes; −1 is unlimited
	GarbageCollectionThreshold    float64
	ExpandableSegments            bool
	PinnedNumRegisterThreads      int64
	ReleaseLockOnCudaMalloc       bool
	PinnedUseCudaHostRegister     bool
	GraphCaptureRecordStreamReuse bool
	Roundups                      []Roundup // roundup_power2_divisions, in the file's order
}

// Roundup says into how many parts the powers of two from FromMiB on are
// divided when a request is rounded.
type Roundup struct{ FromMiB, Divisions int64 }

// UnknownKey is a key that this package does not read.
type UnknownKey struct {
	In    string // "entry", "block", "segment", "frame", "annotation", "settings", "snapshot"
	Key   string
	Count int
}
