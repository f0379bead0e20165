package enginelog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/source"
)

// readings are the numbers of a text, each as component, rank, device, kind and
// what was printed.
func readings(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	for _, c := range read(t, text).Components {
		list = append(list, fmt.Sprintf("%s r%d d%d %s %s", c.Component, c.Rank, c.Device, c.Kind, c.Printed))
	}
	return list
}

// Lines of engines, and what they say. The shapes are those of vLLM 0.6 to
// 0.19, of llama.cpp and of Ollama, with figures of public reports.
func TestEngines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"vLLM V1, weights", "(EngineCore pid=243) INFO 04-22 00:54:56 [v1/worker/gpu_model_runner.py:4820] Model loading took 44.76 GiB memory and 45.831509 seconds",
			[]string{"vllm EngineCore r-1 d-1 weights 44.76 GiB"}},
		{"vLLM V1, a worker of a tensor-parallel group", "(Worker_TP1 pid=445) DEBUG 04-22 19:59:51 [v1/worker/gpu_worker.py:424] Initial free memory: 77.18 GiB; Requested memory: 0.900000 (util), 71.27 GiB",
			[]string{"vllm Worker_TP1 r1 d-1 free_at_start 77.18 GiB", "vllm Worker_TP1 r1 d-1 budget 71.27 GiB"}},
		{"vLLM V1, a worker of two groups", "(Worker_PP1_TP0 pid=4) INFO Available KV cache memory: 6.87 GiB",
			[]string{"vllm Worker_PP1_TP0 r-1 d-1 kv_cache_available 6.87 GiB"}},
		{"vLLM V1, the profile", "Memory profiling takes 21.11 seconds. Total non KV cache memory: 47.04GiB; torch peak memory increase: 2.03GiB; non-torch forward increase memory: 0.25GiB; weights memory: 44.76GiB.",
			[]string{"vllm r-1 d-1 non_kv_cache 47.04 GiB", "vllm r-1 d-1 peak_activation 2.03 GiB", "vllm r-1 d-1 non_torch 0.25 GiB", "vllm r-1 d-1 weights 44.76 GiB"}},
		{"vLLM V1, the cache", "GPU KV cache size: 150,745 tokens", []string{"vllm r-1 d-1 kv_cache_tokens 150,745 tokens"}},
		{"vLLM V1, graphs", "Graph capturing finished in 1 secs, took 0.46 GiB\nEstimated CUDA graph memory: 0.36 GiB total\nCUDA graph pool memory: 1.06 GiB (actual), 0.84 GiB (estimated), difference: 0.22 GiB (20.8%).",
			[]string{"vllm r-1 d-1 cuda_graphs 0.46 GiB", "vllm r-1 d-1 cuda_graphs_estimated 0.36 GiB", "vllm r-1 d-1 cuda_graphs 1.06 GiB", "vllm r-1 d-1 cuda_graphs_estimated 0.84 GiB"}},
		{"vLLM V1, the sum", "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 44.76 GiB for weight, 2.03 GiB for peak activation, 0.25 GiB for non-torch memory, and 1.06 GiB for CUDAGraph memory.",
			[]string{"vllm r-1 d-1 capacity 79.19 GiB", "vllm r-1 d-1 budget 75.23 GiB", "vllm r-1 d-1 weights 44.76 GiB", "vllm r-1 d-1 peak_activation 2.03 GiB",
				"vllm r-1 d-1 non_torch 0.25 GiB", "vllm r-1 d-1 cuda_graphs 1.06 GiB", "vllm r-1 d-1 free_at_start 78.68 GiB"}},
		{"vLLM V1, refused at start", "ValueError: Free memory on device cuda:1 (22.06/23.56 GiB) on startup is less than desired GPU memory utilization (0.95, 22.38 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
			[]string{"vllm r-1 d1 capacity 23.56 GiB", "vllm r-1 d1 budget 22.38 GiB", "vllm r-1 d1 free_at_start 22.06 GiB"}},
		{"vLLM V1, a cache too small", "To serve at least one request with the model's max seq len (262144), (220.0 GiB KV cache is needed, which is larger than the available KV cache memory (20.13 GiB). Based on the available memory, the estimated maximum model length is 23984.",
			[]string{"vllm r-1 d-1 kv_cache_needed 220.0 GiB", "vllm r-1 d-1 kv_cache_available 20.13 GiB"}},
		{"vLLM V1, less than nothing", "Available KV cache memory: -3.27 GiB\nFree memory after profiling: 1.50 GiB (total), -5.50 GiB (within requested)\nCUDA graph pool memory: 0.10 GiB (actual), -0.25 GiB (estimated)\nGraph capturing finished in 3 secs, took -0.21 GiB",
			[]string{"vllm r-1 d-1 kv_cache_available -3.27 GiB", "vllm r-1 d-1 free 1.50 GiB", "vllm r-1 d-1 free_of_budget -5.50 GiB",
				"vllm r-1 d-1 cuda_graphs 0.10 GiB", "vllm r-1 d-1 cuda_graphs_estimated -0.25 GiB", "vllm r-1 d-1 cuda_graphs -0.21 GiB"}},
		{"vLLM V1, what ends like a number", "Actual usage is 1e308 GiB for weight, 1.2.3 GiB for peak activation, 1e-3 GiB for non-torch memory, 0.5 GiB for consumed memory, and 999999999999999999999999999 GiB for CUDAGraph memory.",
			[]string{"vllm r-1 d-1 consumed 0.5 GiB"}},
		{"vLLM V0", "the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB\nmodel weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.\n# GPU blocks: 5691, # CPU blocks: 2048",
			[]string{"vllm r-1 d-1 capacity 8.00 GiB", "vllm r-1 d-1 budget 5.60 GiB", "vllm r-1 d-1 weights 5.20 GiB", "vllm r-1 d-1 non_torch 0.03 GiB", "vllm r-1 d-1 peak_activation 1.42 GiB",
				"vllm r-1 d-1 kv_cache_available -1.05 GiB", "vllm r-1 d-1 kv_cache_blocks 5691 blocks"}},

		{"llama.cpp, buffers", "load_tensors:   CPU_Mapped model buffer size =   520.30 MiB\nload_tensors:        CUDA0 model buffer size = 31014.14 MiB\nllama_kv_cache_unified:      CUDA1 KV buffer size =   379.23 MiB\nllama_context:  CUDA_Host  output buffer size =     1.95 MiB\nllama_context:      CUDA0 compute buffer size =   672.01 MiB",
			[]string{"llama.cpp CPU_Mapped r-1 d-1 weights 520.30 MiB", "llama.cpp CUDA0 r-1 d0 weights 31014.14 MiB", "llama.cpp CUDA1 r-1 d1 kv_cache 379.23 MiB", "llama.cpp CUDA_Host r-1 d-1 output 1.95 MiB", "llama.cpp CUDA0 r-1 d0 compute 672.01 MiB"}},
		{"llama.cpp, an older loader (ik_llama.cpp#749)", "llm_load_tensors:     CUDA10 buffer size =  4061.62 MiB", []string{"llama.cpp CUDA10 r-1 d10 weights 4061.62 MiB"}},
		{"llama.cpp, the cache of all devices", "llama_init_from_model: KV self size  = 1598.00 MiB, K (q8_0):  799.00 MiB, V (q8_0):  799.00 MiB",
			[]string{"llama.cpp r-1 d-1 kv_cache 1598.00 MiB", "llama.cpp r-1 d-1 kv_cache_keys 799.00 MiB", "llama.cpp r-1 d-1 kv_cache_values 799.00 MiB"}},
		{"llama.cpp, the compressed cache", "llama_kv_cache_init: KV self size = 1098.00 MiB, c^KV (f16): 1098.00 MiB, kv^T: not used",
			[]string{"llama.cpp r-1 d-1 kv_cache 1098.00 MiB", "llama.cpp r-1 d-1 kv_cache_keys 1098.00 MiB"}},
		{"llama.cpp, the same in newer builds", "llama_kv_cache: size = 4352.00 MiB (131072 cells,  16 layers,  4/1 seqs), K (q8_0): 2176.00 MiB, V (q8_0): 2176.00 MiB",
			[]string{"llama.cpp r-1 d-1 kv_cache 4352.00 MiB", "llama.cpp r-1 d-1 kv_cache_keys 2176.00 MiB", "llama.cpp r-1 d-1 kv_cache_values 2176.00 MiB"}},
		{"llama.cpp, --fit-print", "MTL0 7401 814 517\nHost 292 0 16\nCUDA 1 2 3 4\nhost 1 2 3",
			[]string{"llama.cpp MTL0 r-1 d0 weights 7401 MiB", "llama.cpp MTL0 r-1 d0 context 814 MiB", "llama.cpp MTL0 r-1 d0 compute 517 MiB",
				"llama.cpp Host r-1 d-1 weights 292 MiB", "llama.cpp Host r-1 d-1 context 0 MiB", "llama.cpp Host r-1 d-1 compute 16 MiB"}},
		{"llama.cpp, under a service manager", "Mar 12 07:01:08 host python[433748]: load_tensors:        CUDA1 model buffer size = 43884.50 MiB", []string{"llama.cpp CUDA1 r-1 d1 weights 43884.50 MiB"}},
		{"llama.cpp, refused", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 279356.51 MiB on device 0: cudaMalloc failed: out of memory", []string{"llama.cpp r-1 d0 request 279356.51 MiB"}},
		{"llama.cpp, the breakdown", "llama_memory_breakdown_print: | memory breakdown [MiB] | total   free     self   model   context   compute    unaccounted |\nllama_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24080 = 9436 + (14193 = 13169 +      38 +     985) +         451 |\nllama_memory_breakdown_print: |   - Host               |                 30956 = 30940 +       0 +      16                |",
			[]string{"llama.cpp CUDA0 r-1 d0 capacity 24080 MiB", "llama.cpp CUDA0 r-1 d0 free 9436 MiB", "llama.cpp CUDA0 r-1 d0 in_use 14193 MiB", "llama.cpp CUDA0 r-1 d0 weights 13169 MiB", "llama.cpp CUDA0 r-1 d0 context 38 MiB", "llama.cpp CUDA0 r-1 d0 compute 985 MiB", "llama.cpp CUDA0 r-1 d0 unaccounted 451 MiB",
				"llama.cpp Host r-1 d-1 in_use 30956 MiB", "llama.cpp Host r-1 d-1 weights 30940 MiB", "llama.cpp Host r-1 d-1 context 0 MiB", "llama.cpp Host r-1 d-1 compute 16 MiB"}},
		{"Ollama, the estimate", `time=2025-08-22T17:36:22.027-04:00 level=INFO source=server.go:175 msg=offload library=cuda layers.model=49 memory.available="[11.5 GiB 4.6 GiB]" memory.gpu_overhead="0 B" memory.required.full="14.9 GiB" memory.required.kv="2.0 GiB" memory.graph.full="1.3 GiB" projector.weights="806.2 MiB"`,
			[]string{"ollama r-1 d0 free 11.5 GiB", "ollama r-1 d1 free 4.6 GiB", "ollama r-1 d-1 overhead 0 bytes", "ollama r-1 d-1 required 14.9 GiB", "ollama r-1 d-1 kv_cache 2.0 GiB", "ollama r-1 d-1 compute 1.3 GiB", "ollama r-1 d-1 projector 806.2 MiB"}},
		{"llama.cpp, a row of the breakdown by itself", "- CUDA0 (RTX 4090): 24080 = 9436 + (14193 = 13169 + 38 + 985) + 451",
			[]string{"llama.cpp CUDA0 r-1 d0 capacity 24080 MiB", "llama.cpp CUDA0 r-1 d0 free 9436 MiB", "llama.cpp CUDA0 r-1 d0 in_use 14193 MiB", "llama.cpp CUDA0 r-1 d0 weights 13169 MiB", "llama.cpp CUDA0 r-1 d0 context 38 MiB", "llama.cpp CUDA0 r-1 d0 compute 985 MiB", "llama.cpp CUDA0 r-1 d0 unaccounted 451 MiB"}},
		{"Ollama 0.3 to 0.5, the estimate", `level=INFO source=memory.go:309 msg="offload to cuda" layers.requested=-1 memory.available="[14.6 GiB]" memory.required.full="6.2 GiB" memory.required.kv="1.0 GiB"`,
			[]string{"ollama r-1 d0 free 14.6 GiB", "ollama r-1 d-1 required 6.2 GiB", "ollama r-1 d-1 kv_cache 1.0 GiB"}},
		{"Ollama, a piece of the line", `layers.split=21,15 memory.available="[11.5 GiB 4.6 GiB]" memory.required.full="14.9 GiB"`,
			[]string{"ollama r-1 d0 free 11.5 GiB", "ollama r-1 d1 free 4.6 GiB", "ollama r-1 d-1 required 14.9 GiB"}},
		{"Ollama, its own engine", `time=2025-07-18T14:50:57.066Z level=INFO source=ggml.go:365 msg="model weights" buffer=CUDA1 size="11.9 GiB"`, []string{"ollama CUDA1 r-1 d1 weights 11.9 GiB"}},
		{"Ollama since 0.12", "time=2025-10-22T02:17:58.181Z level=DEBUG source=device.go:206 msg=\"model weights\" device=CUDA0 size=\"18.5 GiB\"\ntime=2025-10-22T02:17:58.181Z level=DEBUG source=device.go:222 msg=\"kv cache\" device=CPU size=\"1.1 GiB\"\ntime=2025-10-22T02:17:58.181Z level=DEBUG source=device.go:262 msg=\"compute graph\" device=Metal size=\"2.1 GiB\"\ntime=2025-10-22T02:17:58.181Z level=DEBUG source=device.go:238 msg=\"total memory\" size=\"33.5 GiB\"",
			[]string{"ollama CUDA0 r-1 d0 weights 18.5 GiB", "ollama CPU r-1 d-1 kv_cache 1.1 GiB", "ollama Metal r-1 d-1 compute 2.1 GiB", "ollama r-1 d-1 required 33.5 GiB"}},
	} {
		if got := readings(t, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// What is unaccounted for can be below 0: printed with its sign, or as what is
// left of 2⁶⁴ bytes.
func TestBelowZero(t *testing.T) {
	for text, low := range map[string]int64{
		"common_memory_breakdown_print: | - CUDA0 (RTX 5060 Ti) | 15841 = 15630 + (15302 = 14736 + 72 + 493) + 17592186029324 |":       -15092 * mib,
		"common_memory_breakdown_print: | - CUDA0 (RTX 5060 Ti) | 15841 = 15630 + (15302 = 14736 + 72 + 493) + -15092 |":               -15092 * mib,
		"the rest of it: model weights take 5.20GiB; the rest of the memory reserved for KV Cache is -1.05GiB (PyTorch 2.5, no graph)": -(1055 * gib / 1000),
	} {
		list := read(t, text).Components
		f := list[len(list)-1].Bytes
		if high, known := f.High(); !known || f.Low() != low || high >= 0 {
			t.Errorf("%s: %d to %d, want from %d", text, f.Low(), high, low)
		}
	}
}

// A log that did not fail is a log too; one that says nothing is none.
func TestLogWithoutFailure(t *testing.T) {
	log := read(t, "starting\nModel loading took 12.4249 GiB\nready\n")
	if len(log.OutOfMemory) != 0 || len(log.Components) != 1 || log.NotUnderstood != 2 || len(log.Accounts()) != 0 {
		t.Errorf("%+v", log)
	}
	if c := log.Components[0]; c.Line != 2 || c.Bytes.Source != "log.txt:2" || c.Bytes.Low() > 13341144941 || c.Bytes.Low() < 13341000000 {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{"used 3 GiB of disk\n", "buffer size = 4 MiB\n", "x buffer size = y MiB", "msg=offload iB", "_breakdown_print: | - a | 1 | iB", "GPU KV cache size: , tokens"} {
		if _, err := Read(source.Bytes("x", []byte(text))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// An engine that prints for days fills no memory.
func TestManyReadings(t *testing.T) {
	log := read(t, strings.Repeat("Available KV cache memory: 6.87 GiB\n", mostReadings+5))
	if len(log.Components) != mostReadings || log.NotUnderstood != 0 || len(log.Warnings) != 1 || !strings.Contains(log.Warnings[0].Text, "5 further numbers") {
		t.Errorf("%d numbers, %d lines not understood, %v", len(log.Components), log.NotUnderstood, log.Warnings)
	}
}

// What llama.cpp could not have is a failure; so is one that is wrapped.
func TestLlamaCPPOutOfMemory(t *testing.T) {
	const text = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 279356.51 MiB on device 1: cudaMalloc failed: out of memory"
	for _, width := range []int{60, 80, 100, 200} {
		m := one(t, "llama_context: n_ctx = 163840\n"+wrap(text, width)+"\nalloc_tensor_range: failed to allocate CUDA1 buffer of size 292926531830\n")
		if high, _ := m.Request.High(); m.Device != 1 || m.Line != 2 || m.Class != CannotTell || m.Request.Low() > 292926531830 || high < 292926531830 {
			t.Errorf("wrapped at %d: device %d, line %d, %s, %d to %d", width, m.Device, m.Line, m.Class, m.Request.Low(), high)
		}
	}
}

// Main memory is no card's.
func TestHostBuffers(t *testing.T) {
	for text, want := range map[string]account.Scope{
		"load_tensors:  CPU_Mapped model buffer size = 520.30 MiB":   account.Host,
		"llama_context:  CUDA_Host  output buffer size = 1.95 MiB":   account.Host,
		"llama_kv_cache:      MTL0 KV buffer size = 379.23 MiB":      account.Process,
		`level=INFO msg="kv cache" device=CPU size="1.1 GiB"`:        account.Host,
		`level=INFO msg="model weights" device=Metal size="4.7 GiB"`: account.Process,
		"x_breakdown_print: |   - Host   | 30956 = 30940 + 0 + 16 |": account.Host,
	} {
		for _, c := range read(t, text).Components {
			if c.Bytes.Scope != want {
				t.Errorf("%s: %s", text, c.Bytes.Scope)
			}
		}
	}
}
