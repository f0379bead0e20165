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
	// maxStack bounds the stack absolutely: 16 Mi values are 256 MiB. PyTorch's
	// C++ pickler leaves all items of a list there.
	maxStack = 1 << 24
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
}

// Read reads one pickle and gives its root. size is how many bytes r has, or at
// most has; name is for messages. What follows the pickle is left alone.
func Read(r io.Reader, name string, size int64, strings *Strings, b Builder, options Options) (Value, error) {
	m := &machine{in: newInput(r, name, size), name: name, strings: strings, builder: b, options: options}
	for {
		done, err := m.step()
		if err != nil {
			return Value{}, err
		}
		if done {
			return m.root()
		}
	}
}

// step reads opcodes as long as they are references and small values, which
// most of a snapshot is, and then one of the others.
func (m *machine) step() (stop bool, err error) {
	in := m.in
	for {
		if len(in.buf)-in.pos < lookahead {
			if err := m.refill(); err != nil {
				return false, err
			}
		}
		m.at = in.offset()
		op := in.buf[in.pos]
		rest := in.buf[in.pos+1:]
		switch {
		case op == opLongBinGet && len(rest) >= 4:
			in.pos += 5
			err = m.get(binary.LittleEndian.Uint32(rest))
		case op == opBinGet && len(rest) >= 1:
			in.pos += 2
			err = m.get(uint32(rest[0]))
		case op == opMemoize:
			in.pos++
			err = m.put(uint32(m.memo.count))
		case op == opMark:
			in.pos++
			err = m.mark()
		case op == opStop:
			in.pos++
			return true, nil
		default:
			in.pos++
			return false, m.other(op)
		}
		if err != nil {
			return false, err
		}
	}
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
	case opAppends, opSetItems, opAppend, opSetItem, opEmptyDict, opEmptyList, opDict, opList,
		opTuple, opEmptyTuple, opTuple1, opTuple2, opTuple3, opPop:
		return m.containers(op)
	case opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opBinFloat, opNone, opNewTrue, opNewFalse,
		opShortBinUnicode, opBinUnicode, opBinUnicode8:
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
			return m.fail("a frame of %d bytes is claimed, but at most %d are left", n, max(rest, 0))
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
