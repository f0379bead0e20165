package pickle

import (
	"bytes"
	"encoding/binary"
)

const (
	repeatBits = 13
	repeatSets = 1 << repeatBits
	repeatWays = 4
	// maxRepeat bounds the bytes of one remembered list: 200 references.
	maxRepeat = 1000
)

// repeats remembers lists that were made of references only, by the bytes of
// those references. A trace repeats its stacks, and each time CPython writes
// the list anew: the same references again, some forty of them. A program that
// loops repeats them in the same order, so what followed a list the last time is
// tried first.
type repeats struct {
	lists []repeat // repeatWays of one hash beside each other
	last  int      // the list that was read last
	turn  int      // counts replacements
}

type repeat struct {
	references []byte
	hash       uint64
	list       Value
	next       int // the list that followed the last time
}

// begins reports whether the bytes begin with the references of the list, and
// the APPENDS after them.
func (r *repeat) begins(b []byte) bool {
	n := len(r.references)
	return n > 0 && len(b) > n && b[n] == opAppends && bytes.Equal(b[:n], r.references)
}

// find is the index of the list that the bytes begin with; false when it is not
// known, with the place that is to take it, and 0 bytes when it cannot be kept.
func (r *repeats) find(b []byte) (at, length int, known bool) {
	if r.lists == nil {
		r.lists = make([]repeat, repeatSets*repeatWays)
	}
	if next := r.lists[r.last].next; r.lists[next].begins(b) {
		return next, len(r.lists[next].references), true
	}
	run, hash := referencesIn(b)
	if run == nil {
		return 0, 0, false
	}
	set := int(hash>>(64-repeatBits)) * repeatWays
	for at := set; at < set+repeatWays; at++ {
		if r.lists[at].hash == hash && bytes.Equal(r.lists[at].references, run) {
			return at, len(run), true
		}
	}
	at = set + r.turn%repeatWays
	r.turn++
	r.lists[at].references, r.lists[at].hash = r.lists[at].references[:0], hash
	return at, len(run), false
}

// repeated reads the items of a list after its mark, when all of them are
// references, and the APPENDS after them. Else it leaves them, or the rest.
func (m *machine) repeated() error {
	rest := m.in.buf[m.in.pos:]
	if len(rest) == 0 || rest[0] != opLongBinGet && rest[0] != opBinGet {
		return nil
	}
	mark := len(m.marks) - 1
	at := m.marks[mark]
	if at == 0 || mark > 0 && m.marks[mark-1] == at {
		return nil
	}
	target := &m.stack[at-1]
	if target.kind != List || target.bits != 0 {
		return nil
	}
	found, length, known := m.repeats.find(rest)
	if length == 0 {
		return nil
	}
	if known && !m.memo.shared(*target) {
		m.in.pos += length + 1
		m.marks = m.marks[:mark]
		memo := target.memo
		*target = m.repeats.lists[found].list
		target.memo = memo
		m.memo.update(*target)
		m.repeats.follow(found)
		return nil
	}
	return m.remember(found, rest[:length])
}

// follow notes the order of lists.
func (r *repeats) follow(at int) {
	r.lists[r.last].next = at
	r.last = at
}

// remember reads a list of references and keeps it.
func (m *machine) remember(at int, run []byte) error {
	if m.references() != len(run) {
		return nil
	}
	m.at = m.in.offset()
	m.in.pos++
	if err := m.many(List); err != nil {
		return err
	}
	r := &m.repeats.lists[at]
	r.references = append(r.references[:0], run...)
	r.list = m.stack[len(m.stack)-1]
	m.repeats.follow(at)
	return nil
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
