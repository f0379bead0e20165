package allocator

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"floodmark/account"
)

// Unlimited is a max_split_size that no block reaches.
const Unlimited = math.MaxInt64

// roundupIntervals is how many intervals roundup_power2_divisions has; the
// first begins at 1 MiB and the last at 32 GiB.
const roundupIntervals = 16

// Backend is the allocator that PyTorch uses on the device.
type Backend string

// The backends of PyTorch. Only the native one is simulated.
const (
	Native          Backend = "native"
	CudaMallocAsync Backend = "cudaMallocAsync"
)

// Settings are what PYTORCH_ALLOC_CONF can set. Sizes are bytes. The zero
// value is not a setting; start from [DefaultSettings].
type Settings struct {
	Backend                    Backend
	MaxSplitSize               int64 // Unlimited by default
	MaxNonSplitRounding        int64 // how much larger an oversize cached block may be than the request
	GarbageCollectionThreshold float64
	RoundupPower2Divisions     [roundupIntervals]int64 // 0 and 1: off
	ExpandableSegments         bool
	LargeSegmentSize           int64
	MemoryFraction             float64 // of the card's total memory; 1 is no limit
	ThrowOnOOM                 bool    // throw_on_cudamalloc_oom
	Warnings                   []account.Warning
}

// DefaultSettings are the settings of an empty PYTORCH_ALLOC_CONF.
func DefaultSettings() Settings {
	return Settings{
		Backend:             Native,
		MaxSplitSize:        Unlimited,
		MaxNonSplitRounding: DefaultLargeSegmentSize,
		LargeSegmentSize:    DefaultLargeSegmentSize,
		MemoryFraction:      1,
	}
}

// String is the settings as PYTORCH_ALLOC_CONF spells them, leaving out what
// is as by default. It is empty for the defaults.
func (s Settings) String() string {
	d := DefaultSettings()
	var parts []string
	add := func(differs bool, key, value string) {
		if differs {
			parts = append(parts, key+":"+value)
		}
	}
	mib := func(n int64) string { return strconv.FormatInt(n>>20, 10) }
	add(s.Backend != d.Backend, keyBackend, string(s.Backend))
	add(s.MaxSplitSize != d.MaxSplitSize, keyMaxSplit, mib(s.MaxSplitSize))
	add(s.MaxNonSplitRounding != d.MaxNonSplitRounding, keyNonSplitRounding, mib(s.MaxNonSplitRounding))
	add(s.GarbageCollectionThreshold != 0, keyGarbageCollection, fmt.Sprint(s.GarbageCollectionThreshold))
	add(s.RoundupPower2Divisions != d.RoundupPower2Divisions, keyRoundup, s.divisions())
	add(s.ExpandableSegments, keyExpandable, "True")
	add(s.LargeSegmentSize != d.LargeSegmentSize, keyLargeSegment, mib(s.LargeSegmentSize))
	add(s.MemoryFraction != 1, keyFraction, fmt.Sprint(s.MemoryFraction))
	add(s.ThrowOnOOM, keyThrow, "True")
	return strings.Join(parts, ",")
}

// divisions spells roundup_power2_divisions, as one number where all are equal.
func (s Settings) divisions() string {
	var list []string
	same := true
	for i, d := range s.RoundupPower2Divisions {
		same = same && d == s.RoundupPower2Divisions[0]
		list = append(list, fmt.Sprintf("%d:%d", 1<<i, d))
	}
	if same {
		return strconv.FormatInt(s.RoundupPower2Divisions[0], 10)
	}
	return "[" + strings.Join(list, ",") + "]"
}
