package pickle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/internal/source"
)

// Counter is a builder that knows how many items it was given for a list. Its
// errors name a field of the container at hand, and [Read] puts before that
// where the container stands: "device_traces[0][17].size".
type Counter interface {
	Count(list Value) int
}

// located gives an error of the caller the place where it happened.
func (m *machine) located(err error) error {
	var format *source.FormatError
	if !errors.As(err, &format) {
		return &source.FormatError{File: m.name, Offset: m.at, Msg: "is refused", Err: err}
	}
	placed := *format
	placed.File, placed.Offset = m.name, m.at
	if counter, ok := m.builder.(Counter); ok {
		placed.Field = Join(m.path(counter), placed.Field)
	}
	return &placed
}

// Join is the name of a field of a container that stands at a path.
func Join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

// filled is the mark that the opcode at an offset took away, to put what lies
// above it into the container below it.
type filled struct {
	offset int64
	mark   int
}

// path is where the container that a builder works on stands in the whole. What
// is not finished lies on the stack, each container below its items. It is empty
// where a container is not there yet (DICT and LIST with their items, which
// picklers do not write).
func (m *machine) path(counter Counter) string {
	var b strings.Builder
	marks := m.marks
	if m.filled.offset == m.at {
		marks = append(slices.Clone(marks), m.filled.mark)
	}
	for at := 0; at < m.target; {
		v, given := m.stack[at], 0
		if v.kind == open {
			f := m.open[v.bits]
			v, given = f.value, len(f.items)
		}
		marked := slices.Contains(marks, at+1)
		switch v.kind {
		case Dict:
			child := at + 2
			if marked {
				child = m.openValue(at+1, m.last(at+1, marks))
			}
			b.WriteString("." + m.key(child-1))
			at = child
		case List:
			child := at + 1
			if marked {
				child = m.openItem(at+1, m.last(at+1, marks))
			}
			fmt.Fprintf(&b, "[%d]", counter.Count(v)+given+child-at-1)
			at = child
		default:
			return ""
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// finally is what the builder made of a value so far.
func (m *machine) finally(v Value) Value {
	if v.kind == open {
		return m.open[v.bits].value
	}
	return v
}

// last is the container nearest the top that must be inside the one whose items
// begin at first: the one below the next mark, or the one at hand.
func (m *machine) last(first int, marks []int) int {
	for _, mark := range marks {
		if mark > first {
			return min(mark-1, m.target)
		}
	}
	return m.target
}

// openValue is the value of a dict that is not finished. Finished ones are
// followed by a key.
func (m *machine) openValue(first, last int) int {
	value := first + 1
	for value < last && value+1 < len(m.stack) && m.stack[value+1].kind == String {
		value += 2
	}
	return min(value, last)
}

// openItem is the item of a list that is not finished: the last, or the list
// before a dict, which gets its only item without a mark.
func (m *machine) openItem(first, last int) int {
	if last > first && last < len(m.stack) && m.finally(m.stack[last]).kind == Dict {
		if before := m.stack[last-1]; before.kind == List && before.bits == 0 {
			return last - 1
		}
	}
	return last
}

// key is the string at that place of the stack.
func (m *machine) key(at int) string {
	if at < 0 || at >= len(m.stack) || m.stack[at].kind != String {
		return "?"
	}
	return m.strings.At(m.stack[at].Index())
}
