package load_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"floodmark/dtype"
	"floodmark/model/load"
)

// deepseek is the configuration of DeepSeek-V3 as far as sizes go
// (deepseek-ai/DeepSeek-V3, config.json, MIT).
const deepseek = `{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
 "attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
 "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
 "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "topk_method": "noaux_tc", "q_lora_rank": 1536,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 129280,
 "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}}`

// deepseekTensors is what its checkpoint lists, 91,991 tensors: matrices in 8
// bits, each with a scale for a block of 128 by 128.
func deepseekTensors() []entry {
	var list []entry
	add := func(name string, f dtype.Format, shape ...int64) { list = append(list, entry{name, f, shape}) }
	linear := func(name string, out, in int64) {
		add(name+".weight", dtype.F8E4M3, out, in)
		add(name+".weight_scale_inv", dtype.F32, (out+127)/128, (in+127)/128)
	}
	mlp := func(at string, width int64) {
		linear(at+".gate_proj", width, 7168)
		linear(at+".up_proj", width, 7168)
		linear(at+".down_proj", 7168, width)
	}
	add("model.embed_tokens.weight", dtype.BF16, 129280, 7168)
	for layer := range 62 {
		at := fmt.Sprintf("model.layers.%d.", layer)
		add(at+"input_layernorm.weight", dtype.BF16, 7168)
		add(at+"post_attention_layernorm.weight", dtype.BF16, 7168)
		add(at+"self_attn.q_a_layernorm.weight", dtype.BF16, 1536)
		add(at+"self_attn.kv_a_layernorm.weight", dtype.BF16, 512)
		linear(at+"self_attn.q_a_proj", 1536, 7168)
		linear(at+"self_attn.q_b_proj", 24576, 1536)
		linear(at+"self_attn.kv_a_proj_with_mqa", 576, 7168)
		linear(at+"self_attn.kv_b_proj", 32768, 512)
		linear(at+"self_attn.o_proj", 7168, 16384)
		if layer < 3 {
			mlp(at+"mlp", 18432)
			continue
		}
		add(at+"mlp.gate.weight", dtype.BF16, 256, 7168)
		add(at+"mlp.gate.e_score_correction_bias", dtype.F32, 256)
		mlp(at+"mlp.shared_experts", 2048)
		for e := range 256 {
			mlp(fmt.Sprintf("%smlp.experts.%d", at, e), 2048)
		}
	}
	add("model.norm.weight", dtype.BF16, 7168)
	add("lm_head.weight", dtype.BF16, 129280, 7168)
	last := "model.layers.61."
	add(last+"embed_tokens.weight", dtype.BF16, 129280, 7168)
	add(last+"eh_proj.weight", dtype.BF16, 7168, 14336)
	for _, norm := range []string{"enorm", "hnorm", "shared_head.norm"} {
		add(last+norm+".weight", dtype.BF16, 7168)
	}
	add(last+"shared_head.head.weight", dtype.BF16, 129280, 7168)
	return list
}

// deepseekFolder is that checkpoint in 163 shards, or its index alone.
func deepseekFolder(t testing.TB, headers bool) string {
	list := deepseekTensors()
	files, shards := map[string]any{"config.json": deepseek}, map[string][]entry{}
	const count = 163
	for i := range count {
		name := fmt.Sprintf("model-%05d-of-%06d.safetensors", i+1, count)
		shards[name] = list[i*len(list)/count : (i+1)*len(list)/count]
		if headers {
			files[name] = shards[name]
		}
	}
	files["model.safetensors.index.json"] = index(strconv.Itoa(deepseekBytes), shards)
	return folder(t, files)
}

// The published total of DeepSeek-V3 is 684,531,386,000 stored elements, of
// which 41,540,496 are scales (the Hugging Face API's safetensors.total). Every
// matrix of a quantised layer takes a byte an element, the rest two or four.
const (
	deepseekParameters = 684_531_386_000 - 41_540_496
	deepseekBytes      = 688_574_839_360
)

func TestDeepSeek(t *testing.T) {
	for _, headers := range []bool{false, true} {
		root := deepseekFolder(t, headers)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := load.Open(root)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 128<<20 {
			t.Errorf("headers %v: %d MiB allocated over time, more than 128", headers, taken>>20)
		}
		if len(m.Tensors) > 4000 {
			t.Errorf("headers %v: %d tensors; experts of a layer are one", headers, len(m.Tensors))
		}
		if n := m.Parameters(); n.Low() != deepseekParameters {
			t.Errorf("headers %v: %d parameters, want %d (%v)", headers, n.Low(), int64(deepseekParameters), m.Unknown)
		}
		if n, exact := m.WeightsBytes().IsExact(); headers && (n != deepseekBytes || !exact || len(m.Warnings) > 0) {
			t.Errorf("%d bytes, want %d; warnings %v", n, int64(deepseekBytes), m.Warnings)
		}
	}
}

func BenchmarkDeepSeek(b *testing.B) {
	root := deepseekFolder(b, true)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := load.Open(root); err != nil {
			b.Fatal(err)
		}
	}
}
