package allocator

// none is no block.
const none = int32(-1)

// state says what a block is.
type state uint8

const (
	dead      state = iota // its place is kept for the next block
	unused                 // mapped, and in the free set of its pool
	unmapped               // addresses of an expandable segment without memory
	allocated              // held by the program
	pending                // free requested, and waiting for streams
	taken                  // out of the free set, about to be handed out
)

// block is a run of bytes inside a segment. Blocks live in one slice and know
// their neighbours by index, so that they cost no pointers.
type block struct {
	addr       uint64
	size       int64
	requested  int64
	stream     uint64
	inserted   uint64 // the pool's searches when it became unused: its birth for garbage collection
	previous   int32  // neighbour at lower addresses, or none
	next       int32
	pool       int32
	virtual    int32  // expandable segment, or none
	generation uint32 // changes whenever a handle to it dies
	state      state
}

// Handle names an allocation from [Allocator.Malloc] until its free is
// completed. The zero Handle names none.
type Handle uint64

func handleOf(index int32, generation uint32) Handle {
	return Handle(uint64(index)+1) | Handle(generation)<<32
}

// resolve finds the block of a handle; none when it is no longer active.
func (a *Allocator) resolve(h Handle) int32 {
	index := int64(h&0xffffffff) - 1
	if index < 0 || index >= int64(len(a.blocks)) {
		return none
	}
	b := &a.blocks[index]
	if b.generation != uint32(h>>32) || (b.state != allocated && b.state != pending) {
		return none
	}
	return int32(index)
}

// newBlock makes a block without neighbours; the caller sets its state.
func (a *Allocator) newBlock(b block) int32 {
	b.previous, b.next = none, none
	if n := len(a.spare); n > 0 {
		i := a.spare[n-1]
		a.spare = a.spare[:n-1]
		b.generation = a.blocks[i].generation
		a.blocks[i] = b
		return i
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

// drop gives a block's place back.
func (a *Allocator) drop(i int32) {
	b := &a.blocks[i]
	b.state = dead
	b.generation++
	a.spare = append(a.spare, i)
}

// linkBefore puts a new block between i and its previous neighbour.
func (a *Allocator) linkBefore(fresh, i int32) {
	before := a.blocks[i].previous
	a.blocks[fresh].previous, a.blocks[fresh].next = before, i
	a.blocks[i].previous = fresh
	if before != none {
		a.blocks[before].next = fresh
	}
}

// linkAfter puts a new block between i and its next neighbour.
func (a *Allocator) linkAfter(fresh, i int32) {
	after := a.blocks[i].next
	a.blocks[fresh].previous, a.blocks[fresh].next = i, after
	a.blocks[i].next = fresh
	if after != none {
		a.blocks[after].previous = fresh
	}
}

// isSplit reports a block that is not a whole segment.
func (b *block) isSplit() bool { return b.previous != none || b.next != none }

// setKey is the block's entry in the set that its state puts it in.
func (a *Allocator) setKey(i int32) entry {
	b := &a.blocks[i]
	e := entry{stream: b.stream, addr: b.addr, block: i}
	if b.state != unmapped {
		e.size = b.size
	}
	return e
}

// insertUnused puts a block in the free set of its pool.
func (a *Allocator) insertUnused(i int32) {
	b := &a.blocks[i]
	p := &a.pools[b.pool]
	b.state, b.requested, b.inserted = unused, 0, p.searches
	p.free.insert(a.setKey(i))
}

// insertUnmapped puts a block among the unmapped ones of its pool.
func (a *Allocator) insertUnmapped(i int32) {
	b := &a.blocks[i]
	b.state = unmapped
	a.pools[b.pool].unmapped.insert(a.setKey(i))
}

// withdraw takes an unused or unmapped block out of its set. It must happen
// before its address or size changes.
func (a *Allocator) withdraw(i int32) {
	b := &a.blocks[i]
	if b.state == unmapped {
		a.pools[b.pool].unmapped.remove(a.setKey(i))
	} else {
		a.pools[b.pool].free.remove(a.setKey(i))
	}
}

// absorb merges the neighbour n into block i, which is in no set, when n has
// that state. It returns the bytes gained, 0 when there was nothing to merge.
func (a *Allocator) absorb(i, n int32, like state) int64 {
	if n == none || a.blocks[n].state != like {
		return 0
	}
	a.withdraw(n)
	b, other := &a.blocks[i], &a.blocks[n]
	if b.previous == n {
		b.addr = other.addr
		b.previous = other.previous
		if b.previous != none {
			a.blocks[b.previous].next = i
		}
	} else {
		b.next = other.next
		if b.next != none {
			a.blocks[b.next].previous = i
		}
	}
	b.size += other.size
	gained := other.size
	a.drop(n)
	return gained
}
