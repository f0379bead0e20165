package gguf

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValues(t *testing.T) {
	one := func(fileType uint32, bits []byte) Value {
		f, err := Read(bytesOf((&writer{}).raw("k", fileType, bits).file()))
		if err != nil {
			t.Fatal(err)
		}
		return f.Value("k")
	}
	for _, c := range []struct {
		name  string
		value Value
		whole any // int64, or nil when it is no whole number
		float any
	}{
		{"uint8", one(0, []byte{255}), int64(255), 255.0},
		{"int8", one(1, []byte{255}), int64(-1), -1.0},
		{"uint16", one(2, []byte{0xff, 0xff}), int64(65535), 65535.0},
		{"int16", one(3, []byte{0xff, 0xff}), int64(-1), -1.0},
		{"uint32", one(4, le32(1<<32-1)), int64(1<<32 - 1), float64(1<<32 - 1)},
		{"int32", one(5, le32(1<<32-1)), int64(-1), -1.0},
		{"float32", one(6, le32(math.Float32bits(1e-5))), nil, float64(float32(1e-5))},
		{"bool", one(7, []byte{1}), nil, nil},
		{"string", one(8, str("8")), nil, nil},
		{"array", one(9, list(4, le32(8))), nil, nil},
		{"uint64", one(10, le64(1<<63-1)), int64(math.MaxInt64), float64(1<<63 - 1)},
		{"uint64", one(10, le64(1<<63)), nil, float64(1 << 63)},
		{"int64", one(11, le64(1<<64-1)), int64(-1), -1.0},
		{"float64", one(12, le64(math.Float64bits(0.5))), nil, 0.5},
	} {
		var whole, float any
		if n, ok := c.value.Int(); ok {
			whole = n
		}
		if x, ok := c.value.Float(); ok {
			float = x
		}
		if c.value.Type.String() != c.name || whole != c.whole || float != c.float {
			t.Errorf("%s: type %s, whole %v, float %v", c.name, c.value.Type, whole, float)
		}
	}
	if value, ok := one(7, []byte{1}).Bool(); !value || !ok {
		t.Error("a true value is lost")
	}
	if text, ok := one(8, str("\xffx")).Text(); !ok || text != "\uFFFDx" {
		t.Errorf("bytes that are not UTF-8 read back as %q", text)
	}
}

func TestArrays(t *testing.T) {
	f, err := Read(bytesOf((&writer{}).
		raw("ints", 9, list(5, le32(1), le32(1<<32-2))).
		raw("big", 9, list(10, le64(1), le64(1<<63))).
		raw("floats", 9, list(6, le32(math.Float32bits(1.5)))).
		raw("bools", 9, list(7, []byte{1}, []byte{0})).
		raw("texts", 9, list(8, str("en"), str("de"))).
		raw("none", 9, list(4)).
		f32("scalar", 1).file()))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := f.Value("ints").Ints(); !ok || !cmp.Equal(got, []int64{1, -2}) {
		t.Errorf("ints: %v, %v", got, ok)
	}
	if got, ok := f.Value("big").Ints(); ok {
		t.Errorf("2⁶³ was taken for an int64: %v", got)
	}
	if got, ok := f.Value("floats").Floats(); !ok || !cmp.Equal(got, []float64{1.5}) {
		t.Errorf("floats: %v, %v", got, ok)
	}
	if got, ok := f.Value("bools").Bools(); !ok || !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("bools: %v, %v", got, ok)
	}
	if got, ok := f.Value("texts").Texts(); !ok || !cmp.Equal(got, []string{"en", "de"}) {
		t.Errorf("texts: %v, %v", got, ok)
	}
	if got, ok := f.Value("none").Ints(); !ok || len(got) != 0 {
		t.Errorf("an empty array: %v, %v", got, ok)
	}
	for _, key := range []string{"scalar", "texts", "absent"} {
		if got, ok := f.Value(key).Ints(); ok {
			t.Errorf("%s was taken for whole numbers: %v", key, got)
		}
	}
	if v := f.Value("absent"); v.Type != Absent || v.Kept() {
		t.Errorf("an absent key has type %s", v.Type)
	}
}
