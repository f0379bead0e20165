package pickle

import (
	"encoding/binary"
	"io"

	"floodmark/internal/source"
)

// MaxDepth bounds how deep containers nest. A memory snapshot has 7 levels, in
// PyTorch 2.0's form 9.
const MaxDepth = 16

const (
	// batch is how many items a builder gets at once at most, when they come
	// one by one; CPython writes batches of that length.
	batch = 1000
	// maxMarks bounds the marks that are open at once: two a level, and more.
	maxMarks = 4 * MaxDepth
	// maxStack bounds the stack absolutely: 8 Mi values are 128 MiB. PyTorch's
	// C++ pickler leaves all items of a list there.
	maxStack = 1 << 23
	// maxGathered bounds the items that were given one by one and that no builder
	// has seen: a batch a level, and more.
	maxGathered = 4 * batch * MaxDepth
	// headStart is how many values, memo entries or strings a file of any length
	// may have. Beyond it the file must have paid for each with so many bytes: of
	// 30 public snapshots the densest has a memo entry every 16 bytes (a snapshot
	// of PyTorch 2.0), a new string every 112, and a value that stays on the stack
	// is a trace entry of 29 bytes or more.
	headStart   = 1 << 16
	stackPrice  = 16
	memoPrice   = 8
	stringPrice = 32
)

// Builder makes something of each container. It is called once its items are
// known: all of them for a container of at most 1000, else in batches, in
// order. The items are good until the method returns.
//
// The first call for a container passes an empty one, whose Ref is 0; each
// call returns what stands for it from then on ([DictRef], [ListRef]). An
// error becomes a *source.FormatError with the offset.
type Builder interface {
	// SetItems adds keys and values, alternating.
	SetItems(dict Value, items []Value) (Value, error)
	// Append adds items to a list.
	Append(list Value, items []Value) (Value, error)
	// Tuple makes a tuple; a [TupleRef].
	Tuple(items []Value) (Value, error)
}

// Name is a Python name that a pickle may mention.
type Name struct{ Module, Name string }

// Options say what a pickle may contain beside plain data. A nil callback
// refuses its opcode.
type Options struct {
	Globals    []Name                                              // GLOBAL, STACK_GLOBAL: all others are refused
	Reduce     func(global uint32, arguments Value) (Value, error) // REDUCE on Globals[global]; arguments is a tuple
	Build      func(object, state Value) (Value, error)            // BUILD
	Persistent func(id Value) (Value, error)                       // BINPERSID
	// Repeats says that two lists of the same references may be one: the builder
	// is called for the first only.
	Repeats bool
	// End is told at STOP how many bytes were read beyond it, from where the
	// caller can read on.
	End func(beyond int)
}

type machine struct {
	in      *input
	name    string
	at      int64 // offset of the opcode that is being read
	strings *Strings
	builder Builder
	options Options
	stack   []Value
	marks   []int
	memo    memo
	open    []filling
	spare   []uint32 // indexes of machine.open that are free again
	held    int      // items gathered in machine.open
	target  int      // where on the stack the container is that a builder works on
	filled  filled   // the mark that the opcode at hand took away
	repeats repeats
}

// Read reads one pickle and gives its root. size is how many bytes r has, or at
// most has; name is for messages. What follows the pickle is left alone.
func Read(r io.Reader, name string, size int64, strings *Strings, b Builder, options Options) (Value, error) {
	m := &machine{in: newInput(r, name, size), name: name, strings: strings, builder: b, options: options}
	if err := m.run(); err != nil {
		return Value{}, err
	}
	return m.root()
}

// run reads opcodes up to STOP. Those that make up nearly all of a snapshot are
// read here, as long as a whole one lies in the buffer.
func (m *machine) run() error {
	in := m.in
	for {
		if len(in.buf)-in.pos < lookahead {
			if err := m.refill(); err != nil {
				return err
			}
		}
		m.at = in.offset()
		op := in.buf[in.pos]
		if (op == opLongBinGet || op == opBinGet) && m.references() > 0 {
			continue
		}
		in.pos++
		var err error
		switch op {
		case opMemoize:
			err = m.put(uint32(m.memo.count))
		case opMark:
			if err = m.mark(); err == nil && m.options.Repeats {
				err = m.repeated()
			}
		case opEmptyDict:
			err = m.push(Value{kind: Dict, depth: 1})
		case opEmptyList:
			err = m.push(Value{kind: List, depth: 1})
		case opSetItems:
			err = m.many(Dict)
		case opAppends:
			err = m.many(List)
		case opBinInt, opBinInt1, opBinInt2, opLong1:
			err = m.integer(op)
		case opShortBinUnicode:
			err = m.text(1)
		case opStop:
			if m.options.End != nil {
				m.options.End(len(in.buf) - in.pos)
			}
			return nil
		default:
			err = m.other(op)
		}
		if err != nil {
			return err
		}
	}
}

// references reads BINGET and LONG_BINGET as long as they refer to finished
// containers and strings, and lie in the buffer as a whole, and says how many
// bytes those were. Whatever is special about one is left to get.
func (m *machine) references() int {
	buf, pos, stack, pages := m.in.buf, m.in.pos, m.stack, m.memo.pages
	room := m.stackRoom()
	for pos+5 <= len(buf) && len(stack) < room {
		index, width := uint32(buf[pos+1]), 2
		if buf[pos] == opLongBinGet {
			index, width = binary.LittleEndian.Uint32(buf[pos+1:]), 5
		} else if buf[pos] != opBinGet {
			break
		}
		page := int(index >> memoPageBits)
		if page >= len(pages) || pages[page] == nil {
			break
		}
		p := &pages[page][index%memoPageSize]
		e := *p
		kind := Kind(e >> entryKind)
		if kind < String || kind > Tuple {
			break
		}
		if e&entryGot == 0 {
			*p = e | entryGot
		}
		stack = append(stack, Value{bits: e & MaxRef, memo: index + 1, kind: kind, depth: uint8(e>>entryDepth) & 31})
		pos += width
	}
	read := pos - m.in.pos
	m.in.pos, m.stack = pos, stack
	return read
}

// refill reads on; an opcode near the end of the file need not have lookahead
// bytes behind it.
func (m *machine) refill() error {
	if m.in.eof && m.in.pos < len(m.in.buf) {
		return nil
	}
	err := m.in.ensure(lookahead)
	if err != nil && m.in.eof && m.in.pos < len(m.in.buf) {
		return nil
	}
	return err
}

// other reads one opcode of the less frequent kinds.
func (m *machine) other(op byte) error {
	switch op {
	case opAppend, opSetItem, opDict, opList, opTuple, opEmptyTuple, opTuple1, opTuple2, opTuple3, opPop:
		return m.containers(op)
	case opLong4, opBinFloat, opNone, opNewTrue, opNewFalse, opBinUnicode, opBinUnicode8:
		return m.scalar(op)
	case opInt, opLong, opFloat, opUnicode, opGet, opPut:
		return m.textual(op)
	case opProto, opFrame, opBinPut, opLongBinPut, opBinGet, opLongBinGet:
		return m.administer(op)
	case opGlobal, opStackGlobal, opReduce, opBuild, opBinPersID:
		return m.code(op)
	}
	if name, why := refused(op); name != "" {
		return m.fail("opcode %s (0x%02x) is refused: %s", name, op, why).
			WithHint("plain data holds no such thing; do not load this file with pickle.load")
	}
	return m.fail("0x%02x is not a pickle opcode", op)
}

// administer reads what says how the pickle is written.
func (m *machine) administer(op byte) error {
	switch op {
	case opProto:
		b, err := m.in.take(1)
		if err == nil && b[0] > 5 {
			return m.fail("pickle protocol %d is not known: 0 to 5 are", b[0])
		}
		return err
	case opFrame:
		b, err := m.in.take(8)
		if err != nil {
			return err
		}
		n, rest := binary.LittleEndian.Uint64(b), m.in.size-m.in.offset()
		if rest < 0 || n > uint64(rest) {
			return m.fail("a frame of %d bytes is claimed, but at most %d are left", n, max(rest, 0)).
				WithHint("the file is truncated or damaged")
		}
		return nil
	}
	width := 1
	if op == opLongBinPut || op == opLongBinGet {
		width = 4
	}
	b, err := m.in.take(width)
	if err != nil {
		return err
	}
	index := uint32(b[0])
	if width == 4 {
		index = binary.LittleEndian.Uint32(b)
	}
	if op == opBinPut || op == opLongBinPut {
		return m.put(index)
	}
	return m.get(index)
}

// root is what STOP finds.
func (m *machine) root() (Value, error) {
	if len(m.marks) > 0 || len(m.stack) != 1 {
		return Value{}, m.fail("the pickle stops with %d values on the stack and %d marks open, where one value is expected", len(m.stack), len(m.marks))
	}
	if _, err := m.settle(m.stack); err != nil {
		return Value{}, err
	}
	return m.stack[0], nil
}

// fail is an error at the opcode that is being read.
func (m *machine) fail(format string, args ...any) *source.FormatError {
	return source.AtByte(m.name, m.at, format, args...)
}
