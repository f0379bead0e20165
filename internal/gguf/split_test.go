package gguf

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/source"
)

// part builds part no of a model, as llama-gguf-split writes the keys: uint16,
// uint16 and int32.
func part(t *testing.T, no, count uint16, all int32, tensors ...string) *File {
	t.Helper()
	w := (&writer{}).u16("split.no", no).u16("split.count", count).i32("split.tensors.count", all)
	for _, name := range tensors {
		w.tensor(name, 0, 4, 1)
	}
	f, err := Read(source.Bytes(fmt.Sprintf("m-%05d-of-%05d.gguf", no+1, count), w.file()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCheckParts(t *testing.T) {
	a, b := part(t, 0, 2, 3, "x", "y"), part(t, 1, 2, 3, "z")
	if err := CheckParts([]*File{a, b}); err != nil {
		t.Error(err)
	}
	if err := CheckParts(nil); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		parts []*File
		want  string
	}{
		"wrong order":    {[]*File{b, a}, "m-00002-of-00002.gguf: split: is part 2 of 2"},
		"one missing":    {[]*File{a}, "is part 1 of 2 with 3 tensors in all, expected part 1 of 1"},
		"another model":  {[]*File{a, part(t, 1, 2, 4, "z")}, "is part 2 of 2 with 4 tensors in all, expected part 2 of 2 with 3"},
		"tensor twice":   {[]*File{a, part(t, 1, 2, 3, "x")}, "x: is in m-00001-of-00002.gguf too"},
		"tensor missing": {[]*File{a, part(t, 1, 2, 3)}, "split.tensors.count: is 3, but the 2 parts have 2 tensors"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, CheckParts(c.parts), c.want) })
	}
}

func TestPartNames(t *testing.T) {
	for _, c := range []struct {
		name string
		want PartName
		ok   bool
	}{
		{"models/Grok-100B-v1.0-Q4_0-00003-of-00009.gguf", PartName{"models/Grok-100B-v1.0-Q4_0", 3, 9}, true},
		{"m-00001-of-00001.gguf", PartName{"m", 1, 1}, true},
		{"m.gguf", PartName{}, false},
		{"m-1-of-2.gguf", PartName{}, false},
		{"m-00003-of-00002.gguf", PartName{"m", 3, 2}, false},
		{"m-00000-of-00002.gguf", PartName{"m", 0, 2}, false},
	} {
		if got, ok := ParsePartName(c.name); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
	want := []string{"a/m-00001-of-00002.gguf", "a/m-00002-of-00002.gguf"}
	if got := (PartName{"a/m", 2, 2}).All(); !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
