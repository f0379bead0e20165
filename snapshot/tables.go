package snapshot

import (
	"cmp"
	"slices"
	"strings"

	"floodmark/internal/pickle"
	"floodmark/internal/sorting"
	"floodmark/timeline"
)

// stacks interns frames and whole stacks by content: most lists of frames are
// written anew, and few differ.
type stacks struct {
	table   timeline.StackTable
	frames  map[timeline.Frame]uint32
	noise   []bool   // by frame
	slots   []uint32 // open addressing: 1 + the index of a stack
	scratch []uint32
}

func newStacks() stacks {
	return stacks{frames: map[timeline.Frame]uint32{}, slots: make([]uint32, 1<<10)}
}

func (s *stacks) frame(f timeline.Frame, strings *pickle.Strings) uint32 {
	if i, ok := s.frames[f]; ok {
		return i
	}
	i := uint32(len(s.table.Frames))
	s.frames[f] = i
	s.table.Frames = append(s.table.Frames, f)
	s.noise = append(s.noise, isNoise(strings.At(f.Function)))
	return i
}

// isNoise names the functions that record the stack; they are the first three
// of every stack with C++ frames.
func isNoise(function string) bool {
	return strings.HasPrefix(function, "torch::unwind::unwind(") ||
		strings.HasPrefix(function, "torch::CapturedTraceback::gather(") ||
		strings.HasSuffix(function, "gather_with_cpp()")
}

// intern gives the index of a stack without the frames that recorded it.
func (s *stacks) intern(frames []uint32) uint32 {
	for len(frames) > 0 && s.noise[frames[0]] {
		frames = frames[1:]
	}
	hash := hashOf(frames)
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		found := s.slots[i]
		if found == 0 {
			added := s.table.Add(frames)
			s.slots[i] = added + 1
			if 2*s.table.Len() > len(s.slots) {
				s.grow()
			}
			return added
		}
		if slices.Equal(s.table.Stack(found-1), frames) {
			return found - 1
		}
	}
}

func (s *stacks) grow() {
	s.slots = make([]uint32, 2*len(s.slots))
	mask := uint64(len(s.slots) - 1)
	for k := range s.table.Len() {
		i := hashOf(s.table.Stack(uint32(k))) & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = uint32(k) + 1
	}
}

// hashOf mixes frame indexes, two at a time, with the multiplier of Fibonacci
// hashing.
func hashOf(frames []uint32) uint64 {
	const multiplier = 0x9e3779b97f4a7c15
	h := uint64(len(frames))
	for ; len(frames) > 1; frames = frames[2:] {
		h = (h ^ uint64(frames[0]) ^ uint64(frames[1])<<32) * multiplier
		h ^= h >> 29
	}
	if len(frames) > 0 {
		h = (h ^ uint64(frames[0])) * multiplier
		h ^= h >> 29
	}
	return h
}

// handles numbers stream handles; 0 is the default stream.
type handles struct {
	list  []uint64
	known map[uint64]uint32
}

func newHandles() handles {
	return handles{list: []uint64{0}, known: map[uint64]uint32{0: 0}}
}

func (h *handles) index(handle uint64) uint32 {
	if handle == 0 {
		return 0
	}
	i, ok := h.known[handle]
	if !ok {
		i = uint32(len(h.list))
		h.list = append(h.list, handle)
		h.known[handle] = i
	}
	return i
}

// pools numbers pool identities; 0 is the default pool.
type pools struct {
	list  []Pool
	known map[Pool]uint32
}

func newPools() pools { return pools{list: []Pool{{}}, known: map[Pool]uint32{{}: 0}} }

func (p *pools) index(id Pool) uint32 {
	if id == (Pool{}) {
		return 0
	}
	i, ok := p.known[id]
	if !ok {
		i = uint32(len(p.list))
		p.list = append(p.list, id)
		p.known[id] = i
	}
	return i
}

func poolOf(items []pickle.Value) (Pool, bool) {
	if len(items) != 2 {
		return Pool{}, false
	}
	a, isA := items[0].Uint()
	b, isB := items[1].Uint()
	return Pool{A: a, B: b}, isA && isB
}

// unknownKeys counts keys that this package does not read.
type unknownKeys struct{ count map[unknownKey]int }

type unknownKey struct {
	in  string
	key uint32
}

func (u *unknownKeys) add(in string, key uint32) { u.count[unknownKey{in, key}]++ }

func (u *unknownKeys) sorted(strings *pickle.Strings) []UnknownKey {
	var list []UnknownKey
	for k, n := range u.count {
		list = append(list, UnknownKey{In: k.in, Key: strings.At(k.key), Count: n})
	}
	sorting.By(list, func(i, j int) int {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(a.In, b.In), cmp.Compare(a.Key, b.Key))
	})
	return list
}
