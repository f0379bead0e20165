package llamacpp

import (
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/workload"
)

const (
	// microBatch is the positions of one graph (n_ubatch of common/common.h).
	microBatch = 512
	// padding is the cells of which no part is reserved
	// (https://github.com/ggml-org/llama.cpp/issues/17037).
	padding = 256
	// windowBuild is the first build with a cache of its own for windows
	// (https://github.com/ggml-org/llama.cpp/pull/13194).
	windowBuild = 5427
	// flashBuild is the first build that uses flash attention unless told not to
	// (https://github.com/ggml-org/llama.cpp/pull/15434).
	flashBuild = 6325
	// cappedBuild is where it is no longer certain that a graph is reserved with
	// logits of every position: servers of later builds cap them (n_outputs_max of
	// src/llama-cparams.h).
	cappedBuild = 8000
	// ollamaMemory is the positions that Ollama's engine keeps of gpt-oss's windows
	// for each slot (fs/ggml/ggml.go, GraphSize).
	ollamaMemory = 4096
)

// scoring is whether attention makes scores of every pair of positions.
type scoring int

const (
	flash scoring = iota
	either
	scored
)

// options are the engine's settings, those that nobody gave by its build.
type options struct {
	ollama        bool
	build         int // 0 where nobody said it
	slots, length int64
	micro         int64
	scoring       scoring
	assumesFlash  bool
	wholeWindows  bool // windows are certainly given the whole length
	capped        bool // the reserved graph may have logits of few positions
	notes         []account.Warning
}

// resolve fills in the defaults.
func resolve(in estimate.Input, ollama bool) options {
	w := in.Workload
	o := options{ollama: ollama, micro: microBatch}
	context, _ := w.Dimension(workload.Context)
	generated, _ := w.Dimension(workload.Generated)
	o.length, o.slots = context+generated, 1
	if n, declared := w.Dimension(workload.Sequences); declared {
		o.slots = n
	}
	if s := w.Serving; s != nil {
		o.length, o.slots = max(o.length, s.MaxLength), max(o.slots, s.MaxRequests)
		if s.Budget != nil && s.Budget.BatchedTokens > 0 {
			o.micro = s.Budget.BatchedTokens
		}
		o.wholeWindows = s.Budget != nil && s.Budget.OneKind
	}
	if o.length == 0 {
		o.length = int64(in.Model.MaxPosition)
		o.note("length_from_model", "no context was given: the positions that the model declares are assumed for every slot")
	}
	o.micro = min(o.micro, max(1, o.length*max(1, o.slots)))
	o.version(w.Engine.Version)
	switch {
	case slices.Contains(w.Features, workload.FlashAttention):
		o.scoring, o.assumesFlash = flash, false
	case slices.Contains(w.Features, workload.NoFlashAttention):
		o.scoring, o.assumesFlash = scored, false
	}
	return o
}

// version is what the build decides.
func (o *options) version(text string) {
	if o.ollama {
		// Before 0.12 flash attention had to be asked for (OLLAMA_FLASH_ATTENTION);
		// later it is on for models on a list that grows (fs/ggml/ggml.go).
		o.scoring, o.capped = either, true
		if early(text) {
			o.scoring, o.capped = scored, false
		}
		return
	}
	o.build, _ = strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(text), "b"))
	o.scoring, o.capped = flash, o.build == 0 || o.build >= cappedBuild
	o.assumesFlash = o.build == 0
	switch {
	case o.build == 0:
		o.note("build_assumed", "the workload does not say which build of llama.cpp runs (llama.cpp@b9000): the rules of the newest are assumed")
	case o.build < flashBuild:
		o.scoring = scored
	}
	o.wholeWindows = o.wholeWindows || o.build > 0 && o.build < windowBuild
}

// early reports an Ollama before 0.12.
func early(text string) bool {
	parts := strings.SplitN(strings.TrimSpace(text), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, also := strconv.Atoi(parts[1])
	return err == nil && also == nil && major == 0 && minor < 12
}

func (o *options) note(code, text string) {
	o.notes = append(o.notes, account.Warning{Code: code, Text: text})
}
