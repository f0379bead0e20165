package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/account"
	"floodmark/internal/source"
)

func TestReadIndex(t *testing.T) {
	const text = `{
  "_note": ["other keys are passed over", {"x": null}],
  "metadata": {"total_parameters": 12, "total_size": 48, "mergekit_version": "0.0.4"},
  "weight_map": {
    "norm.weight": "model-00002-of-00002.safetensors",
    "embed.weight": "model-00001-of-00002.safetensors",
    "lm_head.weight": "model-00002-of-00002.safetensors"
  }
}
`
	got, err := ReadIndex(source.Bytes("index.json", []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Index{
		Entries:         []Entry{{"norm.weight", 1}, {"embed.weight", 0}, {"lm_head.weight", 1}},
		Shards:          []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"},
		TotalSize:       Declared{"48"},
		TotalParameters: Declared{"12"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDeclaredTotals has the spellings of total_size that published indexes
// have, each with what may be made of it.
func TestDeclaredTotals(t *testing.T) {
	for _, c := range []struct {
		metadata string
		value    int64
		whole    bool
		warning  string // code
	}{
		{`"metadata": {"total_size": 16060522496},`, 16_060_522_496, true, ""},
		// togethercomputer/RedPajama-INCITE-7B-Base: bool masks counted as bits.
		{`"metadata": {"total_size": 13731385408.0},`, 13_731_385_408, true, "total_size_fractional"},
		{`"metadata": {"total_size": 5.25},`, 5, false, "total_size_not_whole"},
		{`"metadata": {"total_size": 1e10},`, 0, false, "total_size_not_whole"},
		{`"metadata": {"total_size": 9223372036854775808},`, 0, false, "total_size_not_whole"},
		{`"metadata": {"total_size": -1},`, -1, false, "total_size_not_whole"},
		// nvidia/Cosmos-Reason2-8B: 750 tensors and 0.
		{`"metadata": {"total_size": 0},`, 0, true, "total_size_zero"},
		{`"metadata": {"total_size": "16060522496"},`, 16_060_522_496, true, ""},
		{`"metadata": {"total_size": "16 GB"},`, 0, false, "total_size_not_whole"},
		{`"metadata": {"total_size": null},`, 0, false, "total_size_absent"},
		// lizpreciatior/lzlv_70b_fp16_hf.
		{`"metadata": {},`, 0, false, "total_size_absent"},
		{`"metadata": null,`, 0, false, "total_size_absent"},
		{``, 0, false, "total_size_absent"},
	} {
		index, err := ReadIndex(source.Bytes("i", []byte(`{`+c.metadata+`"weight_map":{"a":"m.safetensors"}}`)))
		if err != nil {
			t.Errorf("%s: %v", c.metadata, err)
			continue
		}
		value, whole := index.TotalSize.Value()
		if whole != c.whole || whole && value != c.value {
			t.Errorf("%s: %d, %v; want %d, %v", c.metadata, value, whole, c.value, c.whole)
		}
		if got := codes(index.Warnings); got != c.warning {
			t.Errorf("%s: warnings %q, want %q", c.metadata, got, c.warning)
		}
	}
}

func codes(warnings []account.Warning) string {
	var all []string
	for _, w := range warnings {
		all = append(all, w.Code)
	}
	return strings.Join(all, " ")
}

func TestHostileIndexes(t *testing.T) {
	for name, c := range map[string]struct{ text, want, hint string }{
		// bigscience/bloom: an index for safetensors, and after it one for .bin.
		"extra data":        {"{\"metadata\": {\"total_size\": 352494542848}, \"weight_map\": {\"a\": \"model_00002-of-00072.safetensors\"}}\n{\"metadata\": {}}", "at byte 100: has 16 bytes after the end of the index", "keep the first 100 bytes"},
		"pointer":           {"version https://git-lfs.github.com/spec/v1\noid sha256:1f\nsize 25125\n", "is a Git LFS pointer", "git lfs pull"},
		"comment in front":  {"// written by hand\n{\"weight_map\":{}}", "has a comment", "remove the comments"},
		"comment inside":    {"{\"weight_map\":{\n// first\n\"a\":\"b\"}}", "has a comment", "remove the comments"},
		"empty weight_map":  {`{"metadata":{"total_size":0},"weight_map":{}}`, "weight_map: is absent or names no tensor", "name a weight file"},
		"no weight_map":     {`{"architectures":["LlamaForCausalLM"]}`, "weight_map: is absent or names no tensor", "name a weight file"},
		"tensor twice":      {`{"weight_map":{"a":"x","a":"x"}}`, `the key "a" stands twice`, ""},
		"weight_map twice":  {`{"weight_map":{"a":"x"},"weight_map":{"b":"x"}}`, `the key "weight_map" stands twice`, ""},
		"total_size twice":  {`{"metadata":{"total_size":1,"total_size":2},"weight_map":{"a":"x"}}`, `the key "total_size" stands twice`, ""},
		"parent folder":     {`{"weight_map":{"a":"../../etc/passwd"}}`, "is not the name of a file in the index's folder", ""},
		"rooted":            {`{"weight_map":{"a":"/etc/passwd"}}`, "is not the name of a file in the index's folder", ""},
		"empty name":        {`{"weight_map":{"a":""}}`, "is not the name of a file in the index's folder", ""},
		"number for a file": {`{"weight_map":{"a":1}}`, "found '1', expected a string", ""},
		"NaN total":         {`{"metadata":{"total_size":NaN},"weight_map":{"a":"x"}}`, "has NaN, which is not a JSON number", ""},
		"NaN elsewhere":     {`{"x":[1,NaN],"weight_map":{"a":"x"}}`, "has NaN, which is not a JSON number", ""},
		"unclosed array":    {`{"x":[1,{"y":2]}`, `found ']', expected ',' or '}'`, ""},
		"cut off":           {`{"weight_map":{"a":"x"`, "the JSON text ends", "fetch it again"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadIndex(source.Bytes("index.json", []byte(c.text)))
			refused(t, err, c.want)
			if format, ok := err.(*source.FormatError); ok && !strings.Contains(format.Hint, c.hint) {
				t.Errorf("hint %q, want %q", format.Hint, c.hint)
			}
		})
	}
	_, err := ReadIndex(source.Bytes("index.json", []byte("[1]")))
	if refused(t, err, "is not an index"); !errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("an array is not handed on: %v", err)
	}
}

// large is a source that claims to be larger than it is.
type large struct {
	source.Source
	size int64
}

func (l large) Size() int64 { return l.size }

// TestBounds stops before a text makes the program remember more than any real
// one needs.
func TestBounds(t *testing.T) {
	var b strings.Builder
	for i := range maxMetadata + 1 {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	_, err := ReadIndex(source.Bytes("i", []byte("{"+b.String()+`"weight_map":{"a":"x"}}`)))
	refused(t, err, "has more than 65536 keys in one object")
	_, err = ReadIndex(large{source.Bytes("i", []byte("{}")), MaxIndex + 1})
	refused(t, err, "has 134217729 bytes, more than the 134217728 that an index may have")
	_, err = ParseHeader("h", strings.Repeat(" ", MaxHeader+1))
	refused(t, err, "has 104857601 bytes, more than the 104857600")
}

// manyExperts is an index of the form and size of DeepSeek-V3's, which has
// 91,985 names in 8.9 MB and 163 shards: 59 layers of 256 experts with three
// matrices, each with its scale, and a thousand names besides.
func manyExperts() []byte {
	var b strings.Builder
	b.WriteString("{\n  \"metadata\": {\n    \"total_size\": 688586727753\n  },\n  \"weight_map\": {\n")
	n := 0
	line := func(name string) {
		if n > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "    %q: \"model-%05d-of-000163.safetensors\"", name, n/565+1)
		n++
	}
	for layer := 3; layer < 62; layer++ {
		for expert := range 256 {
			for _, matrix := range []string{"gate_proj", "up_proj", "down_proj"} {
				line(fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s.weight", layer, expert, matrix))
				line(fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s.weight_scale_inv", layer, expert, matrix))
			}
		}
	}
	for i := n; i < 91_985; i++ {
		line(fmt.Sprintf("model.layers.%d.self_attn.%d.weight", i%62, i))
	}
	b.WriteString("\n  }\n}\n")
	return []byte(b.String())
}

// TestIndexAllocations pins that names are parts of the text: memory is taken
// for the text, the entries, the set of names and the shards, not for a name.
func TestIndexAllocations(t *testing.T) {
	s := source.Bytes("index.json", manyExperts())
	index, err := ReadIndex(s)
	if err != nil || len(index.Entries) != 91_985 || len(index.Shards) != 163 {
		t.Fatal(err, len(index.Entries), len(index.Shards))
	}
	allocations := testing.AllocsPerRun(3, func() { _, _ = ReadIndex(s) })
	if limit := 400.0; allocations > limit {
		t.Errorf("%v allocations for 91,985 names, want at most %v", allocations, limit)
	}
}

func BenchmarkReadIndex(b *testing.B) {
	text := manyExperts()
	s := source.Bytes("index.json", text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadIndex(s); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1.0},"weight_map":{"a":"x","b":"y","c":"x"}}`))
	f.Add([]byte(`{"x":[{"y":[]},-1.5e-3,"\u0041"],"weight_map":{"\ud83d\ude00":"x"}}`))
	f.Add([]byte("{\"weight_map\":{\"a\":\"x\"}}\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := ReadIndex(source.Bytes("fuzz", data))
		if err != nil {
			return
		}
		// What is accepted is JSON, and says the same to another reader.
		var other struct {
			Map map[string]string `json:"weight_map"`
		}
		if !json.Valid(data) {
			t.Fatal("accepted what is not JSON")
		}
		if err := json.Unmarshal(data, &other); err != nil {
			return // Go folds the case of keys, so a second weight_Map may trouble it
		}
		for _, e := range index.Entries {
			if int(e.Shard) >= len(index.Shards) {
				t.Fatalf("entry %q is in shard %d of %d", e.Name, e.Shard, len(index.Shards))
			}
		}
	})
}
