package pickle

import (
	"bytes"
	"encoding/binary"
)

const (
	repeatBits  = 15
	repeatSlots = 1 << repeatBits
	// maxRepeat bounds the bytes of one remembered list: 200 references.
	maxRepeat = 1000
)

// repeats remembers lists that were made of references only, by the bytes of
// those references. A trace repeats its stacks, and each time CPython writes
// the list anew: the same references again, some forty of them.
type repeats struct {
	slots []repeat // one list a slot; a newer one takes its place
}

type repeat struct {
	references []byte
	list       Value
}

// repeated reads the items of a list that is just begun, when all of them are
// references, and the APPENDS after them. It reports whether it read anything.
func (m *machine) repeated() (bool, error) {
	at := m.fence()
	if !m.options.Repeats || len(m.marks) == 0 || at != len(m.stack) || at == 0 {
		return false, nil
	}
	target := &m.stack[at-1]
	if target.kind != List || target.bits != 0 {
		return false, nil
	}
	run, hash := referencesIn(m.in.buf[m.in.pos:])
	if run == nil {
		return false, nil
	}
	if m.repeats.slots == nil {
		m.repeats.slots = make([]repeat, repeatSlots)
	}
	known := &m.repeats.slots[hash>>(64-repeatBits)]
	if bytes.Equal(known.references, run) && !m.memo.shared(*target) {
		m.in.pos += len(run) + 1
		m.marks = m.marks[:len(m.marks)-1]
		memo := target.memo
		*target = known.list
		target.memo = memo
		m.memo.update(*target)
		return true, nil
	}
	if read := m.references(); read != len(run) {
		return read > 0, nil
	}
	m.at = m.in.offset()
	m.in.pos++
	if err := m.many(List); err != nil {
		return true, err
	}
	known.references = append(known.references[:0], run...)
	known.list = m.stack[at-1]
	return true, nil
}

// referencesIn is the references up to an APPENDS, and a hash of what they refer
// to; nil when something else comes, or comes too late.
func referencesIn(b []byte) (run []byte, hash uint64) {
	const multiplier = 0x9e3779b97f4a7c15 // of Fibonacci hashing
	b = b[:min(len(b), maxRepeat)]
	for i := 0; i+5 <= len(b); {
		switch b[i] {
		case opLongBinGet:
			hash = (hash ^ uint64(binary.LittleEndian.Uint32(b[i+1:]))) * multiplier
			i += 5
		case opBinGet:
			hash = (hash ^ uint64(b[i+1])) * multiplier
			i += 2
		case opAppends:
			return b[:i], hash
		default:
			return nil, 0
		}
	}
	return nil, 0
}
