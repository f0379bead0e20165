package pickle

import (
	"errors"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// counting is a builder that can say where a container stands, and refuses the
// dict that has the number 7.
type counting struct{ *tree }

func (c counting) Count(list Value) int {
	if list.Ref() == 0 {
		return 0
	}
	return len(c.values[list.Ref()-1].([]any))
}

func (c counting) SetItems(dict Value, items []Value) (Value, error) {
	for i := 1; i < len(items); i += 2 {
		if n, ok := items[i].Int(); ok && n == 7 {
			return Value{}, source.InField("", c.strings.At(items[i-1].Index()), "is 7")
		}
	}
	return c.tree.SetItems(dict, items)
}

// TestPath: an error of the builder names where its container stands, however
// the containers around it are written.
func TestPath(t *testing.T) {
	for _, c := range []struct{ name, data, field string }{
		{"the root", "}(\x8c\x01aK\x07u.", "a"},
		{"a root of one item", "}\x8c\x01aK\x07s.", "a"},
		{"lists with marks", "}(\x8c\x01bN\x8c\x01t](](}(\x8c\x01aK\x01u}(\x8c\x01aK\x07ueeu.", "t[0][1].a"},
		{"lists of one item", "}\x8c\x01t]]}\x8c\x01aK\x07saas.", "t[0][0].a"},
		{"after empty lists", "}\x8c\x01t(](]]](}\x8c\x01aK\x01s}\x8c\x01aK\x07seeu.", "t[2][1].a"},
		{"a list of one dict, after others", "}(\x8c\x01t](]]}\x8c\x01aK\x07saeu.", "t[1][0].a"},
		{"a dict beside finished ones", "}(\x8c\x01b}\x8c\x01c}\x8c\x01d}\x8c\x01aK\x07su.", "d.a"},
		{"a second batch", "}\x8c\x01t](NNe(N}\x8c\x01aK\x07ses.", "t[3].a"},
		{"items given one by one, dicts too", "(d\x8c\x01t(lNaNa(d\x8c\x01aK\x01s\x8c\x01bK\x07sas.", "t[2].b"},
		{"DICT and LIST with their items, which no pickler writes", "(\x8c\x01t(N(\x8c\x01aK\x07dld.", "a"},
	} {
		tree := counting{newTree()}
		data := c.data
		_, err := Read(strings.NewReader(data), "f", int64(len(data)), tree.strings, tree, Options{})
		var format *source.FormatError
		if !errors.As(err, &format) || format.Field != c.field {
			t.Errorf("%s: %v, want the field %s", c.name, err, c.field)
		}
	}
}
