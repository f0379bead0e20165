package pickle

// containers reads the opcodes that make, fill or drop containers.
func (m *machine) containers(op byte) error {
	switch op {
	case opEmptyTuple:
		return m.tuple(len(m.stack))
	case opSetItem:
		return m.one(Dict, 2)
	case opAppend:
		return m.one(List, 1)
	case opDict:
		return m.whole(Dict)
	case opList:
		return m.whole(List)
	case opTuple:
		at, err := m.popMark()
		if err != nil {
			return err
		}
		return m.tuple(at)
	case opTuple1, opTuple2, opTuple3:
		n := int(op-opTuple1) + 1
		if err := m.need(n); err != nil {
			return err
		}
		return m.tuple(len(m.stack) - n)
	}
	return m.pop()
}

// pop drops a value, finished or not.
func (m *machine) pop() error {
	if err := m.need(1); err != nil {
		return err
	}
	top := len(m.stack) - 1
	_, err := m.settle(m.stack[top:])
	m.stack = m.stack[:top]
	return err
}

// many is SETITEMS and APPENDS: what lies above the mark goes into the
// container below it.
func (m *machine) many(kind Kind) error {
	at, err := m.popMark()
	if err != nil {
		return err
	}
	if at-1 < m.fence() {
		return m.fail("there is no %s below the mark", kind)
	}
	m.filled = filled{m.at, at}
	items := m.stack[at:]
	if err := m.even(kind, items); err != nil {
		return err
	}
	if len(items) > 0 {
		m.target = at - 1
		if err := m.fill(&m.stack[at-1], kind, items); err != nil {
			return err
		}
	}
	m.stack = m.stack[:at]
	return nil
}

// one is SETITEM and APPEND.
func (m *machine) one(kind Kind, n int) error {
	if err := m.need(n + 1); err != nil {
		return err
	}
	at := len(m.stack) - n
	items := m.stack[at:]
	if err := m.even(kind, items); err != nil {
		return err
	}
	m.target = at - 1
	if err := m.add(&m.stack[at-1], kind, items); err != nil {
		return err
	}
	m.stack = m.stack[:at]
	return nil
}

// whole is DICT and LIST: what lies above the mark becomes a container.
// CPython's protocol 0 writes it empty and fills it later.
func (m *machine) whole(kind Kind) error {
	at, err := m.popMark()
	if err != nil {
		return err
	}
	items := m.stack[at:]
	if err := m.even(kind, items); err != nil {
		return err
	}
	v := Value{kind: kind, depth: 1}
	if len(items) > 0 {
		m.target = at
		if err := m.fill(&v, kind, items); err != nil {
			return err
		}
	}
	m.stack = m.stack[:at]
	return m.push(v)
}

// even refuses keys without values, and keys that are not strings.
func (m *machine) even(kind Kind, items []Value) error {
	if kind != Dict {
		return nil
	}
	if len(items)%2 != 0 {
		return m.fail("a dict gets %d keys and values, an odd number", len(items))
	}
	for i := 0; i < len(items); i += 2 {
		if items[i].kind != String {
			return m.fail("a dict key is a %s: only strings are read", items[i].kind)
		}
	}
	return nil
}

func (m *machine) tuple(at int) error {
	items := m.stack[at:]
	m.target = at
	inside, err := m.settle(items)
	if err != nil {
		return err
	}
	v, err := m.build(Value{kind: Tuple, depth: 1}, items, inside)
	if err != nil {
		return err
	}
	m.stack = m.stack[:at]
	return m.push(v)
}
