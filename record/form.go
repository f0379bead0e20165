package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"floodmark/internal/source"
)

// maxDepth bounds how deep a record nests, further fields included.
const maxDepth = 64

// form walks the tokens of a record beside the type that it is read into, and
// refuses what encoding/json lets pass: a key that comes twice or in another
// case, a null or an absent count that would become 0.
type form struct {
	file   string
	fields map[reflect.Type]map[string]reflect.Type
	stack  []level
}

// level is one object or list that is open.
type level struct {
	of    reflect.Type // nil where this version knows no such field
	list  bool
	index int
	key   string
	open  bool // an object whose key was read and whose value was not
	keys  map[string]bool
}

// checkForm checks a document, which is valid JSON, against its type; the keys
// in need must be in it.
func checkForm(file string, data []byte, t reflect.Type, need []string) error {
	f := &form{file: file, fields: map[reflect.Type]map[string]reflect.Type{}}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end: the syntax was checked
		}
		if err := f.take(token, t, need); err != nil {
			return err
		}
	}
}

// take is one token. The outermost value is of type t.
func (f *form) take(token json.Token, t reflect.Type, need []string) error {
	if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
		return f.leave(need)
	}
	if n := len(f.stack); n > 0 {
		top := &f.stack[n-1]
		if !top.list && !top.open {
			return f.key(top, token.(string))
		}
		t = f.inside(top)
	}
	if err := f.fits(token, t); err != nil {
		return err
	}
	if delim, ok := token.(json.Delim); ok {
		if len(f.stack) == maxDepth {
			return f.refuse("nests deeper than a record does")
		}
		f.stack = append(f.stack, level{of: direct(t), list: delim == '[', keys: map[string]bool{}})
		return nil
	}
	f.next()
	return nil
}

// leave closes an object or a list.
func (f *form) leave(need []string) error {
	top := f.stack[len(f.stack)-1]
	if !top.list {
		if len(f.stack) > 1 {
			need = f.counts(top.of)
		}
		for _, name := range need {
			if !top.keys[name] {
				f.stack[len(f.stack)-1].key, f.stack[len(f.stack)-1].open = name, true
				return f.refuse("is missing")
			}
		}
	}
	f.stack = f.stack[:len(f.stack)-1]
	f.next()
	return nil
}

// next is after a value: the next index, or the next key.
func (f *form) next() {
	if n := len(f.stack); n > 0 {
		f.stack[n-1].index++
		f.stack[n-1].open = false
	}
}

func (f *form) key(top *level, name string) error {
	top.key, top.open = name, true
	if top.keys[name] {
		return f.refuse("comes twice in one object")
	}
	top.keys[name] = true
	if top.of == nil || top.of.Kind() != reflect.Struct {
		return nil
	}
	known := f.of(top.of)
	if _, exact := known[name]; exact {
		return nil
	}
	for field := range known {
		if strings.EqualFold(field, name) {
			return f.refuse("is spelled %q in a record", field)
		}
	}
	return nil
}

// inside is the type of the value that comes next in an object or a list.
func (f *form) inside(l *level) reflect.Type {
	switch {
	case l.of == nil:
		return nil
	case l.of.Kind() == reflect.Struct:
		return f.of(l.of)[l.key]
	case l.of.Kind() == reflect.Map, l.of.Kind() == reflect.Slice:
		return l.of.Elem()
	}
	return nil
}

// fits checks a value against the type that it is read into.
func (f *form) fits(token json.Token, t reflect.Type) error {
	if t == nil {
		return nil
	}
	if token == nil {
		if k := t.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
			return nil
		}
		return f.refuse("is null, expected %s", expected(t))
	}
	t = direct(t)
	ok := false
	switch v := token.(type) {
	case json.Delim:
		ok = v == '[' && t.Kind() == reflect.Slice || v == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map)
	case string:
		ok = t.Kind() == reflect.String
	case bool:
		ok = t.Kind() == reflect.Bool
	case json.Number:
		ok = t.Kind() == reflect.Float64 // a share
		if isInteger(t) {
			if _, err := strconv.ParseInt(v.String(), 10, t.Bits()); err != nil {
				return f.refuse("is %.40s, expected a whole number of at most 63 bits", v)
			}
			return nil
		}
	}
	if !ok {
		return f.refuse("is %s, expected %s", found(token), expected(t))
	}
	return nil
}

// of is the fields of a struct by their names in JSON, embedded ones included.
func (f *form) of(t reflect.Type) map[string]reflect.Type {
	known, ok := f.fields[t]
	if !ok {
		known = map[string]reflect.Type{}
		for _, field := range reflect.VisibleFields(t) {
			if !field.Anonymous {
				known[jsonName(field)] = field.Type
			}
		}
		f.fields[t] = known
	}
	return known
}

// counts are the byte counts of a type that have no null: absent, they would
// read as 0.
func (f *form) counts(t reflect.Type) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for name, field := range f.of(t) {
		if isInteger(field) && isBytes(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// refuse is an error about the value at hand.
func (f *form) refuse(format string, args ...any) error {
	var path strings.Builder
	for _, l := range f.stack {
		switch {
		case l.list:
			fmt.Fprintf(&path, "[%d]", l.index)
		case path.Len() > 0:
			path.WriteString("." + l.key)
		default:
			path.WriteString(l.key)
		}
	}
	return source.InField(f.file, path.String(), format, args...)
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// direct is the type behind a pointer.
func direct(t reflect.Type) reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func isInteger(t reflect.Type) bool { return t.Kind() == reflect.Int || t.Kind() == reflect.Int64 }

// isBytes reports the name of a byte count.
func isBytes(name string) bool { return name == "bytes" || strings.HasSuffix(name, "_bytes") }

// found is what stands in a record, in words.
func found(token json.Token) string {
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			return "a list"
		}
		return "an object"
	case string:
		return "a text"
	case bool:
		return fmt.Sprint(v)
	}
	return "a number"
}

// expected is a type in words.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
