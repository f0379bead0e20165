package pickle

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxNumber bounds a number written as text.
const maxNumber = 64

// scalar reads the less frequent binary forms of numbers, strings and constants.
func (m *machine) scalar(op byte) error {
	switch op {
	case opNone:
		return m.push(Nothing())
	case opNewTrue, opNewFalse:
		return m.push(Truth(op == opNewTrue))
	case opBinUnicode:
		return m.text(4)
	case opBinUnicode8:
		return m.text(8)
	case opLong4:
		return m.long(4)
	}
	b, err := m.in.take(8)
	if err != nil {
		return err
	}
	return m.push(Real(math.Float64frombits(binary.BigEndian.Uint64(b))))
}

// integer reads the forms of which nearly all numbers are.
func (m *machine) integer(op byte) error {
	// Where eight more bytes lie in the buffer, one load reads any of them.
	b := m.in.buf[m.in.pos:]
	if len(b) < 9 {
		return m.lastInteger(op)
	}
	word := binary.LittleEndian.Uint64(b)
	switch op {
	case opBinInt1:
		m.in.pos++
		return m.push(Integer(int64(word & 0xff)))
	case opBinInt2:
		m.in.pos += 2
		return m.push(Integer(int64(word & 0xffff)))
	case opBinInt:
		m.in.pos += 4
		return m.push(Integer(int64(int32(word))))
	}
	n := int(b[0])
	if n == 0 || n > 8 {
		return m.long(1)
	}
	m.in.pos += 1 + n
	unused := 64 - 8*n
	return m.push(Integer(int64(binary.LittleEndian.Uint64(b[1:])<<unused) >> unused))
}

// lastInteger is integer near the end of the file.
func (m *machine) lastInteger(op byte) error {
	if op == opLong1 {
		return m.long(1)
	}
	width := 1
	if op == opBinInt2 {
		width = 2
	} else if op == opBinInt {
		width = 4
	}
	n, err := m.length(width)
	if err != nil {
		return err
	}
	if op == opBinInt {
		return m.push(Integer(int64(int32(n))))
	}
	return m.push(Integer(int64(n)))
}

// length reads a little-endian length of that many bytes.
func (m *machine) length(width int) (uint64, error) {
	b, err := m.in.take(width)
	if err != nil {
		return 0, err
	}
	var n uint64
	for i := width - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n, nil
}

// counted reads the bytes that stand behind their own length.
func (m *machine) counted(width int) ([]byte, error) {
	n, err := m.length(width)
	if err != nil {
		return nil, err
	}
	return m.in.payload(n)
}

// text reads a UTF-8 string after its length.
func (m *machine) text(width int) error {
	b, err := m.counted(width)
	if err != nil {
		return err
	}
	return m.string(b)
}

// string pushes a string. A new one takes some eighty bytes beside its text.
func (m *machine) string(text []byte) error {
	index := m.strings.Intern(text)
	if n := m.strings.Len(); n >= headStart && int64(n) >= headStart+m.in.offset()/stringPrice {
		return m.fail("%d different strings are more than plain data of this length needs", n)
	}
	return m.push(Text(index))
}

// long reads a little-endian two's complement integer after its length.
// Addresses of 2⁶³ and more take nine bytes, the last of them 0.
func (m *machine) long(width int) error {
	b, err := m.counted(width)
	if err != nil {
		return err
	}
	v, ok := twosComplement(b)
	if !ok {
		return m.fail("an integer of %d bytes does not fit in 64 bits", len(b))
	}
	return m.push(v)
}

func twosComplement(b []byte) (Value, bool) {
	if len(b) == 0 {
		return Integer(0), true
	}
	if len(b) <= 8 {
		var low [8]byte
		copy(low[:], b)
		unused := 64 - 8*len(b)
		return Integer(int64(binary.LittleEndian.Uint64(low[:])<<unused) >> unused), true
	}
	negative := b[len(b)-1]&0x80 != 0
	fill := byte(0)
	if negative {
		fill = 0xff
	}
	for len(b) > 8 && b[len(b)-1] == fill {
		b = b[:len(b)-1]
	}
	if len(b) > 8 || negative && b[7]&0x80 == 0 {
		return Value{}, false
	}
	n := binary.LittleEndian.Uint64(b)
	if negative {
		return Integer(int64(n)), true
	}
	return Unsigned(n), true
}

// textual reads the forms of protocol 0: a line of text after the opcode.
func (m *machine) textual(op byte) error {
	limit := maxNumber
	if op == opUnicode {
		limit = maxString
	}
	b, err := m.in.line(limit)
	if err != nil {
		return err
	}
	line := string(b)
	switch op {
	case opUnicode:
		return m.string(rawUnicode(b))
	case opFloat:
		f, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return m.fail("%q is not a float", line)
		}
		return m.push(Real(f))
	case opGet, opPut:
		index, err := strconv.ParseUint(line, 10, 32)
		if err != nil {
			return m.fail("%q is not a memo index", line)
		}
		if op == opPut {
			return m.put(uint32(index))
		}
		return m.get(uint32(index))
	}
	v, ok := decimal(op, line)
	if !ok {
		return m.fail("%q is not an integer of 64 bits", line)
	}
	return m.push(v)
}

// decimal reads INT and LONG. "01" and "00" after INT are how protocol 0 writes
// True and False.
func decimal(op byte, line string) (Value, bool) {
	if op == opInt && (line == "01" || line == "00") {
		return Truth(line == "01"), true
	}
	if op == opLong && len(line) > 1 && line[len(line)-1] == 'L' {
		line = line[:len(line)-1]
	}
	if n, err := strconv.ParseInt(line, 10, 64); err == nil {
		return Integer(n), true
	}
	n, err := strconv.ParseUint(line, 10, 64)
	return Unsigned(n), err == nil
}

// rawUnicode decodes Python's raw-unicode-escape: Latin-1, and \u and \U with
// four and eight hexadecimal digits.
func rawUnicode(b []byte) []byte {
	text := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && (b[i+1] == 'u' || b[i+1] == 'U') {
			digits := 4
			if b[i+1] == 'U' {
				digits = 8
			}
			if end := i + 2 + digits; end <= len(b) {
				if r, err := strconv.ParseUint(string(b[i+2:end]), 16, 32); err == nil {
					text = utf8.AppendRune(text, rune(min(r, utf8.MaxRune+1)))
					i = end - 1
					continue
				}
			}
		}
		text = utf8.AppendRune(text, rune(b[i]))
	}
	return text
}
