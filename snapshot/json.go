package snapshot

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// jsonBatch is how many items of an array are kept before the builder gets
// them.
const jsonBatch = 1000

// firstJSONKey is the first key of an object, or of the first object of an
// array, from the first bytes of a text.
func firstJSONKey(head []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(head))
	for range 3 {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		switch t := token.(type) {
		case json.Delim:
			if t != '{' && t != '[' {
				return "", false
			}
		case string:
			return t, true
		default:
			return "", false
		}
	}
	return "", false
}

// jsonMachine drives the builder from JSON tokens, as pickle's machine does
// from opcodes.
type jsonMachine struct {
	d       *json.Decoder
	name    string
	b       *builder
	stack   []pickle.Value
	open    []jsonOpen
	root    pickle.Value
	hasRoot bool
}

// jsonOpen is an object or array whose end is still to come.
type jsonOpen struct {
	value pickle.Value
	first int // its items are stack[first:]
}

func readJSON(r io.Reader, name string, b *builder) (pickle.Value, error) {
	m := &jsonMachine{d: json.NewDecoder(r), name: name, b: b}
	m.d.UseNumber()
	for !m.hasRoot {
		token, err := m.d.Token()
		if err != nil {
			return pickle.Value{}, m.wrap("is not JSON", err)
		}
		if err := m.take(token); err != nil {
			return pickle.Value{}, err
		}
	}
	return m.root, nil
}

func (m *jsonMachine) take(token json.Token) error {
	switch t := token.(type) {
	case json.Delim:
		switch t {
		case '{':
			return m.begin(pickle.DictRef(0))
		case '[':
			return m.begin(pickle.ListRef(0))
		}
		return m.end()
	case string:
		return m.add(pickle.Text(m.b.strings.Intern([]byte(t))))
	case bool:
		return m.add(pickle.Truth(t))
	case json.Number:
		return m.number(string(t))
	}
	return m.add(pickle.Nothing())
}

func (m *jsonMachine) number(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return m.add(pickle.Integer(n))
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return m.add(pickle.Unsigned(n))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return m.wrap("has a number that is not one", err)
	}
	return m.add(pickle.Real(f))
}

func (m *jsonMachine) begin(v pickle.Value) error {
	if len(m.open) >= pickle.MaxDepth {
		return source.AtByte(m.name, m.d.InputOffset(), "objects and arrays nest deeper than %d levels", pickle.MaxDepth)
	}
	m.open = append(m.open, jsonOpen{value: v, first: len(m.stack)})
	return nil
}

// add is a finished value: an item of the innermost array or object.
func (m *jsonMachine) add(v pickle.Value) error {
	if len(m.open) == 0 {
		m.root, m.hasRoot = v, true
		return nil
	}
	m.stack = append(m.stack, v)
	if top := m.open[len(m.open)-1]; len(m.stack)-top.first >= 2*jsonBatch {
		return m.flush()
	}
	return nil
}

// flush hands the items of the innermost array or object to the builder.
func (m *jsonMachine) flush() error {
	top := &m.open[len(m.open)-1]
	items := m.stack[top.first:]
	if len(items) == 0 {
		return nil
	}
	made, err := m.b.Append, error(nil)
	if top.value.Kind() == pickle.Dict {
		made = m.b.SetItems
	}
	if top.value, err = made(top.value, items); err != nil {
		return m.wrap("is not a snapshot", err)
	}
	m.stack = m.stack[:top.first]
	return nil
}

func (m *jsonMachine) end() error {
	if err := m.flush(); err != nil {
		return err
	}
	v := m.open[len(m.open)-1].value
	m.open = m.open[:len(m.open)-1]
	return m.add(v)
}

func (m *jsonMachine) wrap(msg string, err error) error {
	return &source.FormatError{File: m.name, Offset: m.d.InputOffset(), Msg: msg, Err: err}
}
