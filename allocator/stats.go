package allocator

import "math"

// Stat is one statistic: what it is now, its highest value, and the sums of its
// increases and decreases.
type Stat struct {
	Current, Peak, Allocated, Freed int64
}

func (s *Stat) add(n int64) {
	s.Current += n
	if n > 0 {
		s.Allocated = saturated(s.Allocated + n)
		s.Peak = max(s.Peak, s.Current)
	} else {
		s.Freed = saturated(s.Freed - n)
	}
}

// saturated keeps a sum that grew beyond 63 bits at the largest count.
func saturated(sum int64) int64 {
	if sum < 0 {
		return math.MaxInt64
	}
	return sum
}

// PoolStat is a statistic over all blocks, over the small pools and over the
// large ones.
type PoolStat struct {
	All, Small, Large Stat
}

func (s *PoolStat) add(small bool, n int64) {
	s.All.add(n)
	if small {
		s.Small.add(n)
	} else {
		s.Large.add(n)
	}
}

// Statistics are those of torch.cuda.memory_stats, under its names. A
// statistic in bytes ends in Bytes; the others count.
//
// Segment and InactiveSplit leave expandable segments out, as PyTorch does.
type Statistics struct {
	Allocation, AllocatedBytes        PoolStat
	Active, ActiveBytes               PoolStat
	RequestedBytes                    PoolStat
	Segment, ReservedBytes            PoolStat
	InactiveSplit, InactiveSplitBytes PoolStat
	OversizeAllocations               Stat
	OversizeSegments                  Stat
	NumAllocRetries, NumOOMs          int64
	NumSyncAllStreams                 int64
	NumDeviceAlloc, NumDeviceFree     int64
	NumOOMRejections                  int64
}

// NamedStat is one row of the statistics.
type NamedStat struct {
	Name  string // PyTorch's, without ".all.current" and the like
	Value PoolStat
}

// ByPool lists the statistics that are kept by pool, in PyTorch's order.
func (s *Statistics) ByPool() []NamedStat {
	return []NamedStat{
		{"allocation", s.Allocation},
		{"segment", s.Segment},
		{"active", s.Active},
		{"inactive_split", s.InactiveSplit},
		{"allocated_bytes", s.AllocatedBytes},
		{"reserved_bytes", s.ReservedBytes},
		{"active_bytes", s.ActiveBytes},
		{"inactive_split_bytes", s.InactiveSplitBytes},
		{"requested_bytes", s.RequestedBytes},
	}
}

// ResetPeaks sets every peak to the current value, as
// torch.cuda.reset_peak_memory_stats does: all of a device at once.
func (s *Statistics) ResetPeaks() {
	for _, p := range []*PoolStat{&s.Allocation, &s.AllocatedBytes, &s.Active, &s.ActiveBytes, &s.RequestedBytes,
		&s.Segment, &s.ReservedBytes, &s.InactiveSplit, &s.InactiveSplitBytes} {
		for _, stat := range []*Stat{&p.All, &p.Small, &p.Large} {
			stat.Peak = stat.Current
		}
	}
	s.OversizeAllocations.Peak = s.OversizeAllocations.Current
	s.OversizeSegments.Peak = s.OversizeSegments.Current
}
