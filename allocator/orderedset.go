package allocator

import "slices"

// chunkSize is how many entries a chunk of an ordered set holds at most: 2 KiB,
// so that an insertion moves about one kilobyte.
const chunkSize = 64

// entry is a block in an ordered set, with its key. Sets of unmapped blocks
// leave size at 0, so that they are ordered by (stream, address).
type entry struct {
	stream uint64
	size   int64
	addr   uint64
	block  int32
}

// before orders entries by (stream, size, address); streams and addresses
// compare as unsigned. The block parts equal keys, which only a contradictory
// input can make.
func (e entry) before(o entry) bool {
	switch {
	case e.stream != o.stream:
		return e.stream < o.stream
	case e.size != o.size:
		return e.size < o.size
	case e.addr != o.addr:
		return e.addr < o.addr
	}
	return e.block < o.block
}

// orderedSet is a sorted sequence in chunks: a B-tree of two levels. No chunk
// is empty. Finding is logarithmic; an insertion moves half a chunk.
type orderedSet struct {
	chunks [][]entry
	spare  [][]entry // emptied chunks, kept for reuse
	len    int
}

// place is where an entry stands; it is valid until the set changes.
type place struct{ chunk, at int }

// ceil is the place of the first entry that is not before e; past the end when
// there is none.
func (s *orderedSet) ceil(e entry) place {
	low, high := 0, len(s.chunks)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if chunk := s.chunks[mid]; chunk[len(chunk)-1].before(e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(s.chunks) {
		return place{low, 0}
	}
	return place{low, position(s.chunks[low], e)}
}

// position is the index of the first entry of a chunk that is not before e.
func position(chunk []entry, e entry) int {
	low, high := 0, len(chunk)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if chunk[mid].before(e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// at is the entry at a place; false past the end.
func (s *orderedSet) at(p place) (entry, bool) {
	if p.chunk >= len(s.chunks) {
		return entry{}, false
	}
	return s.chunks[p.chunk][p.at], true
}

func (s *orderedSet) next(p place) place {
	if p.at+1 < len(s.chunks[p.chunk]) {
		return place{p.chunk, p.at + 1}
	}
	return place{p.chunk + 1, 0}
}

// previous is the place before p; false at the beginning.
func (s *orderedSet) previous(p place) (place, bool) {
	switch {
	case p.at > 0:
		return place{p.chunk, p.at - 1}, true
	case p.chunk > 0:
		return place{p.chunk - 1, len(s.chunks[p.chunk-1]) - 1}, true
	}
	return place{}, false
}

func (s *orderedSet) insert(e entry) {
	s.len++
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, append(s.newChunk(), e))
		return
	}
	p := s.ceil(e)
	if p.chunk == len(s.chunks) {
		p.chunk--
		p.at = len(s.chunks[p.chunk])
	}
	if len(s.chunks[p.chunk]) == chunkSize {
		p = s.split(p)
	}
	s.chunks[p.chunk] = slices.Insert(s.chunks[p.chunk], p.at, e)
}

// split halves a full chunk and says where the place is now.
func (s *orderedSet) split(p place) place {
	full := s.chunks[p.chunk]
	const half = chunkSize / 2
	upper := append(s.newChunk(), full[half:]...)
	s.chunks[p.chunk] = full[:half]
	s.chunks = slices.Insert(s.chunks, p.chunk+1, upper)
	if p.at > half {
		return place{p.chunk + 1, p.at - half}
	}
	return p
}

func (s *orderedSet) newChunk() []entry {
	if n := len(s.spare); n > 0 {
		chunk := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return chunk
	}
	return make([]entry, 0, chunkSize)
}

// remove takes an entry out; it reports whether it was there.
func (s *orderedSet) remove(e entry) bool {
	p := s.ceil(e)
	if found, ok := s.at(p); !ok || found != e {
		return false
	}
	s.removeAt(p)
	return true
}

func (s *orderedSet) removeAt(p place) {
	s.len--
	chunk := s.chunks[p.chunk]
	if len(chunk) > 1 {
		s.chunks[p.chunk] = slices.Delete(chunk, p.at, p.at+1)
		return
	}
	s.spare = append(s.spare, chunk[:0])
	s.chunks = slices.Delete(s.chunks, p.chunk, p.chunk+1)
}

// blocks appends the blocks of the set, in order, to a slice.
func (s *orderedSet) blocks(to []int32) []int32 {
	for _, chunk := range s.chunks {
		for _, e := range chunk {
			to = append(to, e.block)
		}
	}
	return to
}
