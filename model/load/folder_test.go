package load_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/load"
)

// codes are the warnings of a model, sorted.
func codes(m *model.Model) []string {
	list := []string{}
	for _, w := range m.Warnings {
		list = append(list, w.Code)
	}
	slices.Sort(list)
	return list
}

// Which files of a folder are the model, and whose bytes count.
func TestFolder(t *testing.T) {
	bf16, f32 := llamaTensors(dtype.BF16), llamaTensors(dtype.F32)
	first, second := bf16[:10], bf16[10:]
	shards := map[string][]entry{"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}
	const bytes = 2 * llamaParameters
	for _, c := range []struct {
		name     string
		files    map[string]any
		bytes    int64
		warnings []string
	}{
		{"a configuration alone", map[string]any{"config.json": llama}, bytes, nil},
		{"one file beside it", map[string]any{"config.json": llama, "model.safetensors": bf16}, bytes, nil},
		{"stored in another format than declared", map[string]any{"config.json": llama, "model.safetensors": f32}, 2 * bytes, nil},
		{"shards and an index", map[string]any{"config.json": llama, "model.safetensors.index.json": index("3408", shards),
			"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}, bytes, nil},
		{"shards without an index", map[string]any{"config.json": llama,
			"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}, bytes, nil},
		{"an index that declares 0", map[string]any{"config.json": llama, "model.safetensors.index.json": index("0", shards),
			"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}, bytes, []string{"total_size_zero"}},
		{"an index that declares a fraction", map[string]any{"config.json": llama, "model.safetensors.index.json": index("3408.0", shards),
			"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}, bytes, []string{"total_size_fractional"}},
		{"an index that counts twice", map[string]any{"config.json": llama, "model.safetensors.index.json": index("6816", shards),
			"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}, bytes, []string{"total_size_differs"}},
		{"an index alone is compared, not trusted", map[string]any{"config.json": llama, "model.safetensors.index.json": index("9999", shards)}, bytes, []string{"total_size_differs"}},
		{"an index alone that counts twice tells no format", map[string]any{"config.json": llama, "model.safetensors.index.json": index("6816", shards)}, bytes, []string{"total_size_double"}},
		{"an index alone may tell a format that the configuration gets wrong", map[string]any{"config.json": strings.Replace(llama, "bfloat16", "float32", 1), "model.safetensors.index.json": index("3408", shards)}, bytes, []string{"format_by_total_size"}},
		{"an index alone, less than nothing", map[string]any{"config.json": llama, "model.safetensors.index.json": index("-3408", shards)}, bytes, []string{"total_size_not_whole"}},
		{"an index alone, in words", map[string]any{"config.json": llama, "model.safetensors.index.json": index(`"many"`, shards)}, bytes, []string{"total_size_not_whole"}},
		{"an index alone, 2⁶³", map[string]any{"config.json": llama, "model.safetensors.index.json": index("9223372036854775808", shards)}, bytes, []string{"total_size_not_whole"}},
		{"an index alone, a fraction", map[string]any{"config.json": llama, "model.safetensors.index.json": index("3408.5", shards)}, bytes, []string{"total_size_not_whole"}},
		{"an index alone, a whole fraction", map[string]any{"config.json": llama, "model.safetensors.index.json": index("3408.0", shards)}, bytes, []string{"total_size_fractional"}},
		{"or leaves out", map[string]any{"config.json": strings.Replace(llama, `"torch_dtype": "bfloat16",`, "", 1), "model.safetensors.index.json": index("3408", shards)}, bytes, []string{"format_by_total_size"}},
		{"an index that names what no file has", map[string]any{"config.json": llama,
			"model.safetensors.index.json": index("3408", map[string][]entry{"model.safetensors": append(slices.Clone(bf16), entry{name: "model.extra"})}),
			"model.safetensors":            bf16}, bytes, []string{"index_names_absent"}},
		{"two formats are one model", map[string]any{"config.json": llama, "model.safetensors": bf16, "consolidated.safetensors": f32, "pytorch_model.bin": "x", "a.gguf": "x"},
			bytes, []string{"other_formats_aside"}},
		{"consolidated alone", map[string]any{"config.json": llama, "consolidated.safetensors": f32}, 2 * bytes, nil},
		{"an adapter is not the model", map[string]any{"config.json": llama, "adapter_model.safetensors": first}, bytes, nil},
		{"weights without a configuration", map[string]any{"model.safetensors": bf16}, bytes, nil},
		{"names without their beginning", map[string]any{"config.json": llama, "model.safetensors": bare(bf16)}, bytes, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := load.Open(folder(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			if got, exact := m.WeightsBytes().IsExact(); !exact || got != c.bytes {
				t.Errorf("%d bytes, exact %v; want %d", got, exact, c.bytes)
			}
			if c.warnings == nil {
				c.warnings = []string{}
			}
			if got := codes(m); !slices.Equal(got, c.warnings) {
				t.Errorf("warnings %q, want %q: %v", got, c.warnings, m.Warnings)
			}
		})
	}
}

// What the files lack of what the configuration needs is somewhere else, or made
// at the load: the weights are then a lower bound, never the little that is there.
func TestLacking(t *testing.T) {
	all := llamaTensors(dtype.BF16)
	const expert = "model.layers.0.block_sparse_moe.experts.%d.w1.weight"
	mixtral := strings.NewReplacer("LlamaForCausalLM", "MixtralForCausalLM", `"llama"`, `"mixtral", "num_local_experts": 2`).Replace(llama)
	for _, c := range []struct {
		name, config string
		tensors      []entry
		field, count string
	}{
		{"all but one", llama, all[:1], "model.layers.0.", "lack"},
		{"a head", llama, without(all, "lm_head.weight"), "lm_head.weight", "lack 1,"},
		{"those of another model", llama, []entry{{"blocks.0.a", dtype.F32, []int64{64}}}, "model.embed_tokens.weight", "lack 21,"},
		{"one of two experts", mixtral, []entry{{"model.embed_tokens.weight", dtype.BF16, []int64{32, 8}}, {fmt.Sprintf(expert, 0), dtype.BF16, []int64{16, 8}}}, "model.", "lack"},
	} {
		m, err := load.Open(folder(t, map[string]any{"config.json": c.config, "model.safetensors": c.tensors}))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []account.Figure{m.WeightsBytes(), m.Parameters()} {
			if _, bounded := f.High(); bounded || f.Low() == 0 {
				t.Errorf("%s: %v is no lower bound", c.name, f)
			}
		}
		if u := m.Unknown[0]; !strings.HasPrefix(u.Field, c.field) || !strings.Contains(u.Why, c.count) {
			t.Errorf("%s: unknown %+v", c.name, u)
		}
	}
}

// bare is the tensors as the model without a head saves them.
func bare(list []entry) []entry {
	list = slices.Clone(list)
	for i := range list {
		list[i].name = strings.TrimPrefix(list[i].name, "model.")
	}
	return list
}

func TestFolderRefuses(t *testing.T) {
	bf16 := llamaTensors(dtype.BF16)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
	for _, c := range []struct {
		name       string
		files      map[string]any
		text, hint string
	}{
		{"nothing", map[string]any{"README.md": "x"}, "has no config.json and no weight file", "name a Hugging Face model folder"},
		{"an adapter", map[string]any{"adapter_config.json": "{}"}, "has no config.json", "base model"},
		{"a missing shard of an index", map[string]any{"config.json": llama, "a.safetensors": bf16,
			"model.safetensors.index.json": index("1", map[string][]entry{"a.safetensors": bf16, "b.safetensors": {{name: "x"}}})},
			`lacks 1 of its 2 weight files: "b.safetensors"`, "fetch them"},
		{"a missing shard of numbered names", map[string]any{"config.json": llama, "model-00001-of-000163.safetensors": bf16},
			`lacks 162 of its 163 weight files: "model-00002-of-000163.safetensors", `, "fetch them"},
		{"an index alone", map[string]any{"model.safetensors.index.json": index("1", map[string][]entry{"a.safetensors": bf16})}, "none of them is there, nor a config.json", "fetch"},
		{"a file without tensors", map[string]any{"config.json": llama, "model.safetensors": []entry{}}, `"model.safetensors" holds no tensors`, "fetch"},
		{"a pointer", map[string]any{"config.json": llama, "model.safetensors": pointer}, "Git LFS pointer", "git lfs pull"},
		{"a pointer for a configuration", map[string]any{"config.json": pointer}, "Git LFS pointer", "git lfs pull"},
		{"a pointer for an index", map[string]any{"config.json": llama, "model.safetensors.index.json": pointer}, "Git LFS pointer", "git lfs pull"},
		{"text for weights", map[string]any{"config.json": llama, "model.safetensors": "<html>not found</html>"}, "is not a safetensors file", "fetch it again"},
		{"text for a torch file", map[string]any{"config.json": llama, "pytorch_model.bin": "<html>not found</html>"}, "neither a zip", "fetch it again"},
		{"a cut-off file", map[string]any{"config.json": llama, "model.safetensors": "\x10\x00\x00\x00\x00\x00\x00\x00{\"a\""}, "the header is said to have", "cut off"},
		{"two GGUF models", map[string]any{"a.gguf": "x", "b.gguf": "x"}, "has 2 GGUF models", "name one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load.Open(folder(t, c.files))
			var f *source.FormatError
			if !errors.As(err, &f) || !strings.Contains(err.Error(), c.text) || !strings.Contains(f.Hint, c.hint) {
				t.Fatalf("%v (%+v), want %q and hint %q", err, f, c.text, c.hint)
			}
		})
	}
}
