package hfmodel

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// What a configuration leaves to its class, and what in it does not go
// together, is said; nothing is filled in silently.
func TestRemarks(t *testing.T) {
	const rest = `"architectures":["LlamaForCausalLM"],"vocab_size":100,"intermediate_size":128,"num_hidden_layers":2`
	for _, c := range []struct{ name, text, code, want string }{
		{"a size that only the class gives", `{` + rest + `,"model_type":"llama","torch_dtype":"bfloat16","num_attention_heads":4,"num_key_value_heads":2}`,
			"class_defaults", "does not give hidden_size 4096"},
		{"two formats", `{` + rest + `,"model_type":"llama","torch_dtype":"bfloat16","dtype":"float32","hidden_size":64,"num_attention_heads":4}`,
			"dtype_twice", "torch_dtype says BF16 and dtype says F32"},
		{"another family's class", `{` + rest + `,"model_type":"gpt2","torch_dtype":"bfloat16","n_embd":64,"n_head":4,"n_layer":2,"n_positions":32}`,
			"type_and_class", "model_type says gpt2 and architectures says LlamaForCausalLM"},
	} {
		m, err := Read(source.Bytes("config.json", []byte(c.text)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		found := ""
		for _, w := range m.Warnings {
			if w.Code == c.code {
				found = w.Text
			}
		}
		if !strings.Contains(found, c.want) {
			t.Errorf("%s: %+v, want %q", c.name, m.Warnings, c.want)
		}
	}
}

// Heads that no attention can have are not understood: their cache is never
// taken for an empty one.
func TestImpossibleHeads(t *testing.T) {
	for _, c := range []struct{ keys, field, why string }{
		{`"num_attention_heads":4,"num_key_value_heads":3`, "num_key_value_heads", "4 query heads are no multiple of it"},
		{`"num_attention_heads":4,"num_key_value_heads":8`, "num_key_value_heads", "4 query heads are no multiple of it"},
		{`"num_attention_heads":4,"num_key_value_heads":0`, "num_key_value_heads", "at least one"},
		{`"num_attention_heads":2147483648`, "num_attention_heads", "no width in a stream of 64"},
		{`"num_attention_heads":128`, "num_attention_heads", "no width in a stream of 64"},
		{`"num_attention_heads":2147483648,"head_dim":2147483648`, "num_attention_heads", "no model has so many heads"},
		{`"num_attention_heads":0`, "num_attention_heads", "sizes depend on it"},
	} {
		text := `{"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16","hidden_size":64,"vocab_size":100,"intermediate_size":128,"num_hidden_layers":2,` + c.keys + `}`
		m, err := Read(source.Bytes("config.json", []byte(text)))
		if err != nil {
			t.Errorf("%s: %v", c.keys, err)
			continue
		}
		found := false
		for _, u := range m.Unknown {
			found = found || u.Field == c.field && strings.Contains(u.Why, c.why)
		}
		if _, exact := m.WeightsBytes().IsExact(); !found || exact {
			t.Errorf("%s: unknown %+v, want %s: %s", c.keys, m.Unknown, c.field, c.why)
		}
	}
}

// Of many keys that nobody read the first are named and the rest counted.
func TestManyUnreadKeys(t *testing.T) {
	var more strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&more, `,"novel_%d":%d`, i, i+1)
	}
	text := `{"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16","vocab_size":100,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4` + more.String() + `}`
	m, err := Read(source.Bytes("config.json", []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Unknown); n != 21 || m.Unknown[19].Field != "novel_19" || m.Unknown[20].Field != "and 59980 more" {
		t.Errorf("%d unknown, the last are %+v", n, m.Unknown[max(0, n-2):])
	}
}

// Keys that published configurations carry beside the sizes, and that bear on none.
func TestOriginalNames(t *testing.T) {
	const sizes = `"vocab_size":100,"hidden_size":64,"num_hidden_layers":2,"torch_dtype":"float32",`
	const original = `"d_inner":128,"d_model":64,"n_layer":2,"rms_norm":true,"fused_add_norm":true,"residual_in_fp32":true,"pad_vocab_size_multiple":8,"ssm_cfg":{},"time_step_floor":0.0001,"time_step_min":0.001}`
	for _, text := range []string{
		`{"architectures":["MambaForCausalLM"],"model_type":"mamba","state_size":16,"conv_kernel":4,"expand":2,"intermediate_size":128,"time_step_rank":4,` + sizes + original,
		`{"architectures":["FalconMambaForCausalLM"],"model_type":"falcon_mamba","state_size":16,"conv_kernel":4,"expand":2,"intermediate_size":128,"time_step_rank":4,` + sizes + original,
		`{"architectures":["Mamba2ForCausalLM"],"model_type":"mamba2","state_size":16,"conv_kernel":4,"expand":2,"num_heads":8,"head_dim":16,"n_groups":1,` + sizes + original,
		`{"architectures":["DistilBertForMaskedLM"],"model_type":"distilbert","vocab_size":100,"dim":64,"n_layers":2,"n_heads":4,"hidden_dim":128,"max_position_embeddings":32,"torch_dtype":"float32","tie_weights_":true}`,
	} {
		m, err := Read(source.Bytes("config.json", []byte(text)))
		if err != nil || len(m.Unknown) > 0 {
			t.Errorf("%s: unknown %+v, %v", text[:60], m.Unknown, err)
		}
	}
}

func TestDamagedQuantisationBeside(t *testing.T) {
	config := `{"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16","vocab_size":100,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4}`
	_, err := Read(source.Bytes("config.json", []byte(config)), source.Bytes("quantize_config.json", []byte("garbage")))
	if err == nil || !strings.Contains(err.Error(), "quantize_config.json") {
		t.Errorf("a damaged quantize_config.json: %v", err)
	}
}
