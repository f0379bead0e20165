package source

import (
	"errors"
	"testing"
)

// A key is refused where it stands twice in one object, with its place.
func TestOneOfEachKey(t *testing.T) {
	for text, want := range map[string]int64{
		`{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]}`: -1,
		`{"a": 1, "a": 1}`:            9,
		`{"b": {"a": "a", "a": {}}}`:  17,
		`[{"a": [], "b": 1, "a": 2}]`: 19,
		`{"a": ["a", "a"], "b": "a"}`: -1,
		`{"a": 1, "a"`:                9,
		`{"a" 1 "a": 2}`:              -1,
		``:                            -1,
	} {
		var f *FormatError
		err := OneOfEachKey("x.json", []byte(text))
		switch found := errors.As(err, &f); {
		case found != (want >= 0):
			t.Errorf("%s: %v", text, err)
		case found && (f.Offset != want || f.Field != "a" || f.Hint != TwiceHint):
			t.Errorf("%s: %q at %d, want %d", text, f.Field, f.Offset, want)
		}
	}
}
