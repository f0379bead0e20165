package ggufmodel

import (
	"strings"

	"floodmark/internal/gguf"
	"floodmark/model"
)

// metadata is the keys under an architecture's name, and which were read.
type metadata struct {
	file         *gguf.File
	architecture string
	used         map[string]bool
	odd          map[string]string // keys whose value is no count, and why
}

// find is a value under the architecture's name.
func (m *metadata) find(key string) gguf.Value {
	full := m.architecture + "." + key
	m.used[full] = true
	return m.file.Value(full)
}

// at is a number for a layer: keys that may differ by layer are a number or an
// array of one for each. It is otherwise where there is no such key.
func (m *metadata) at(key string, layer int, otherwise int64) int {
	v := m.find(key)
	n, ok := v.Int()
	list, listed := v.Ints()
	if listed && layer >= 0 && layer < len(list) {
		n, ok = list[layer], true
	}
	switch {
	case ok && n >= 0 && n <= maxSize:
		return int(n)
	case v.Type == gguf.Absent:
	case listed && layer < 0:
		m.odd[key] = "is a list, and one number for all layers is expected"
	case listed && !ok:
		m.odd[key] = "is a list shorter than the layers"
	default:
		m.odd[key] = "is no count"
	}
	return int(otherwise)
}

// number is a number that all layers share; 0 where there is none.
func (m *metadata) number(key string) int { return m.at(key, -1, 0) }

func (m *metadata) has(key string) bool { return m.find(key).Type != gguf.Absent }

// switches is an array with a truth for each layer, written as booleans or as
// integers; nil where there is none.
func (m *metadata) switches(key string) []bool {
	v := m.find(key)
	if list, ok := v.Bools(); ok {
		return list
	}
	numbers, _ := v.Ints()
	var list []bool
	for _, n := range numbers {
		list = append(list, n != 0)
	}
	return list
}

// windowed says whether a layer sees a sliding window only, and whether it is
// known. The list in the file counts, then the period of the architecture.
func (m *metadata) windowed(layer int) (slides, known bool) {
	if list := m.switches("attention.sliding_window_pattern"); layer < len(list) {
		return list[layer], true
	}
	if period, is := m.find("attention.sliding_window_pattern").Int(); is && period > 0 && period < maxLayers {
		return (layer+1)%int(period) != 0, true
	}
	period, known := windowPeriod(m.architecture)
	if period == 0 {
		return false, known
	}
	return (layer+1)%period != 0, known
}

// windowPeriod is how often a layer without a window comes in architectures
// whose files do not say so: each n-th layer sees everything (set_swa_pattern
// in src/llama-model.cpp of llama.cpp). 0 is an architecture that ignores the
// key.
func windowPeriod(architecture string) (period int, known bool) {
	switch architecture {
	case "gemma2", "gpt-oss", "gptoss":
		return 2, true
	case "gemma3", "gemma-embedding":
		return 6, true
	case "gemma3n", "gemma4":
		return 5, true
	case "cohere2", "exaone4", "olmo2", "olmo3":
		return 4, true
	case "llama", "qwen2", "qwen2vl", "qwen3", "qwen2moe", "qwen3moe", "phi3":
		return 0, true
	}
	return 0, false
}

// leftOver lists the keys of the architecture that bear on sizes by their name
// and that nobody read.
func (m *metadata) leftOver() []model.Unknown {
	var list []model.Unknown
	for _, key := range m.file.Keys {
		rest, mine := strings.CutPrefix(key, m.architecture+".")
		if why := m.odd[rest]; mine && why != "" {
			list = append(list, model.Unknown{Field: key, Value: shown(m.file.Value(key)), Why: why})
		}
		if !mine || m.used[key] || harmless(rest) {
			continue
		}
		for _, mark := range []string{"_length", "_count", "_size", "_rank", "_dim", "_layers", "window", "pattern"} {
			if strings.Contains(rest, mark) {
				list = append(list, model.Unknown{Field: key, Value: shown(m.file.Value(key)), Why: "this key was not read, and it may bear on sizes"})
				break
			}
		}
	}
	return list
}

func shown(v gguf.Value) string {
	if v.Type == gguf.Array {
		return "a list"
	}
	if s, ok := v.Text(); ok {
		return s[:min(len(s), 40)]
	}
	return v.Type.String()
}

// harmless keys bear on no size that memory depends on.
func harmless(key string) bool {
	for _, start := range []string{"rope.", "vision.", "audio.", "tokenizer.", "altup.", "laurel_rank", "vocab_size", "expert_weights", "expert_group", "expert_gating", "attention.key_length_mla", "attention.value_length_mla",
		"embedding_length_per_layer_input", "leading_dense_block_count", "interleave_moe_layer_step", "moe_every_n_layers", "num_kv_shared_layers", "head_dim", "attention.group_norm_groups", "pooling_type", "decoder_start_token_id", "attention.relative_buckets_count", "features_length", "image_size", "patch_size", "num_channels"} {
		if strings.HasPrefix(key, start) {
			return true
		}
	}
	return false
}
