package replay

import (
	"cmp"
	"fmt"
	"slices"

	"floodmark/internal/sorting"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// mended is what a recording is taken for where its entries contradict each
// other. A wrong address in an "alloc" entry makes two allocations of one: one
// that is born there and has no end, and one at the true address that has no
// birth. Taken for one again, everything after it can still be compared, and
// the certificate names that entry.
type mended struct {
	aliases map[uint32]uint32   // allocation without a birth → the one without an end
	skip    map[int]struct{}    // events that only the contradiction made
	strays  map[uint32]struct{} // allocations that are alive before the first entry only by contradiction
}

func (m *mended) alias(a uint32) uint32 {
	if to, ok := m.aliases[a]; ok {
		return to
	}
	return a
}

func (m *mended) skips(event int) bool {
	_, ok := m.skip[event]
	return ok
}

// before leaves out what lived before the first entry only by contradiction.
func (m *mended) before(list []uint32) []uint32 {
	if len(m.strays) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(a uint32) bool {
		_, stray := m.strays[a]
		return stray
	})
}

// lifetime is the events of one allocation; −1 for those that it lacks.
type lifetime struct {
	born, freed int // freed is the first event of its free
	ended       int
}

// mostMended is how many contradictions are mended; a file with more is not a
// recording with a fault, but no recording.
const mostMended = 16

const notThere = "is neither freed nor there at the end"

// mend finds births without an end, and takes each together with the end
// without a birth that fits it.
func (c *certifier) mend() {
	var endless []uint32
	for k, e := range c.events {
		if e.Kind == timeline.FreeCompleted && !c.recordedEnd(k) {
			endless = append(endless, e.Alloc)
		}
	}
	if len(endless) == 0 || len(c.r.Segments) == 0 {
		return
	}
	if len(endless) > mostMended {
		c.suspectAllocs(endless, notThere)
		return
	}
	sorting.By(endless, func(i, j int) int { return cmp.Compare(endless[i], endless[j]) })
	c.mended = mended{aliases: map[uint32]uint32{}, skip: map[int]struct{}{}, strays: map[uint32]struct{}{}}
	lives := c.lifetimes()
	for _, a := range endless {
		if b, ok := c.partner(a, lives); ok {
			c.join(a, b, lives)
		} else {
			c.suspectAllocs([]uint32{a}, notThere)
		}
	}
}

func (c *certifier) lifetimes() []lifetime {
	lives := make([]lifetime, len(c.r.Timeline.Allocs))
	for i := range lives {
		lives[i] = lifetime{-1, -1, -1}
	}
	for k, e := range c.events {
		switch e.Kind {
		case timeline.Born:
			lives[e.Alloc].born = k
		case timeline.FreeRequested:
			lives[e.Alloc].freed = k
		case timeline.FreeCompleted:
			if lives[e.Alloc].ended = k; lives[e.Alloc].freed < 0 {
				lives[e.Alloc].freed = k
			}
		}
	}
	return lives
}

// partner is the allocation whose birth the entry of a really is: of the same
// size and stream, freed later, and either with a birth that no "alloc" entry
// records, or alive before the first entry where there was no memory or in the
// way of another one.
func (c *certifier) partner(a uint32, lives []lifetime) (uint32, bool) {
	allocs := c.r.Timeline.Allocs
	born := lives[a].born
	var candidates []uint32
	for b := range uint32(len(allocs)) {
		if b == a || allocs[b].Requested != allocs[a].Requested || allocs[b].Stream != allocs[a].Stream {
			continue
		}
		if _, taken := c.mended.aliases[b]; taken || (lives[b].freed >= 0 && lives[b].freed < born) {
			continue
		}
		switch {
		case lives[b].born < 0:
			candidates = append(candidates, b)
		case lives[b].born > born && !c.recordedBirth(lives[b].born):
			return b, true
		}
	}
	for _, b := range candidates {
		if c.nowhere(b) || c.inTheWay(b, born) {
			return b, true
		}
	}
	if len(candidates) == 1 {
		return candidates[0], true
	}
	return 0, false
}

// recordedBirth reports a birth that an "alloc" entry records.
func (c *certifier) recordedBirth(event int) bool {
	entry := int(c.r.Entries[event])
	return entry >= 0 && entry < c.r.Trace.Len() && c.r.Trace.Action[entry] == snapshot.Alloc
}

// nowhere reports that an allocation lies in no memory that the driver had given
// before the first entry.
func (c *certifier) nowhere(b uint32) bool {
	addr := c.r.Addresses[b]
	return !slices.ContainsFunc(undoSegments(&c.scene), func(g region) bool {
		return addr >= g.addr && addr < g.end
	})
}

// recordedEnd reports an end that an entry of a free records. Of others it is
// only known that the address was handed out again, or that nothing is there at
// the end.
func (c *certifier) recordedEnd(event int) bool {
	entry := int(c.r.Entries[event])
	return entry < c.r.Trace.Len() && (entry < 0 || c.r.Trace.Action[entry] != snapshot.Alloc)
}

// inTheWay reports that something else is born over an allocation before an
// event.
func (c *certifier) inTheWay(b uint32, before int) bool {
	first, last := c.r.Addresses[b], c.r.Addresses[b]+uint64(c.r.Sizes[b])
	for _, e := range c.events[:max(before, 0)] {
		if e.Kind != timeline.Born || e.Alloc == b {
			continue
		}
		if addr := c.r.Addresses[e.Alloc]; addr < last && first < addr+uint64(c.r.Sizes[e.Alloc]) {
			return true
		}
	}
	return false
}

// join takes b for the later life of a.
func (c *certifier) join(a, b uint32, lives []lifetime) {
	c.mended.aliases[b] = a
	c.mended.skip[lives[a].ended] = struct{}{}
	if lives[b].born >= 0 {
		c.mended.skip[lives[b].born] = struct{}{}
	} else {
		c.mended.strays[b] = struct{}{}
	}
}

// suspectAllocs blames the first entry, birth or free, of allocations that
// contradict the rest of the file. The first of all is kept.
func (c *certifier) suspectAllocs(list []uint32, what string) {
	blamed := make(map[uint32]struct{}, len(list))
	for _, a := range list {
		blamed[a] = struct{}{}
	}
	for k, e := range c.events {
		if _, ok := blamed[e.Alloc]; !ok || e.Kind > timeline.FreeCompleted || c.r.Entries[k] < 0 {
			continue
		}
		entry := int(c.r.Entries[k])
		if c.suspect == nil || entry < c.suspect.Entry {
			c.suspect = c.mismatch(entry, fmt.Sprintf("the allocation of %d bytes at %#x %s",
				c.r.Timeline.Allocs[e.Alloc].Requested, c.r.Addresses[e.Alloc], what))
		}
		return
	}
}
