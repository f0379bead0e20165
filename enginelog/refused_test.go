package enginelog

import (
	"strings"
	"testing"
)

// What an engine's refusal advises is answered with its own numbers.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, code, says string }{
		{"others hold the card (club-3090 544)", "ValueError: Free memory on device cuda:1 (22.06/23.56 GiB) on startup is less than desired GPU memory utilization (0.95, 22.38 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
			"refused_at_start", "is 0.936"},
		{"a request too long (vllm 34076)", "To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Try increasing `gpu_memory_utilization`",
			"cache_too_small", "lacks 20.8"},
		{"no room (vllm 13882)", "model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.",
			"no_cache_room", "goes up"},
		{"no room, in words (QwenLM 12)", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
			"no_cache_room", "goes up"},
		{"no room, by rank", "(EngineCore_DP0 pid=7) \x1b[31mERROR\x1b[0m [core.py:9] ValueError: No available memory for the cache blocks. Try increasing\r",
			"no_cache_room", "goes up"},
		{"no room in SGLang (sglang 4330)", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "no_cache_room", "--mem-fraction-static goes up"},
		{"a request too long, in positions (vllm 10517)", "The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648). Try increasing",
			"cache_too_small", "5,352 more"},
		{"no room, in words and in numbers", "the rest of it: model weights take 5.20GiB; the rest of the memory reserved for KV Cache is -1.05GiB.\nValueError: No available memory for the cache blocks.",
			"no_cache_room", "lacks 1.0"},
		{"others hold the card, wrapped by hand (vllm 23192)", "ValueError: Free memory on device (5.31/79.18 GiB) on startup is less than desired GPU memory\nutilization (0.9, 71.26 GiB). Decrease GPU memory utilization\nor reduce",
			"refused_at_start", "is 0.067"},
		{"a request too long, wrapped by hand", "ValueError: To serve at least one request with the model's max seq len (131072),\n(1.34 GiB KV cache is needed, which is larger than\nthe available KV cache memory (0.3 GiB). Based on",
			"cache_too_small", "lacks 1.04"},
		{"a compute buffer (llama.cpp 26297)", "1.06.520.077 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 51748.72 MiB on device 1: cudaMalloc failed: out of memory\n1.06.520.086 E graph_reserve: failed to allocate compute buffers",
			"compute_buffer", "-ub"},
		{"a compute buffer that is tried again (llama.cpp 26297)", "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\nallocating 5.00 MiB on device 1: cudaMalloc failed: out of memory",
			"retried", "need not be the end"},
		{"a cache (gpustack 1269)", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4480.00 MiB on device 3: cudaMalloc failed: out of memory\nllama_kv_cache_init: failed to allocate buffer for kv cache",
			"kv_buffer", "-ctk q8_0"},
		{"no room, of a card that is known (vllm 13882)", "the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB\nmodel weights take 5.20GiB; the rest of the memory reserved for KV Cache is -1.05GiB.",
			"no_cache_room", "(to 0.832 of this card at least"},
		{"a start that went well", "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 44.76 GiB for weight", "", ""},
	} {
		list := read(t, c.text+"\n"+c.text).Warnings
		if c.code == "" {
			if len(list) > 0 {
				t.Errorf("%s: %v", c.name, list)
			}
			continue
		}
		if len(list) != 1 || list[0].Code != c.code || !strings.Contains(list[0].Text, c.says) {
			t.Errorf("%s: %v", c.name, list)
		}
	}
}

// What vLLM says of its configuration names the model.
func TestModelOfLog(t *testing.T) {
	line := "(EngineCore pid=1) INFO [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', speculative_config=None, tokenizer='Qwen/Qwen3-8B'\nModel loading took 15.27 GiB memory"
	if got := read(t, line).Model; got != "Qwen/Qwen3-8B" {
		t.Errorf("%q", got)
	}
	if got := read(t, "with config: model='x'\nModel loading took 15.27 GiB memory").Model; got != "" {
		t.Errorf("%q", got)
	}
}
