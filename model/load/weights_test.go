package load_test

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/model/load"
)

const tied = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
 "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 1, "vocab_size": 32, "tie_word_embeddings": true}`

// without leaves out tensors by name.
func without(list []entry, name string) []entry {
	return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.name == name })
}

// A head is the embedding again, a copy of it, or its own. What is tied is
// loaded once, however often the files store it.
func TestHeads(t *testing.T) {
	checklist.Covers(t, 180)
	all := llamaTensors(dtype.BF16)
	const head, once = 2 * 32 * 8, 2 * llamaParameters
	for _, c := range []struct {
		name          string
		config        string
		tensors       []entry
		weights, file int64
		warnings      []string
	}{
		{"its own", llama, all, once, once, []string{}},
		{"tied and left out", tied, without(all, "lm_head.weight"), once - head, once - head, []string{}},
		{"tied and stored again, as Qwen3-0.6B has it", tied, all, once - head, once, []string{"tied_tensor_stored"}},
		{"tied, and stored under the other name", tied, without(all, "model.embed_tokens.weight"), once - head, once - head, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := load.Open(folder(t, map[string]any{"config.json": c.config, "model.safetensors": c.tensors}))
			if err != nil {
				t.Fatal(err)
			}
			if n, exact := m.WeightsBytes().IsExact(); n != c.weights || !exact || m.FileBytes != c.file {
				t.Errorf("%d bytes, exact %v, and %d in the files; want %d and %d", n, exact, m.FileBytes, c.weights, c.file)
			}
			if got := codes(m); !slices.Equal(got, c.warnings) {
				t.Errorf("warnings %v", m.Warnings)
			}
			heads, roots := 0, 0
			for _, x := range m.Tensors {
				if x.Role == model.RoleHead {
					heads++
				}
				if x.TiedTo != model.NotTied && m.Tensors[x.TiedTo].TiedTo != model.NotTied {
					t.Errorf("%s is tied to what is tied", x.Name)
				}
				if x.TiedTo == model.NotTied {
					roots++
				}
			}
			if heads > 1 || roots == 0 {
				t.Errorf("%d heads", heads)
			}
		})
	}
}

// quantised is the configuration of llama with that quantization_config.
func quantised(q string) string {
	return strings.Replace(llama, `"vocab_size"`, `"quantization_config": `+q+`, "vocab_size"`, 1)
}

// replace puts the tensors of a packed matrix in the place of q_proj's in the
// first layer.
func replace(more ...entry) []entry {
	const name = "model.layers.0.self_attn.q_proj"
	list := without(llamaTensors(dtype.BF16), name+".weight")
	for _, e := range more {
		e.name = name + e.name
		list = append(list, e)
	}
	return list
}

// Packed words stand for what is packed in them: parameters are the model's,
// bytes are the file's, and scales are metadata. The configuration may say how
// they are packed, or nothing.
func TestPacked(t *testing.T) {
	checklist.Covers(t, 29, 178)
	const matrix = 8 * 8
	type size = []int64
	for _, c := range []struct {
		name     string
		config   string
		tensors  []entry
		bytes    int64 // of the matrix and what goes with it
		metadata int64 // of these, what goes with it
	}{
		{"GPTQ", llama, replace(entry{".qweight", dtype.I32, size{1, 8}}, entry{".qzeros", dtype.I32, size{1, 1}}, entry{".scales", dtype.F16, size{1, 8}}, entry{".g_idx", dtype.I32, size{8}}), 32 + 4 + 16 + 32, 52},
		{"GPTQ, with its configuration", quantised(`{"quant_method": "gptq", "bits": 4, "group_size": 8}`),
			replace(entry{".qweight", dtype.I32, size{1, 8}}, entry{".qzeros", dtype.I32, size{1, 1}}, entry{".scales", dtype.F16, size{1, 8}}, entry{".g_idx", dtype.I32, size{8}}), 32 + 4 + 16 + 32, 52},
		{"AWQ", llama, replace(entry{".qweight", dtype.I32, size{8, 1}}, entry{".qzeros", dtype.I32, size{1, 1}}, entry{".scales", dtype.F16, size{1, 8}}), 32 + 4 + 16, 20},
		{"8-bit floats with blocks", llama, replace(entry{".weight", dtype.F8E4M3, size{8, 8}}, entry{".weight_scale_inv", dtype.F32, size{1, 1}}), 64 + 4, 4},
		{"NVFP4", llama, replace(entry{".weight", dtype.U8, size{8, 4}}, entry{".weight_scale", dtype.F8E4M3, size{8, 1}}, entry{".weight_scale_2", dtype.F32, nil}, entry{".input_scale", dtype.F32, nil}), 32 + 8 + 4 + 4, 16},
		{"compressed-tensors", llama, replace(entry{".weight_packed", dtype.I32, size{8, 1}}, entry{".weight_scale", dtype.BF16, size{8, 1}}, entry{".weight_shape", dtype.I64, size{2}}), 32 + 16 + 16, 32},
		{"bitsandbytes, 8 bits", llama, replace(entry{".weight", dtype.I8, size{8, 8}}, entry{".SCB", dtype.F32, size{8}}, entry{".weight_format", dtype.U8, nil}), 64 + 32 + 1, 33},
		{"bitsandbytes, 4 bits", llama, replace(entry{".weight", dtype.U8, size{32, 1}}, entry{".weight.absmax", dtype.F32, size{1}}, entry{".weight.quant_map", dtype.F32, size{16}}, entry{".weight.quant_state.bitsandbytes__nf4", dtype.U8, size{90}}), 32 + 4 + 64 + 90, 158},
		{"MLX", llama, replace(entry{".weight", dtype.U32, size{8, 1}}, entry{".scales", dtype.BF16, size{8, 1}}, entry{".biases", dtype.BF16, size{8, 1}}), 32 + 16 + 16, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := load.Open(folder(t, map[string]any{"config.json": c.config, "model.safetensors": c.tensors}))
			if err != nil {
				t.Fatal(err)
			}
			if n, exact := m.Parameters().IsExact(); n != llamaParameters || !exact {
				t.Errorf("%d parameters, exact %v; want %d", n, exact, llamaParameters)
			}
			if n, _ := m.WeightsBytes().IsExact(); n != 2*(llamaParameters-matrix)+c.bytes || n != m.FileBytes {
				t.Errorf("%d bytes, want %d; the file has %d", n, 2*(llamaParameters-matrix)+c.bytes, m.FileBytes)
			}
			metadata := int64(0)
			for _, x := range m.Tensors {
				if x.Role.Module() == model.QuantisationModule {
					n, _ := x.Bytes()
					metadata += n
					if x.Stack != 0 || x.Layer != 0 {
						t.Errorf("%s stands in stack %d, layer %d", x.Name, x.Stack, x.Layer)
					}
				}
			}
			if metadata != c.metadata {
				t.Errorf("%d bytes of metadata, want %d", metadata, c.metadata)
			}
			if c.config == llama && slices.ContainsFunc(m.Warnings, func(w account.Warning) bool { return w.Code != "" }) {
				t.Errorf("warnings %v", m.Warnings)
			}
		})
	}
}

// Files that other readers' tests hold: a model of torch.save, and one of GGUF.
func TestOtherFiles(t *testing.T) {
	for path, kind := range map[string]string{
		"../../internal/torchfile/testdata/test.pt":   "torch",
		"../../internal/torchfile/testdata/legacy.pt": "torch",
	} {
		m, err := load.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if n, exact := m.WeightsBytes().IsExact(); n == 0 || !exact || n != m.FileBytes || len(m.Sources) != 1 || m.Sources[0].Kind != kind {
			t.Errorf("%s: %d bytes, exact %v, in the file %d; sources %v", path, n, exact, m.FileBytes, m.Sources)
		}
	}
}
