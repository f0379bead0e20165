package gguf

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/dtype"
	"floodmark/internal/source"
)

func bytesOf(data []byte) source.Source { return source.Bytes("model.gguf", data) }

func TestRead(t *testing.T) {
	w := (&writer{}).
		text("general.architecture", "llama").
		u32("llama.block_count", 2).
		raw("llama.attention.head_count_kv", 9, list(5, le32(8), le32(0))).
		raw("tokenizer.ggml.tokens", 9, list(8, str("<s>"), str("</s>"), str("a"))).
		raw("tokenizer.ggml.scores", 9, list(6, le32(0), le32(0), le32(0))).
		tensor("token_embd.weight", 12, 2*144, 256, 2).
		tensor("blk.0.attn_norm.weight", 0, 12, 3).
		tensor("blk.0.ffn_gate_exps.weight", 8, 4*3*34, 32, 3, 4)
	for _, version := range []uint32{2, 3} {
		w.version = version
		data := w.file()
		f, err := Read(bytesOf(data))
		if err != nil {
			t.Fatal(err)
		}
		want := []Tensor{
			{"token_embd.weight", dtype.Q4_K, []int64{2, 256}, 0, 288},
			{"blk.0.attn_norm.weight", dtype.F32, []int64{3}, 288, 12},
			{"blk.0.ffn_gate_exps.weight", dtype.Q8_0, []int64{4, 3, 32}, 320, 408},
		}
		if diff := cmp.Diff(want, f.Tensors); diff != "" {
			t.Error(diff)
		}
		if f.Version != version || f.Data != 288+12+408 || f.Alignment != 32 || f.DataOffset%32 != 0 || f.DataOffset+320+408 != int64(len(data)) {
			t.Errorf("version %d, data %d at %d, alignment %d", f.Version, f.Data, f.DataOffset, f.Alignment)
		}
		tokens := f.Value("tokenizer.ggml.tokens")
		if tokens.Len != 3 || tokens.Kept() {
			t.Errorf("the tokens are %d, kept: %v; want them counted only", tokens.Len, tokens.Kept())
		}
		if heads, ok := f.Value("llama.attention.head_count_kv").Ints(); !ok || !cmp.Equal(heads, []int64{8, 0}) {
			t.Errorf("head_count_kv by layer is %v, %v", heads, ok)
		}
		if len(f.Keys) != 5 || f.Keys[0] != "general.architecture" {
			t.Errorf("keys %q", f.Keys)
		}
	}
}

// TestPythonFile reads what llama.cpp's own writer wrote; testdata/README.md
// says how.
func TestPythonFile(t *testing.T) {
	s, err := source.Open("testdata/python.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{
		{"token_embd.weight", dtype.F32, []int64{4, 64}, 0, 1024},
		{"blk.0.Q4_0", dtype.Q4_0, []int64{6, 64}, 1024, 6 * 2 * 18},
		{"blk.0.Q8_0", dtype.Q8_0, []int64{6, 64}, 1248, 6 * 2 * 34},
		{"blk.0.Q5_1", dtype.Q5_1, []int64{6, 64}, 1664, 6 * 2 * 24},
	}
	if diff := cmp.Diff(want, f.Tensors); diff != "" {
		t.Error(diff)
	}
	heads, _ := f.Value("llama.attention.head_count_kv").Ints()
	tags, _ := f.Value("general.tags").Texts()
	flag, _ := f.Value("x.flag").Bool()
	half, _ := f.Value("x.f").Float()
	if !cmp.Equal(heads, []int64{8, 0}) || !cmp.Equal(tags, []string{"t1", "t2"}) || !flag || half != 0.5 || f.Value("tokenizer.ggml.tokens").Len != 3 {
		t.Errorf("metadata: %v, %q, %v, %v", heads, tags, flag, half)
	}
}

// TestTypes has ggml's type numbers with the bytes of one row of 256 elements.
// Source: enum ggml_type in ggml.h of llama.cpp, and dtype's block table.
func TestTypes(t *testing.T) {
	for id, c := range map[uint32]struct {
		name  string
		bytes int64
	}{
		0: {"F32", 1024}, 1: {"F16", 512}, 2: {"Q4_0", 144}, 3: {"Q4_1", 160},
		6: {"Q5_0", 176}, 7: {"Q5_1", 192}, 8: {"Q8_0", 272}, 9: {"Q8_1", 288},
		10: {"Q2_K", 84}, 11: {"Q3_K", 110}, 12: {"Q4_K", 144}, 13: {"Q5_K", 176}, 14: {"Q6_K", 210}, 15: {"Q8_K", 292},
		16: {"IQ2_XXS", 66}, 17: {"IQ2_XS", 74}, 18: {"IQ3_XXS", 98}, 19: {"IQ1_S", 50}, 20: {"IQ4_NL", 144},
		21: {"IQ3_S", 110}, 22: {"IQ2_S", 82}, 23: {"IQ4_XS", 136},
		24: {"I8", 256}, 25: {"I16", 512}, 26: {"I32", 1024}, 27: {"I64", 2048}, 28: {"F64", 2048},
		29: {"IQ1_M", 56}, 30: {"BF16", 512}, 34: {"TQ1_0", 54}, 35: {"TQ2_0", 66},
		39: {"MXFP4", 136}, 40: {"NVFP4", 144}, 41: {"Q1_0", 36}, 42: {"Q2_0", 72},
	} {
		f, err := Read(bytesOf((&writer{}).tensor("w", id, c.bytes, 256).file()))
		if err != nil {
			t.Errorf("type %d: %v", id, err)
			continue
		}
		if got := f.Tensors[0]; got.Format.String() != c.name || got.Bytes != c.bytes {
			t.Errorf("type %d is %s of %d bytes, want %s of %d", id, got.Format, got.Bytes, c.name, c.bytes)
		}
	}
	for id, want := range map[uint32]string{
		4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
		43: "none of ggml's 0 to 42", 137: "none of ggml's 0 to 42", 1<<32 - 1: "none of ggml's",
	} {
		_, err := Read(bytesOf((&writer{}).tensor("w", id, 8, 256).file()))
		refused(t, err, want)
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

func TestHostileFiles(t *testing.T) {
	counts := func(tensors, keys uint64) []byte {
		return join([]byte("GGUF"), le32(3), le64(tensors), le64(keys), make([]byte, 100))
	}
	version := func(v uint32) []byte { return (&writer{version: v}).file() }
	info := func(dims ...uint64) []byte { return (&writer{}).info("w", 0, 0, dims...).file() }
	key := func(valueType uint32, value ...[]byte) []byte {
		return (&writer{}).raw("k", valueType, join(value...)).file()
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"version 0":             {join([]byte("GGUF"), le32(0), make([]byte, 16)), "is GGUF version 0, expected 2 or 3"},
		"version 1":             {version(1), "is GGUF version 1"},
		"version 4":             {version(4), "is GGUF version 4"},
		"big-endian":            {version(0x03000000), "is a big-endian GGUF file"},
		"magic alone":           {[]byte("GGUF"), "the version takes 4 bytes, but 0 are left"},
		"counts cut off":        {join([]byte("GGUF"), le32(3), le64(0)), "the number of metadata keys takes 8 bytes, but 0 are left"},
		"2⁶⁴−1 tensors":         {counts(1<<64-1, 0), "the number of tensors is 18446744073709551615, more than"},
		"lying tensors":         {counts(1000, 0), "the number of tensors is 1000, but"},
		"2⁶³ keys":              {counts(0, 1<<63), "the number of metadata keys is 9223372036854775808, more than"},
		"lying keys":            {counts(0, 1000), "the number of metadata keys is 1000, but"},
		"lying key length":      {join([]byte("GGUF"), le32(3), le64(0), le64(1), huge, make([]byte, 20)), "a metadata key takes 18446744073709551615 bytes, but 20 are left"},
		"long key":              {(&writer{}).u32(strings.Repeat("k", 1<<16), 1).file(), "a metadata key has 65536 bytes, more than the 65535"},
		"empty key":             {(&writer{}).u32("", 1).file(), "a metadata key is empty"},
		"duplicate key":         {(&writer{}).u32("k", 1).u32("k", 2).file(), "k: stands twice in the metadata"},
		"lying text":            {key(8, huge), "a text takes 18446744073709551615 bytes"},
		"unknown value type":    {key(13, huge), "a value type that the format does not have"},
		"absurd value type":     {key(1<<32-1, huge), "a value type that the format does not have"},
		"truth value of 2":      {key(7, []byte{2}), "has the byte 2 for a truth value"},
		"nested array":          {key(9, le32(9), le64(1), huge), "is an array of arrays"},
		"array of nothing":      {key(9, le32(200), le64(1), huge), "is an array of a type that the format does not have"},
		"lying array":           {key(9, le32(0), huge), "is an array of 18446744073709551615 values of type uint8"},
		"lying array of texts":  {key(9, le32(8), le64(1<<61)), "is an array of 2305843009213693952 values of type string"},
		"lying text in array":   {key(9, le32(8), le64(1), huge), "a text of a list takes"},
		"lying token":           {(&writer{}).raw("tokenizer.ggml.tokens", 9, join(le32(8), le64(1), huge)).file(), "tokenizer.ggml.tokens takes 18446744073709551615 bytes"},
		"alignment of 0":        {(&writer{}).u32("general.alignment", 0).file(), "general.alignment: is 0 of type uint32, expected a power of two"},
		"alignment of 24":       {(&writer{}).u32("general.alignment", 24).file(), "is 24 of type uint32, expected a power of two"},
		"alignment as a text":   {(&writer{}).text("general.alignment", "32").file(), "is 0 of type string"},
		"five dimensions":       {info(1, 1, 1, 1, 1), "has 5 dimensions, more than ggml's 4"},
		"dimension of 2⁶³":      {info(1 << 63), "has a dimension of 9223372036854775808"},
		"absurd dimensions":     {info(1<<32, 1<<32, 1<<32), "has more bytes than a file can hold"},
		"elements overflow":     {info(1<<61, 8), "has more bytes than a file can hold"},
		"half a block":          {(&writer{}).tensor("w", 12, 144, 255, 2).file(), "has rows of 255 elements, which is no multiple of the 256 in a block of Q4_K"},
		"scalar in a block":     {(&writer{}).tensor("w", 2, 18).file(), "has rows of 1 elements"},
		"offset of 2⁶³":         {(&writer{}).info("w", 0, 1<<63, 1).file(), "its data begins at 9223372036854775808"},
		"offset not aligned":    {(&writer{}).info("w", 0, 4, 1).file(), "its data begins at 4, which is no multiple of the alignment 32"},
		"offset past the end":   {(&writer{}).info("w", 0, 1<<40, 1).file(), "w: its data ends at byte"},
		"data cut off":          {(&writer{}).tensor("w", 0, 1020, 256).file(), "w: its data ends at byte 1088 and the file at byte 1084"},
		"overlap":               {(&writer{data: 96}).info("a", 0, 0, 16).info("b", 0, 32, 16).file(), `b: its data begins at 32, inside "a", which ends at 64`},
		"same bytes":            {(&writer{data: 96}).info("a", 0, 0, 16).info("b", 0, 0, 16).file(), `begins at 0, inside "a"`},
		"long tensor name":      {(&writer{}).tensor(strings.Repeat("n", 256), 0, 4, 1).file(), "a tensor's name has 256 bytes, more than the 255"},
		"duplicate tensor":      {(&writer{}).tensor("a", 0, 4, 1).tensor("a", 0, 4, 1).file(), "a: stands twice in the list of tensors"},
		"split.no beyond":       {(&writer{}).u16("split.count", 2).u16("split.no", 2).i32("split.tensors.count", 1).file(), "split.no: is 2 of 2 parts"},
		"no split.no":           {(&writer{}).u16("split.count", 2).i32("split.tensors.count", 1).file(), "split.no: is 0 of 2 parts"},
		"absurd split.count":    {(&writer{}).i32("split.count", -1).file(), "split.count: is -1"},
		"too few split tensors": {(&writer{}).u16("split.count", 2).u16("split.no", 0).i32("split.tensors.count", 0).tensor("a", 0, 4, 1).file(), "split.tensors.count: is 0 in all parts, but this one has 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(bytesOf(c.file))
			refused(t, err, c.want)
		})
	}
}

func TestOtherFormats(t *testing.T) {
	for _, data := range []string{"", "GGU", "ggml", "PK\x03\x04", "GGJT\x03\x00\x00\x00"} {
		if _, err := Read(bytesOf([]byte(data))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%q: %v, want ErrNotThisFormat", data, err)
		}
	}
}

// TestTruncated cuts a good file at every byte of its head: each cut is an
// error and none is a panic.
func TestTruncated(t *testing.T) {
	w := (&writer{}).text("general.name", "tiny").
		raw("x", 9, list(8, str("a"), str("b"))).
		raw("tokenizer.ggml.tokens", 9, list(8, str("a"), str("b"))).
		tensor("w", 0, 12, 3)
	head := w.head()
	for n := range head {
		if _, err := Read(bytesOf(head[:n])); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a whole file", n, len(head))
		}
	}
	if f, err := ReadHead(bytesOf(head)); err != nil || f.Data != 12 {
		t.Errorf("the head alone: %v", err)
	}
}

// torn is a source that cannot be read from an offset on.
type torn struct {
	source.Source
	from int64
}

func (s torn) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > s.from {
		n, _ := s.Source.ReadAt(p[:max(0, s.from-off)], off)
		return n, io.ErrUnexpectedEOF
	}
	return s.Source.ReadAt(p, off)
}

func TestReadError(t *testing.T) {
	head := (&writer{}).text("k", "text").raw("tokenizer.ggml.tokens", 9, list(8, str("a"))).tensor("w", 0, 12, 3).head()
	for n := range int64(len(head)) {
		_, err := ReadHead(torn{bytesOf(head), n})
		if err == nil || !strings.Contains(err.Error(), "unexpected EOF") && !strings.Contains(err.Error(), "became shorter") {
			t.Errorf("torn at %d of %d: %v", n, len(head), err)
		}
	}
}

// TestLongTokenizer moves over lists larger than the reader's buffer.
func TestLongTokenizer(t *testing.T) {
	tokens := make([][]byte, 20_000)
	scores := make([][]byte, len(tokens))
	for i := range tokens {
		tokens[i], scores[i] = str(fmt.Sprint("token ", i)), le32(uint32(i))
	}
	data := (&writer{}).
		raw("tokenizer.ggml.scores", 9, list(6, scores...)).
		raw("tokenizer.ggml.tokens", 9, list(8, tokens...)).
		raw("long", 9, list(8, tokens[:maxList+1]...)).
		text("after", "found").
		tensor("w", 0, 12, 3).file()
	f, err := Read(bytesOf(data))
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := f.Value("after").Text(); !ok || text != "found" {
		t.Errorf("the text after the lists is %q", text)
	}
	if v := f.Value("tokenizer.ggml.scores"); v.Len != 20_000 || v.Kept() {
		t.Errorf("scores: %d, kept %v", v.Len, v.Kept())
	}
	if v := f.Value("long"); v.Len != maxList+1 || v.Kept() {
		t.Errorf("a list of %d is kept: %v", v.Len, v.Kept())
	}
	allocations := testing.AllocsPerRun(3, func() { _, _ = Read(bytesOf(data)) })
	if limit := 80.0; allocations > limit {
		t.Errorf("%v allocations, want at most %v: tokens are not to be copied", allocations, limit)
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add((&writer{}).text("general.architecture", "llama").u32("general.alignment", 32).
		raw("a", 9, list(8, str("x"))).raw("b", 9, list(7, []byte{1})).tensor("w", 12, 288, 256, 2).file())
	f.Add((&writer{version: 2}).u16("split.count", 2).u16("split.no", 1).i32("split.tensors.count", 3).tensor("w", 0, 4, 1).file())
	f.Add((&writer{version: 0x03000000}).file())
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(bytesOf(data))
		if err != nil {
			return
		}
		// Tensors of an accepted file lie in it and share no byte.
		var sum int64
		for _, tensor := range file.Tensors {
			if tensor.Bytes < 0 || file.DataOffset+tensor.Offset+tensor.Bytes > int64(len(data)) {
				t.Fatalf("%+v lies outside of %d bytes", tensor, len(data))
			}
			sum += tensor.Bytes
		}
		if sum != file.Data || sum > int64(len(data)) {
			t.Fatalf("the tensors have %d bytes, the file says %d and has %d", sum, file.Data, len(data))
		}
	})
}
