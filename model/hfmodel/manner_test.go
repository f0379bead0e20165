package hfmodel_test

import (
	"os"
	"path/filepath"
	"testing"

	"floodmark/model"
)

// TestManner reads what bears on a forward pass and on no tensor.
func TestManner(t *testing.T) {
	for _, c := range []struct {
		file       string
		manner     model.Manner
		offset     bool
		activation string
	}{
		{"gemma2_9b.json", model.Manner{ScaledEmbedding: true, LogitCap: 30}, true, "gelu_pytorch_tanh"},
		{"qwen2_7b.json", model.Manner{}, false, "silu"},
		{"gpt2.json", model.Manner{Dropout: model.Dropout{Embedding: 0.1, Residual: 0.1, Attention: 0.1}}, false, "gelu_new"},
		{"t5_xxl_encoder.json", model.Manner{Dropout: model.Dropout{Embedding: 0.1, Residual: 0.1, Attention: 0.1, FeedForward: 0.1}}, false, "gelu_new"},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		m := read(t, string(data))
		s := m.Stacks[0]
		if s.Manner != c.manner {
			t.Errorf("%s: manner %+v, want %+v", c.file, s.Manner, c.manner)
		}
		if got := s.Layers[0].Norms[0].Offset; got != c.offset {
			t.Errorf("%s: norms by an offset from one: %v, want %v", c.file, got, c.offset)
		}
		if got := s.Layers[0].FeedForward.(model.Dense).Activation; got != c.activation {
			t.Errorf("%s: activation %q, want %q", c.file, got, c.activation)
		}
	}
}
