package load_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/dtype"
)

// llama is the configuration of a decoder of two layers, small enough to write
// out: hidden size 8, two heads of 4, one of them for keys and values.
const llama = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
 "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 1, "vocab_size": 32, "tie_word_embeddings": false}`

// entry is a tensor to write.
type entry struct {
	name   string
	format dtype.Format
	shape  []int64
}

// llamaTensors is what a checkpoint of that configuration holds.
func llamaTensors(f dtype.Format) []entry {
	list := []entry{{"model.embed_tokens.weight", f, []int64{32, 8}}, {"lm_head.weight", f, []int64{32, 8}}, {"model.norm.weight", f, []int64{8}}}
	for i := range 2 {
		at := fmt.Sprintf("model.layers.%d.", i)
		list = append(list,
			entry{at + "input_layernorm.weight", f, []int64{8}}, entry{at + "post_attention_layernorm.weight", f, []int64{8}},
			entry{at + "self_attn.q_proj.weight", f, []int64{8, 8}}, entry{at + "self_attn.k_proj.weight", f, []int64{4, 8}},
			entry{at + "self_attn.v_proj.weight", f, []int64{4, 8}}, entry{at + "self_attn.o_proj.weight", f, []int64{8, 8}},
			entry{at + "mlp.gate_proj.weight", f, []int64{16, 8}}, entry{at + "mlp.up_proj.weight", f, []int64{16, 8}},
			entry{at + "mlp.down_proj.weight", f, []int64{8, 16}})
	}
	return list
}

// llamaParameters is how many that is: 2·32·8 + 8 + 2·(2·8 + 2·64 + 2·32 + 3·128).
const llamaParameters = 1704

// folder writes files: texts as they are, lists of tensors as safetensors.
func folder(t testing.TB, files map[string]any) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		switch c := content.(type) {
		case string:
			write(t, path, []byte(c), int64(len(c)))
		case []entry:
			head, size := safetensors(t, c)
			write(t, path, head, size)
		}
	}
	return root
}

// write writes a file whose end is a hole: nobody reads tensor data.
func write(t testing.TB, path string, head []byte, size int64) {
	t.Helper()
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// safetensors is the beginning of a file and its whole size.
func safetensors(t testing.TB, list []entry) (head []byte, size int64) {
	t.Helper()
	header := map[string]any{}
	var at int64
	for _, e := range list {
		n, _ := e.format.Size(e.shape)
		header[e.name] = map[string]any{"dtype": e.format.String(), "shape": append([]int64{}, e.shape...), "data_offsets": []int64{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	head = binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(head, text...), int64(8+len(text)) + at
}

// index is a model.safetensors.index.json.
func index(total string, shards map[string][]entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"metadata": {"total_size": %s}, "weight_map": {`, total)
	first := true
	for shard, list := range shards {
		for _, e := range list {
			if !first {
				b.WriteString(", ")
			}
			first = false
			fmt.Fprintf(&b, "%q: %q", e.name, shard)
		}
	}
	b.WriteString("}}")
	return b.String()
}
