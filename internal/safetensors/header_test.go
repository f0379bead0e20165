package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/source"
)

// file builds a whole file as the README of the format lays it out: eight
// bytes of length, the JSON, the data.
func file(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

func TestReadHeader(t *testing.T) {
	// The second tensor stands first in the JSON; "F6" is a dtype from a future
	// in which 12 elements take 9 bytes; "e" is empty, "s" a scalar.
	const header = `{"__metadata__":{"format":"pt"},
		"b":{"shape":[2,3],"data_offsets":[9,33],"dtype":"F32","note":{"x":[1,{"y":null}]}},
		"a":{"dtype":"F6","shape":[12],"data_offsets":[0,9]},
		"e":{"dtype":"BF16","shape":[0,7],"data_offsets":[33,33]},
		"s":{"dtype":"BF16","shape":[],"data_offsets":[33,35]},
		"q\u00e9\ud83d\ude00":{"dtype":"F4","shape":[2,3],"data_offsets":[35,38]}}  `
	got, err := ReadHeader(source.Bytes("model.safetensors", file(header, 38)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Header{
		Length:   int64(len(header)),
		Data:     38,
		Metadata: map[string]string{"format": "pt"},
		Tensors: []Tensor{
			{Name: "a", DType: "F6", Format: dtype.Unknown, Shape: []int64{12}, Begin: 0, End: 9},
			{Name: "b", DType: "F32", Format: dtype.F32, Shape: []int64{2, 3}, Begin: 9, End: 33},
			{Name: "e", DType: "BF16", Format: dtype.BF16, Shape: []int64{0, 7}, Begin: 33, End: 33},
			{Name: "s", DType: "BF16", Format: dtype.BF16, Shape: []int64{}, Begin: 33, End: 35},
			{Name: "qé😀", DType: "F4", Format: dtype.F4, Shape: []int64{2, 3}, Begin: 35, End: 38},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := got.Tensors[0].Bytes(); n != 9 {
		t.Errorf("the unknown dtype takes %d bytes, want the 9 of its offsets", n)
	}
}

// TestPythonFile reads what the reference library wrote; testdata/README.md
// says how.
func TestPythonFile(t *testing.T) {
	s, err := source.Open("testdata/python.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := ReadHeader(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{
		{"a", "I64", dtype.I64, []int64{0, 5}, 0, 0},
		{"s", "F32", dtype.F32, []int64{}, 0, 4},
		{"b", "F16", dtype.F16, []int64{3, 5}, 4, 34},
	}
	if diff := cmp.Diff(want, h.Tensors); diff != "" {
		t.Error(diff)
	}
	if h.Metadata[`é"\`] != "x\n" || h.Data != 34 {
		t.Errorf("metadata %q, data %d", h.Metadata, h.Data)
	}
}

// TestRealHeaders reads headers of published files; testdata/headers/README.md
// says where they are from and what their owners assert of them.
func TestRealHeaders(t *testing.T) {
	for _, c := range []struct {
		file                    string
		tensors                 int
		data, elements, largest int64
	}{
		{"nomic-embed-text-v2-moe.json", 148, 1_901_171_712, 475_292_928, 768_147_456},
		{"hadamards.json", 66, 1_431_045, 1_431_045, 65_536},
		{"csm-voices.json", 2, 291_654, 64_812, 259_248},
	} {
		text, err := os.ReadFile(filepath.Join("testdata/headers", c.file))
		if err != nil {
			t.Fatal(err)
		}
		h, err := ParseHeader(c.file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		var elements, largest int64
		for _, tensor := range h.Tensors {
			n, _ := bytesize.Mul(tensor.Shape...)
			elements += n
			largest = max(largest, tensor.Bytes())
		}
		if len(h.Tensors) != c.tensors || h.Data != c.data || elements != c.elements || largest != c.largest {
			t.Errorf("%s: %d tensors, %d bytes, %d elements, the largest %d bytes; want %+v", c.file, len(h.Tensors), h.Data, elements, largest, c)
		}
	}
}

// entry is one tensor of a header.
func entry(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
}

func TestHostileHeaders(t *testing.T) {
	two := func(a, b string) string {
		return "{" + entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b) + "}"
	}
	one := func(dtype, shape, offsets string) string { return "{" + entry("a", dtype, shape, offsets) + "}" }
	for name, c := range map[string]struct {
		header string
		data   int
		want   string
	}{
		"duplicate tensor":     {"{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("a", "U8", "[4]", "[4,8]") + "}", 8, `the key "a" stands twice`},
		"duplicate by escape":  {"{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry(`\u0061`, "U8", "[4]", "[4,8]") + "}", 8, `the key "a" stands twice`},
		"duplicate field":      {`{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4, "a: dtype stands twice"},
		"duplicate metadata":   {`{"__metadata__":{"k":"1","k":"2"}}`, 0, `the key "k" stands twice`},
		"metadata of numbers":  {`{"__metadata__":{"k":1}}`, 0, "found '1', expected a string"},
		"overlap":              {two("[0,4]", "[2,6]"), 6, `begins at 2, inside "a", which ends at 4`},
		"same bytes":           {two("[0,4]", "[0,4]"), 4, `begins at 0, inside "a"`},
		"hole":                 {two("[0,4]", "[5,9]"), 9, "begins at 5, but what is before it ends at 4"},
		"hole at the start":    {one("U8", "[4]", "[1,5]"), 5, "begins at 1, but what is before it ends at 0"},
		"end before begin":     {one("U8", "[4]", "[4,0]"), 4, "ends at 0, before it begins at 4"},
		"wrong size":           {one("F32", "[4]", "[0,4]"), 4, "has 4 bytes by its data_offsets and 16 by F32[4]"},
		"2⁶³":                  {one("U8", "[9223372036854775808]", "[0,4]"), 4, "9223372036854775808 is not a whole number from 0 to 2⁶³−1"},
		"offset of 2⁶³":        {one("U8", "[4]", "[0,9223372036854775808]"), 4, "is not a whole number"},
		"absurd dimensions":    {one("F32", "[4294967296,4294967296,4294967296]", "[0,4]"), 4, "more elements than 63 bits"},
		"bytes overflow":       {one("F64", "[2305843009213693952]", "[0,4]"), 4, "more bytes than 63 bits"},
		"end of a 2⁶³ file":    {one("F9", "[1]", "[0,9223372036854775807]"), 4, "which no file can hold"},
		"negative":             {one("U8", "[-4]", "[0,4]"), 4, "-4 is not a whole number"},
		"minus zero":           {one("U8", "[-0]", "[0,0]"), 0, "-0 is not a whole number"},
		"fraction":             {one("U8", "[4.0]", "[0,4]"), 4, "4.0 is not a whole number"},
		"exponent":             {one("U8", "[4e0]", "[0,4]"), 4, "4e0 is not a whole number"},
		"leading zero":         {one("U8", "[04]", "[0,4]"), 4, "expected a number"},
		"NaN":                  {one("U8", "[NaN]", "[0,4]"), 4, "has NaN, which is not a JSON number"},
		"Infinity":             {one("U8", "[4]", "[0,-Infinity]"), 4, "has -Infinity, which is not a JSON number"},
		"text for a number":    {one("U8", `["4"]`, "[0,4]"), 4, "expected a number"},
		"three offsets":        {one("U8", "[4]", "[0,4,4]"), 4, "data_offsets has 3 numbers, expected 2"},
		"one offset":           {one("U8", "[4]", "[0]"), 4, "data_offsets has 1 numbers, expected 2"},
		"no shape":             {`{"a":{"dtype":"U8","data_offsets":[0,4]}}`, 4, "a: lacks one of dtype, shape and data_offsets"},
		"65 dimensions":        {one("U8", "[1"+strings.Repeat(",1", 64)+"]", "[0,1]"), 1, "more than 64 dimensions"},
		"deep":                 {`{"a":{"x":` + strings.Repeat("[", 100), 0, "nests deeper than 64"},
		"comment":              {"{ // tensors\n}", 0, "has a comment, which JSON does not allow"},
		"half a surrogate":     {`{"\ud800":1}`, 0, "an escape that JSON does not know"},
		"invalid UTF-8":        {"{\"\xff\":1}", 0, "not valid UTF-8"},
		"raw control byte":     {"{\"\x01\":1}", 0, "control byte 0x01"},
		"unclosed":             {`{"a":{"dtype":"U8"`, 0, "the JSON text ends where ',' or '}' was expected"},
		"unclosed string":      {`{"a`, 0, "a string does not end"},
		"trailing comma":       {`{"__metadata__":{},}`, 0, "found '}', expected a string"},
		"two documents":        {`{}{}`, 0, "has 2 bytes after the end of the header's JSON"},
		"tensor is an array":   {`{"a":[]}`, 0, "found '[', expected '{'"},
		"data too short":       {one("U8", "[4]", "[0,4]"), 3, "the last tensor ends at byte 65 and the file at byte 64"},
		"data too long":        {one("U8", "[4]", "[0,4]"), 5, "the last tensor ends at byte 65 and the file at byte 66"},
		"no tensors, but data": {`{}`, 5, "the last tensor ends at byte 10 and the file at byte 15"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadHeader(source.Bytes("m.safetensors", file(c.header, c.data)))
			refused(t, err, c.want)
		})
	}
}

// refused checks that an error is a FormatError with these words.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var format *source.FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a FormatError with %q", err, want)
	}
}

func TestHostileLengths(t *testing.T) {
	length := func(n uint64, rest string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), rest...)
	}
	for name, c := range map[string]struct {
		file  []byte
		want  string
		other bool // another reader may try it
	}{
		"2⁶⁴−1 bytes":     {length(1<<64-1, "{}"), "said to have 18446744073709551615 bytes, more than", false},
		"over the cap":    {length(MaxHeader+1, "{}"), "more than the 104857600", false},
		"longer than all": {length(3, "{}"), "said to have 3 bytes, but 2 are left", false},
		"no length":       {[]byte("{}"), "byte 8 must be '{'", true},
		"empty file":      {nil, "byte 8 must be '{'", true},
		"zip":             {[]byte("PK\x03\x04 and so on"), "byte 8 must be '{'", true},
		"zero length":     {length(0, "{}"), "the JSON text ends", false},
		"pointer":         {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), "is a Git LFS pointer", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadHeader(source.Bytes("m.safetensors", c.file))
			refused(t, err, c.want)
			if errors.Is(err, source.ErrNotThisFormat) != c.other {
				t.Errorf("%v: is another format: want %v", err, c.other)
			}
		})
	}
}

// TestOffsetsCountFromTheFile says where in the file an error is.
func TestOffsetsCountFromTheFile(t *testing.T) {
	_, err := ReadHeader(source.Bytes("m", file(`{"a":NaN}`, 0)))
	if want := "m: at byte 13: has NaN"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
	_, err = ParseHeader("m", `{"a":NaN}`)
	if want := "m: at byte 5: has NaN"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// torn is a source whose bytes cannot be read past the first nine.
type torn struct{ source.Source }

func (f torn) ReadAt(p []byte, off int64) (int, error) {
	if off >= lengthBytes && len(p) > 1 {
		return 0, io.ErrUnexpectedEOF
	}
	return f.Source.ReadAt(p, off)
}

func TestReadError(t *testing.T) {
	_, err := ReadHeader(torn{source.Bytes("m", file(`{"__metadata__":{}}`, 0))})
	refused(t, err, "the header cannot be read: unexpected EOF")
}

func FuzzHeader(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(file("{"+entry("a", "U8", "[4]", "[0,4]")+","+entry("b", "F4", "[3]", "[4,6]")+"}", 6))
	f.Add(file(`{"\ud83d\ude00":{"x":[{"y":[1.5e3,true]}]}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(source.Bytes("fuzz", data))
		if err != nil {
			return
		}
		// What is accepted is JSON, and its tensors tile the data.
		if !json.Valid(data[lengthBytes : lengthBytes+h.Length]) {
			t.Fatal("accepted what is not JSON")
		}
		var sum int64
		for _, tensor := range h.Tensors {
			sum += tensor.Bytes()
		}
		if sum != h.Data || lengthBytes+h.Length+sum != int64(len(data)) {
			t.Fatalf("tensors have %d bytes, the header says %d, the file has %d", sum, h.Data, len(data))
		}
	})
}

// More tensors than any checkpoint has are refused before they take memory by
// the hundred megabytes.
func TestTooManyTensors(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range maxTensors + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
	}
	b.WriteByte('}')
	_, err := ReadHeader(source.Bytes("m.safetensors", file(b.String(), 0)))
	refused(t, err, "has more than 500000 keys in one object")
}
