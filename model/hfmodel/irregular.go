package hfmodel

import "floodmark/internal/source"

// irregular applies block_configs, by which NVIDIA's searched architectures
// (DeciLM, Nemotron-NAS) give every layer attention and a feed-forward network
// of its own, or neither.
func (s section) irregular(steps []step) {
	blocks := s.list("block_configs")
	for i := range steps {
		if i >= len(blocks) {
			break
		}
		block := section{ledger: s.ledger, object: blocks[i], path: s.path + "block_configs[].", layer: -1}
		steps[i].block = &block
		if block.is("attention.no_op") {
			steps[i].mixing = absent
		}
		if block.is("attention.replace_with_linear") || block.is("ffn.replace_with_linear") {
			s.doubt(s.path+"block_configs", "replace_with_linear", "a layer replaced by one matrix is not known here")
		}
		steps[i].noFeed = block.is("ffn.no_op")
	}
}

// kvHeads is how many heads of keys and values the block states: the query
// heads over the size of a group.
func (p step) kvHeads(heads, usual int64) int64 {
	if p.block == nil {
		return usual
	}
	if group := p.block.or("attention.n_heads_in_group", 0); group > 0 {
		return heads / group
	}
	return usual
}

// width is the intermediate size that the block, if there is one, states as a multiple of the
// hidden size: two thirds of it, rounded up to 256, as in Llama's first code.
// Worked number: 5.25 of 8192 is 28672.
func (p step) width(hidden int64) int64 {
	if p.block == nil {
		return 0
	}
	times := p.block.real("ffn.ffn_mult")
	if times <= 0 || times > 1024 {
		p.block.fail(source.InField(p.block.file, p.block.path+"ffn.ffn_mult", "is %v, expected a factor between 0 and 1024", times))
		return 0
	}
	w := int64(2 * times * float64(hidden) / 3)
	return 256 * ((w + 255) / 256)
}
