package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// pairs is the mask over pairs of positions as releases made it before all classes
// shared their masks, or none. A batch without padding comes with a mask of ones, or
// with none.
func (n *Net) pairs(x, padding torch.Tensor, window int64) torch.Tensor {
	length := x.Size(1)
	switch {
	case n.o.Attention == Flash2 && !n.olderThan(sharedMask):
		return torch.Tensor{}
	case !n.olderThan(bufferedMask) && n.olderThan(madeMask):
		return n.repeatedPairs(x, padding)
	case !n.olderThan(bufferedMask):
		return n.madePairs(x, padding)
	case n.o.Attention != Eager: // which is said to be causal instead
		if padding.Defined() {
			n.m.Drop(n.m.Unary(torch.EqScalar, padding))
		}
		return torch.Tensor{}
	case n.olderThan(sharedMask) || padding.Defined():
		return n.pairsOfEach(x, padding, window)
	}
	return n.m.Expand(n.causalPairs(x, window), x.Size(0), 1, length, length)
}

// pairsOfEach is a mask for each sequence: what is padding in it, and what is later
// (_prepare_decoder_attention_mask of
// https://github.com/huggingface/transformers/blob/v4.31.0/src/transformers/models/llama/modeling_llama.py).
func (n *Net) pairsOfEach(x, padding torch.Tensor, window int64) torch.Tensor {
	m, batch, length := n.m, x.Size(0), x.Size(1)
	f := m.Function()
	if !padding.Defined() {
		f.Let(m.Empty("ones", dtype.Bool, batch, length))
	}
	causal := f.Let(n.causalPairs(x, window))
	inner := m.Function()
	expanded := inner.Let(m.Empty("_to_copy", x.Dtype(), batch, 1, length, length))
	inverted := inner.Let(m.Unary(torch.RsubScalar, expanded))
	own := f.Let(inner.Return(m.MaskedFill(inverted, m.Empty("_to_copy", dtype.Bool, batch, 1, length, length))))
	return f.Return(m.Binary(torch.Add, own, causal))
}

// causalPairs is what no position may read, [length, length], in the format of the
// stream.
func (n *Net) causalPairs(x torch.Tensor, window int64) torch.Tensor {
	m, length := n.m, x.Size(1)
	f := m.Function()
	if window > 0 && n.olderThan(sharedMask) {
		return f.Return(n.slidingPairs(f, length, x.Dtype()))
	}
	mask := f.Let(m.Empty("full", dtype.F32, length, length))
	f.Let(m.Arange(length))
	m.Drop(m.Empty("lt", dtype.Bool, length, length))
	f.Set(&mask, m.To(mask, x.Dtype()))
	if window > 0 {
		ones := m.Empty("ones_like", dtype.I32, length, length)
		near := m.Empty("triu", dtype.I32, length, length)
		m.Drop(ones)
		f.Let(m.Unary(torch.RsubScalar, near))
		m.Drop(m.Empty("_to_copy", dtype.Bool, length, length))
	}
	return f.Return(mask)
}

// slidingPairs is _make_sliding_window_causal_mask: the logarithm of whole numbers
// (https://github.com/huggingface/transformers/blob/v4.34.1/src/transformers/models/mistral/modeling_mistral.py).
func (n *Net) slidingPairs(f *torch.Frame, length int64, format dtype.Format) torch.Tensor {
	m := n.m
	f.Let(m.Empty("full", dtype.I64, length, length))
	mask := f.Let(m.Empty("tril", dtype.I64, length, length))
	f.Set(&mask, m.Empty("triu", dtype.I64, length, length))
	f.Set(&mask, m.To(m.Empty("log", dtype.F32, length, length), format))
	return mask
}

// repeatedPairs is the buffer over all positions, repeated for each sequence
// (_update_causal_mask of
// https://github.com/huggingface/transformers/blob/v4.38.2/src/transformers/models/llama/modeling_llama.py).
// Worked number: 10 sequences and 4,096 positions in 16 bits are 335,544,320 bytes,
// and as much again while the mask is made.
func (n *Net) repeatedPairs(x, padding torch.Tensor) torch.Tensor {
	m, batch, all, format := n.m, x.Size(0), n.allPairs.Size(0), x.Dtype()
	if x.Size(1) > all {
		m.Unknown("a mask over more positions than the class has is made by doubling a buffer, which has no program here")
	}
	f := m.Function()
	repeated := m.Empty("repeat", dtype.Bool, batch, 1, all, all)
	cast := m.Empty("_to_copy", format, batch, 1, all, all)
	m.Drop(repeated)
	mask := f.Let(m.Unary(torch.MulScalar, cast))
	n.padPairs(f, mask, padding)
	return f.Return(mask)
}

// madePairs is a mask made for the pass (_update_causal_mask of
// https://github.com/huggingface/transformers/blob/v4.39.3/src/transformers/models/llama/modeling_llama.py).
func (n *Net) madePairs(x, padding torch.Tensor) torch.Tensor {
	m, batch, length, format := n.m, x.Size(0), x.Size(1), x.Dtype()
	f := m.Function()
	mask := f.Let(m.Empty("full", format, length, length))
	f.Set(&mask, m.Empty("triu", format, length, length))
	m.Drop(m.Empty("gt", dtype.Bool, length, length))
	f.Set(&mask, m.Expand(mask, batch, 1, length, length))
	if padding.Defined() {
		f.Set(&mask, m.Empty("clone", format, batch, 1, length, length))
		n.padPairs(f, mask, padding)
	}
	return f.Return(mask)
}

// padPairs writes padding into a mask for each sequence.
func (n *Net) padPairs(f *torch.Frame, mask, padding torch.Tensor) {
	if !padding.Defined() {
		return
	}
	m, batch, rows, length := n.m, mask.Size(0), mask.Size(2), padding.Size(1)
	causal := m.Empty("eq", dtype.Bool, batch, 1, rows, length)
	both := f.Let(m.Empty("mul", dtype.Bool, batch, 1, rows, length))
	m.Drop(causal)
	m.Drop(m.MaskedFill(m.Slice(mask, -1, 0, length), both))
}
