package enginelog

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
)

// llamaCPP reads a line of llama.cpp or of what is built on it; false when it is
// none. The texts are those of src/llama-model.cpp, src/llama-kv-cache.cpp and
// src/llama-context.cpp.
func (e *engineReader) llamaCPP(at reading, text string) bool {
	if before, after, found := strings.Cut(text, " buffer size ="); found {
		return e.buffer(at, before, after)
	}
	if _, row, found := strings.Cut(text, "_breakdown_print: | "); found {
		return e.breakdown(at, strings.TrimSpace(row))
	}
	if row := strings.TrimLeft(text, "| "); strings.HasPrefix(row, "- ") && strings.Contains(row, "): ") && strings.Count(row, " = ") == 2 {
		return e.breakdown(at, row) // pasted without the name of the function
	}
	if _, after, found := strings.Cut(text, "KV self size"); found {
		return e.wholeCache(at, after)
	}
	if before, after, found := strings.Cut(text, ": size ="); found && strings.Contains(before, "llama_") && strings.Contains(after, " cells") {
		return e.wholeCache(at, after)
	}
	if fields := strings.Fields(text); fitted(fields) {
		return e.fit(at, fields)
	}
	return false
}

// wholeCache reads the cache of all devices together, of which no device is named:
// "KV self size  = 1098.00 MiB, K (f16): 549.00 MiB, V (f16): 549.00 MiB", in newer
// builds "llama_kv_cache: size = 4352.00 MiB (131072 cells, 16 layers, 4/1 seqs), …".
func (e *engineReader) wholeCache(at reading, after string) bool {
	at.component = "llama.cpp"
	kinds := map[string]Kind{"": KindKVCache, "K": KindKVCacheKeys, "c^KV": KindKVCacheKeys, "V": KindKVCacheValues}
	read := false
	for i, part := range strings.Split(strings.TrimLeft(after, " ="), ", ") {
		name, size, named := strings.Cut(strings.TrimSpace(part), "): ")
		if i == 0 {
			name, size, named = "", part, true
		}
		name, _, _ = strings.Cut(name, " (")
		kind, known := kinds[name]
		squashed, _ := squash(size)
		m, ok := sized.since(squashed, 0)
		if !named || !known || !ok || i > 0 && name == "" {
			continue
		}
		e.size(at, kind, account.Process, m.number, m.unit, false)
		read = true
	}
	return read
}

// fitted reports a row of --fit-print: a backend and what model, context and
// compute take on it, in whole MiB (common_fit_print of common/fit.cpp).
func fitted(fields []string) bool {
	if len(fields) != 4 {
		return false
	}
	name := strings.TrimRight(fields[0], "0123456789")
	if name == fields[0] && name != "Host" && name != "CPU" || !slices.Contains([]string{"CUDA", "ROCm", "MTL", "Metal", "Vulkan", "SYCL", "MUSA", "Host", "CPU"}, name) {
		return false
	}
	for _, number := range fields[1:] {
		if digitsUntil(number, len(number), 12) != 0 || number == "" {
			return false
		}
	}
	return true
}

// fit reads a row of --fit-print.
func (e *engineReader) fit(at reading, fields []string) bool {
	scope := at.of("llama.cpp", fields[0])
	for i, kind := range []Kind{KindWeights, KindContext, KindCompute} {
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return false
		}
		e.mebibytes(at, kind, scope, n)
	}
	return true
}

// buffer reads "llama_kv_cache:      CUDA0 KV buffer size =   379.23 MiB". A
// loader that names no kind means weights.
func (e *engineReader) buffer(at reading, before, after string) bool {
	squashed, _ := squash(after)
	m, ok := sized.since(squashed, 0)
	words := strings.Fields(before)
	if !ok || len(words) == 0 {
		return false
	}
	kind, named := KindWeights, true
	switch words[len(words)-1] {
	case "model":
	case "KV":
		kind = KindKVCache
	case "compute":
		kind = KindCompute
	case "output":
		kind = KindOutput
	case "RS":
		kind = KindRecurrent
	default:
		named = false
	}
	if named {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || strings.HasSuffix(words[len(words)-1], ":") {
		return false
	}
	scope := at.of("llama.cpp", words[len(words)-1])
	e.size(at, kind, scope, m.number, m.unit, false)
	return true
}

// of sets the backend that a number is of, and gives the scope of it. "CUDA1"
// is device 1; "CPU", "CPU_Mapped", "CUDA_Host" and "Host" are main memory.
func (at *reading) of(engine, backend string) account.Scope {
	at.component = engine + " " + short(backend)
	if strings.HasPrefix(backend, "CPU") || strings.HasSuffix(backend, "Host") {
		return account.Host
	}
	if n := digitsUntil(backend, len(backend), 6); n > 0 && n < len(backend) {
		at.device = ordinal(backend[n:])
	}
	return account.Process
}

// breakdown reads a row of the table that is printed at the end:
//
//   - CUDA0 (RTX 4090) | 24080 = 9436 + (14193 = 13169 + 38 + 985) + 451
//
// which is total = free + (self = model + context + compute) + unaccounted, in
// whole MiB rounded down. Main memory has self and its parts only.
func (e *engineReader) breakdown(at reading, row string) bool {
	row, opens := strings.CutPrefix(row, "- ")
	name, numbers, closes := strings.Cut(row, "| ")
	if !closes {
		name, numbers, closes = strings.Cut(row, "): ")
	}
	fields := strings.Fields(name)
	if !opens || !closes || len(fields) == 0 {
		return false
	}
	scope := at.of("llama.cpp", fields[0])
	kinds := []Kind{KindCapacity, KindFree, KindInUse, KindWeights, KindContext, KindCompute, KindUnaccounted}
	list := strings.FieldsFunc(numbers, func(r rune) bool { return !strings.ContainsRune("-0123456789", r) })
	switch len(list) {
	case len(kinds):
	case 4:
		kinds = kinds[2:6]
	default:
		return false
	}
	for i, text := range list {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false
		}
		e.mebibytes(at, kinds[i], scope, n)
	}
	return true
}

// mebibytes keeps a whole number of MiB. Only what is unaccounted for can be
// below 0; it is printed so, or as what 2⁶⁴ bytes leave of it, which is 2⁴⁴ MiB.
func (e *engineReader) mebibytes(at reading, kind Kind, scope account.Scope, n int64) {
	const mib, wrap = int64(1) << 20, int64(1) << 44
	if kind == KindCapacity || kind == KindFree {
		scope = account.Device
	}
	if kind == KindUnaccounted && n >= wrap/2 && n < wrap {
		n -= wrap
	}
	e.keep(at, kind, scope, func(p account.Provenance) account.Figure {
		if n < 0 && !kind.signed() {
			return account.Unknown("below 0, which a size cannot be", p)
		}
		if n > math.MaxInt64/mib-1 || n < math.MinInt64/mib+1 {
			return account.Unknown("more bytes than there can be", p)
		}
		return account.Between(n*mib, n*mib+mib-1, p)
	}, strconv.FormatInt(n, 10)+" MiB")
}

// ordinal is a number of at most six digits.
func ordinal(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
