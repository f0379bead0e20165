package ggufmodel_test

// This file holds, for each published listing of a GGUF model, the recipe by
// which its parameters and its size follow from the shapes of the model: which
// module is stored in which type. Where llama-quantize made the file the recipe
// is one of model.Mixtures; where somebody chose types by hand it is the choice.
//
// A choice is a list of "module[from:to]=type"; later entries win. Modules are
// token_embd and output; attn_q, attn_k, attn_v, attn_o and those of latent
// attention; ffn, shexp and exps with gate, up and down.

// listing is a recipe and the listings that it is for.
type listing struct {
	name    string // general.name, as the log prints it
	tensors int    // n_tensors; 0 where the log does not say
	size    string // "model size", by which rows of one model differ
	config  string // a folder of the zoo, or a configuration
	kvSplit bool   // attn_k_b and attn_v_b stand beside attn_kv_b
	rope    int64  // elements of rope_freqs
	mix     string
	choice  string
}

const (
	deepseekV3 = "deepseek-ai__DeepSeek-V3"
	deepseekV2 = "deepseek-ai__DeepSeek-V2"
	qwen235    = "Qwen__Qwen3-235B-A22B"
	qwen30     = "Qwen__Qwen3-30B-A3B-FP8"
	gemma27    = "google__medgemma-27b-it"
	llama13    = "meta-llama__Llama-2-13b-hf"
	llama8     = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 4096, "intermediate_size": 14336,
		"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false}`
	// The sizes of THUDM/GLM-Z1-Rumination-32B-0414.
	glm32 = `{"model_type": "glm4", "architectures": ["Glm4ForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 6144, "intermediate_size": 23040, "head_dim": 128,
		"num_hidden_layers": 61, "num_attention_heads": 48, "num_key_value_heads": 8, "vocab_size": 151552, "tie_word_embeddings": false, "attention_bias": false}`
)

// listings is every log whose recipe is known. Types of ik_llama.cpp's own
// (iq4_ks and the like, and those repacked by rows, _r4 and _r8) are in
// forkBlock.
func listings() []listing {
	const q2k = "227.689 GiB"
	return []listing{
		{name: "DeepSeek R1 Bf16", tensors: 1147, size: "1251.990 GiB", config: deepseekV3, kvSplit: true, choice: "*=f16"},
		{name: "DeepSeek R1 BF16", tensors: 1025, size: "664.295 GiB", config: deepseekV3, mix: "q8_0"},
		{name: "DeepSeek R1 BF16", tensors: 1025, size: "664.29 GiB", config: deepseekV3, mix: "q8_0"},
		{name: "DeepSeek R1 BF16", tensors: 1025, size: "376.650 GiB", config: deepseekV3, mix: "q4_k_m"},
		{name: "DeepSeek R1", tensors: 1147, size: q2k, config: deepseekV3, kvSplit: true, mix: "q2_k"},
		{name: "unsloth_DeepSeek R1 BF16", tensors: 1147, size: q2k, config: deepseekV3, kvSplit: true, mix: "q2_k"},
		{name: "DeepSeek R1 0528", tensors: 1147, size: "367.774 GiB", config: deepseekV3, kvSplit: true, choice: "*=q8_0 exps_gate=iq4_ks exps_up=iq4_ks exps_down=iq5_ks"},
		{name: "DeepSeek R1 0528", tensors: 1147, size: "300.938 GiB", config: deepseekV3, kvSplit: true, choice: "*=q8_0 exps_gate=iq3_k exps_up=iq3_k exps_down=iq4_ks"},
		{name: "DeepSeek R1 0528", tensors: 1147, size: "219.019 GiB", config: deepseekV3, kvSplit: true,
			choice: "*=iq5_ks attn_k_b=q5_0 shexp_gate=iq4_ks shexp_up=iq4_ks exps_gate=iq2_k exps_up=iq2_k exps_down=iq3_k"},
		{name: "DeepSeek R1 0528", size: "130.203 GiB", config: deepseekV3, kvSplit: true, choice: "*=iq4_ks attn_k_b=q4_0 exps_gate=iq1_s_r4 exps_up=iq1_s_r4 exps_down=iq1_m_r4"},
		{name: "unsloth_DeepSeek R1 BF16", tensors: 1147, size: "317.185 GiB", config: deepseekV3, kvSplit: true,
			choice: "*=iq4_kss token_embd=q8_0 output=q6_k attn_q_a=q8_0 attn_q_b=q8_0 attn_kv_a=q8_0 attn_kv_b=q8_0 attn_k_b=q8_0"},
		{name: "unsloth_DeepSeek R1 BF16", tensors: 1147, size: "307.197 GiB", config: deepseekV3, kvSplit: true,
			choice: "*=q8_0 shexp_gate=q5_k shexp_up=q5_k shexp_down=q5_k exps_gate=iq3_s exps_up=iq3_s exps_down=iq4_xs exps_gate[3:9]=iq4_xs exps_up[3:9]=iq4_xs exps_down[3:9]=q5_k"},
		{name: "DeepSeek V2.5 1210", tensors: 959, size: "84.604 GiB", config: deepseekV2, choice: "*=iq3_xxs token_embd=iq3_s output=q5_k attn_o=iq3_s"},

		{name: "Qwen3-235B-A22B", size: "132.386 GiB", config: qwen235, mix: "q4_k_m"},
		{name: "Qwen3-235B-A22B-128K", size: "132.386 GiB", config: qwen235, mix: "q4_k_m"},
		{name: "Qwen3-235B-A22B-128K", size: "179.75 GiB", config: qwen235, mix: "q6_k"},
		{name: "Qwen3-235B-A22B-128K", size: "179.754 GiB", config: qwen235, mix: "q6_k"},
		{name: "Models", tensors: 1131, size: "198.259 GiB", config: qwen235, choice: "*=iq6_k token_embd=q8_0 output=q8_0 exps_down=q8_0"},
		{name: "Qwen3-30B-A3B", size: "20.228 GiB", config: qwen30, mix: "q5_k_m"},
		{name: "Qwen3-30B-A3B", size: "20.23 GiB", config: qwen30, mix: "q5_k_m"},
		{name: "Qwen3-30B-A3B", size: "17.28 GiB", config: qwen30, mix: "q4_k_m"},
		// Types were raised layer by layer; how many of each follows from the
		// counts of types and the size together.
		{name: "Qwen3-30B-A3B", size: "16.493 GiB", config: qwen30,
			choice: "*=q4_k output=q6_k exps_down[0:12]=q5_k exps_down[12:14]=q6_k attn_v[0:25]=q5_k attn_v[25:33]=q6_k"},
		{name: "Qwen3 30B A3B", size: "23.515 GiB", config: qwen30, choice: "*=q6_k token_embd=q8_0 output=q8_0 attn_k=q8_0"},

		{name: "Meta Llama 3.1 8B Instruct", tensors: 292, size: "4.33 GiB", config: llama8, rope: 64, mix: "q4_0"},
		{name: "Meta_Llama_3.1_8b_it", tensors: 292, size: "5.162 GiB", config: llama8, rope: 64, choice: "*=q5_k output=q6_k attn_v=q6_k attn_q=q4_k"},
		{name: "LLaMA v2", tensors: 363, size: "12.881 GiB", config: llama13, mix: "q8_0"},
		{name: "Gemma 3 27b It Qat", tensors: 808, size: "15.404 GiB", config: gemma27, mix: "q4_k_m"},
		// Made with an importance matrix, which changes what is raised.
		{name: "Gemma-3-27B-It", tensors: 808, size: "14.539 GiB", config: gemma27, choice: "*=q4_0 token_embd=q6_k ffn_down[0:7]=q4_1"},
		{name: "Gemma-3-27B-It", tensors: 808, size: "13.747 GiB", config: gemma27, choice: "*=iq4_xs token_embd=q6_k"},
		{name: "GLM Z1 Rumination 32B 0414", tensors: 613, size: "61.734 GiB", config: glm32, choice: "*=bf16"},
		{name: "GLM Z1 Rumination 32B 0414", tensors: 613, size: "17.367 GiB", config: glm32, choice: "*=q4_0"},
	}
}

// forkBlock is the block and the bytes before each row of a type that only
// ik_llama.cpp has (ggml/src/ggml-common.h and ggml.c there).
func forkBlock(name string) (elements, bytes, row int64, known bool) {
	switch name {
	case "iq4_ks":
		return 256, 136, 4, true
	case "iq5_ks":
		return 256, 168, 4, true
	case "iq4_kss":
		return 256, 128, 4, true
	case "iq2_k":
		return 256, 76, 0, true
	case "iq3_k":
		return 256, 110, 0, true
	case "iq6_k":
		return 256, 212, 0, true
	case "iq1_s_r4":
		return 32, 6, 2, true
	case "iq1_m_r4":
		return 32, 7, 2, true
	}
	return 0, 0, 0, false
}

// show is what Ollama shows of a model, and how its count follows: by a
// configuration that its metadata makes with that vocabulary, or by a formula.
type show struct {
	vocab   int64
	head    bool  // a head is stored, where metadata cannot say
	extra   int64 // elements of rope_freqs
	config  string
	formula func(layers, width int64) int64
}

// shows is by name; every row of the facts has one.
func shows() map[string]show {
	return map[string]show{
		"gpt-oss:120b":     {config: "openai__gpt-oss-120b"},
		"gpt-oss:20b":      {config: "openai__gpt-oss-20b"},
		"dolphin3:8b":      {vocab: 128258, head: true, extra: 64},
		"smollm2:1.7b":     {vocab: 49152},
		"deepseek-r1:1.5b": {vocab: 151936, head: true},
		"deepcoder:1.5b":   {vocab: 151936, head: true},
		"qwen3:8b":         {vocab: 151936, head: true},
		"deepseek-r1:8b":   {vocab: 151936, head: true},
		"qwen3:1.7b":       {vocab: 151936, head: true},
		"minicpm-v:8b":     {vocab: 151666, head: true},
		"mistral:7b":       {vocab: 32768, head: true},
		"codellama:7b":     {vocab: 32016, head: true},
		"cogito:3b":        {vocab: 128256, head: true, extra: 64},
		"gemma3:1b":        {vocab: 262144},
		"gemma:2b":         {vocab: 256128}, // the first conversions padded it
		"granite3.3:2b":    {vocab: 49159},
		"qwen2.5vl:7b":     {config: "Qwen__Qwen2.5-VL-7B-Instruct-lexiq"},
		"gemma3n:e2b":      {formula: gemma3n},
		"gemma3n:e4b":      {formula: gemma3n},
	}
}

// gemma3n is the text model of Gemma 3n with its per-layer embeddings, laurel
// and altup, by the tensors of LLM_ARCH_GEMMA3N in src/llama-model.cpp.
func gemma3n(layers, ffn int64) int64 {
	const hidden, heads, kv, dim, laurel, altup, perLayer = 2048, 8, 2, 256, 64, 4, 256
	layer := int64(hidden*heads*dim*2 + 2*hidden*kv*dim + 2*dim) // attention and its two norms of a head
	layer += 3*hidden*ffn + 4*hidden                             // feed-forward, four norms
	layer += 2*hidden*laurel + hidden                            // laurel and its norm
	layer += altup*altup + altup*altup*altup + hidden*altup + 2*hidden
	layer += 2*hidden*perLayer + hidden // the gate to per-layer embeddings, and back
	outside := int64(262400*hidden) + 262144*perLayer*layers + hidden*perLayer*layers + perLayer
	return layers*layer + outside + 2*(altup-1)*hidden*hidden + hidden
}

// minicpmVision is the tower of MiniCPM-V 2.6, SigLIP with all of its 27 layers
// though 26 are used, and the resampler with its table of positions.
func minicpmVision() int64 {
	const width, ffn, patch, positions, text, queries = 1152, 4304, 14, 70 * 70, 3584, 64
	layer := int64(4*(width*width+width) + 2*width*ffn + ffn + width + 4*width)
	tower := int64(3*patch*patch*width+width) + positions*width + 27*layer + 2*width
	return tower + queries*text + width*text + 4*(text*text+text) + 6*text + text*text + positions*text
}
