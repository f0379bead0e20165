package replay

import "floodmark/allocator"

// Failed is the allocator at a request that failed in the recording, after it
// had released what it could. All in bytes.
type Failed struct {
	Entry  int // index into the trace
	Levels Levels
	// Stuck is cached in segments that something still uses, so that it cannot go
	// back to the driver.
	Stuck       int64
	LargestFree int64 // the largest cached block, whatever its stream and pool
}

// Cached is held from the driver and not in use.
func (f Failed) Cached() int64 { return f.Levels.Reserved - f.Levels.Active }

// mostFailures bounds the failures that are described: each is a walk over all
// blocks, and a program that fails again and again says no more than the first.
const mostFailures = 16

func cacheOf(a *allocator.Allocator, entry int) Failed {
	f := Failed{Entry: entry, Levels: levelsOf(a.Stats())}
	for _, segment := range a.Segments() {
		free := int64(0)
		for _, b := range segment.Blocks {
			if b.State == allocator.Inactive {
				free += b.Size
				f.LargestFree = max(f.LargestFree, b.Size)
			}
		}
		if free < segment.Size {
			f.Stuck += free
		}
	}
	return f
}
