package allocator

// PoolID names a pair of pools, small and large. 0 is the default pair.
type PoolID int32

// pool is the blocks of one kind that nobody holds.
type pool struct {
	free     orderedSet // by (stream, size, address)
	unmapped orderedSet // by (stream, address)
	searches uint64     // how often a block was looked for, counted for garbage collection
}

// group is a small and a large pool that are used together.
type group struct {
	uses    int // graphs and contexts that hold a private pool
	options PoolOptions
}

// PoolOptions are those of torch.cuda.MemPool.
type PoolOptions struct {
	NoSplit         bool // its blocks are never split
	UseOnOOM        bool // others may take its free blocks when nothing else is left
	CustomAllocator bool // its segments are never expandable
}

// maxGroups bounds the private pools of one allocator.
const maxGroups = 1 << 20

// poolIndex is the small or large pool of a group.
func poolIndex(id PoolID, small bool) int32 {
	if small {
		return int32(id) * 2
	}
	return int32(id)*2 + 1
}

// small reports whether a pool serves requests up to SmallSize.
func small(pool int32) bool { return pool%2 == 0 }

func (a *Allocator) addGroup(o PoolOptions) PoolID {
	a.groups = append(a.groups, group{uses: 1, options: o})
	a.pools = append(a.pools, pool{}, pool{})
	return PoolID(len(a.groups) - 1)
}

func (a *Allocator) knows(id PoolID) bool { return id >= 0 && int(id) < len(a.groups) }

// NewPool makes a private pool with one user, as a CUDA graph or a MemPool
// does. It returns the default pool when there are too many.
func (a *Allocator) NewPool(o PoolOptions) PoolID {
	if len(a.groups) >= maxGroups {
		return 0
	}
	return a.addGroup(o)
}

// RetainPool adds a user to a private pool: another graph that shares it.
func (a *Allocator) RetainPool(id PoolID) {
	if id > 0 && a.knows(id) {
		a.groups[id].uses++
	}
}

// ReleasePool takes a user away. A private pool without users gives its unused
// segments back at the next release of everything cached, not before.
func (a *Allocator) ReleasePool(id PoolID) {
	if id > 0 && a.knows(id) && a.groups[id].uses > 0 {
		a.groups[id].uses--
	}
}

// BeginCapture says that a CUDA graph is being captured: streams may not be
// asked and caches may not be released until [Allocator.EndCapture].
func (a *Allocator) BeginCapture() { a.captures++ }

// EndCapture ends a capture. Frees that were put off now wait for their
// streams like others.
func (a *Allocator) EndCapture() {
	if a.captures == 0 {
		return
	}
	if a.captures--; a.captures > 0 {
		return
	}
	a.queue = append(a.queue, a.deferred...)
	a.deferred = a.deferred[:0]
}

// lastResort looks for a free block in the private pools that allow it.
func (a *Allocator) lastResort(w want) int32 {
	for id := range a.groups {
		if !a.groups[id].options.UseOnOOM {
			continue
		}
		w.pool = poolIndex(PoolID(id), small(w.pool))
		if i := a.find(w); i != none {
			return i
		}
	}
	return none
}
