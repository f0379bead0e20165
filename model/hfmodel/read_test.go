package hfmodel_test

import (
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

func read(t *testing.T, config string) *model.Model {
	t.Helper()
	m, err := hfmodel.Read(source.Bytes("config.json", []byte(config)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLlama counts a small Llama by hand: hidden 64, 4 heads of 16, 2 of keys
// and values, width 128, vocabulary 100, 2 layers.
//
//	a layer: q 64·64 + k, v 2·32·64 + o 64·64 + gate, up, down 3·64·128 + two norms 128
//	outside: embedding 6,400 + head 6,400 + norm 64
func TestLlama(t *testing.T) {
	m := read(t, `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"num_attention_heads":4,
		"num_key_value_heads":2,"intermediate_size":128,"num_hidden_layers":2,"vocab_size":100,"max_position_embeddings":512,"torch_dtype":"bfloat16"}`)
	const want = 2*(64*64*2+2*32*64+3*64*128+2*64) + 2*6400 + 64
	if got, ok := m.Parameters().IsExact(); !ok || got != want {
		t.Errorf("parameters %d, %v; want %d", got, ok, want)
	}
	if got, ok := m.WeightsBytes().IsExact(); !ok || got != 2*want {
		t.Errorf("bytes %d, %v; want %d", got, ok, 2*want)
	}
	a, ok := m.Stacks[0].Layers[1].Mixers[0].(model.Attention)
	if !ok || a.QueryHeads != 4 || a.KVHeads != 2 || a.KeyDim != 16 || !a.Causal || a.CacheOf != -1 {
		t.Errorf("attention %+v", m.Stacks[0].Layers[1].Mixers)
	}
	if m.MaxPosition != 512 || m.Vocab != 100 {
		t.Errorf("longest context %d, vocabulary %d", m.MaxPosition, m.Vocab)
	}
}

func TestNotAConfiguration(t *testing.T) {
	for _, text := range []string{"", "GGUF", "[1]", `{"a": 1}`} {
		if _, err := hfmodel.Read(source.Bytes("config.json", []byte(text))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNoName leaves the name to whoever knows the folder or the repository:
// _name_or_path names what the weights were made from.
func TestNoName(t *testing.T) {
	if m := read(t, small("llama", "LlamaForCausalLM", `,"_name_or_path":"Qwen/Qwen2-VL-7B-Instruct"`)); m.Name != "" {
		t.Errorf("the model is called %q", m.Name)
	}
}

// TestConverted reads a class that converts weights where nothing is declared,
// and keeps what is declared.
func TestConverted(t *testing.T) {
	for more, want := range map[string]dtype.Format{
		`,"torch_dtype":null`: dtype.BF16,
		`,"torch_dtype":null,"bf16":false,"fp16":false,"fp32":false`: dtype.BF16,
		`,"torch_dtype":null,"fp16":true`:                            dtype.F16,
	} {
		config := strings.Replace(small("qwen", "QWenLMHeadModel", more), `"torch_dtype":"bfloat16",`, "", 1)
		m := read(t, config)
		if m.Compute != want || m.FormatOrigin != account.Assumed {
			t.Errorf("%s: %s, %s", more, m.Compute, m.FormatOrigin)
		}
	}
}
