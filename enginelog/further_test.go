package enginelog

import (
	"slices"
	"testing"
)

// Lines of further engines and trainers, and of what watches cards. The shapes are
// those of their sources, with figures of public reports.
func TestFurtherFormats(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"SGLang, weights", "[2025-07-22 08:11:20 TP0] Load weight end. type=Qwen3MoeForCausalLM, dtype=torch.bfloat16, avail mem=22.51 GB, mem usage=55.31 GB.",
			[]string{"sglang r0 d-1 free 22.51 GB", "sglang r0 d-1 weights 55.31 GB"}},
		{"SGLang, the pool", "[2025-07-22 08:11:21 TP3] KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
			[]string{"sglang r3 d-1 kv_cache_keys 8.23 GB", "sglang r3 d-1 kv_cache_values 8.23 GB", "sglang r3 d-1 kv_cache_tokens 367404 tokens"}},
		{"SGLang, states", "Mamba Cache is allocated. max_mamba_cache_size: 39, conv_state size: 0.03GB, ssm_state size: 2.74GB",
			[]string{"sglang r-1 d-1 convolution_state 0.03 GB", "sglang r-1 d-1 recurrent_state 2.74 GB"}},
		{"SGLang, graphs", "Capture cuda graph end. Time elapsed: 5.09 s. mem usage=1.66 GB. avail mem=7.38 GB.",
			[]string{"sglang r-1 d-1 free 7.38 GB", "sglang r-1 d-1 cuda_graphs 1.66 GB"}},
		{"SGLang, ready", "max_total_num_tokens=442013, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=32768, available_gpu_mem=7.38 GB",
			[]string{"sglang r-1 d-1 free 7.38 GB", "sglang r-1 d-1 kv_cache_tokens 442013 tokens"}},
		{"TensorRT-LLM", "[TensorRT-LLM][INFO] Loaded engine size: 13153 MiB\n[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.11 GiB, available: 62.30 GiB\n[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 4145, secondary pool: 0\n[TensorRT-LLM][INFO] [MemUsageChange] Allocated 64.75 GiB for max tokens in paged KV cache (132640).",
			[]string{"tensorrt_llm r-1 d-1 weights 13153 MiB", "tensorrt_llm r-1 d-1 capacity 79.11 GiB", "tensorrt_llm r-1 d-1 free 62.30 GiB", "tensorrt_llm r-1 d-1 kv_cache_blocks 4145 blocks",
				"tensorrt_llm r-1 d-1 kv_cache 64.75 GiB", "tensorrt_llm r-1 d-1 kv_cache_tokens 132640 tokens"}},
		{"DeepSpeed", "[2023-05-01 12:00:00,123] [INFO] [utils.py:786:see_memory_usage] MA 0.0 GB         Max_MA 55.83 GB         CA 55.83 GB         Max_CA 56 GB",
			[]string{"deepspeed r-1 d-1 allocated 0.0 GB", "deepspeed r-1 d-1 peak_allocated 55.83 GB", "deepspeed r-1 d-1 reserved 55.83 GB", "deepspeed r-1 d-1 peak_reserved 56 GB"}},
		{"DeepSpeed, the estimate", "   70.94GB |   5.19GB | offload_param=cpu, offload_optimizer=cpu, zero_init=1", []string{"deepspeed r-1 d-1 required 5.19 GB"}},
		{"axolotl", "[2023-10-02 09:11:01,456] [INFO] [axolotl.load_model:482] [PID:1] [RANK:0] GPU memory usage after model load: 19.653GB (+0.362GB cache, +2.174GB misc)",
			[]string{"axolotl r-1 d-1 allocated 19.653 GB", "axolotl r-1 d-1 cached 0.362 GB", "axolotl r-1 d-1 outside_allocator 2.174 GB"}},
		{"TGI", "INFO text_generation_launcher: Free memory before the warmup: 6939.06 MB", []string{"tgi r-1 d-1 free 6939.06 MB"}},
		{"DCGM", "# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-9a\"} 39354\nDCGM_FI_DEV_FB_FREE{gpu=\"1\",UUID=\"GPU-9b\"} 9223372036854775794",
			[]string{"device r-1 d0 in_use 39354 MiB", "device r-1 d1 free 9223372036854775794"}},
		{"nvidia-smi, the table", "|   1  NVIDIA A100-SXM4-80GB          Off | 00000000:07:00.0 Off |                    0 |\n| N/A   34C    P0              68W / 400W |  39354MiB / 81920MiB |      0%      Default |\n|    1   N/A  N/A     12345      C   python                                    39340MiB |",
			[]string{"device r-1 d1 in_use 39354 MiB", "device r-1 d1 capacity 81920 MiB", "process 12345 r-1 d1 in_use 39340 MiB"}},
		{"nvidia-smi, a query", "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n0, NVIDIA A100-SXM4-80GB, 81920 MiB, 3 MiB, 81037 MiB\n1, NVIDIA A100-SXM4-80GB, 81920 MiB, 500 MiB, 80540 MiB",
			[]string{"device r-1 d0 capacity 81920 MiB", "device r-1 d0 in_use 3 MiB", "device r-1 d0 free 81037 MiB", "device r-1 d1 capacity 81920 MiB", "device r-1 d1 in_use 500 MiB", "device r-1 d1 free 80540 MiB"}},
		{"nvidia-smi, XML", "<nvidia_smi_log>\n<gpu id=\"00000000:07:00.0\">\n<fb_memory_usage>\n<total>81920 MiB</total>\n<reserved>880 MiB</reserved>\n<used>39354 MiB</used>\n<free>41686 MiB</free>\n</fb_memory_usage>\n<bar1_memory_usage>\n<total>131072 MiB</total>\n</bar1_memory_usage>\n<process_info>\n<pid>12345</pid>\n<used_memory>39340 MiB</used_memory>\n</process_info>\n</gpu>",
			[]string{"device r-1 d0 capacity 81920 MiB", "device r-1 d0 overhead 880 MiB", "device r-1 d0 in_use 39354 MiB", "device r-1 d0 free 41686 MiB", "process 12345 r-1 d0 in_use 39340 MiB"}},
		{"vLLM V1, the first snapshot", "(EngineCore pid=1) DEBUG worker init memory snapshot: torch_peak=0.01GiB, free_memory=77.18GiB, total_memory=79.19GiB, cuda_memory=2.01GiB, torch_memory=0.02GiB, non_torch_memory=1.99GiB, timestamp=1",
			[]string{"vllm EngineCore r-1 d-1 free_at_start 77.18 GiB", "vllm EngineCore r-1 d-1 capacity 79.19 GiB", "vllm EngineCore r-1 d-1 in_use 2.01 GiB", "vllm EngineCore r-1 d-1 reserved 0.02 GiB", "vllm EngineCore r-1 d-1 outside_allocator 1.99 GiB"}},
		{"vLLM V1, what it would suggest", "Replace gpu_memory_utilization config with `--kv-cache-memory=66128745472` (61.59 GiB) to fit into requested memory, or `--kv-cache-memory=68225471488` (63.54 GiB) to fully utilize gpu memory. Current kv cache memory in use is 63.28 GiB.",
			[]string{"vllm r-1 d-1 cache_for_budget 61.59 GiB", "vllm r-1 d-1 cache_for_card 63.54 GiB", "vllm r-1 d-1 kv_cache_available 63.28 GiB"}},
		{"vLLM V1, graphs before they are captured", "Estimated FULL CUDA graph memory: 420.00 MiB first-capture + (51-1) × 8.00 MiB per-graph",
			[]string{"vllm r-1 d-1 cuda_graphs_first 420.00 MiB", "vllm r-1 d-1 cuda_graphs_each 8.00 MiB"}},
		{"vLLM V1, loading and after", "Peak GPU memory after loading weights: 15.33 GiB\nFree memory after profiling: 61.84 GiB (total), 58.39 GiB (within requested)",
			[]string{"vllm r-1 d-1 load_peak 15.33 GiB", "vllm r-1 d-1 free 61.84 GiB", "vllm r-1 d-1 free_of_budget 58.39 GiB"}},
		{"vLLM V0, a cache too small", "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (81536). Try increasing `gpu_memory_utilization`",
			[]string{"vllm r-1 d-1 kv_cache_tokens 81536 tokens"}},
		{"vLLM V0, before 0.7", "Loading model weights took 15.2075 GB\nMemory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=0.45GiB peak_torch_memory=14.91GiB memory_usage_post_profile=0.47GiB non_torch_memory=0.03GiB kv_cache_size=6.27GiB gpu_memory_utilization=0.90",
			[]string{"vllm r-1 d-1 weights 15.2075 GB", "vllm r-1 d-1 capacity 23.58 GiB", "vllm r-1 d-1 in_use 0.45 GiB", "vllm r-1 d-1 peak_allocated 14.91 GiB", "vllm r-1 d-1 non_torch 0.03 GiB", "vllm r-1 d-1 kv_cache_available 6.27 GiB"}},
	} {
		if got := readings(t, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
