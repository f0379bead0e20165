package hfmodel

import (
	"slices"
	"strings"
)

// mixing is what kind of mixer a layer has. The words are those that
// layer_types uses.
type mixing string

const (
	across  mixing = "cross_attention"
	full    mixing = "full_attention"
	sliding mixing = "sliding_attention"
	chunked mixing = "chunked_attention"
	recur   mixing = "linear_attention"
	conv    mixing = "conv"
	mamba   mixing = "mamba"
	hybrid  mixing = "hybrid" // a block that several layers share, and a state-space mixer
	absent  mixing = "none"
)

// step is the plan of one layer.
type step struct {
	mixing mixing
	sparse bool // a mixture of experts instead of a dense network
	noFeed bool // no feed-forward network at all
	// cacheOf is the layer whose keys and values this one reads; −1 for its own.
	cacheOf int
	block   *section // what block_configs say of the layer, where a family has them
}

// plan says for every layer what it is, from whichever of the many ways of
// saying so the configuration uses.
func (s section) plan(k *stack, layers int64) []step {
	if pattern := s.text("hybrid_override_pattern"); pattern != "" {
		return s.patterned(pattern, layers)
	}
	if kinds := s.texts("layers_block_type"); slices.Contains(kinds, "moe") || slices.Contains(kinds, "mlp") {
		return s.blocks(kinds, layers)
	}
	steps := make([]step, layers)
	for i, m := range s.mixings(k, layers) {
		steps[i].mixing, steps[i].cacheOf = m, -1
	}
	for _, i := range s.numbers("cross_attention_layers") {
		if k.crossing && i < layers {
			steps[i].mixing = across
		}
	}
	s.irregular(steps)
	if k.attn.cacheTail != "" {
		borrow(steps, s.or(k.attn.cacheTail, 0))
	}
	for i, sparse := range s.sparse(k, layers) {
		steps[i].sparse = sparse
	}
	return steps
}

// borrow makes the last layers read the cache of the last layer of their kind
// before them, as Gemma 3n and 4 do.
func borrow(steps []step, tail int64) {
	first := len(steps) - int(min(tail, int64(len(steps))))
	last := map[mixing]int{}
	for i := range steps {
		if i < first {
			last[steps[i].mixing] = i
		} else if of, ok := last[steps[i].mixing]; ok {
			steps[i].cacheOf = of
		}
	}
}

// blocks reads a list whose layers have either a mixer or a feed-forward
// network, Nemotron-H's pattern in words.
func (s section) blocks(kinds []string, layers int64) []step {
	var letters strings.Builder
	for _, kind := range kinds {
		switch kind {
		case "mamba", "mamba2", "linear_attention":
			letters.WriteByte('M')
		case "attention", "full_attention":
			letters.WriteByte('*')
		case "mlp":
			letters.WriteByte('-')
		case "moe":
			letters.WriteByte('E')
		default:
			letters.WriteByte('?')
		}
	}
	return s.patterned(letters.String(), layers)
}

// patterned reads Nemotron-H's pattern, in which a layer is one letter and has
// either a mixer or a feed-forward network.
func (s section) patterned(pattern string, layers int64) []step {
	steps := make([]step, layers)
	for i := range steps {
		letter := byte('?')
		if i < len(pattern) {
			letter = pattern[i]
		}
		switch letter {
		case 'M':
			steps[i] = step{mixing: mamba, noFeed: true, cacheOf: -1}
		case '*':
			steps[i] = step{mixing: full, noFeed: true, cacheOf: -1}
		case '-':
			steps[i] = step{mixing: absent}
		case 'E':
			steps[i] = step{mixing: absent, sparse: true}
		default:
			s.doubt(s.path+"hybrid_override_pattern", string(letter), "a layer of this letter is not known")
			steps[i] = step{mixing: absent, noFeed: true}
		}
	}
	return steps
}

// mixings is the mixer of each layer.
func (s section) mixings(k *stack, layers int64) []mixing {
	if listed := s.layerTypes(k, layers); listed != nil {
		return listed
	}
	kinds := make([]mixing, layers)
	usual := k.usual
	if usual == "" {
		usual = full
	}
	for i := range kinds {
		kinds[i] = usual
	}
	if usual == full && s.window() > 0 {
		s.slide(kinds)
	}
	if k.chunks && s.or("attention_chunk_size", 0) > 0 {
		s.chunk(kinds)
	}
	s.interleave(kinds)
	return kinds
}

// layerTypes reads an explicit list of layer kinds; nil when there is none.
func (s section) layerTypes(k *stack, layers int64) []mixing {
	const key = "layer_types|layers_block_type"
	listed := s.texts(key)
	if listed == nil {
		return nil
	}
	kinds := make([]mixing, layers)
	for i := range kinds {
		if i >= len(listed) {
			_, field := s.find(key)
			s.doubt(field, plural(len(listed)), "the list is shorter than the stack of layers")
			kinds[i] = absent
			continue
		}
		kinds[i] = k.kindOf(listed[i])
	}
	// Periods and lists that say the same in another way are then spent.
	s.has("sliding_window_pattern|_sliding_window_pattern|full_attn_idxs|attn_layer_indices|full_attention_interval|attn_layer_period|attn_layer_offset")
	return kinds
}

// kindOf is the kind that a word of the list means. transformers 5 writes
// linear_attention for the state-space layers of every family, and
// indexed_attention or deepseek_sparse_attention for latent attention whose
// positions an indexer chooses.
func (k *stack) kindOf(word string) mixing {
	switch m := mixing(word); {
	case word == "attention", word == "indexed_attention", word == "deepseek_sparse_attention", word == k.sparseWord && word != "":
		return full
	case word == "mamba2", m == recur && k.mamba != nil && k.delta == nil:
		return mamba
	default:
		return m
	}
}

// window is how many positions sliding layers keep; 0 when nothing slides.
func (s section) window() int64 {
	w := int64(s.real(keyWindow))
	if !s.is("use_sliding_window=true") || w < 0 {
		return 0
	}
	return w
}

// slide marks the layers that see a window only: all but every n-th where the
// configuration states a pattern, those from max_window_layers on where it
// switches windows on, else all.
func (s section) slide(kinds []mixing) {
	pattern := s.or("sliding_window_pattern|_sliding_window_pattern", 0)
	first := int64(0)
	if s.has("use_sliding_window") {
		first = s.or("max_window_layers", 0)
	}
	for i := range kinds {
		if pattern > 0 && (int64(i)+1)%pattern == 0 || int64(i) < first {
			continue
		}
		kinds[i] = sliding
	}
}

// chunk marks the layers that attend within chunks: those with rotary
// positions, all but every fourth where no list says so (Llama4TextConfig).
func (s section) chunk(kinds []mixing) {
	every := max(1, s.or("no_rope_layer_interval", 4))
	rotary := s.numbers("no_rope_layers") // 1 for rotary, in spite of its name
	for i := range kinds {
		turns := (int64(i)+1)%every != 0
		if len(rotary) > i {
			turns = rotary[i] != 0
		}
		if turns {
			kinds[i] = chunked
		}
	}
}

// interleave marks layers by the periods and lists of hybrid families.
func (s section) interleave(kinds []mixing) {
	if every := s.or("full_attention_interval", 0); every > 0 {
		for i := range kinds {
			if kinds[i] = recur; (int64(i)+1)%every == 0 {
				kinds[i] = full
			}
		}
	}
	if period := s.or("attn_layer_period", 0); period > 0 {
		offset := s.or("attn_layer_offset", 0)
		for i := range kinds {
			if kinds[i] = mamba; int64(i)%period == offset {
				kinds[i] = full
			}
		}
	}
	for i, attends := range s.numbers("attn_type_list") {
		if i < len(kinds) && attends == 0 {
			kinds[i] = recur
		}
	}
	for i, windowed := range s.numbers("hybrid_layer_pattern") {
		if i < len(kinds) {
			if kinds[i] = full; windowed == 1 {
				kinds[i] = sliding
			}
		}
	}
	among(kinds, s.numbers("full_attn_idxs"), conv, 0)
	among(kinds, s.numbers("attn_layer_indices"), mamba, 0)
	if s.has("linear_attn_config.kda_layers") { // both lists count from one
		among(kinds, s.numbers("linear_attn_config.full_attn_layers"), recur, 1)
	}
}

// among makes the layers of a list attend, and the others what else there is.
// A list that is absent says nothing.
func among(kinds []mixing, attending []int64, other mixing, first int64) {
	if attending == nil {
		return
	}
	for i := range kinds {
		kinds[i] = other
	}
	for _, i := range attending {
		if i >= first && i-first < int64(len(kinds)) {
			kinds[i-first] = full
		}
	}
}

// sparse says which layers are mixtures of experts.
func (s section) sparse(k *stack, layers int64) []bool {
	sparse := make([]bool, layers)
	if k.experts == nil || s.or(keyExperts, 0) <= 1 {
		return sparse
	}
	first := s.or("first_k_dense_replace", 0)
	every := max(1, s.or("decoder_sparse_step|interleave_moe_layer_step|expert_layer_period", 1))
	// Families count the n-th layer from its end; Jamba states the offset.
	offset := s.or("expert_layer_offset", every-1)
	for i := range sparse {
		sparse[i] = int64(i) >= first && int64(i)%every == offset
	}
	s.sparseLists(sparse)
	return sparse
}

// sparseLists applies the lists by which families name dense or sparse layers
// one by one.
func (s section) sparseLists(sparse []bool) {
	for _, i := range s.numbers("mlp_only_layers") {
		if i < int64(len(sparse)) {
			sparse[i] = false
		}
	}
	if only := s.numbers("moe_layers"); only != nil {
		clear(sparse)
		for _, i := range only {
			if i < int64(len(sparse)) {
				sparse[i] = true
			}
		}
	}
	const freq = "moe_layer_freq"
	if each := s.numbers(freq); each != nil {
		for i := range sparse {
			sparse[i] = i < len(each) && each[i] != 0
		}
	} else if every := s.scalar(freq); every > 1 {
		for i := range sparse {
			sparse[i] = sparse[i] && int64(i)%every == 0
		}
	}
	if kinds := s.texts("mlp_layer_types"); kinds != nil {
		for i := range sparse {
			sparse[i] = i < len(kinds) && strings.Contains(kinds[i], "sparse")
		}
	}
}
