package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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
	tokens  *tokens
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

// tokens is a stream that ends where a token grows beyond what one may have:
// the decoder holds a whole one.
type tokens struct {
	r    io.Reader
	name string
	read int64
	most int64
}

// maxToken bounds a string, as in a pickle, with what is read ahead.
const maxToken = 4 << 20

func (t *tokens) Read(p []byte) (int, error) {
	if t.read > t.most {
		return 0, source.AtByte(t.name, t.read, "a string or number is longer than the %d bytes that one may have", maxToken)
	}
	n, err := t.r.Read(p[:min(len(p), 64<<10)])
	t.read += int64(n)
	return n, err
}

func readJSON(r io.Reader, name string, b *builder) (pickle.Value, error) {
	t := &tokens{r: r, name: name, most: maxToken}
	m := &jsonMachine{d: json.NewDecoder(t), tokens: t, name: name, b: b}
	m.d.UseNumber()
	for !m.hasRoot {
		t.most = m.d.InputOffset() + maxToken
		token, err := m.d.Token()
		if err != nil {
			return pickle.Value{}, m.wrap("is not JSON", err)
		}
		if err := m.take(token); err != nil {
			return pickle.Value{}, err
		}
	}
	return m.root, m.measureRest()
}

// measureRest counts what was read beyond the root, blanks aside.
func (m *jsonMachine) measureRest() error {
	rest, err := io.ReadAll(m.d.Buffered())
	m.b.beyond = int64(len(bytes.TrimLeft(rest, " \t\r\n")))
	return err
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
		return m.text(t)
	case bool:
		return m.add(pickle.Truth(t))
	case json.Number:
		return m.number(string(t))
	}
	return m.add(pickle.Nothing())
}

// text is a string; as many different ones are allowed as rows are.
func (m *jsonMachine) text(t string) error {
	index := m.b.strings.Intern([]byte(t))
	if m.b.strings.Len() > m.b.most {
		return source.AtByte(m.name, m.d.InputOffset(), "%d different strings are more than a snapshot of this length needs", m.b.strings.Len())
	}
	return m.add(pickle.Text(index))
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
		return m.located(err)
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

// located gives an error of the builder its place.
func (m *jsonMachine) located(err error) error {
	var format *source.FormatError
	if !errors.As(err, &format) {
		return m.wrap("is refused", err)
	}
	placed := *format
	placed.File, placed.Offset, placed.Field = m.name, m.d.InputOffset(), pickle.Join(m.path(), format.Field)
	return &placed
}

// path is where the innermost array or object stands.
func (m *jsonMachine) path() string {
	var b strings.Builder
	for i, o := range m.open[:len(m.open)-1] {
		next := m.open[i+1].first
		if o.value.Kind() == pickle.Dict {
			b.WriteString("." + m.b.strings.At(m.stack[next-1].Index()))
			continue
		}
		fmt.Fprintf(&b, "[%d]", m.b.Count(o.value)+next-o.first)
	}
	return strings.TrimPrefix(b.String(), ".")
}

func (m *jsonMachine) wrap(msg string, err error) error {
	return &source.FormatError{File: m.name, Offset: m.d.InputOffset(), Msg: msg, Err: err}
}
