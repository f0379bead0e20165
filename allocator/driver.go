package allocator

// Driver is what the allocator asks for memory. Its answers are inputs of the
// state machine: a replay answers as a driver once did, a what-if as a model of
// a card does. Sizes are bytes.
type Driver interface {
	// Alloc is cudaMalloc. False: refused.
	Alloc(size int64, stream uint64) (addr uint64, ok bool)
	// Free is cudaFree of a whole segment.
	Free(addr uint64, size int64)
	// Reserve is cuMemAddressReserve: addresses without memory. False: refused.
	Reserve(size int64, stream uint64) (addr uint64, ok bool)
	// Map puts memory behind size bytes of reserved addresses, whole pages. When
	// one page is refused, so are all of them. False: refused.
	Map(addr uint64, size int64, stream uint64) bool
	// Unmap takes the memory behind whole pages away.
	Unmap(addr uint64, size int64)
	// Release gives reserved addresses back.
	Release(addr uint64, size int64)
	// TotalMemory is the card's totalGlobalMem.
	TotalMemory() int64
}

// Card is a driver with so many bytes to give and addresses that never repeat.
// Only sums of bytes can be refused: a driver's own fragmentation is not known.
type Card struct {
	capacity int64
	total    int64
	used     int64
	next     uint64
}

var _ Driver = (*Card)(nil)

// unlimitedMemory is the total of a card without a capacity: more than any
// card has, and small enough that 9/8 of it can be reserved often.
const unlimitedMemory = 1 << 40

// NewCard is a card that grants the allocator at most capacity bytes; with a
// capacity of 0 or less it grants everything. The total memory is what
// fractions and reservations are taken of; 0 or less: the capacity.
func NewCard(capacity, total int64) *Card {
	if capacity <= 0 {
		capacity = Unlimited
	}
	if total <= 0 {
		total = min(capacity, unlimitedMemory)
	}
	return &Card{capacity: capacity, total: total, next: firstAddress}
}

// firstAddress is where a card's addresses begin: no processor has addresses
// there, so they never meet recorded ones.
const firstAddress = 1 << 60

// Take counts bytes as granted that an allocator was restored with.
func (c *Card) Take(bytes int64) { c.used += bytes }

// Used is the bytes that the card has granted and not got back.
func (c *Card) Used() int64 { return c.used }

// SetCapacity changes what the card can grant from now on, as another process
// would by taking or giving back memory.
func (c *Card) SetCapacity(bytes int64) { c.capacity = bytes }

// Alloc implements Driver.
func (c *Card) Alloc(size int64, stream uint64) (uint64, bool) {
	if size > c.capacity-c.used {
		return 0, false
	}
	addr, ok := c.Reserve(size, stream)
	if ok {
		c.used += size
	}
	return addr, ok
}

// Free implements Driver.
func (c *Card) Free(_ uint64, size int64) { c.used -= size }

// Reserve implements Driver. Addresses are multiples of 2 MiB, as a driver's are.
func (c *Card) Reserve(size int64, _ uint64) (uint64, bool) {
	step := uint64(roundUp(size, RoundLarge))
	if c.next+step < c.next {
		return 0, false
	}
	addr := c.next
	c.next += step
	return addr, true
}

// Map implements Driver.
func (c *Card) Map(_ uint64, size int64, _ uint64) bool {
	if size > c.capacity-c.used {
		return false
	}
	c.used += size
	return true
}

// Unmap implements Driver.
func (c *Card) Unmap(_ uint64, size int64) { c.used -= size }

// Release implements Driver.
func (c *Card) Release(uint64, int64) {}

// TotalMemory implements Driver.
func (c *Card) TotalMemory() int64 { return c.total }
