package snapshot

import (
	"cmp"
	"slices"
	"strconv"

	"floodmark/internal/sorting"
)

// Holding is what one stream holds in one pool, at the end of a snapshot. All in
// bytes.
type Holding struct {
	Stream   uint64
	Pool     Pool
	Reserved int64
	Active   int64
	// Stranded is free and cannot go back to the driver, because something in
	// its segment, or of an expandable segment on its page, is in use.
	Stranded    int64
	LargestFree int64
}

// Name is "default" for the default pool, else the two numbers of its identity.
func (p Pool) Name() string {
	if p == (Pool{}) {
		return "default"
	}
	return strconv.FormatUint(p.A, 10) + "," + strconv.FormatUint(p.B, 10)
}

// Holdings adds up the segments of a recording by stream and pool, the largest
// first.
func (s *Snapshot) Holdings(r *Recording) []Holding {
	type key struct{ stream, pool uint32 }
	index := map[key]int{}
	var list []Holding
	for _, segment := range r.Segments {
		k := key{segment.Stream, segment.Pool}
		i, ok := index[k]
		if !ok {
			i = len(list)
			index[k] = i
			list = append(list, Holding{Stream: s.Streams[segment.Stream], Pool: s.Pools[segment.Pool]})
		}
		list[i].add(segment, s.Blocks[segment.First:segment.First+segment.Count])
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[j].Reserved, list[i].Reserved) })
	return list
}

// Fits reports whether what is in use and what is free lie inside of what is
// reserved. Where they do not, the file's blocks are not those of its segments.
func (h Holding) Fits() bool {
	free := h.Reserved - h.Active
	return free >= 0 && h.Stranded <= free && h.LargestFree <= free
}

func (h *Holding) add(segment Segment, blocks []Block) {
	h.Reserved += segment.Total
	_, of := levelsOf(blocks)
	h.Active += of.Active
	used := slices.ContainsFunc(blocks, func(b Block) bool { return b.State != Inactive })
	for _, b := range blocks {
		if b.State != Inactive {
			continue
		}
		h.LargestFree = max(h.LargestFree, b.Size)
		switch {
		case segment.Expandable:
			h.Stranded += b.Size - wholePages(segment, b)
		case used:
			h.Stranded += b.Size
		}
	}
}

// Pages of expandable segments, in bytes. Source: kSmallBuffer and kLargeBuffer in
// https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp
const (
	smallPage = 2 << 20
	largePage = 20 << 20
)

// wholePages is how much of a free block of an expandable segment can be
// unmapped: the pages that lie in it as a whole, counted from where the mapped
// range begins.
func wholePages(segment Segment, b Block) int64 {
	if b.Address < segment.Address {
		return 0
	}
	page := uint64(largePage)
	if segment.Small {
		page = smallPage
	}
	from := b.Address - segment.Address
	first, last := (from+page-1)/page, (from+uint64(b.Size))/page
	if last <= first {
		return 0
	}
	return min(int64((last-first)*page), b.Size)
}
