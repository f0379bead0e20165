package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// masks makes the masks that a stack's layers use. Fused attention without
// padding needs none for all positions; a window or eager attention does
// (https://github.com/huggingface/transformers/blob/main/src/transformers/masking_utils.py).
func (n *Net) masks(f *torch.Frame, s stack, x, ids, padding torch.Tensor) (full, window torch.Tensor) {
	var anyFull, anyWindow bool
	for _, l := range s.layers {
		for _, mixer := range l.Mixers {
			a, ok := mixer.(model.Attention)
			anyWindow = anyWindow || ok && a.Window > 0
			anyFull = anyFull || !ok || a.Window == 0
		}
	}
	if anyFull {
		full = f.Let(n.mask(x, ids, padding, 0))
	}
	if anyWindow {
		window = f.Let(n.mask(x, ids, padding, windowOf(s)))
	}
	return full, window
}

func windowOf(s stack) int64 {
	for _, l := range s.layers {
		for _, mixer := range l.Mixers {
			if a, ok := mixer.(model.Attention); ok && a.Window > 0 {
				return int64(a.Window)
			}
		}
	}
	return 0
}

// mask is one causal mask, or none.
func (n *Net) mask(x, ids, padding torch.Tensor, window int64) torch.Tensor {
	if n.writesAttention() {
		return n.pairs(x, padding, window)
	}
	m := n.m
	batch, length := x.Size(0), x.Size(1)
	switch {
	case !padding.Defined():
		if !Sinks(n.model) && ids.Defined() { // whose class keeps the positions to itself
			n.packedSequences(batch, ids)
		}
	default:
		padding = m.To(padding, dtype.Bool)
	}
	if n.o.Attention != Eager && !n.o.Padded && (n.o.Attention == Flash2 || window == 0 || window >= length) {
		if padding.IsTemporary() {
			m.Drop(padding)
		}
		return torch.Tensor{}
	}
	allowed := n.allowed(batch, length, window, padding)
	if n.o.Attention != Eager {
		return allowed
	}
	f := m.Function(&allowed)
	return f.Return(m.WhereScalar(allowed, m.Empty("zeros", x.Dtype())))
}

// packedSequences looks for sequences packed into one row: positions that do not
// follow each other.
func (n *Net) packedSequences(batch int64, ids torch.Tensor) {
	m, length := n.m, ids.Size(-1)
	f := m.Function(&ids)
	defer f.End()
	f.Set(&ids, m.Expand(ids, batch, length))
	first := f.Let(m.Unary(torch.SubScalar, m.Slice(ids, -1, 0, 1)))
	inner := m.Function()
	with := inner.Let(m.Cat(-1, first, ids))
	diff := f.Let(inner.Return(m.Binary(torch.Sub, m.Slice(with, -1, 1, length+1), m.Slice(with, -1, 0, length))))
	broken := m.Unary(torch.EqScalar, diff)
	f.Let(m.Empty("cumsum", dtype.I64, batch, length))
	m.Drop(m.Empty("_to_copy", dtype.I64, batch, length), broken)
}

// allowed is which key each query sees, [batch, 1, length, length]: one mask for
// all sequences, unless there is padding.
func (n *Net) allowed(batch, length, window int64, padding torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	f.Let(m.Arange(batch))
	rows := f.Let(m.Unary(torch.AddScalar, m.Arange(length)))
	columns := f.Let(m.Unary(torch.AddScalar, m.Arange(length)))
	q := func() torch.Tensor { return m.Unsqueeze(rows, 1) }
	k := func() torch.Tensor { return m.Unsqueeze(columns, 0) }
	inner := m.Function()
	var all torch.Tensor
	if window > 0 {
		near := m.Binary(torch.Ge, k(), m.Unary(torch.SubScalar, q()))
		all = inner.Let(m.Binary(torch.And, m.Empty("new_ones", dtype.Bool), near))
	}
	causal := m.Binary(torch.Ge, q(), k())
	if all.Defined() {
		causal = m.Binary(torch.And, all, causal)
	}
	causal = inner.Return(causal)
	if padding.Defined() {
		causal = m.Expand(causal, batch, length, length)
		causal = m.Binary(torch.And, causal, m.Unsqueeze(padding, 1))
		return f.Return(m.Unsqueeze(causal, 1))
	}
	return f.Return(m.Expand(causal, batch, 1, length, length))
}
