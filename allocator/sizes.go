package allocator

import "math/bits"

// The constants of the native allocator, in bytes.
const (
	// MinBlockSize is the grain: every size is a multiple of it.
	MinBlockSize = 512
	// SmallSize is the largest rounded request that the small pool serves.
	SmallSize = 1 << 20
	// SmallSegmentSize is a segment of the small pool, and the page of its
	// expandable segments.
	SmallSegmentSize = 2 << 20
	// DefaultLargeSegmentSize is a segment for requests between SmallSize and
	// MinLargeAlloc, and the page of large expandable segments.
	DefaultLargeSegmentSize = 20 << 20
	// MinLargeAlloc is the smallest rounded request that gets a segment of its
	// own size.
	MinLargeAlloc = 10 << 20
	// RoundLarge is the grain of such segments.
	RoundLarge = 2 << 20
	// MaxRequest bounds a request, so that no sum of sizes can overflow: 128 TiB.
	MaxRequest = 1 << 47
	// maxReserved bounds what one allocator holds, for the same reason.
	maxReserved = 1 << 61
)

// RoundSize is the size of the block that a request of so many bytes asks for:
// a multiple of 512, or the next step of roundup_power2_divisions. The request
// is at least 1 and at most MaxRequest.
//
// Worked numbers: 1 gives 512, 513 gives 1024; with four divisions, 1200 KiB
// gives 1280 KiB, because steps between 1 and 2 MiB are 256 KiB.
func (s *Settings) RoundSize(request int64) int64 {
	if request < MinBlockSize {
		return MinBlockSize
	}
	divisions := s.RoundupPower2Divisions[roundupInterval(request)]
	if divisions > 1 && request > MinBlockSize*divisions {
		return nextDivision(request, divisions)
	}
	return roundUp(request, MinBlockSize)
}

// roundupInterval is the interval of roundup_power2_divisions that holds a
// size: 0 for all below 2 MiB, 15 for 32 GiB and more.
func roundupInterval(size int64) int {
	return min(max(bits.Len64(uint64(size))-1-20, 0), roundupIntervals-1)
}

func nextDivision(request, divisions int64) int64 {
	floor := int64(1) << (bits.Len64(uint64(request)) - 1)
	if floor == request {
		return request
	}
	step := floor / divisions
	if step == 0 {
		return 2 * floor
	}
	return roundUp(request, step)
}

// SegmentSize is what a request of that rounded size asks of the driver when
// no cached block serves it and expandable segments are off.
func (s *Settings) SegmentSize(rounded int64) int64 {
	switch {
	case rounded <= SmallSize:
		return SmallSegmentSize
	case rounded < MinLargeAlloc:
		return max(s.LargeSegmentSize, roundUp(rounded, RoundLarge))
	}
	return roundUp(rounded, RoundLarge)
}

// pageSize is the unit in which an expandable segment is mapped.
func (s *Settings) pageSize(small bool) int64 {
	if small {
		return SmallSegmentSize
	}
	return s.LargeSegmentSize
}

// roundUp is n rounded up to a multiple of step; n ≥ 0, step > 0.
func roundUp(n, step int64) int64 {
	return (n + step - 1) / step * step
}
