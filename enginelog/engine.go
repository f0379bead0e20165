package enginelog

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
)

// Kinds of the numbers that engines print. The words after each are those of
// the engine's own line.
const (
	KindWeights          Kind = "weights"               // vLLM "Model loading took", llama.cpp "model buffer size", Ollama "memory.weights.total"
	KindKVCache          Kind = "kv_cache"              // llama.cpp "KV buffer size", Ollama "memory.required.kv"
	KindKVCacheAvailable Kind = "kv_cache_available"    // vLLM "Available KV cache memory", "reserved for KV Cache is"
	KindKVCacheNeeded    Kind = "kv_cache_needed"       // vLLM "KV cache is needed"
	KindKVCacheTokens    Kind = "kv_cache_tokens"       // vLLM "GPU KV cache size"; a count, not bytes
	KindKVCacheBlocks    Kind = "kv_cache_blocks"       // vLLM "# GPU blocks"; a count, not bytes
	KindNonKVCache       Kind = "non_kv_cache"          // vLLM "Total non KV cache memory"
	KindPeakActivation   Kind = "peak_activation"       // vLLM "torch peak memory increase", "PyTorch activation peak memory"
	KindNonTorch         Kind = "non_torch"             // vLLM "non_torch_memory", "non-torch forward increase memory"
	KindGraphs           Kind = "cuda_graphs"           // vLLM "Graph capturing finished ... took", "CUDA graph pool memory"
	KindGraphsEstimated  Kind = "cuda_graphs_estimated" // vLLM "Estimated CUDA graph memory"
	KindFreeAtStart      Kind = "free_at_start"         // vLLM "Initial free memory", "Free memory on device"
	KindBudget           Kind = "budget"                // vLLM "Requested memory", gpu_memory_utilization times the card
	KindCompute          Kind = "compute"               // llama.cpp "compute buffer size", Ollama "memory.graph.full"
	KindComputePartial   Kind = "compute_partial"       // Ollama "memory.graph.partial": where not every layer is on the card
	KindOutput           Kind = "output"                // llama.cpp "output buffer size"
	KindRecurrent        Kind = "recurrent_state"       // llama.cpp "RS buffer size"
	KindContext          Kind = "context"               // llama.cpp's breakdown: the cache of a context
	KindUnaccounted      Kind = "unaccounted"           // llama.cpp's breakdown: total − free − self; below 0 where free was read before
	KindRequired         Kind = "required"              // Ollama "memory.required.full", "memory.required.allocations", "total memory"
	KindRequiredPartial  Kind = "required_partial"      // Ollama "memory.required.partial"
	KindProjector        Kind = "projector"             // Ollama "projector.weights"
	KindProjectorCompute Kind = "projector_compute"     // Ollama "projector.graph"
	KindOverhead         Kind = "overhead"              // Ollama "memory.gpu_overhead"
	KindLoadPeak         Kind = "load_peak"             // vLLM "Peak GPU memory after loading weights"
	KindOutside          Kind = "outside_allocator"     // vLLM's first snapshot, axolotl "misc"
	KindFreeOfBudget     Kind = "free_of_budget"        // vLLM "(within requested)"
	KindSuggestedBudget  Kind = "cache_for_budget"      // vLLM's suggestion "to fit into requested memory"
	KindSuggestedCard    Kind = "cache_for_card"        // vLLM's suggestion "to fully utilize gpu memory"
	KindConsumed         Kind = "consumed"              // vLLM "for consumed memory": weights and what lies outside the allocator
	KindGraphsFirst      Kind = "cuda_graphs_first"     // vLLM "first-capture"
	KindGraphsEach       Kind = "cuda_graphs_each"      // vLLM "per-graph"
	KindKVCacheKeys      Kind = "kv_cache_keys"         // SGLang "K size"
	KindKVCacheValues    Kind = "kv_cache_values"       // SGLang "V size"
	KindConvolutionState Kind = "convolution_state"     // SGLang "conv_state size"
	KindPeakAllocated    Kind = "peak_allocated"        // DeepSpeed "Max_MA"
	KindPeakReserved     Kind = "peak_reserved"         // DeepSpeed "Max_CA"
	KindCached           Kind = "cached"                // axolotl "cache": reserved and not allocated
	KindRuntimeBuffers   Kind = "runtime_buffers"       // TensorRT-LLM "for runtime buffers"
)

// mostReadings bounds how many numbers of engines are kept.
const mostReadings = 10_000

// engineReader finds the lines in which engines say what they hold.
type engineReader struct {
	name       string
	found      []Component
	dropped    int
	monitor    monitor // what was said before the next line of a monitor
	understood int     // lines
	refused    []refusedInWords
	model      string // of the first configuration that is printed
	open       opened // a refusal that goes on in the next line
}

// reading is where a number was found: in a line, by a writer.
type reading struct {
	component string
	by        writer
	device    int
	line      int
}

// take takes the next line. A refusal that somebody pasted in several lines is put
// together again; other lines are not, for engines write to files.
func (e *engineReader) take(l line) {
	if e.open.lines > 0 {
		if goesOn := l.starts && e.open.add(l); goesOn && !e.open.done() {
			return
		} else if joined := e.open.close(); goesOn {
			l = joined
		} else {
			e.read(joined)
		}
	} else if l.starts && e.open.begin(l) {
		return
	}
	e.read(l)
}

// read takes a line, or several that are one.
func (e *engineReader) read(l line) {
	if l.starts && e.model == "" {
		e.model = configured(l.text)
	}
	if l.starts && e.refusal(l) {
		e.understood++
		return
	}
	if !l.starts || !speaks(l.text) && e.monitor.columns == nil {
		return
	}
	by, text := prefix(l.text)
	at := reading{by: by, device: -1, line: l.number}
	before := len(e.found) + e.dropped
	switch {
	case e.ollama(at, text):
	case e.llamaCPP(at, text):
	case e.monitors(l, at, text):
	case e.further(l, at, text):
	default:
		e.vllm(at, text)
	}
	if len(e.found)+e.dropped > before {
		e.understood++
	}
}

// configured is the model that vLLM names when it begins: "Initializing a V1 LLM
// engine (v0.19.0) with config: model='Qwen/Qwen3-8B', …".
func configured(line string) string {
	if !strings.Contains(line, "LLM engine") {
		return ""
	}
	_, after, found := strings.Cut(line, "with config: model='")
	name, _, closed := strings.Cut(after, "'")
	if !found || !closed {
		return ""
	}
	return name
}

// speaks reports whether a line can be one of an engine about its memory. One of
// PyTorch's failures is not.
func speaks(text string) bool {
	if strings.Contains(text, "Tried to allocate") {
		return false
	}
	for _, word := range [...]string{"iB", "KV cache size:", "GPU blocks:", "_breakdown_print:", "stored in KV cache", "GB", "MB", "#tokens", "primary pool", "DCGM_FI_", "memory.", "fb_memory_usage", "<gpu ", "<pid>", "nvidia_smi_log"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return strings.HasPrefix(text, "|") || strings.HasPrefix(text, "- ") || fitted(strings.Fields(text)) // a table
}

// keep keeps a number.
func (e *engineReader) keep(at reading, kind Kind, scope account.Scope, value func(account.Provenance) account.Figure, printed string) {
	if len(e.found) >= mostReadings {
		e.dropped++
		return
	}
	p := account.Provenance{Origin: account.Observed, Scope: scope, Counter: string(kind), Source: e.name + ":" + strconv.Itoa(at.line)}
	e.found = append(e.found, Component{Component: at.component, Rank: at.by.rank, Device: at.device, Kind: kind,
		Bytes: value(p), Printed: printed, Line: at.line})
}

// signed reports what engines print below nothing: what is left where more is in use
// than they had counted on, and what is measured as a difference. Of everything else
// a number with a minus sign is no size.
func (k Kind) signed() bool {
	switch k {
	case KindUnaccounted, KindKVCacheAvailable, KindFreeOfBudget, KindNonTorch, KindGraphs, KindGraphsEstimated, KindGraphsFirst, KindGraphsEach:
		return true
	}
	return false
}

// size keeps a printed size; negative is one with a minus sign before it.
func (e *engineReader) size(at reading, kind Kind, scope account.Scope, number, unit string, negative bool) {
	if negative && !kind.signed() {
		return
	}
	sign := ""
	if negative {
		sign = "-"
	}
	e.keep(at, kind, scope, func(p account.Provenance) account.Figure {
		f := rounded(number, unit, p)
		high, known := f.High()
		if negative && known {
			f = account.Between(-high, -f.Low(), p)
		}
		return f
	}, sign+asPrinted(number, unit))
}

// finish hands over what was found, and gives how many lines it took.
func (e *engineReader) finish(log *Log) int {
	if e.open.lines > 0 {
		e.read(e.open.close())
	}
	log.Components = append(log.Components, e.found...)
	log.Model = e.model
	if e.dropped > 0 {
		log.Warnings = append(log.Warnings, account.Warning{Code: "more_readings",
			Text: fmt.Sprintf("%s further numbers of an engine were left out after the first %s", bytesize.Group(int64(e.dropped)), bytesize.Group(mostReadings))})
	}
	return e.understood
}
