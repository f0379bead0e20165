package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// encoder writes plain data in one of the forms that a snapshot comes in. Dicts
// and lists say how many items they have; write adds them.
type encoder interface {
	dict(n int, write func())
	key(name string)
	list(n int, write func(i int))
	text(s string)
	number(n int64)
	unsigned(n uint64)
	real(x float64)
	truth(is bool)
	pair(a, b int64)
	// shared writes what write writes, or refers to what it wrote for the same
	// identity before.
	shared(identity any, write func())
	close() error
}

// member is an item of a dict; object, array and pair are what fixtures are
// made of, beside int, uint64, float64, bool and string. A pointer is an object
// that is shared where it stands twice.
type (
	member struct {
		key   string
		value any
	}
	object []member
	array  []any
	pair   [2]int64
	// fresh is a string that Python made anew, equal to others and not the same.
	fresh string
)

// encode writes a value.
func encode(e encoder, value any) {
	switch v := value.(type) {
	case object:
		e.dict(len(v), func() {
			for _, m := range v {
				e.key(m.key)
				encode(e, m.value)
			}
		})
	case array:
		e.list(len(v), func(i int) { encode(e, v[i]) })
	case *object:
		e.shared(v, func() { encode(e, *v) })
	case *array:
		e.shared(v, func() { encode(e, *v) })
	case pair:
		e.pair(v[0], v[1])
	case string:
		e.text(v)
	case fresh:
		if python, ok := e.(interface{ fresh(string) }); ok {
			python.fresh(string(v))
		} else {
			e.text(string(v))
		}
	case int:
		e.number(int64(v))
	case uint64:
		e.unsigned(v)
	case float64:
		e.real(v)
	case bool:
		e.truth(v)
	default:
		panic(fmt.Sprintf("a fixture has a %T", value))
	}
}

// pythonEncoder writes as CPython's pickler does, in protocols 2 to 5: every
// container and string in the memo, batches of 1000 items, and frames of 64 kB
// from protocol 4 on.
type pythonEncoder struct {
	out      *bufio.Writer
	frame    bytes.Buffer
	protocol int
	memo     uint32
	texts    map[string]uint32
	known    map[any]uint32
}

func newPythonEncoder(w io.Writer, protocol int) *pythonEncoder {
	e := &pythonEncoder{out: bufio.NewWriterSize(w, 1<<20), protocol: protocol, texts: map[string]uint32{}, known: map[any]uint32{}}
	e.out.Write([]byte{0x80, byte(protocol)})
	return e
}

// op writes one whole opcode: a frame never ends inside one.
func (e *pythonEncoder) op(b ...byte) {
	e.frame.Write(b)
	if e.frame.Len() >= 64<<10 {
		e.flush()
	}
}

func (e *pythonEncoder) flush() {
	if e.protocol >= 4 && e.frame.Len() >= 4 {
		e.out.WriteByte(0x95)
		e.out.Write(binary.LittleEndian.AppendUint64(nil, uint64(e.frame.Len())))
	}
	e.out.Write(e.frame.Bytes())
	e.frame.Reset()
}

func (e *pythonEncoder) close() error {
	e.op('.')
	e.flush()
	return e.out.Flush()
}

func (e *pythonEncoder) memoize() uint32 {
	index := e.memo
	e.memo++
	switch {
	case e.protocol >= 4:
		e.op(0x94)
	case index < 256:
		e.op('q', byte(index))
	default:
		e.op(binary.LittleEndian.AppendUint32([]byte{'r'}, index)...)
	}
	return index
}

func (e *pythonEncoder) get(index uint32) {
	if index < 256 {
		e.op('h', byte(index))
		return
	}
	e.op(binary.LittleEndian.AppendUint32([]byte{'j'}, index)...)
}

func (e *pythonEncoder) dict(n int, write func()) {
	e.op('}')
	e.memoize()
	e.items(n, 's', 'u', write)
}

func (e *pythonEncoder) items(n int, one, many byte, write func()) {
	switch {
	case n == 1:
		write()
		e.op(one)
	case n > 1:
		e.op('(')
		write()
		e.op(many)
	}
}

func (e *pythonEncoder) list(n int, write func(i int)) {
	e.op(']')
	e.memoize()
	for from := 0; from < n; from += 1000 {
		to := min(from+1000, n)
		e.items(to-from, 'a', 'e', func() {
			for i := from; i < to; i++ {
				write(i)
			}
		})
	}
}

func (e *pythonEncoder) shared(identity any, write func()) {
	if index, ok := e.known[identity]; ok {
		e.get(index)
		return
	}
	e.known[identity] = e.memo
	write()
}

func (e *pythonEncoder) key(name string) { e.text(name) }

func (e *pythonEncoder) text(s string) {
	if index, ok := e.texts[s]; ok {
		e.get(index)
		return
	}
	e.fresh(s)
	e.texts[s] = e.memo - 1
}

// fresh writes a string that is no object of before.
func (e *pythonEncoder) fresh(s string) {
	head := binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s)))
	if e.protocol >= 4 && len(s) < 256 {
		head = []byte{0x8c, byte(len(s))}
	}
	e.op(append(head, s...)...)
	e.memoize()
}

func (e *pythonEncoder) number(n int64) {
	switch {
	case n >= 0 && n < 256:
		e.op('K', byte(n))
	case n >= 0 && n < 1<<16:
		e.op('M', byte(n), byte(n>>8))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		e.op(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(n))...)
	default:
		width := 8
		for width > 1 && n>>(8*width-9) == n>>63 {
			width--
		}
		e.op(append([]byte{0x8a, byte(width)}, binary.LittleEndian.AppendUint64(nil, uint64(n))[:width]...)...)
	}
}

func (e *pythonEncoder) unsigned(n uint64) {
	if n <= math.MaxInt64 {
		e.number(int64(n))
		return
	}
	e.op(append(binary.LittleEndian.AppendUint64([]byte{0x8a, 9}, n), 0)...)
}

func (e *pythonEncoder) real(x float64) {
	e.op(binary.BigEndian.AppendUint64([]byte{'G'}, math.Float64bits(x))...)
}

func (e *pythonEncoder) truth(is bool) {
	if is {
		e.op(0x88)
		return
	}
	e.op(0x89)
}

func (e *pythonEncoder) pair(a, b int64) {
	e.number(a)
	e.number(b)
	e.op(0x86)
	e.memoize()
}

// torchEncoder writes as PyTorch's C++ pickler does: protocol 2, strings in the
// memo by value, containers in it only when they are shared and after their
// items, and all items of a list at once.
type torchEncoder struct{ pythonEncoder }

func newTorchEncoder(w io.Writer) *torchEncoder {
	return &torchEncoder{*newPythonEncoder(w, 2)}
}

func (e *torchEncoder) dict(_ int, write func()) {
	e.op('}', '(')
	write()
	e.op('u')
}

func (e *torchEncoder) list(n int, write func(i int)) {
	e.op(']', '(')
	for i := range n {
		write(i)
	}
	e.op('e')
}

func (e *torchEncoder) shared(identity any, write func()) {
	if index, ok := e.known[identity]; ok {
		e.get(index)
		return
	}
	write()
	e.known[identity] = e.memoize()
}

func (e *torchEncoder) pair(a, b int64) {
	e.number(a)
	e.number(b)
	e.op(0x86)
}

// zeroEncoder writes protocol 0: text, one item at a time.
type zeroEncoder struct {
	out    *bufio.Writer
	memo   int
	texts  map[string]int
	known  map[any]int
	filled []bool // by open dict: it has an item that is still to be set
}

func newZeroEncoder(w io.Writer) *zeroEncoder {
	return &zeroEncoder{out: bufio.NewWriter(w), texts: map[string]int{}, known: map[any]int{}}
}

func (e *zeroEncoder) put() {
	fmt.Fprintf(e.out, "p%d\n", e.memo)
	e.memo++
}

func (e *zeroEncoder) dict(_ int, write func()) {
	e.out.WriteString("(d")
	e.put()
	e.filled = append(e.filled, false)
	write()
	e.set()
	e.filled = e.filled[:len(e.filled)-1]
}

// set gives the innermost dict the item that was written last.
func (e *zeroEncoder) set() {
	if e.filled[len(e.filled)-1] {
		e.out.WriteString("s")
	}
}

func (e *zeroEncoder) key(name string) {
	e.set()
	e.filled[len(e.filled)-1] = true
	e.text(name)
}

func (e *zeroEncoder) list(n int, write func(i int)) {
	e.out.WriteString("(l")
	e.put()
	for i := range n {
		write(i)
		e.out.WriteString("a")
	}
}

func (e *zeroEncoder) shared(identity any, write func()) {
	if index, ok := e.known[identity]; ok {
		fmt.Fprintf(e.out, "g%d\n", index)
		return
	}
	e.known[identity] = e.memo
	write()
}

func (e *zeroEncoder) text(s string) {
	if index, ok := e.texts[s]; ok {
		fmt.Fprintf(e.out, "g%d\n", index)
		return
	}
	e.texts[s] = e.memo
	e.out.WriteString("V")
	for _, r := range s {
		if r < 256 && r != '\n' && r != '\\' {
			e.out.WriteByte(byte(r))
		} else {
			fmt.Fprintf(e.out, "\\u%04x", r)
		}
	}
	e.out.WriteString("\n")
	e.put()
}

func (e *zeroEncoder) number(n int64)    { e.integer(strconv.FormatInt(n, 10)) }
func (e *zeroEncoder) unsigned(n uint64) { e.integer(strconv.FormatUint(n, 10)) }

func (e *zeroEncoder) integer(digits string) {
	if len(digits) > 9 {
		fmt.Fprintf(e.out, "L%sL\n", digits)
		return
	}
	fmt.Fprintf(e.out, "I%s\n", digits)
}

func (e *zeroEncoder) real(x float64) { fmt.Fprintf(e.out, "F%v\n", x) }

func (e *zeroEncoder) truth(is bool) {
	if is {
		e.out.WriteString("I01\n")
		return
	}
	e.out.WriteString("I00\n")
}

func (e *zeroEncoder) pair(a, b int64) {
	e.out.WriteString("(")
	e.number(a)
	e.number(b)
	e.out.WriteString("t")
	e.put()
}

func (e *zeroEncoder) close() error {
	e.out.WriteString(".")
	return e.out.Flush()
}

// jsonEncoder writes JSON; tuples become arrays.
type jsonEncoder struct {
	out   *bufio.Writer
	comma bool
}

func newJSONEncoder(w io.Writer) *jsonEncoder { return &jsonEncoder{out: bufio.NewWriter(w)} }

// token writes a value, after a comma where one is due.
func (e *jsonEncoder) token(s string) {
	if e.comma {
		e.out.WriteString(",")
	}
	e.out.WriteString(s)
	e.comma = true
}

func (e *jsonEncoder) nested(begin, end string, write func()) {
	e.token(begin)
	e.comma = false
	write()
	e.out.WriteString(end)
	e.comma = true
}

func (e *jsonEncoder) dict(_ int, write func()) { e.nested("{", "}", write) }

func (e *jsonEncoder) list(n int, write func(i int)) {
	e.nested("[", "]", func() {
		for i := range n {
			write(i)
		}
	})
}

func (e *jsonEncoder) key(name string) {
	e.text(name)
	e.out.WriteString(":")
	e.comma = false
}

func (e *jsonEncoder) text(s string) {
	quoted, _ := json.Marshal(s)
	e.token(string(quoted))
}

func (e *jsonEncoder) number(n int64)             { e.token(strconv.FormatInt(n, 10)) }
func (e *jsonEncoder) unsigned(n uint64)          { e.token(strconv.FormatUint(n, 10)) }
func (e *jsonEncoder) real(x float64)             { e.token(strconv.FormatFloat(x, 'g', -1, 64)) }
func (e *jsonEncoder) truth(is bool)              { e.token(strconv.FormatBool(is)) }
func (e *jsonEncoder) pair(a, b int64)            { e.token(fmt.Sprintf("[%d,%d]", a, b)) }
func (e *jsonEncoder) shared(_ any, write func()) { write() }
func (e *jsonEncoder) close() error               { return e.out.Flush() }
