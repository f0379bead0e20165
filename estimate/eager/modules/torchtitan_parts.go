package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// torchtitan's Llama since its query, key and value are one product, its positions are
// those of packed documents, its attention is flex attention, and its loss takes the head
// along in parts of the sequence (torchtitan/models/common and components/loss.py at
// https://github.com/pytorch/torchtitan/tree/bcc09297a). What its blocks allocate is
// known of compiled ones alone.

// partsApart: embeddings are gathered by themselves, and the last norm with the head,
// which stay; the last layer does not any more (commit 83e694105).
func (r Release) partsApart() bool { return r.since(0, 1, 20250728) }

// fusesQKV: query, key and value are one product, and attention is flex attention
// (commits 3396a4b37 and 169545712); the loss is in parts since commit 786e26f8e.
func (r Release) fusesQKV() bool { return r.since(0, 1, 20260624) }

// foldsBatch: batch and sequence are one dimension again, and ranks are described in
// another way (commits 73aed7f6c and 5ab3a0fd1): nobody has read these.
func (r Release) foldsBatch() bool { return r.since(0, 1, 20260818) }

// KeepsLast reports software that asks for the last layer to stay gathered, since backward
// begins with it.
func (s Software) KeepsLast(r Release) bool { return s == TorchTitan && !r.partsApart() }

// titanLossWithHead is a step up to its loss: the model ends with its last norm, and the
// loss runs head, loss and backward of each part of the sequence (ChunkedLossWrapper).
// The graph of the layers waits for the gradient that was put together.
func (n *Net) titanLossWithHead(b Batch) torch.Tensor {
	m := n.m
	hidden := m.Keep(n.titanHidden(b))
	n.beforeLoss()
	gradient := m.Keep(n.headInParts(hidden, b.IDs.Size(0)))
	loss := m.Apply1(torch.Function{Name: "_DecoderOutputGradientBackProp",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(gradient)
			return []torch.Tensor{c.Empty(dtype.F32)}
		},
		Backward: func(g *torch.Gradients) { g.Give(0, g.Saved(0)) },
	}, hidden)
	m.Drop(gradient, hidden)
	return loss
}

// headInParts is the gradient of what goes into the head, a copy of each part of which is
// there from the beginning. The head stays gathered, its own gradient is added up in 32
// bits, since it is reduced with the last part (as fully_shard of PyTorch 2.15 was seen to
// do it on a CPU), and a name keeps the logits of a part until the next ones are there. Worked number: 65,536 positions of Llama 3 8B in 8 parts: copies of
// 536,870,912 bytes, a sum of 1,073,741,824, a gradient of 2,101,346,304, and with a
// compiled loss twice 2,101,346,304 of logits and as much of their gradient.
func (n *Net) headInParts(hidden torch.Tensor, batch int64) torch.Tensor {
	m, format, width := n.m, hidden.Dtype(), hidden.Size(-1)
	length := hidden.Elements() / width / batch
	head := n.outside.module("output", model.RoleHead, model.RoleHeadBias)
	var parts, labels []torch.Tensor
	for _, l := range inParts(length, lossChunks) {
		parts = append(parts, m.RequireGrad(m.Keep(m.Empty("clone", format, batch, l, width))))
		labels = append(labels, m.Keep(m.Empty("clone", dtype.I64, batch, l)))
	}
	sum := m.Keep(m.Empty("zeros_like", dtype.F32, batch, length, width))
	var logits, added torch.Tensor
	for i, part := range parts {
		n.bind(&logits, m.AsLogits(n.linear(head, part)))
		m.Backward(n.titanLossOf(logits, labels[i]))
		if w := n.outside.one(model.RoleHead); i < len(parts)-1 && w.HasGrad() {
			if i == 0 {
				added = m.Keep(m.Empty("to", dtype.F32, w.Shape()...))
			}
			m.ZeroGrad(w, true)
		}
		m.ZeroGrad(part, true)
	}
	m.Drop(logits, added)
	gradient := m.Empty("to", format, hidden.Shape()...)
	m.Drop(sum)
	m.Drop(slices.Concat(parts, labels)...)
	return gradient
}

// titanHidden is Decoder without its head.
func (n *Net) titanHidden(b Batch) torch.Tensor {
	m, batch := n.m, b.IDs.Size(0)
	f := m.Module("", &b.IDs)
	n.documents(f, batch, b.IDs.Size(1))
	n.enters(Entry, torch.Tensor{})
	h := f.Let(n.embedded(b.IDs))
	n.leaves(Entry, h)
	for i := range n.stacks[0].layers {
		f.Set(&h, n.titanThrough(&n.stacks[0].layers[i], h, batch))
	}
	n.enters(Outside, h)
	f.Set(&h, n.titanNorm(n.outside.one(model.RoleFinalNorm), h))
	n.leaves(Outside, h)
	return f.Return(h)
}

// documents are the positions of tokens in their documents, where each document ends, and
// which blocks of 128 by 128 scores attention has to compute, whole and in part, by rows
// and by columns (create_block_mask).
func (n *Net) documents(f *torch.Frame, batch, length int64) {
	const side = 128
	m, blocks := n.m, (length+side-1)/side
	f.Let(m.Empty("to", dtype.I64, batch, length))
	f.Let(m.Empty("sub", dtype.I32, batch, length))
	for range 4 {
		f.Let(m.Empty("argsort", dtype.I32, batch, 1, blocks, blocks))
	}
}

// titanPartsLack is what of a model, or of how it is run, has no program among these
// modules.
func (n *Net) titanPartsLack() string {
	switch {
	case !n.o.Compiles:
		return "torchtitan's modules of 2026 have a program where they are compiled (torch_compile), not in eager mode"
	case n.o.Loss != ChunkedLoss:
		return "torchtitan's loss of 2026 has a program in parts of the sequence alone, as its configurations have it"
	case slices.ContainsFunc(n.model.Tensors, func(t model.Tensor) bool { return t.TiedTo >= 0 }):
		return "a head that is tied to the embeddings has no program in torchtitan's modules of 2026"
	case n.o.FP8:
		return "what FP8 keeps in torchtitan's blocks of 2026 is not modelled"
	}
	return ""
}
