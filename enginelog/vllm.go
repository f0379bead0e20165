package enginelog

import (
	"slices"
	"strings"

	"floodmark/account"
)

// said is a number that a line of vLLM says, in squashed text, somewhere after
// an opening.
//
// Lists of these are cloned where they are made: a list that leaves its function as it was
// written has an array type of its own length, and the program a comparison of such arrays.
type said struct {
	opening string
	place   place
	kind    Kind
	scope   account.Scope
}

// vllmSays are the lines in which vLLM says what it holds. Those of V1 are of
// vllm/v1/worker/gpu_worker.py, gpu_model_runner.py and
// vllm/v1/core/kv_cache_utils.py (0.19), those of V0 of vllm/worker/worker.py
// (0.7), which prints them in one line.
func vllmSays() []said {
	const (
		usage  = "Actualusageis"
		errors = "KVcacheisneeded"
		budget = "thecurrentvLLMinstancecanuse"
	)
	return slices.Clone([]said{
		{"Modelloadingtook", place{"Modelloadingtook", ""}, KindWeights, account.Allocated},
		{"workerinitmemorysnapshot:", place{"free_memory=", ""}, KindFreeAtStart, account.Device},
		{"workerinitmemorysnapshot:", place{"total_memory=", ""}, KindCapacity, account.Device},
		{"workerinitmemorysnapshot:", place{"cuda_memory=", ""}, KindInUse, account.Device},
		{"workerinitmemorysnapshot:", place{",torch_memory=", ""}, KindReserved, account.Reserved},
		{"workerinitmemorysnapshot:", place{"non_torch_memory=", ""}, KindOutside, account.Device},
		{"workerrequestedmemory:", place{"workerrequestedmemory:", ""}, KindBudget, account.Process},
		{"PeakGPUmemoryafterloadingweights:", place{"PeakGPUmemoryafterloadingweights:", ""}, KindLoadPeak, account.Device},
		{"Freememoryafterprofiling:", place{"Freememoryafterprofiling:", ""}, KindFree, account.Device},
		{"Freememoryafterprofiling:", place{"", "(withinrequested)"}, KindFreeOfBudget, account.Process},
		{"first-capture", place{"", "first-capture"}, KindGraphsFirst, account.Device},
		{"first-capture", place{"", "per-graph"}, KindGraphsEach, account.Device},
		{"kv-cache-memory=", place{"(", ")tofitintorequested"}, KindSuggestedBudget, account.Process},
		{"kv-cache-memory=", place{"(", ")tofullyutilize"}, KindSuggestedCard, account.Process},
		{"Currentkvcachememoryinuseis", place{"Currentkvcachememoryinuseis", ""}, KindKVCacheAvailable, account.Process},
		{"Loadingmodelweightstook", place{"Loadingmodelweightstook", ""}, KindWeights, account.Allocated},
		{"Memoryprofilingresults:", place{"total_gpu_memory=", ""}, KindCapacity, account.Device},
		{"Memoryprofilingresults:", place{"initial_memory_usage=", ""}, KindInUse, account.Device},
		{"Memoryprofilingresults:", place{"peak_torch_memory=", ""}, KindPeakAllocated, account.Allocated},
		{"Memoryprofilingresults:", place{"non_torch_memory=", ""}, KindNonTorch, account.Process},
		{"Memoryprofilingresults:", place{"kv_cache_size=", ""}, KindKVCacheAvailable, account.Process},
		{"Initialfreememory:", place{"Initialfreememory:", ""}, KindFreeAtStart, account.Device},
		{"Initialfreememory:", place{"(util),", ""}, KindBudget, account.Process},
		{"TotalnonKVcachememory:", place{"TotalnonKVcachememory:", ""}, KindNonKVCache, account.Process},
		{"TotalnonKVcachememory:", place{"torchpeakmemoryincrease:", ""}, KindPeakActivation, account.Allocated},
		{"TotalnonKVcachememory:", place{"non-torchforwardincreasememory:", ""}, KindNonTorch, account.Process},
		{"TotalnonKVcachememory:", place{"weightsmemory:", ""}, KindWeights, account.Allocated},
		{"AvailableKVcachememory:", place{"AvailableKVcachememory:", ""}, KindKVCacheAvailable, account.Process},
		{"EstimatedCUDAgraphmemory:", place{"EstimatedCUDAgraphmemory:", ""}, KindGraphsEstimated, account.Device},
		{"Graphcapturingfinished", place{"secs,took", ""}, KindGraphs, account.Device},
		{"CUDAgraphpoolmemory:", place{"CUDAgraphpoolmemory:", "(actual)"}, KindGraphs, account.Device},
		{"CUDAgraphpoolmemory:", place{"", "(estimated)"}, KindGraphsEstimated, account.Device},
		{"Freememoryondevice", place{"/", ")onstartup"}, KindCapacity, account.Device},
		{"DesiredGPUmemoryutilizationis", place{",", ")"}, KindBudget, account.Process},
		{"lessthandesiredGPUmemoryutilization", place{",", ")"}, KindBudget, account.Process},
		{usage, place{"", "forweight"}, KindWeights, account.Allocated},
		{usage, place{"", "forpeakactivation"}, KindPeakActivation, account.Allocated},
		{usage, place{"", "fornon-torchmemory"}, KindNonTorch, account.Process},
		{usage, place{"", "forconsumedmemory"}, KindConsumed, account.Process},
		{usage, place{"", "forCUDAGraphmemory"}, KindGraphs, account.Device},
		{budget, place{"total_gpu_memory(", ")"}, KindCapacity, account.Device},
		{budget, place{")=", ""}, KindBudget, account.Process},
		{"modelweightstake", place{"modelweightstake", ""}, KindWeights, account.Allocated},
		{"modelweightstake", place{"non_torch_memorytakes", ""}, KindNonTorch, account.Process},
		{"modelweightstake", place{"activationpeakmemorytakes", ""}, KindPeakActivation, account.Allocated},
		{"modelweightstake", place{"reservedforKVCacheis", ""}, KindKVCacheAvailable, account.Process},
		{errors, place{"", errors}, KindKVCacheNeeded, account.Process},
		{"availableKVcachememory(", place{"availableKVcachememory(", ")"}, KindKVCacheAvailable, account.Process},
	})
}

// vllm reads a line of vLLM.
func (e *engineReader) vllm(at reading, line string) {
	text, _ := squash(line)
	at.component = engineOf("vllm", at.by)
	at.by.rank = workerRank(at.by)
	if i := strings.Index(text, "ondevicecuda:"); i >= 0 {
		if m, ok := count.since(text, i+len("ondevicecuda:")); ok && len(m.number) <= 6 {
			at.device = ordinal(m.number)
		}
	}
	e.says(at, text, vllmSays())
	e.freeOf(at, text)
	e.counts(at, text)
}

// says keeps the numbers that a squashed line says by a table.
func (e *engineReader) says(at reading, text string, table []said) {
	for _, s := range table {
		from := strings.Index(text, s.opening)
		if from > 0 && s.place.before == "" {
			from = max(0, from-mostBefore) // its number stands before it
		}
		if from < 0 {
			continue
		}
		if m, ok := s.place.find(text, from, signed); ok {
			e.size(at, s.kind, s.scope, m.number, m.unit, m.negative)
		}
	}
}

// mostBefore is how far before an opening a number may stand.
const mostBefore = 64

// freeOf reads the first of "(77.18/79.19 GiB)", which has the other's unit.
func (e *engineReader) freeOf(at reading, text string) {
	from := strings.Index(text, "Freememoryondevice")
	if from < 0 {
		return
	}
	m, ok := place{"/", ")onstartup"}.find(text, from, sized)
	if !ok {
		return
	}
	open := strings.LastIndexByte(text[:m.at], '(')
	if free, ok := sized.since(text[max(open, 0)+1:m.at]+m.unit, 0); ok {
		e.size(at, KindFreeAtStart, account.Device, free.number, free.unit, false)
	}
}

// counts reads how much fits into the cache.
func (e *engineReader) counts(at reading, text string) {
	for _, c := range [...]struct {
		before, unit string
		kind         Kind
	}{{"GPUKVcachesize:", "tokens", KindKVCacheTokens}, {"storedinKVcache(", "tokens", KindKVCacheTokens}, {"GPUblocks:", "blocks", KindKVCacheBlocks}} {
		_, after, found := strings.Cut(text, c.before)
		number := after[:len(after)-len(strings.TrimLeft(after, "0123456789,"))]
		number = strings.TrimRight(number[:min(len(number), mostDigits)], ",")
		if found && number != "" {
			e.count(at, c.kind, number, c.unit)
		}
	}
}

// count keeps a number that is not of bytes.
func (e *engineReader) count(at reading, kind Kind, number, unit string) {
	e.keep(at, kind, account.Process, func(p account.Provenance) account.Figure {
		return account.Unknown("a count of "+unit+", not bytes", p)
	}, number+" "+unit)
}

// engineOf names an engine's process: "vllm", "vllm EngineCore_DP0".
func engineOf(engine string, by writer) string {
	name, _, _ := strings.Cut(by.name, "/")
	if name == "" || strings.HasPrefix(name, "rank") {
		return engine
	}
	return engine + " " + name
}

// workerRank is the rank of a worker that is named by its place in one group
// only, as Worker_TP3; of two groups it would need their sizes.
func workerRank(by writer) int {
	name, _, _ := strings.Cut(by.name, "/")
	_, group, found := strings.Cut(name, "Worker_")
	if by.rank >= 0 || !found || len(group) < 3 {
		return by.rank
	}
	n := digitsFrom(group, 2, 6)
	if kind := group[:2]; n == 2 || n < len(group) || kind != "TP" && kind != "PP" {
		return -1
	}
	return ordinal(group[2:n])
}
