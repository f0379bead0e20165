package hfmodel_test

import (
	"testing"

	"floodmark/model"
)

// TestHarmlessKeys reads keys that published configurations hold beside those
// that decide sizes: none of them may make a model unknown.
func TestHarmlessKeys(t *testing.T) {
	const kinds = `,"layer_types":["sliding_attention","full_attention"],"sliding_window":64`
	for _, c := range []struct{ name, config string }{
		{"gpt-oss says twice how many experts a token uses", small("gpt_oss", "GptOssForCausalLM", `,"num_local_experts":2,"num_experts_per_tok":1,"experts_per_token":1,"initial_context_length":4096,"swiglu_limit":7.0,"router_aux_loss_coef":0.9`+kinds)},
		{"a pattern beside the list that it makes", small("exaone4", "Exaone4ForCausalLM", `,"sliding_window_pattern":2`+kinds)},
		{"the same as Gemma 3 saves it", small("gemma3_text", "Gemma3ForCausalLM", `,"_sliding_window_pattern":2,"num_key_value_heads":4`+kinds)},
		{"kinds of attention that change no matrix", small("gpt_neo", "GPTNeoForCausalLM", `,"attention_types":[[["global","local"],1]],"attention_layers":["global","local"]`)},
		{"dropping layers while training", `{"model_type":"m2m_100","architectures":["M2M100ForConditionalGeneration"],"d_model":64,"vocab_size":100,"max_position_embeddings":512,"torch_dtype":"float32","encoder_layers":2,"decoder_layers":2,"encoder_attention_heads":4,"decoder_attention_heads":4,"encoder_ffn_dim":128,"decoder_ffn_dim":128,"encoder_layerdrop":0.05,"decoder_layerdrop":0.05}`},
		{"a pooler that the class has not", `{"model_type":"vit","architectures":["ViTForImageClassification"],"torch_dtype":"float32","hidden_size":64,"num_attention_heads":4,"intermediate_size":128,"num_hidden_layers":2,"image_size":32,"patch_size":16,"num_channels":3,"pooler_output_size":64}`},
		{"a class of text alone", small("gemma3_text", "Gemma3TextForSequenceClassification", `,"num_key_value_heads":4`+kinds)},
	} {
		if m := read(t, c.config); len(m.Unknown) > 0 {
			t.Errorf("%s: not understood: %s", c.name, doubts(m))
		}
	}
}

// TestWordsOfTransformers5 reads kinds of layers by their newer words, and what
// is said of single layers.
func TestWordsOfTransformers5(t *testing.T) {
	const state = `,"mamba_n_heads":8,"mamba_d_head":16,"mamba_n_groups":1,"mamba_d_state":8,"mamba_d_conv":4,"layer_types":["linear_attention","full_attention"]`
	m := read(t, small("bamba", "BambaForCausalLM", state))
	if _, ok := m.Stacks[0].Layers[0].Mixers[0].(model.Mamba); !ok || len(m.Unknown) > 0 {
		t.Errorf("linear_attention of a family with state spaces is %T; not understood: %s", m.Stacks[0].Layers[0].Mixers[0], doubts(m))
	}
	m = read(t, small("gemma4_text", "Gemma4ForCausalLM", `,"head_dim":16,"num_key_value_heads":4,"hidden_size_per_layer_input":0,"sliding_window":64,`+
		`"layer_types":["sliding_attention","full_attention"],"per_layer_config":{"01":{"head_dim":32}}`))
	for layer, width := range []int{16, 32} {
		if a := m.Stacks[0].Layers[layer].Mixers[0].(model.Attention); a.KeyDim != width {
			t.Errorf("layer %d has heads of %d, want %d", layer, a.KeyDim, width)
		}
	}
}

// TestTies follows the object around a text model, whose class has the head.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		outer, inner string
		tied         bool
	}{
		{`"tie_word_embeddings":false,`, `,"tie_word_embeddings":true`, false},
		{`"tie_word_embeddings":true,`, `,"tie_word_embeddings":false`, true},
		{``, `,"tie_word_embeddings":true`, true},
		{``, ``, false},
	} {
		m := read(t, `{"model_type":"mistral3","architectures":["Mistral3ForConditionalGeneration"],"torch_dtype":"bfloat16",`+c.outer+
			`"text_config":`+small("mistral", "MistralForCausalLM", `,"num_key_value_heads":4`+c.inner)+`,"vision_config":{"hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,"num_attention_heads":4}}`)
		for _, x := range m.Tensors {
			if x.Role == model.RoleHead && (x.TiedTo != model.NotTied) != c.tied {
				t.Errorf("%s%s: tied to %d", c.outer, c.inner, x.TiedTo)
			}
		}
	}
}
