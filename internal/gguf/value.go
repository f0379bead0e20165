package gguf

import (
	"math"
	"strings"
)

// Type is the type of a metadata value: one more than its number in the file,
// so that the zero [Value] is absent.
type Type uint8

// The value types of the format (enum gguf_metadata_value_type in gguf.md).
const (
	Absent Type = iota
	Uint8
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	Text
	Array
	Uint64
	Int64
	Float64
)

// String is the type's name in the format's document, in lower case.
func (t Type) String() string {
	names := strings.Fields("absent uint8 int8 uint16 int16 uint32 int32 float32 bool string array uint64 int64 float64")
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown"
}

// width is how many bytes a value of fixed size takes, 0 for another.
func (t Type) width() int {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	}
	return 0
}

// Value is one metadata value.
type Value struct {
	Type    Type
	Element Type  // of an array
	Len     int64 // elements of an array, kept or not
	scalar  uint64
	text    string
	numbers []uint64
	texts   []string
}

// Kept reports an array whose elements were kept. Long arrays and those of a
// tokenizer are only counted.
func (v Value) Kept() bool {
	return v.Type == Array && int64(len(v.numbers)+len(v.texts)) == v.Len
}

// Int is a whole number of any width; false for another type and for 2⁶³ and
// above.
func (v Value) Int() (int64, bool) { return integer(v.Type, v.scalar) }

// Float is a floating-point number, or a whole one as such.
func (v Value) Float() (float64, bool) { return float(v.Type, v.scalar) }

// Bool is a truth value.
func (v Value) Bool() (value, ok bool) { return v.scalar != 0, v.Type == Bool }

// Text is a string.
func (v Value) Text() (string, bool) { return v.text, v.Type == Text }

// Ints are the elements of an array of whole numbers.
func (v Value) Ints() ([]int64, bool) { return elements(v, integer) }

// Floats are the elements of an array of numbers.
func (v Value) Floats() ([]float64, bool) { return elements(v, float) }

// Bools are the elements of an array of truth values.
func (v Value) Bools() ([]bool, bool) {
	return elements(v, func(t Type, bits uint64) (value, ok bool) { return bits != 0, t == Bool })
}

// Texts are the elements of an array of strings. They are not to be changed.
func (v Value) Texts() ([]string, bool) {
	return v.texts, v.Kept() && v.Element == Text
}

// elements converts an array that was kept; false when one element does not
// convert.
func elements[T any](v Value, convert func(Type, uint64) (T, bool)) ([]T, bool) {
	if !v.Kept() || v.Element.width() == 0 {
		return nil, false
	}
	out := make([]T, len(v.numbers))
	for i, bits := range v.numbers {
		var ok bool
		if out[i], ok = convert(v.Element, bits); !ok {
			return nil, false
		}
	}
	return out, true
}

// integer reads the bits of a whole number.
func integer(t Type, bits uint64) (int64, bool) {
	switch t {
	case Uint8, Uint16, Uint32:
		return int64(bits), true
	case Uint64:
		return int64(bits), bits <= math.MaxInt64
	case Int8:
		return int64(int8(bits)), true
	case Int16:
		return int64(int16(bits)), true
	case Int32:
		return int64(int32(bits)), true
	case Int64:
		return int64(bits), true
	}
	return 0, false
}

// float reads the bits of any number.
func float(t Type, bits uint64) (float64, bool) {
	switch t {
	case Float32:
		return float64(math.Float32frombits(uint32(bits))), true
	case Float64:
		return math.Float64frombits(bits), true
	case Uint64:
		return float64(bits), true
	}
	n, ok := integer(t, bits)
	return float64(n), ok
}

// value reads a value of a type of the file's own numbering.
func (r *reader) value(key string) Value {
	at := r.pos
	t := Type(min(r.u32("a value type"), uint32(Float64))) + 1
	switch {
	case r.err != nil:
		return Value{}
	case t == Array:
		return r.array(key)
	case t == Text:
		return Value{Type: Text, text: r.text(maxKept, "a text")}
	case t.width() > 0:
		return Value{Type: t, scalar: r.scalar(t, key)}
	}
	r.failAt(at, key, "has a value type that the format does not have")
	return Value{}
}

// scalar reads the bits of a value of fixed size.
func (r *reader) scalar(t Type, key string) uint64 {
	at := r.pos
	bits := r.fixed(t.width(), key)
	if t == Bool && bits > 1 {
		r.failAt(at, key, "has the byte %d for a truth value, expected 0 or 1", bits)
	}
	return bits
}

// array reads an array, or counts its elements and moves over them.
func (r *reader) array(key string) Value {
	at := r.pos
	element := Type(min(r.u32("an element type"), uint32(Float64))) + 1
	n := r.u64("the length of an array")
	if r.err != nil {
		return Value{}
	}
	width := element.width()
	if element == Text {
		width = 8 // the length of each, at least
	}
	switch {
	case element == Array:
		r.failAt(at, key, "is an array of arrays, which ggml does not read")
		return Value{}
	case width == 0:
		r.failAt(at, key, "is an array of a type that the format does not have")
		return Value{}
	case n > uint64(r.left()/int64(width)):
		r.failAt(at, key, "is an array of %d values of type %s, but %d bytes are left", n, element, r.left())
		return Value{}
	}
	v := Value{Type: Array, Element: element, Len: int64(n)}
	keep := n <= maxList && !strings.HasPrefix(key, "tokenizer.")
	switch {
	case element == Text && keep:
		v.texts = r.texts(v.Len, at)
	case element == Text:
		r.skipTexts(v.Len, key)
	case keep:
		v.numbers = r.numbers(v, key, at)
	default:
		r.skip(v.Len*int64(width), key)
	}
	return v
}

// texts reads n strings.
func (r *reader) texts(n, at int64) []string {
	if !r.keep(16*n, at) { // a string's header
		return nil
	}
	out := make([]string, 0, n)
	for int64(len(out)) < n && r.err == nil {
		out = append(out, r.text(maxKept, "a text of a list"))
	}
	return out
}

// numbers reads the elements of an array of fixed size.
func (r *reader) numbers(v Value, key string, at int64) []uint64 {
	if !r.keep(8*v.Len, at) {
		return nil
	}
	out := make([]uint64, 0, v.Len)
	for int64(len(out)) < v.Len && r.err == nil {
		out = append(out, r.scalar(v.Element, key))
	}
	return out
}
