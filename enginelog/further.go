package enginelog

import (
	"slices"
	"strings"

	"floodmark/account"
)

// tongue is an engine or a trainer, and what its lines say.
type tongue struct {
	name string
	says []said
}

// tongues are the programs whose lines are told by their openings alone. What they
// call MB and GB is powers of two: each divides by 1,024.
func tongues() []tongue {
	return []tongue{
		// python/sglang/srt/model_executor/model_runner.py, mem_cache/memory_pool.py
		{"sglang", slices.Clone([]said{
			{"Loadweightbegin.", place{"availmem=", ""}, KindFree, account.Device},
			{"Loadweightend.", place{"availmem=", ""}, KindFree, account.Device},
			{"Loadweightend.", place{"memusage=", ""}, KindWeights, account.Process},
			{"KVCacheisallocated.", place{"Ksize:", ""}, KindKVCacheKeys, account.Process},
			{"KVCacheisallocated.", place{"Vsize:", ""}, KindKVCacheValues, account.Process},
			{"KVCacheisallocated.", place{"KVsize:", ""}, KindKVCache, account.Process},
			{"MambaCacheisallocated.", place{"conv_statesize:", ""}, KindConvolutionState, account.Process},
			{"MambaCacheisallocated.", place{"ssm_statesize:", ""}, KindRecurrent, account.Process},
			{"Memorypoolend.", place{"availmem=", ""}, KindFree, account.Device},
			{"Capturecudagraphbegin.", place{"availmem=", ""}, KindFree, account.Device},
			{"Capturecudagraphend.", place{"availmem=", ""}, KindFree, account.Device},
			{"Capturecudagraphend.", place{"memusage=", ""}, KindGraphs, account.Process},
			{"max_total_num_tokens=", place{"available_gpu_mem=", ""}, KindFree, account.Device},
		})},
		// cpp/tensorrt_llm/batch_manager, runtime
		{"tensorrt_llm", slices.Clone([]said{
			{"Loadedenginesize:", place{"Loadedenginesize:", ""}, KindWeights, account.Process},
			{"formaxtokensinpagedKVcache", place{"", "formaxtokensinpagedKVcache"}, KindKVCache, account.Process},
			{"forexecutioncontextmemory", place{"", "forexecutioncontextmemory"}, KindCompute, account.Process},
			{"GPUmemoryforruntimebuffers", place{"", "GPUmemoryforruntimebuffers"}, KindRuntimeBuffers, account.Process},
			{"GPUmemoryfordecoder", place{"", "GPUmemoryfordecoder"}, KindOutput, account.Process},
			{"calculatingmaxtokensinpagedkvcache:", place{"total:", ""}, KindCapacity, account.Device},
			{"calculatingmaxtokensinpagedkvcache:", place{"available:", ""}, KindFree, account.Device},
		})},
		// deepspeed/runtime/utils.py (see_memory_usage), utils/memory_estimators
		{"deepspeed", slices.Clone([]said{
			{"Max_MA", place{"", "Max_MA"}, KindAllocated, account.Allocated},
			{"Max_MA", place{"Max_MA", ""}, KindPeakAllocated, account.Allocated},
			{"Max_CA", place{"", "Max_CA"}, KindReserved, account.Reserved},
			{"Max_CA", place{"Max_CA", ""}, KindPeakReserved, account.Reserved},
			{"|offload_", place{"", "|offload_"}, KindRequired, account.Process},
		})},
		// src/axolotl/utils/bench.py
		{"axolotl", slices.Clone([]said{
			{"GPUmemoryusage", place{"", "(+"}, KindAllocated, account.Allocated},
			{"GPUmemoryusage", place{"+", "cache"}, KindCached, account.Reserved},
			{"GPUmemoryusage", place{"+", "misc"}, KindOutside, account.Device},
		})},
		// server/text_generation_server/models/flash_causal_lm.py
		{"tgi", slices.Clone([]said{
			{"Freememorybeforethewarmup:", place{"Freememorybeforethewarmup:", ""}, KindFree, account.Device},
		})},
	}
}

// further reads a line of one of the tongues; false when it is of none.
func (e *engineReader) further(l line, at reading, line string) bool {
	text, _ := squash(line)
	for _, t := range tongues() {
		if !opens(text, t.says) && !(t.name == "tensorrt_llm" && strings.Contains(text, "primarypool:")) {
			continue
		}
		at.component = t.name
		at.by.rank = max(at.by.rank, groupRank(l.text))
		if axolotl := t.name == "axolotl"; axolotl && !strings.Contains(text, "(+") {
			continue
		}
		e.says(at, text, t.says)
		e.counted(at, text)
		return true
	}
	return false
}

func opens(text string, table []said) bool {
	for _, s := range table {
		if strings.Contains(text, s.opening) {
			return true
		}
	}
	return false
}

// counted reads how many tokens or blocks a cache has.
func (e *engineReader) counted(at reading, text string) {
	for _, c := range [...]struct {
		before, unit string
		kind         Kind
	}{
		{"#tokens:", "tokens", KindKVCacheTokens}, {"max_total_num_tokens=", "tokens", KindKVCacheTokens},
		{"pagedKVcache(", "tokens", KindKVCacheTokens}, {"primarypool:", "blocks", KindKVCacheBlocks},
	} {
		_, after, found := strings.Cut(text, c.before)
		if n := digitsFrom(after, 0, mostDigits); found && n > 0 {
			e.count(at, c.kind, after[:n], c.unit)
		}
	}
}

// groupRank is the rank of a line that names its place in one group, as
// "[2025-07-22 10:00:00 TP3]"; −1 where it names none.
func groupRank(line string) int {
	_, after, found := strings.Cut(line[:min(len(line), 64)], " TP")
	n := digitsFrom(after, 0, 6)
	if !found || n == 0 || !strings.HasPrefix(after[n:], "]") {
		return -1
	}
	return ordinal(after[:n])
}
