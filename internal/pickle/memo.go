package pickle

const (
	memoPageBits = 12
	memoPageSize = 1 << memoPageBits
	// maxMemo bounds the memo absolutely: 64 Mi entries are 512 MiB, and belong
	// to a file of some 4 GB.
	maxMemo = 1 << 26
)

// An entry packs a value into eight bytes: 48 bits of payload, then depth, the
// mark that it was got, and the kind. No value packs to 0, which is "absent".
const (
	entryDepth = 48
	entryGot   = 1 << 53
	entryKind  = 56
)

// memo is Python's memo: values by number. Pages are taken as they are needed,
// so that growth copies nothing.
type memo struct {
	pages []*[memoPageSize]uint64
	count int
	wide  []Value
}

// get is the value with that number, and marks it as shared.
func (m *memo) get(index uint32) (Value, bool) {
	page := index >> memoPageBits
	if int(page) >= len(m.pages) || m.pages[page] == nil {
		return Value{}, false
	}
	p := &m.pages[page][index&(memoPageSize-1)]
	e := *p
	if e == 0 {
		return Value{}, false
	}
	if e&entryGot == 0 {
		*p = e | entryGot
	}
	return m.unpack(e, index), true
}

func (m *memo) unpack(e uint64, index uint32) Value {
	v := Value{bits: e & MaxRef, memo: index + 1, kind: Kind(e >> entryKind), depth: uint8(e>>entryDepth) & 31}
	if v.kind == Int {
		v.bits = uint64(int64(v.bits<<16) >> 16)
	}
	if v.kind == wide {
		v = m.wide[v.bits]
		v.memo = index + 1
	}
	return v
}

// shared reports whether the entry of v was ever got: then v has been used by
// somebody and can no longer be filled.
func (m *memo) shared(v Value) bool {
	if v.memo == 0 {
		return false
	}
	index := v.memo - 1
	return m.pages[index>>memoPageBits][index&(memoPageSize-1)]&entryGot != 0
}

// put enters a value, and says whether there was another; index < maxMemo.
func (m *memo) put(index uint32, v Value) (replaced bool) {
	page := int(index >> memoPageBits)
	for page >= len(m.pages) {
		m.pages = append(m.pages, nil)
	}
	if m.pages[page] == nil {
		m.pages[page] = new([memoPageSize]uint64)
	}
	p := &m.pages[page][index&(memoPageSize-1)]
	if replaced = *p != 0; !replaced {
		m.count++
	}
	*p = m.pack(v)
	return replaced
}

func (m *memo) pack(v Value) uint64 {
	fits := v.bits <= MaxRef
	if v.kind == Int {
		n := int64(v.bits)
		fits = n<<16>>16 == n
	}
	if !fits {
		m.wide = append(m.wide, v)
		v.kind, v.bits = wide, uint64(len(m.wide)-1)
	}
	return v.bits&MaxRef | uint64(v.depth)<<entryDepth | uint64(v.kind)<<entryKind
}

// update replaces the value that v is an advanced form of, keeping its mark.
func (m *memo) update(v Value) {
	if v.memo == 0 {
		return
	}
	index := v.memo - 1
	p := &m.pages[index>>memoPageBits][index&(memoPageSize-1)]
	*p = m.pack(v) | *p&entryGot
}
