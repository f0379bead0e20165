package snapshot

import (
	"fmt"
	"strconv"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// row is the fields of the dict that is being read. Its getters remember the
// first field that has the wrong kind.
type row struct {
	kind   string // of the dict, to count unknown keys by
	texts  *pickle.Strings
	set    uint64 // bit f: the dict has field f
	values [fieldCount]pickle.Value
	bad    error
}

func (r *row) has(f field) bool { return r.set&(1<<f) != 0 }

// any reports whether the dict has one of the fields.
func (r *row) any(fields ...field) bool {
	for _, f := range fields {
		if r.has(f) {
			return true
		}
	}
	return false
}

func (r *row) wrong(f field, want string) {
	if r.bad == nil {
		r.bad = source.InField("", f.key(), "is %s, expected %s", r.shown(r.values[f]), want)
	}
}

// shown is a value in a message: what it is, or of what kind.
func (r *row) shown(v pickle.Value) string {
	switch v.Kind() {
	case pickle.Int:
		n, _ := v.Int()
		return strconv.FormatInt(n, 10)
	case pickle.Uint:
		n, _ := v.Uint()
		return strconv.FormatUint(n, 10)
	case pickle.Float:
		x, _ := v.Float()
		return strconv.FormatFloat(x, 'g', -1, 64)
	case pickle.String:
		return fmt.Sprintf("the string %.40q", r.texts.At(v.Index()))
	case pickle.None:
		return "None"
	case pickle.Bool:
		if n, _ := v.Int(); n != 0 {
			return "True"
		}
		return "False"
	}
	return "a " + v.Kind().String()
}

// size is a number of bytes; 0 when the dict does not have it.
func (r *row) size(f field) int64 {
	if !r.has(f) {
		return 0
	}
	n, ok := r.values[f].Int()
	if !ok || n < 0 {
		r.wrong(f, "a number of bytes from 0 to 2⁶³−1")
		return 0
	}
	return n
}

// integer is a signed number; missing when the dict does not have it.
func (r *row) integer(f field, missing int64) int64 {
	if !r.has(f) {
		return missing
	}
	n, ok := r.values[f].Int()
	if !ok {
		r.wrong(f, "an integer of 63 bits")
	}
	return n
}

// handle is an address or a stream: 64 bits, a negative one reinterpreted.
func (r *row) handle(f field) uint64 {
	if !r.has(f) {
		return 0
	}
	n, ok := r.values[f].Uint()
	if !ok {
		r.wrong(f, "an integer of 64 bits")
	}
	return n
}

func (r *row) truth(f field) bool {
	if !r.has(f) {
		return false
	}
	n, ok := r.values[f].Int()
	if !ok || n != 0 && n != 1 {
		r.wrong(f, "a bool")
	}
	return n == 1
}

func (r *row) real(f field) float64 {
	if !r.has(f) {
		return 0
	}
	x, ok := r.values[f].Float()
	if !ok {
		r.wrong(f, "a number")
	}
	return x
}

// text is the index of a string; 0, which is "", when the dict does not have
// it or has None.
func (r *row) text(f field) uint32 {
	if !r.has(f) || r.values[f].Kind() == pickle.None {
		return 0
	}
	if r.values[f].Kind() != pickle.String {
		r.wrong(f, "a string")
		return 0
	}
	return r.values[f].Index()
}

// require remembers a field that must be there and is not.
func (r *row) require(f field) {
	if !r.has(f) && r.bad == nil {
		r.bad = source.InField("", f.key(), "is missing")
	}
}
