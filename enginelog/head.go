package enginelog

import (
	"cmp"
	"strings"

	"floodmark/internal/sorting"
)

// The texts are those of PyTorch's caching allocators (CUDA and HIP, XPU, MPS,
// and the backends that copied theirs), of its error checks, of NCCL's and
// RCCL's alloc.h, of PyTorch's CUDAMallocAsyncAllocator.cpp, which says first on which
// device, and of llama.cpp's ggml-cuda.cu, which says first what it tried.
const (
	ranOut = "outofmemory"
	calloc = "FailedtoCUDAcalloc"
	// "memory mapping failed", of expandable segments, and "memory allocation failed"
	unmapped = "failedwithOOMondevice"
	platform = "CurrentplatformcanNOTallocatememoryblock"
	buffer   = "Invalidbuffersize:"
	// tried begins a message only where the beginning of a paste is cut off.
	tried = "Triedtoallocate"
	// llama.cpp: "allocating 279356.51 MiB on device 0: cudaMalloc failed: out of memory"
	ggmlTried, ggmlRefused = "allocating", "cudaMallocfailed:"
	// backend:cudaMallocAsync: "Allocation on device 0 would exceed allowed memory. (out of memory)"
	asyncTried, asyncRefused = "Allocationondevice", "wouldexceedallowedmemory.("
	// tail is how much of the text before is kept, to find a head that a
	// terminal wrapped: no head is longer.
	tail = 96
)

// span is where a head stands in squashed text.
type span struct{ at, end int }

// heads finds where messages begin, in their order. Every place is looked at
// once.
func heads(text string) []span {
	var found []span
	for _, word := range [...]string{ranOut, tried, calloc, unmapped, platform, buffer} {
		for from := 0; ; {
			i := strings.Index(text[from:], word)
			if i < 0 {
				break
			}
			at := from + i
			from = at + len(word)
			if head, ok := headAround(text, word, at); ok {
				found = append(found, head)
			}
		}
	}
	sorting.By(found, func(i, j int) int { return cmp.Compare(found[i].at, found[j].at) })
	return found
}

// headAround is the head that a word belongs to.
func headAround(text, word string, at int) (span, bool) {
	end := at + len(word)
	switch word {
	case ranOut:
		if n := max(ggmlHead(text[:at]), asyncHead(text[:at])); n > 0 {
			return span{at - n, end}, true
		}
		before, quote := refuser(text[:at])
		if before == 0 || quote && !strings.HasPrefix(text[end:], "'") {
			return span{}, false
		}
		if quote {
			end++
		}
		return span{at - before, end}, true
	case unmapped:
		for _, word := range [...]string{"memorymapping", "memoryallocation", "expandable_segments:"} {
			if strings.HasSuffix(text[:at], word) {
				at -= len(word)
			}
		}
	case buffer:
		if end == len(text) || !digit(text[end]) {
			return span{}, false
		}
	}
	return span{at, end}, true
}

// refuser is how many bytes before "out of memory" name who refused, and
// whether the words were opened by a quotation mark.
func refuser(before string) (n int, quote bool) {
	for _, name := range [...]string{
		"CUDA", "Cuda", "HIP", "XPU", "NPU", "MUSA", "MLU", "MPSbackend", "cudaruntimeerror(2):",
		"CUDAerror:", "HIPerror:", "XPUerror:", "CUDAdrivererror:", "HIPdrivererror:", "XPUdrivererror:",
	} {
		if strings.HasSuffix(before, name) {
			return len(name), false
		}
	}
	for _, name := range [...]string{"Cudafailure'", "Cudafailure2'"} {
		if strings.HasSuffix(before, name) {
			return len(name), true
		}
	}
	return 0, false
}

// ggmlHead is how many bytes before "out of memory" say what llama.cpp tried,
// and on which device.
func ggmlHead(before string) int {
	text, found := strings.CutSuffix(before, ":"+ggmlRefused)
	if !found {
		return 0
	}
	text, found = strings.CutSuffix(text[:digitsUntil(text, len(text), 6)], "ondevice")
	if !found {
		return 0
	}
	m, ok := sized.until(text, len(text))
	if !ok || !strings.HasSuffix(text[:m.at], ggmlTried) {
		return 0
	}
	return len(before) - m.at + len(ggmlTried)
}

// asyncHead is how many bytes before "out of memory" say on which device the
// allocator that leaves pools to the driver was refused.
func asyncHead(before string) int {
	text, found := strings.CutSuffix(before, asyncRefused)
	if !found {
		return 0
	}
	text, found = strings.CutSuffix(text[:digitsUntil(text, len(text), 6)], asyncTried)
	if !found {
		return 0
	}
	return len(before) - len(text)
}
