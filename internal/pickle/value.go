package pickle

import "math"

// Kind says what a [Value] is.
type Kind uint8

const (
	None   Kind = iota + 1
	Bool        // Value.Int is 0 or 1
	Int         // a signed integer of 63 bits
	Uint        // an integer of 2⁶³ or more: Value.Uint
	Float       // Value.Float
	String      // Value.Index is an index into Strings
	Dict        // Value.Ref is the builder's
	List        // Value.Ref is the builder's
	Tuple       // Value.Ref is the builder's
	Global      // Value.Index is an index into Options.Globals

	// open is a container that is filled one item at a time: an index into
	// machine.open. A builder never sees it.
	open
	// wide is a number that has no room in a memo entry: an index into
	// memo.wide. It exists in the memo only.
	wide
)

// String is the kind in Python's words.
func (k Kind) String() string {
	switch k {
	case None:
		return "None"
	case Bool:
		return "bool"
	case Int, Uint:
		return "int"
	case Float:
		return "float"
	case String:
		return "str"
	case Dict:
		return "dict"
	case List:
		return "list"
	case Tuple:
		return "tuple"
	case Global:
		return "global"
	}
	return "unfinished container"
}

// MaxRef is the largest reference that a builder may give to a container.
const MaxRef = 1<<48 - 1

// Value is one Python value: a number, the index of a string, or the reference
// that a builder gave to a container. It is 16 bytes, without pointers.
type Value struct {
	bits  uint64
	memo  uint32 // 1 + its index in the memo; 0 when it has none
	kind  Kind
	depth uint8 // levels of containers inside it, itself included
}

// Nothing is Python's None.
func Nothing() Value { return Value{kind: None} }

// Truth is a Python bool.
func Truth(is bool) Value {
	if is {
		return Value{kind: Bool, bits: 1}
	}
	return Value{kind: Bool}
}

// Integer is a Python int of 63 bits.
func Integer(n int64) Value { return Value{kind: Int, bits: uint64(n)} }

// Unsigned is a Python int from 0 to 2⁶⁴−1.
func Unsigned(n uint64) Value {
	if n > math.MaxInt64 {
		return Value{kind: Uint, bits: n}
	}
	return Value{kind: Int, bits: n}
}

// Real is a Python float.
func Real(f float64) Value { return Value{kind: Float, bits: math.Float64bits(f)} }

// Text is the string with that index in the [Strings] table.
func Text(index uint32) Value { return Value{kind: String, bits: uint64(index)} }

// DictRef is a dict by its builder's reference, at most [MaxRef].
func DictRef(ref uint64) Value { return Value{kind: Dict, bits: ref & MaxRef, depth: 1} }

// ListRef is a list by its builder's reference, at most [MaxRef].
func ListRef(ref uint64) Value { return Value{kind: List, bits: ref & MaxRef, depth: 1} }

// TupleRef is a tuple by its builder's reference, at most [MaxRef].
func TupleRef(ref uint64) Value { return Value{kind: Tuple, bits: ref & MaxRef, depth: 1} }

// Kind says what the value is.
func (v Value) Kind() Kind { return v.kind }

// Int is an int or bool; false when the value is neither, or has 64 bits.
func (v Value) Int() (int64, bool) { return int64(v.bits), v.kind == Int || v.kind == Bool }

// Uint is the 64 bits of an int, a negative one reinterpreted: addresses and
// stream handles are written both ways.
func (v Value) Uint() (uint64, bool) { return v.bits, v.kind == Int || v.kind == Uint }

// Float is a float, or an int as one.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case Float:
		return math.Float64frombits(v.bits), true
	case Int:
		return float64(int64(v.bits)), true
	}
	return 0, false
}

// Index is the index of a string or of a global.
func (v Value) Index() uint32 { return uint32(v.bits) }

// Ref is the builder's reference to a container; 0 for an empty one that no
// builder has seen.
func (v Value) Ref() uint64 { return v.bits }

func (v Value) container() bool { return v.kind == Dict || v.kind == List || v.kind == open }
