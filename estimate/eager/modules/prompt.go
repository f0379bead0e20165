package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// prompt is LLaMA-Adapter as litgpt has it: embeddings of positions that a layer
// attends to apart, and a gate for each head
// (https://github.com/Lightning-AI/litgpt/blob/v0.4.0/litgpt/adapter.py).
type prompt struct {
	embedding, gate torch.Tensor // [positions, width], [1, 1, heads, 1]
	keys, values    torch.Tensor // [1, heads, positions, width of a head], once they were made
}

// prompted makes the prompt of a layer, or nothing.
func (n *Net) prompted(t model.Tensor) *prompt {
	a, has := n.o.Adapter(t)
	if !has || a.Kind != Prompt {
		return nil
	}
	attention, is := n.stacks[t.Stack].layers[t.Layer].Mixers[0].(model.Attention)
	if !is {
		n.why = "prompts before a mixer of this kind have no program here"
		return nil
	}
	p := &prompt{gate: n.m.Adapter(a.Format, 1, 1, int64(attention.QueryHeads), 1), embedding: n.m.Adapter(a.Format, a.Rank, t.Shape[1])}
	n.parameters = append(n.parameters, Parameter{Tensor: p.gate, Trained: true}, Parameter{Tensor: p.embedding, Trained: true})
	return p
}

// prompting is attention to the prompt, times the gate, beside y.
func (n *Net) prompting(p *prompt, q, y torch.Tensor) torch.Tensor {
	m := n.m
	if q.Size(0) != p.keys.Size(0) { // fused kernels want as many rows of keys
		m.Unknown("prompts beside more than one sequence have no program here")
		return y
	}
	f := m.Function(&q, &y)
	mask := f.Let(m.Empty("ones", dtype.Bool, q.Size(2), p.keys.Size(2)))
	how := torch.Attention{}
	how.Kernel = n.kernel(how, q, p.keys, p.values, mask)
	beside := f.Let(m.Transpose(m.ScaledDotProduct(how, q, p.keys, p.values, mask), 1, 2))
	return f.Return(m.Binary(torch.Add, y, m.Binary(torch.Mul, p.gate, beside)))
}

// promptKeys makes keys and values of the prompts, which a layer keeps from the first
// use on. In the script that is the validation before training, which records nothing:
// the embeddings get no gradient after it.
func (n *Net) promptKeys() {
	for i := range n.stacks[0].layers {
		l := &n.stacks[0].layers[i]
		if joined := l.linear("attn", model.RoleQKV, model.RoleQKVBias, 0); joined.prompt != nil {
			n.keysOf(joined, l.Mixers[0].(model.Attention))
		}
	}
}

func (n *Net) keysOf(joined linear, a model.Attention) {
	p, m := joined.prompt, n.m
	m.NoGrad(func() {
		f := m.Function()
		positions, groups, each, dim := p.embedding.Size(0), int64(a.KVHeads), int64(a.QueryHeads/a.KVHeads), int64(a.KeyDim)
		both := f.Let(n.bare(joined, m.Reshape(p.embedding, 1, positions, -1)))
		f.Set(&both, m.Permute(m.Reshape(both, 1, positions, groups, each+2, dim), 0, 2, 3, 1, 4))
		parts := m.Split(both, 2, each, 1, 1)
		m.Drop(parts[0])
		for i, to := range []*torch.Tensor{&p.keys, &p.values} {
			part := f.Let(parts[1+i])
			if groups != 1 {
				f.Set(&part, m.Expand(part, 1, groups, each, positions, dim))
			}
			*to = m.Keep(m.Reshape(part, 1, -1, positions, dim))
		}
		f.End()
	})
}
