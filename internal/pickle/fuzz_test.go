package pickle

import (
	"errors"
	"testing"

	"floodmark/internal/source"
)

// FuzzPickle: nothing panics, every refusal has a place, and what is read is no
// deeper than it may be, with and without the memory of repeated lists.
func FuzzPickle(f *testing.F) {
	for protocol := range 6 {
		f.Add([]byte(committed(f, protocol)[:600]))
	}
	f.Add([]byte("\x80\x02](X\x01\x00\x00\x00aq\x00h\x00](K\x01eq\x01h\x01e."))
	f.Add([]byte("}q\x00(\x8c\x01a](h\x00h\x00eu."))
	f.Fuzz(func(t *testing.T, data []byte) {
		var trees [2]any
		var failures [2]error
		for i, repeats := range []bool{false, true} {
			trees[i], failures[i] = parse(string(data), Options{Repeats: repeats, Globals: []Name{{"a", "b"}}})
			var format *source.FormatError
			if failures[i] != nil && (!errors.As(failures[i], &format) || format.Offset < 0 || format.Offset > int64(len(data))) {
				t.Fatalf("refused without a place: %v", failures[i])
			}
		}
		if (failures[0] == nil) != (failures[1] == nil) {
			t.Fatalf("one way %v, the other %v", failures[0], failures[1])
		}
		if failures[0] == nil {
			if a, b := depth(trees[0]), depth(trees[1]); a > MaxDepth || a != b {
				t.Fatalf("read %d and %d levels", a, b)
			}
		}
	})
}

func depth(v any) int {
	deepest := -1
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	default:
		return 0
	}
	return max(deepest, 0) + 1
}
