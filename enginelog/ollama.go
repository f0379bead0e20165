package enginelog

import (
	"slices"
	"strings"

	"floodmark/account"
)

// ollamaKeys are the attributes of Ollama's lines about memory, and what they
// say (llm/memory.go and llm/server.go; ml/device.go since 0.12). The line about
// offloading has had the messages "offload", "offload to gpu" and "offload to cuda"
// and is often pasted without any: its keys alone tell it.
// All are its own estimates, before anything is loaded, but for what is
// available.
func ollamaKeys() []said {
	const offload = "memory."
	return slices.Clone([]said{
		{offload, place{before: "memory.available"}, KindFree, account.Device},
		{offload, place{before: "memory.gpu_overhead"}, KindOverhead, account.Device},
		{offload, place{before: "memory.required.full"}, KindRequired, account.Process},
		{offload, place{before: "memory.required.partial"}, KindRequiredPartial, account.Process},
		{offload, place{before: "memory.required.kv"}, KindKVCache, account.Process},
		{offload, place{before: "memory.required.allocations"}, KindRequired, account.Process},
		{offload, place{before: "memory.weights.total"}, KindWeights, account.Process},
		{offload, place{before: "memory.graph.full"}, KindCompute, account.Process},
		{offload, place{before: "memory.graph.partial"}, KindComputePartial, account.Process},
		{offload, place{before: "projector.weights"}, KindProjector, account.Process},
		{offload, place{before: "projector.graph"}, KindProjectorCompute, account.Process},
		{`msg="inference compute"`, place{before: "total"}, KindCapacity, account.Device},
		{`msg="inference compute"`, place{before: "available"}, KindFree, account.Device},
		{`msg="model weights"`, place{before: "size"}, KindWeights, account.Process},
		{`msg="kv cache"`, place{before: "size"}, KindKVCache, account.Process},
		{`msg="compute graph"`, place{before: "size"}, KindCompute, account.Process},
		{`msg="total memory"`, place{before: "size"}, KindRequired, account.Process},
		{`msg="gpu memory"`, place{before: "free"}, KindFree, account.Device},
	})
}

// ollama reads a line of Ollama's server; false when it is none.
func (e *engineReader) ollama(at reading, text string) bool {
	found := false
	if !strings.Contains(text, "msg=") && !strings.Contains(text, "memory.required.") {
		return false
	}
	for _, key := range ollamaKeys() {
		if !strings.Contains(text, key.opening) {
			continue
		}
		value, ok := attribute(text, key.place.before)
		if !ok {
			continue
		}
		found = true
		where, scope := at.within(text)
		if scope == account.Host {
			key.scope = scope
		}
		e.values(where, key, value)
	}
	return found
}

// within is the reading with the device that an Ollama line names, and the scope
// of that.
func (at reading) within(text string) (reading, account.Scope) {
	at.component = "ollama"
	for _, key := range [...]string{"device", "buffer", "buffer_type"} {
		if backend, ok := attribute(text, key); ok {
			scope := at.of("ollama", backend)
			return at, scope
		}
	}
	return at, account.Process
}

// values reads a size, or a list of one for each device.
func (e *engineReader) values(at reading, key said, value string) {
	value, many := strings.CutPrefix(value, "[")
	squashed, _ := squash(strings.TrimSuffix(value, "]"))
	const mostDevices = 1024
	for i := 0; i < mostDevices && squashed != ""; i++ {
		m, ok := sized.since(squashed, 0)
		if !ok {
			number := squashed[:digitsFrom(squashed, 0, mostDigits)]
			if number == "" || !strings.HasPrefix(squashed[len(number):], "B") {
				return
			}
			m = match{number: number, unit: "bytes", end: len(number) + len("B")}
		}
		if many {
			at.device = i
		}
		e.size(at, key.kind, key.scope, m.number, m.unit, false)
		squashed = squashed[m.end:]
	}
}

// attribute is the value of key=value or key="value" in a line.
func attribute(text, key string) (string, bool) {
	_, after, found := strings.Cut(text, " "+key+"=")
	if !found {
		return "", false
	}
	if quoted, ok := strings.CutPrefix(after, `"`); ok {
		value, _, closes := strings.Cut(quoted, `"`)
		return value, closes
	}
	value, _, _ := strings.Cut(after, " ")
	return value, true
}
