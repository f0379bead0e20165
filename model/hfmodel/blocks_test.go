package hfmodel_test

import (
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/model"
)

// small is a configuration of hidden size 64, 4 heads, width 128, vocabulary
// 100 and 2 layers, with more keys.
func small(modelType, class, more string) string {
	return `{"model_type":"` + modelType + `","architectures":["` + class + `"],"hidden_size":64,"num_attention_heads":4,"intermediate_size":128,` +
		`"num_hidden_layers":2,"vocab_size":100,"max_position_embeddings":512,"torch_dtype":"bfloat16"` + more + `}`
}

// layerOf is the parameters of one layer of the first stack.
func layerOf(m *model.Model, layer int32) (sum int64) {
	for _, t := range m.Tensors {
		if t.Stack == 0 && t.Layer == layer {
			n, _ := t.Parameters()
			sum += n
		}
	}
	return sum
}

// layerCase is one layer of a small model with its parameters, counted by hand.
type layerCase struct {
	name   string
	config string
	layer  int32
	want   int64
}

// Attention of hidden size 64 is q, k, v, o of 64×64, a gated network three
// matrices of 64×128.
const attention, gated, norms = 4 * 64 * 64, 3 * 64 * 128, 2 * 64

func attentionCases() []layerCase {
	return []layerCase{
		{"llama", small("llama", "LlamaForCausalLM", ""), 0, attention + gated + norms},
		{"every bias of llama", small("llama", "LlamaForCausalLM", `,"attention_bias":true,"mlp_bias":true`),
			0, attention + 4*64 + gated + 2*128 + 64 + norms},
		{"grouped queries: 1 head of keys and values of 16", small("llama", "LlamaForCausalLM", `,"num_key_value_heads":1`),
			0, 2*64*64 + 2*16*64 + gated + norms},
		{"heads wider than the model: 4 of 32", small("mistral", "MistralForCausalLM", `,"head_dim":32,"num_key_value_heads":4`),
			0, 4*64*128 + gated + norms},
		{"qwen2 has biases of query, key and value", small("qwen2", "Qwen2ForCausalLM", ""), 0, attention + 3*64 + gated + norms},
		{"qwen3 normalises queries and keys of 16", small("qwen3", "Qwen3ForCausalLM", `,"head_dim":16`), 0, attention + 2*16 + gated + norms},
		{"gemma2 has four norms", small("gemma2", "Gemma2ForCausalLM", `,"head_dim":16,"num_key_value_heads":4`), 0, attention + gated + 4*64},
		{"gpt2: everything has a bias, no gate, width 4·64", small("gpt2", "GPT2LMHeadModel", `,"n_embd":64,"n_inner":null`),
			0, attention + 4*64 + 2*64*128 + 128 + 64 + 2*norms},
		{"one head for all keys", small("gpt_bigcode", "GPTBigCodeForCausalLM", `,"multi_query":true`),
			0, 64*(64+32) + 96 + 64*64 + 64 + 2*64*128 + 128 + 64 + 2*norms},
		{"phi is parallel, with one norm and biases", small("phi", "PhiForCausalLM", ""), 0, attention + 4*64 + 2*64*128 + 128 + 64 + norms},
		{"cohere has one norm without bias", small("cohere", "CohereForCausalLM", ""), 0, attention + gated + 64},
		{"qwen's stated width is of both halves of the gate", small("qwen", "QWenLMHeadModel", `,"kv_channels":16`), 0, attention + 3*64 + 3*64*64 + norms},
		{"experts: router 4·64, 4 experts", small("mixtral", "MixtralForCausalLM", `,"num_local_experts":4,"num_experts_per_tok":2`),
			0, attention + 4*64 + 4*gated + norms},
		{"a shared expert of 32 and its gate of 64", small("qwen2_moe", "Qwen2MoeForCausalLM", `,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":32,"shared_expert_intermediate_size":32`),
			0, attention + 3*64 + 4*64 + 5*3*64*32 + 64 + norms},
		{"deepseek's first layer is dense", small("deepseek", "DeepseekForCausalLM", `,"n_routed_experts":4,"n_shared_experts":2,"num_experts_per_tok":2,"moe_intermediate_size":32,"first_k_dense_replace":1`),
			0, attention + gated + norms},
		{"and the second has 4 experts and 2 shared ones of 32", small("deepseek", "DeepseekForCausalLM", `,"n_routed_experts":4,"n_shared_experts":2,"num_experts_per_tok":2,"moe_intermediate_size":32,"first_k_dense_replace":1`),
			1, attention + 4*64 + 6*3*64*32 + norms},
	}
}

func otherCases() []layerCase {
	delta := small("qwen3_5_text", "Qwen3_5ForCausalLM", `,"head_dim":16,"linear_num_key_heads":2,"linear_num_value_heads":4,`+
		`"linear_key_head_dim":8,"linear_value_head_dim":8,"linear_conv_kernel_dim":4,"full_attention_interval":2`)
	channelwise := small("kimi_linear", "KimiLinearForCausalLM", `,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,`+
		`"linear_attn_config":{"kda_layers":[1],"full_attn_layers":[2],"head_dim":16,"num_heads":4,"short_conv_kernel_size":4}`)
	indexed := small("minimax_m3", "MiniMaxM3ForCausalLM", `,"head_dim":16,"num_key_value_heads":2,"dense_intermediate_size":96,"num_local_experts":4,"num_experts_per_tok":2,`+
		`"shared_intermediate_size":32,"moe_layer_freq":[0,1],"sparse_attention_config":{"sparse_attention_freq":[0,1],"sparse_index_dim":8,"sparse_num_index_heads":2}`)
	searched := small("nemotron-nas", "DeciLMForCausalLM", `,"block_configs":[{"attention":{"no_op":true},"ffn":{"ffn_mult":6}},`+
		`{"attention":{"n_heads_in_group":4},"ffn":{"no_op":true}}]`)
	return []layerCase{
		// q: 64·24 down, norm 24, 24·4·(16+8) up; kv: 64·(32+8) down, norm 32, 32·4·(16+16) up; o: 4·16·64
		{"latent attention", small("minicpm3", "MiniCPM3ForCausalLM", `,"q_lora_rank":24,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16`),
			0, 64*24 + 24 + 24*96 + 64*40 + 32 + 32*128 + 64*64 + gated + norms},
		// in 64·256, conv 128·4 + 128, x 128·(4+2·8), dt 4·128 + 128, A 128·8, D 128, out 128·64; one norm
		{"mamba", `{"model_type":"mamba","architectures":["MambaForCausalLM"],"hidden_size":64,"num_hidden_layers":2,"vocab_size":100,"state_size":8,"conv_kernel":4,"expand":2,"time_step_rank":4,"use_conv_bias":true,"torch_dtype":"bfloat16"}`,
			0, 64*256 + 128*5 + 128*20 + 4*128 + 128 + 128*8 + 128 + 128*64 + 64},
		// inner 8·16 = 128, mixed 128 + 2·2·8 = 160: in 64·(128+160+8), conv 160·5, A, D, dt 3·8, norm 128, out 128·64; one norm
		{"mamba2", `{"model_type":"mamba2","architectures":["Mamba2ForCausalLM"],"hidden_size":64,"num_hidden_layers":2,"vocab_size":100,"state_size":8,"conv_kernel":4,"num_heads":8,"head_dim":16,"n_groups":2,"use_conv_bias":true,"torch_dtype":"bfloat16"}`,
			0, 64*296 + 160*5 + 3*8 + 128 + 128*64 + 64},
		// keys 2·8, values 4·8: in 64·(2·16+2·32), gates 64·8, conv (32+32)·4, A and dt 2·4, norm 8, out 32·64
		{"gated delta rule", delta,
			0, 64*96 + 64*8 + 64*4 + 8 + 8 + 32*64 + gated + norms},
		// query twice as wide for its gate: 5·64·64, two norms of 16
		{"gated attention beside it", delta,
			1, 5*64*64 + 2*16 + gated + norms},
		// qkv 64·3·64, gate 64·64, norm 64, out 64·64
		{"lightning attention", small("minimax_m1", "MiniMaxM1ForCausalLM", `,"attn_type_list":[0,1],"head_dim":16,"num_local_experts":2,"num_experts_per_tok":1`),
			0, 5*64*64 + 64 + 2*64 + 2*gated + norms},
		// in 64·192, conv 64·3, out 64·64; width 2/3 of 128 rounded up to 32·3 = 96
		{"short convolution", small("lfm2", "Lfm2ForCausalLM", `,"conv_L_cache":3,"full_attn_idxs":[1],"block_multiple_of":32`),
			0, 64*192 + 64*3 + 64*64 + 3*64*96 + norms},
		{"gpt-oss has biases everywhere and a sink for each head", small("gpt_oss", "GptOssForCausalLM", `,"num_local_experts":2,"num_experts_per_tok":1,"layer_types":["sliding_attention","full_attention"],"sliding_window":128`),
			0, attention + 4*64 + 4 + 2*64 + 2 + 2*gated + 2*(256+64) + norms},
		// q, k, v, o 4·64·64, three convolutions 3·64·4, two gates 64·16 + 16·64, b 64·4, A 4, dt 64, norm 16
		{"channelwise delta rule", channelwise, 0, 4*64*64 + 3*64*4 + 4*64*16 + 64*4 + 4 + 64 + 16 + gated + norms},
		// q, o 2·64·64, k, v 2·32·64, norms of heads 2·16; a network of 96
		{"MiniMax-M3's first layer is dense", indexed, 0, 2*64*64 + 2*32*64 + 2*16 + 3*64*96 + norms},
		// an indexer of 2 heads and a key of 8 with their norms; router, correction, 4 experts and a shared one of 32
		{"and the second chooses positions and experts", indexed, 1, 2*64*64 + 2*32*64 + 2*16 + 3*8*64 + 2*8 + 4*64 + 4 + 4*gated + 3*64*32 + norms},
		{"a searched layer without attention: 6·64·2/3 = 256 wide, one norm", searched, 0, 3*64*256 + 64},
		{"and one of attention alone, with one head of keys and values", searched, 1, 2*64*64 + 2*16*64 + 64},
		// time mix: 4 of 64, key, value, receptance, gate, output 5·64·64, decay and first 2·64, norm 2·64;
		// channel mix: 2 of 64, 2·64·224 and 64·64; norms with biases, and one more in the first layer
		{"RWKV-5", `{"model_type":"rwkv5","architectures":["RwkvForCausalLM"],"hidden_size":64,"head_size":16,"num_hidden_layers":2,"vocab_size":100,"torch_dtype":"bfloat16"}`,
			0, 4*64 + 5*64*64 + 4*64 + 2*64 + 2*64*224 + 64*64 + 2*norms + 2*64},
	}
}

// TestLayers counts one layer of each kind of block.
func TestLayers(t *testing.T) {
	for _, c := range append(attentionCases(), otherCases()...) {
		m := read(t, c.config)
		if got := layerOf(m, c.layer); got != c.want || len(m.Unknown) > 0 {
			t.Errorf("%s: layer %d has %d parameters, want %d; unknown %v", c.name, c.layer, got, c.want, m.Unknown)
		}
	}
}

// TestOutside counts what stands around the layers.
func TestOutside(t *testing.T) {
	for _, c := range []struct {
		name   string
		config string
		want   int64
	}{
		{"embedding, head and norm", small("llama", "LlamaForCausalLM", ""), 2*6400 + 64},
		{"tied by its own word", small("llama", "LlamaForCausalLM", `,"tie_word_embeddings":true`), 6400 + 64},
		{"tied by its class", small("gemma", "GemmaForCausalLM", `,"head_dim":16,"num_key_value_heads":4`), 6400 + 64},
		{"untied against its class", small("gemma", "GemmaForCausalLM", `,"head_dim":16,"num_key_value_heads":4,"tie_word_embeddings":false`), 2*6400 + 64},
		{"the bare model has no head", small("llama", "LlamaModel", ""), 6400 + 64},
		{"a classifier of three labels", small("llama", "LlamaForSequenceClassification", `,"id2label":{"0":"a","1":"b","2":"c"}`), 6400 + 3*64 + 64},
		{"512 positions, and two more for OPT", small("opt", "OPTForCausalLM", `,"ffn_dim":128`), 6400 + 514*64 + 2*64},
		{"a head with a bias", small("phi", "PhiForCausalLM", ""), 2*6400 + 100 + 2*64},
		{"BERT: positions, types, norm; pooler", small("bert", "BertModel", `,"type_vocab_size":2`), 6400 + 512*64 + 2*64 + 128 + 64*64 + 64},
	} {
		m := read(t, c.config)
		var got int64
		for _, x := range m.Tensors {
			if n, _ := x.Parameters(); x.Layer == model.NoLayer && x.TiedTo == model.NotTied {
				got += n
			}
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestPlan shows which layers see a window, from each way of saying so.
func TestPlan(t *testing.T) {
	const window = `,"sliding_window":32`
	for _, c := range []struct {
		name, config, want string // a letter a layer: f(ull), s(liding), c(hunked)
	}{
		{"all layers of Mistral", small("mistral", "MistralForCausalLM", window+`,"num_key_value_heads":4`), "ss"},
		{"none where the window is null", small("mistral", "MistralForCausalLM", `,"sliding_window":null,"num_key_value_heads":4`), "ff"},
		{"Qwen states a window that it does not use", small("qwen2", "Qwen2ForCausalLM", window+`,"use_sliding_window":false`), "ff"},
		{"and uses it from max_window_layers on", small("qwen2", "Qwen2ForCausalLM", window+`,"use_sliding_window":true,"max_window_layers":1`), "fs"},
		{"Gemma 2 alternates", small("gemma2", "Gemma2ForCausalLM", window+`,"head_dim":16,"num_key_value_heads":4`), "sf"},
		{"a list of kinds", small("gemma3_text", "Gemma3ForCausalLM", window+`,"head_dim":16,"num_key_value_heads":4,"layer_types":["full_attention","sliding_attention"]`), "fs"},
		{"Llama 4 attends within chunks but where a layer has no rotary positions", small("llama4_text", "Llama4ForCausalLM", `,"no_rope_layers":[1,0],"attention_chunk_size":16`), "cf"},
		{"chunks", small("llama4_text", "Llama4ForCausalLM", `,"layer_types":["chunked_attention","full_attention"],"attention_chunk_size":16`), "cf"},
	} {
		m := read(t, c.config)
		var got strings.Builder
		for _, l := range m.Stacks[0].Layers {
			a, ok := l.Mixers[0].(model.Attention)
			switch {
			case !ok:
				got.WriteByte('?')
			case a.Window == 32:
				got.WriteByte('s')
			case a.Chunk == 16:
				got.WriteByte('c')
			case a.Window == 0 && a.Chunk == 0:
				got.WriteByte('f')
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.String(), c.want)
		}
	}
}

// TestUnknown shows what is not understood: it is named, and the total is then
// a lower bound only.
func TestUnknown(t *testing.T) {
	for _, c := range []struct{ name, config, field string }{
		{"a model of another kind", `{"model_type":"phlogiston","hidden_size":64}`, "model_type"},
		{"a class of another kind", small("llama", "AlchemicalLlamaForCausalLM", ""), "architectures"},
		{"a kind of layer", small("qwen3", "Qwen3ForCausalLM", `,"head_dim":16,"layer_types":["full_attention","aether_attention"]`), "layer_types"},
		{"a size that nobody read", small("llama", "LlamaForCausalLM", `,"aether_width":12`), "aether_width"},
		{"one in a nested object", small("llama", "LlamaForCausalLM", `,"aether":{"rank":12}`), "aether.rank"},
		{"a switch that adds weights", small("llama", "LlamaForCausalLM", `,"aether_bias":true`), "aether_bias"},
		{"a size that is missing", `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":64,"torch_dtype":"bfloat16"}`, "vocab_size"},
		{"a quantisation", small("llama", "LlamaForCausalLM", `,"quantization_config":{"quant_method":"transmutation"}`), "quantization_config.quant_method"},
	} {
		m := read(t, c.config)
		found := false
		for _, u := range m.Unknown {
			found = found || u.Field == c.field && u.Why != ""
		}
		if _, exact := m.Parameters().IsExact(); !found || exact {
			t.Errorf("%s: %v, exact %v; want %s", c.name, m.Unknown, exact, c.field)
		}
	}
	for _, harmless := range []string{`"attention_dropout":0.1`, `"eos_token_id":[1,2]`, `"rope_theta":500000.0`, `"rope_scaling":{"factor":8.0,"low_freq_factor":1.0}`,
		`"temperature":0.6`, `"aether_width":0`, `"aether_widths":[]`, `"aether_bias":false`, `"note":"12"`, `"time_step_limit":[0.0,Infinity]`} {
		if m := read(t, small("llama", "LlamaForCausalLM", ","+harmless)); len(m.Unknown) > 0 {
			t.Errorf("%s is not understood: %v", harmless, m.Unknown)
		}
	}
}

// TestNoFormat shows a model whose configuration does not say how its weights
// are stored: parameters are counted, bytes are not.
func TestNoFormat(t *testing.T) {
	m := read(t, strings.Replace(small("llama", "LlamaForCausalLM", ""), `"torch_dtype":"bfloat16"`, `"note":""`, 1))
	_, parameters := m.Parameters().IsExact()
	_, bytes := m.WeightsBytes().IsExact()
	if !parameters || bytes || m.Compute != dtype.Unknown || len(m.Unknown) != 1 || m.Unknown[0].Field != "torch_dtype" {
		t.Errorf("parameters exact %v, bytes exact %v, unknown %v", parameters, bytes, m.Unknown)
	}
}

// TestPredictor counts DeepSeek-V3's prediction layer: one more sparse layer,
// two norms, a joint of 64×128, a norm, and copies of embedding and head.
func TestPredictor(t *testing.T) {
	config := small("deepseek_v3", "DeepseekV3ForCausalLM", `,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":4,`+
		`"n_shared_experts":1,"num_experts_per_tok":2,"moe_intermediate_size":32,"first_k_dense_replace":1,"topk_method":"noaux_tc","num_nextn_predict_layers":1`)
	m := read(t, config)
	var predicted int64
	for _, x := range m.Tensors {
		if n, _ := x.Parameters(); x.Stack != model.NoLayer && m.Stacks[x.Stack].Kind == model.Predictor {
			predicted += n
		}
	}
	if want := layerOf(m, 1) + 2*64 + 64*128 + 64 + 2*6400; predicted != want {
		t.Errorf("%d, want %d", predicted, want)
	}
	if last := m.Tensors[len(m.Tensors)-1].Name; !strings.HasPrefix(last, "model.layers.2.") {
		t.Errorf("the layer is called %s", last)
	}
}

// TestSharedLayers reads ALBERT, whose layers are one layer.
func TestSharedLayers(t *testing.T) {
	m := read(t, small("albert", "AlbertModel", `,"embedding_size":16,"num_hidden_groups":1`))
	one := layerOf(m, 0)
	if layerOf(m, 1) != one || len(m.Stacks[0].Layers) != 2 {
		t.Fatalf("layers of %d and %d parameters", one, layerOf(m, 1))
	}
	var stored int64
	for _, x := range m.Tensors {
		if n, _ := x.Parameters(); x.Layer != model.NoLayer && x.TiedTo == model.NotTied {
			stored += n
		}
	}
	if stored != one {
		t.Errorf("%d parameters are stored, want %d", stored, one)
	}
}

// TestSharedCache reads a Gemma 4 whose last two layers read the cache of the
// last layer of their kind before them.
func TestSharedCache(t *testing.T) {
	m := read(t, `{"model_type":"gemma4_text","architectures":["Gemma4ForCausalLM"],"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":1,"intermediate_size":128,
		"num_hidden_layers":4,"vocab_size":100,"head_dim":16,"global_head_dim":32,"hidden_size_per_layer_input":0,"num_kv_shared_layers":2,"sliding_window":8,"dtype":"bfloat16",
		"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]}`)
	for i, want := range []int{-1, -1, 0, 1} {
		a, _ := m.Stacks[0].Layers[i].Mixers[0].(model.Attention)
		if a.CacheOf != want || a.KeyDim != []int{16, 32}[i%2] {
			t.Errorf("layer %d: cache of %d, heads of %d", i, a.CacheOf, a.KeyDim)
		}
	}
}

// TestParts reads a model of images and text: two stacks, with the names that
// checkpoints use, and a projector from one width to the other.
func TestParts(t *testing.T) {
	m := read(t, `{"model_type":"llava","architectures":["LlavaForConditionalGeneration"],"torch_dtype":"float16","tie_word_embeddings":false,
		"text_config":{"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"intermediate_size":128,"vocab_size":100},
		"vision_config":{"model_type":"clip_vision_model","hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,"num_attention_heads":2,"image_size":28,"patch_size":14}}`)
	if len(m.Unknown) > 0 || len(m.Stacks) != 2 || m.Stacks[0].Width != 64 || m.Stacks[1].Kind != model.Vision || m.Stacks[1].Width != 32 {
		t.Fatalf("stacks %+v, unknown %v", m.Stacks, m.Unknown)
	}
	want := map[string]int64{
		"language_model.model.layers.1.mlp.up_proj.weight":                   128 * 64,
		"language_model.lm_head.weight":                                      100 * 64,
		"vision_tower.vision_model.embeddings.position_embedding.weight":     5 * 32, // four patches and one class
		"vision_tower.vision_model.encoder.layers.0.self_attn.k_proj.weight": 32 * 32,
		"multi_modal_projector.linear_1.weight":                              64 * 32,
	}
	for _, x := range m.Tensors {
		if n, _ := x.Parameters(); want[x.Name] == n {
			delete(want, x.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}

// TestListedSizes reads sizes that are lists: one for each layer, where the class
// reads such a list, or one for each axis of an image. A list where one number
// is needed is not understood.
func TestListedSizes(t *testing.T) {
	m := read(t, strings.Replace(small("llama", "LlamaForCausalLM", ""), `"intermediate_size":128`, `"intermediate_size":[128,256]`, 1))
	if layerOf(m, 1)-layerOf(m, 0) != 3*64*128 || len(m.Unknown) != 1 || m.Unknown[0].Field != "intermediate_size" {
		t.Errorf("layers of %d and %d parameters, unknown %v", layerOf(m, 0), layerOf(m, 1), m.Unknown)
	}
	const vit = `{"model_type":"vit","architectures":["ViTModel"],"hidden_size":64,"num_attention_heads":4,"intermediate_size":128,"num_hidden_layers":1,"torch_dtype":"float32"`
	m = read(t, vit+`,"image_size":[32,48],"patch_size":16}`)
	for _, x := range m.Tensors {
		if n, _ := x.Parameters(); x.Role == model.RolePositionEmbedding && n != (2*3+1)*64 {
			t.Errorf("%s has %d parameters", x.Name, n)
		}
	}
	if m = read(t, vit+`,"image_size":32,"patch_size":[16,16]}`); len(m.Unknown) == 0 {
		t.Error("a convolution of patches of two sizes was read as one of the product")
	}
}
