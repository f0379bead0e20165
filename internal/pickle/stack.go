package pickle

import "slices"

// filling is a container whose items come one by one (protocol 0, and
// containers of one item). They are gathered, so that a builder sees the same
// calls whatever the protocol.
type filling struct {
	value Value // what the builder made of it so far
	items []Value
	depth uint8 // of the deepest item
}

func (m *machine) push(v Value) error {
	if len(m.stack) >= headStart && len(m.stack) >= m.stackRoom() {
		return m.fail("%d values on the stack are more than plain data needs", len(m.stack))
	}
	if len(m.stack) == cap(m.stack) {
		// Twice as large, so that a list of millions is copied but twice.
		m.stack = slices.Grow(m.stack, max(len(m.stack), 1<<10))
	}
	m.stack = append(m.stack, v)
	return nil
}

// stackRoom is how many values the stack may have at this point of the file.
func (m *machine) stackRoom() int {
	return int(min(headStart+m.in.offset()/stackPrice, maxStack))
}

// fence is the index below which nothing may be taken: the innermost mark.
func (m *machine) fence() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// need makes sure that n values lie above the innermost mark.
func (m *machine) need(n int) error {
	if have := len(m.stack) - m.fence(); have < n {
		return m.fail("the opcode needs %d values, but %d are on the stack", n, have)
	}
	return nil
}

func (m *machine) mark() error {
	if len(m.marks) >= maxMarks {
		return m.fail("more than %d marks are open at once", maxMarks)
	}
	m.marks = append(m.marks, len(m.stack))
	return nil
}

// popMark is where the items above the innermost mark begin.
func (m *machine) popMark() (int, error) {
	if len(m.marks) == 0 {
		return 0, m.fail("the opcode needs a mark, and none is open")
	}
	at := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	return at, nil
}

func (m *machine) get(index uint32) error {
	v, ok := m.memo.get(index)
	if !ok {
		return m.fail("memo entry %d is used before it is set", index)
	}
	if v.kind == open {
		// Whoever shares a container sees it as it is now; filling it further
		// is refused.
		m.target = len(m.stack)
		settled, err := m.settled(v)
		if err != nil {
			return err
		}
		v = settled
	}
	return m.push(v)
}

func (m *machine) put(index uint32) error {
	// A pickler numbers what it writes, so no index exceeds the offset. A
	// larger one would take memory that the file does not pay for.
	if index >= maxMemo || int64(index) > m.in.offset() {
		return m.fail("memo index %d is larger than a file of this length can need", index)
	}
	if n := max(m.memo.count, len(m.memo.wide)); n >= headStart && int64(n) >= headStart+m.in.offset()/memoPrice {
		return m.fail("%d values in the memo are more than plain data of this length needs", n)
	}
	if err := m.need(1); err != nil {
		return err
	}
	top := &m.stack[len(m.stack)-1]
	if top.container() && top.memo != 0 {
		return m.fail("a container is entered in the memo twice")
	}
	top.memo = 0
	if replaced := m.memo.put(index, *top); replaced {
		// References mean something else from now on; no pickler does that.
		m.options.Repeats = false
	}
	top.memo = index + 1
	return nil
}

// settle finishes the items that are still being filled, in place, and gives
// the depth of the deepest. They are the top of the stack.
func (m *machine) settle(items []Value) (depth uint8, err error) {
	target := m.target
	for i := range items {
		if items[i].kind == open {
			index := uint32(items[i].bits)
			m.target = len(m.stack) - len(items) + i
			if items[i], err = m.settled(items[i]); err != nil {
				return 0, err
			}
			m.target = target
			// The last reference is gone: the memo has the finished value.
			m.recycle(index)
		}
		depth = max(depth, items[i].depth)
	}
	return depth, nil
}

// settled hands the gathered items of an open container to the builder.
func (m *machine) settled(v Value) (Value, error) {
	f := &m.open[v.bits]
	if len(f.items) > 0 {
		if err := m.flush(f); err != nil {
			return Value{}, err
		}
	}
	f.value.memo = v.memo
	m.memo.update(f.value)
	return f.value, nil
}

// add gives one item of a list, or a key and its value, to a container.
func (m *machine) add(target *Value, kind Kind, items []Value) error {
	if err := m.fillable(*target, kind); err != nil {
		return err
	}
	depth, err := m.settle(items)
	if err != nil {
		return err
	}
	if target.kind != open {
		m.reopen(target)
	}
	f := &m.open[target.bits]
	if err := m.gather(f, items, depth); err != nil {
		return err
	}
	if len(f.items) >= batch*len(items) {
		return m.flush(f)
	}
	return nil
}

// gather keeps items for a builder that sees them later.
func (m *machine) gather(f *filling, items []Value, depth uint8) error {
	if m.held += len(items); m.held > maxGathered {
		return m.fail("%d items of containers that are not finished are more than plain data needs", m.held)
	}
	f.items, f.depth = append(f.items, items...), max(f.depth, depth)
	return nil
}

// flush hands the gathered items to the builder.
func (m *machine) flush(f *filling) error {
	made, err := m.build(f.value, f.items, f.depth)
	if err != nil {
		return err
	}
	m.held -= len(f.items)
	f.value, f.items = made, f.items[:0]
	return nil
}

// recycle makes an open container's place free, keeping a small buffer.
func (m *machine) recycle(index uint32) {
	items := m.open[index].items
	if cap(items) > 64 {
		items = nil
	}
	m.open[index] = filling{items: items[:0]}
	m.spare = append(m.spare, index)
}

// reopen makes an open container of a dict or list.
func (m *machine) reopen(target *Value) {
	var index uint32
	if n := len(m.spare); n > 0 {
		index = m.spare[n-1]
		m.spare = m.spare[:n-1]
	} else {
		index = uint32(len(m.open))
		m.open = append(m.open, filling{})
	}
	v := *target
	v.memo = 0
	m.open[index].value = v
	*target = Value{kind: open, bits: uint64(index), memo: target.memo, depth: target.depth}
	m.memo.update(*target)
}

// fill gives many items to a container.
func (m *machine) fill(target *Value, kind Kind, items []Value) error {
	if err := m.fillable(*target, kind); err != nil {
		return err
	}
	depth, err := m.settle(items)
	if err != nil {
		return err
	}
	if target.kind == open {
		return m.gather(&m.open[target.bits], items, depth)
	}
	made, err := m.build(*target, items, depth)
	if err != nil {
		return err
	}
	made.memo = target.memo
	m.memo.update(made)
	*target = made
	return nil
}

// fillable refuses to fill what is not a container of that kind, or has been
// used: that is how a pickle writes a cycle.
func (m *machine) fillable(target Value, kind Kind) error {
	is := target.kind
	if is == open {
		is = m.open[target.bits].value.kind
	}
	if is != kind {
		return m.fail("items for a %s are given to a %s", kind, is)
	}
	if m.memo.shared(target) {
		return m.fail("a container is changed after it was used: that makes a cycle")
	}
	return nil
}

// build calls the builder, and keeps the depth; inside is the items'.
func (m *machine) build(target Value, items []Value, inside uint8) (Value, error) {
	var made Value
	var err error
	depth := max(target.depth, inside+1)
	if depth > MaxDepth {
		return Value{}, m.fail("containers nest deeper than %d levels", MaxDepth)
	}
	switch target.kind {
	case Dict:
		made, err = m.builder.SetItems(target, items)
	case List:
		made, err = m.builder.Append(target, items)
	default:
		made, err = m.builder.Tuple(items)
	}
	if err != nil {
		return Value{}, m.located(err)
	}
	made.memo, made.depth = 0, depth
	return made, nil
}
