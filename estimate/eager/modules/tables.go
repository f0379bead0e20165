package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// turning is the cosines and sines of all positions that the attention of one layer
// keeps: [positions, width].
type turning struct{ cos, sin torch.Tensor }

// keepsTables reports releases whose layers keep rotary tables, be it that nobody
// reads them any more.
func (n *Net) keepsTables() bool { return n.olderThan(noTables) && n.rotary > 0 }

// rotaryBuffers are the frequencies of the model or, of earlier releases, those of
// each layer with its tables
// (https://github.com/huggingface/transformers/blob/v4.35.2/src/transformers/models/llama/modeling_llama.py,
// _set_cos_sin_cache). Worked number: 3 layers of 2,048 positions, 32 wide, keep
// 3·(2·2,048·32·4 + 64) = 1,573,056 bytes in 32 bits.
func (n *Net) rotaryBuffers() {
	if n.rotary == 0 {
		return
	}
	if !n.keepsTables() {
		n.frequencies = n.m.Buffer(dtype.F32, n.rotary/2)
		n.m.Buffer(dtype.F32, n.rotary/2) // original_inv_freq
		return
	}
	for range n.stacks[0].layers {
		n.frequencies = n.m.Buffer(dtype.F32, n.rotary/2)
		n.turnings = append(n.turnings, turning{n.table(int64(n.model.MaxPosition)), n.table(int64(n.model.MaxPosition))})
	}
}

// table is room for cosines or sines of so many positions.
func (n *Net) table(positions int64) torch.Tensor {
	format := dtype.F32
	if embedding := n.outside.one(model.RoleTokenEmbedding); !n.olderThan(narrowTables) && embedding.Defined() {
		format = embedding.Dtype()
	}
	return n.m.Buffer(format, positions, n.rotary)
}

// keptTables is the rows of a layer's tables for a sequence, in the format of the
// stream. Tables that are too short are made again, of just the sequence.
func (n *Net) keptTables(l *layer, length int64, format dtype.Format) (cos, sin torch.Tensor) {
	m, kept := n.m, &n.turnings[l.Index]
	if length > kept.cos.Size(0) {
		was := *kept
		*kept = turning{n.table(length), n.table(length)}
		m.Drop(was.cos, was.sin)
	}
	cos, sin = m.Slice(kept.cos, 0, 0, length), m.Slice(kept.sin, 0, 0, length)
	return m.To(cos, format), m.To(sin, format)
}

// atPositions is rows of a table by the positions of the tokens: [1, length, width].
func (n *Net) atPositions(table, ids torch.Tensor) torch.Tensor {
	m := n.m
	if !n.olderThan(indexedTables) {
		return m.IndexRows(table, ids)
	}
	length, width := table.Size(0), table.Size(1)
	f := m.Function()
	f.Let(m.Empty("repeat", table.Dtype(), 1, length, width))
	return f.Return(m.Empty("gather", table.Dtype(), 1, length, width))
}

// turnedByTables is query and key turned by the tables that a layer keeps
// (apply_rotary_pos_emb of
// https://github.com/huggingface/transformers/blob/v4.29.2/src/transformers/models/llama/modeling_llama.py).
func (n *Net) turnedByTables(q, k, cos, sin, ids torch.Tensor) (torch.Tensor, torch.Tensor) {
	m := n.m
	f := m.Function(&q, &k)
	if n.olderThan(indexedTables) {
		f.Let(m.Empty("repeat", dtype.I64, 1, 1, cos.Size(0), cos.Size(1)))
	}
	c, s := n.atPositions(cos, ids), n.atPositions(sin, ids)
	qs, ks := n.rotate(q, k, c, s)
	return f.Return2(qs, ks)
}
