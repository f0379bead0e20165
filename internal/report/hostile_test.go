package report

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"floodmark/record"
)

// hostile is a value that somebody could put into a file: an answer of its own,
// a terminal's commands, marks that turn text around, and bytes of no letter.
const hostile = "x\n\nFITS · rank 0 · basis: measured\r\x1b[2J\x1b]0;t\x07\x00\x7f\u009b31m\u202e\u2066\u2028\ufeff\xff"

// filled is an empty record of a kind with every field set, texts to text.
func filled(kind record.Kind, text string) any {
	document := record.New(kind)
	fill(reflect.ValueOf(document).Elem(), text)
	return document
}

func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// Whatever a file says, nothing reaches the terminal but our own lines and
// styling, and no value begins a line of its own.
func TestHostileValues(t *testing.T) {
	styling := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, kind := range record.Kinds() {
		for _, style := range []Style{{Width: 1000}, {Width: 100, Color: true}, {Width: 40, Color: true}} {
			name := fmt.Sprintf("%s in %d columns", kind, style.Width)
			var b strings.Builder
			document := filled(kind, hostile)
			if e, ok := document.(*record.Estimate); ok {
				e.Preparation = nil
			}
			if err := Text(&b, document, style); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			text := styling.ReplaceAllString(b.String(), "")
			if !utf8.ValidString(text) {
				t.Errorf("%s: bytes that are no UTF-8 come out", name)
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
				t.Errorf("%s: %q comes out", name, text[max(0, i-20):i+4])
			}
			for line := range strings.Lines(text) {
				if strings.HasPrefix(strings.TrimLeft(line, " "), "FITS") {
					t.Errorf("%s: a value forges the line %q", name, line)
				}
			}
			if !reflect.DeepEqual(document, reset(kind)) {
				t.Errorf("%s: the record was changed", name)
			}
		}
	}
}

func reset(kind record.Kind) any {
	document := filled(kind, hostile)
	if e, ok := document.(*record.Estimate); ok {
		e.Preparation = nil
	}
	return document
}

// A message may quote lines of a file; each says that it belongs to the error.
func TestLinesOfAnError(t *testing.T) {
	hint := "look\nFITS"
	var b strings.Builder
	if err := Text(&b, &record.Error{Message: "a.yaml: is odd\n> 1 | a: b\n     ^\n\nFITS", Hint: &hint}, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	want := "floodmark: a.yaml: is odd\nfloodmark: | > 1 | a: b\nfloodmark: |      ^\nfloodmark: |\nfloodmark: | FITS\nfloodmark: hint: look\\nFITS\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// From 40 columns on nothing is wider than the terminal, however long the names
// and large the numbers; below 20 nobody reads tables.
func TestNothingIsWiderThanTheTerminal(t *testing.T) {
	long := "a name of several words and " + strings.Repeat("letters", 12)
	for _, kind := range record.Kinds() {
		if kind == record.KindError {
			continue // the terminal breaks a message, so that it can be copied
		}
		for columns := 20; columns <= 130; columns += 5 {
			var b strings.Builder
			if err := Text(&b, filled(kind, long), Style{Width: columns}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if w := Columns(strings.TrimRight(line, "\n")); w > columns {
					t.Errorf("%s in %d columns has a line of %d: %s", kind, columns, w, line)
				}
			}
		}
	}
}
