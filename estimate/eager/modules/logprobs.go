package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// logps adds the log-probabilities of the tokens up, those that do not count masked.
func (n *Net) logps(labels torch.Tensor, each func() torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	mask := f.Let(m.Unary(torch.EqScalar, labels))
	tokens := f.Let(each())
	if tokens.Size(1) != mask.Size(1) {
		f.Set(&mask, m.Slice(mask, 1, 1, mask.Size(1)))
	}
	return f.Return(m.Sum(m.MaskedFill(tokens, mask), false, -1))
}

// gathered is torch.gather(logits.log_softmax(-1), 2, labels), shifted by one.
func (n *Net) gathered(logits, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	length := logits.Size(1)
	next := f.Let(m.Clone(m.Slice(labels, 1, 1, length), true))
	x := f.Let(m.Slice(logits, 1, 0, length-1))
	return f.Return(m.Squeeze(m.Gather(m.LogSoftmax(x, dtype.Unknown), 2, m.Unsqueeze(next, 2)), 2))
}

// selective is selective_log_softmax: of logits in 32 bits what is chosen, less the
// logsumexp of a sequence at a time; of others a log_softmax of each sequence
// (https://github.com/huggingface/trl/blob/v0.15.2/trl/trainer/utils.py).
func (n *Net) selective(logits, labels torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	index := f.Let(m.Unsqueeze(labels, -1))
	if logits.Dtype() == dtype.F32 {
		chosen := f.Let(m.Gather(logits, -1, index))
		sums := f.Let(n.eachRow(logits, labels, func(row, _ torch.Tensor) torch.Tensor { return m.LogSumExp(row) }))
		return f.Return(m.Binary(torch.Sub, m.Squeeze(chosen, -1), sums))
	}
	return f.Return(n.eachRow(logits, labels, func(row, own torch.Tensor) torch.Tensor {
		logs := m.LogSoftmax(row, dtype.Unknown)
		return m.Squeeze(m.Gather(logs, -1, m.Unsqueeze(own, -1)), -1)
	}))
}

// eachRow stacks what is made of each sequence.
func (n *Net) eachRow(logits, labels torch.Tensor, make func(row, own torch.Tensor) torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	rows, own := m.Unbind(logits, 0), m.Unbind(labels, 0)
	var list []torch.Tensor
	for i := range rows {
		rows[i], own[i] = f.Let(rows[i]), f.Let(own[i])
		list = append(list, f.Let(make(rows[i], own[i])))
	}
	return f.Return(m.Stack(0, list...))
}

// entropyRows is how many positions entropy_from_logits takes at once.
const entropyRows = 128

// entropy is entropy_from_logits: logits as rows, which copies a slice, and so many
// rows at a time their log_softmax, its exponential and the product
// (https://github.com/huggingface/trl/blob/v1.9.0/trl/trainer/utils.py).
func (n *Net) entropy(logits torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function()
	flat := f.Let(m.Reshape(m.Detach(logits), -1, logits.Size(-1)))
	logs := f.Let(torch.Tensor{})
	var parts []torch.Tensor
	for from := int64(0); from < flat.Size(0); from += entropyRows {
		part := m.Slice(flat, 0, from, min(from+entropyRows, flat.Size(0)))
		f.Set(&logs, m.LogSoftmax(part, dtype.Unknown))
		parts = append(parts, f.Let(m.Unary(torch.Neg, m.Sum(m.Binary(torch.Mul, m.Unary(torch.Exp, logs), logs), false, -1))))
	}
	return f.Return(m.Cat(0, parts...))
}
