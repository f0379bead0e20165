package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// scan runs a selective state-space mixer of the second version by the operators
// that transformers falls back to where the kernels of mamba-ssm are not
// installed (Mamba2Mixer,
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/mamba2/modeling_mamba2.py).
func (n *Net) scan(l *layer, a model.Mamba, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("mixer", &x)
	batch, length := x.Size(0), x.Size(1)
	inner, state, heads := int64(a.Inner), int64(a.Groups*a.State), int64(a.Heads)
	all := f.Let(n.linear(l.linear("in_proj", model.RoleMixerIn, model.RoleOther, 0), x))
	decay := f.Let(m.Unary(torch.Neg, m.Unary(torch.Exp, m.To(l.at(model.RoleMixerState, 0).weight, dtype.F32))))
	parts := m.Split(all, -1, inner, inner+2*state, heads)
	gate, mixed, step := f.Let(parts[0]), f.Let(parts[1]), f.Let(parts[2])
	f.Set(&mixed, m.Transpose(mixed, 1, 2))
	f.Set(&mixed, n.causalConvolution(l, a, mixed))
	f.Set(&mixed, m.Transpose(mixed, 1, 2))
	parts = m.Split(mixed, -1, inner, state, state)
	hidden, b, c := f.Let(parts[0]), f.Let(parts[1]), f.Let(parts[2])
	grouped := func(t torch.Tensor) torch.Tensor { return m.Reshape(t, batch, length, int64(a.Groups), int64(a.State)) }
	out := f.Let(n.chunkScan(l, a, m.Reshape(hidden, batch, length, heads, int64(a.HeadDim)), step, decay, grouped(b), grouped(c)))
	f.Set(&out, m.Reshape(out, batch, length, -1))
	f.Set(&out, n.gatedNorm(l, a, out, gate))
	return f.Return(n.linear(l.linear("out_proj", model.RoleMixerOut, model.RoleOther, 0), m.To(out, x.Dtype())))
}

// causalConvolution is causal_conv1d_fn without its kernel: padded on both sides,
// and cut.
func (n *Net) causalConvolution(l *layer, a model.Mamba, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&x)
	kernel, bias := l.at(model.RoleMixerConv, 0).weight, l.at(model.RoleMixerConv, 1).weight
	length := x.Size(2)
	made := m.Convolution(x, kernel, bias, []int64{1}, []int64{int64(a.Conv) - 1}, x.Size(1))
	out := f.Let(m.Slice(made, 2, 0, length))
	f.Set(&out, n.activation("silu", out))
	return f.Return(out)
}

// gatedNorm is MambaRMSNormGated: the gate's activation is multiplied in before
// the norm of each group.
func (n *Net) gatedNorm(l *layer, a model.Mamba, x, gate torch.Tensor) torch.Tensor {
	m, was := n.m, x.Dtype()
	f := m.Module("norm", &x, &gate)
	f.Set(&x, m.To(x, dtype.F32))
	f.Set(&x, m.Binary(torch.Mul, x, m.Unary(torch.SiLU, m.To(gate, dtype.F32))))
	groups := max(int64(a.Groups), 1)
	group := f.Let(m.Reshape(x, x.Size(0), x.Size(1), groups, x.Size(2)/groups))
	variance := f.Let(m.Mean(m.Unary(torch.Square, group), true, -1))
	f.Set(&group, m.Binary(torch.Mul, group, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, variance))))
	f.Set(&x, m.Reshape(group, x.Size(0), x.Size(1), -1))
	return f.Return(m.Binary(torch.Mul, l.at(model.RoleMixerNorm, 0).weight, m.To(x, was)))
}

// chunkScan is mamba2_chunk_scan: within chunks the scores of all pairs of
// positions exist, between chunks one state for each.
func (n *Net) chunkScan(l *layer, a model.Mamba, x, step, decay, b, c torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&x, &step, &decay, &b, &c)
	length, heads, chunk := x.Size(1), x.Size(2), int64(a.Chunk)
	f.Set(&step, m.Binary(torch.Add, step, l.at(model.RoleMixerState, 2).weight))
	f.Set(&step, m.Unary(torch.Softplus, step))
	f.Set(&step, m.Unary(torch.Clamp, step))
	f.Set(&x, m.To(x, dtype.F32))
	f.Set(&b, n.perHead(m.To(b, dtype.F32), heads))
	f.Set(&c, n.perHead(m.To(c, dtype.F32), heads))
	behind := (chunk - length%chunk) % chunk
	direct := f.Let(m.Binary(torch.Mul, m.Unsqueeze(l.at(model.RoleMixerState, 1).weight, -1), m.Pad(x, 1, behind)))
	f.Set(&x, m.Binary(torch.Mul, x, m.To(m.Unsqueeze(step, -1), dtype.F32)))
	f.Set(&decay, m.Binary(torch.Mul, decay, m.To(step, dtype.F32)))
	chunks := make([]torch.Tensor, 4)
	for i, t := range []torch.Tensor{x, decay, b, c} {
		chunks[i] = n.chunked(t, behind, chunk)
	}
	for i, name := range []*torch.Tensor{&x, &decay, &b, &c} {
		f.Set(name, chunks[i])
	}
	f.Set(&decay, m.Permute(decay, 0, 3, 1, 2))
	sums := f.Let(m.Cumsum(decay))
	within := f.Let(m.Unary(torch.Exp, n.segmentSum(decay)))
	scores := f.Let(m.Einsum("bclhn,bcshn->bclsh", c, b))
	masked := f.Let(m.Binary(torch.Mul, scores, m.Permute(within, 0, 2, 3, 4, 1)))
	diagonal := f.Let(m.Einsum("bclsh,bcshp->bclhp", masked, x))
	states, all := n.chunkStates(f, sums, b, x)
	carried := f.Let(m.Unary(torch.Exp, sums))
	read := f.Let(m.Einsum("bclhn,bchpn->bclhp", c, states))
	_ = all
	between := f.Let(m.Binary(torch.Mul, read, m.Unsqueeze(m.Permute(carried, 0, 2, 3, 1), -1)))
	out := f.Let(m.Contiguous(m.Binary(torch.Add, diagonal, between)))
	f.Set(&out, m.Reshape(out, out.Size(0), -1, heads, int64(a.HeadDim)))
	f.Set(&out, m.Binary(torch.Add, out, direct))
	if behind > 0 {
		f.Set(&out, m.Slice(out, 1, 0, length))
	}
	return f.Return(out)
}

// chunkStates is the state at the start of every chunk, and all of them with the
// last.
func (n *Net) chunkStates(f *torch.Frame, sums, b, x torch.Tensor) (starts, all torch.Tensor) {
	m := n.m
	last := sums.Size(3)
	left := f.Let(m.Unary(torch.Exp, m.Binary(torch.Sub, m.Slice(sums, 3, last-1, last), sums)))
	weighted := f.Let(m.Binary(torch.Mul, b, m.Unsqueeze(m.Permute(left, 0, 2, 3, 1), -1)))
	states := f.Let(m.Einsum("bclhn,bclhp->bchpn", weighted, x))
	before := f.Let(m.Like("zeros_like", m.Slice(states, 1, 0, 1)))
	f.Set(&states, m.Cat(1, before, states))
	ends := m.Pad(m.Select(m.Slice(sums, 3, last-1, last), 3), 2, 1)
	steps := f.Let(m.Transpose(m.Unary(torch.Exp, n.segmentSum(ends)), 1, 3))
	all = f.Let(m.Einsum("bzch,bzhpn->bchpn", steps, states))
	f.Set(&states, m.Slice(all, 1, 0, all.Size(1)-1))
	return states, all
}

// perHead is one copy for every head of a group (repeat_interleave).
func (n *Net) perHead(x torch.Tensor, heads int64) torch.Tensor {
	m := n.m
	batch, length, groups, state := x.Size(0), x.Size(1), x.Size(2), x.Size(3)
	wide := m.Expand(m.Unsqueeze(x, 3), batch, length, groups, heads/groups, state)
	return m.Reshape(wide, batch, length, heads, state)
}

// chunked is a tensor cut into chunks along its positions.
func (n *Net) chunked(x torch.Tensor, behind, chunk int64) torch.Tensor {
	m := n.m
	f := m.Function(&x)
	f.Set(&x, m.Pad(x, 1, behind))
	size := []int64{x.Size(0), -1, chunk}
	for d := 2; d < x.Dims(); d++ {
		size = append(size, x.Size(d))
	}
	return f.Return(m.Reshape(x, size...))
}

// segmentSum is segment_sum: for every pair of positions of a chunk, the sum
// between them.
func (n *Net) segmentSum(x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&x)
	size := append([]int64{}, x.Shape()...)
	chunk := size[len(size)-1]
	f.Set(&x, m.Expand(m.Unsqueeze(x, -1), append(size, chunk)...))
	lower := f.Let(n.lowerTriangle(chunk))
	f.Set(&x, m.MaskedFill(x, m.Unary(torch.LogicalNot, lower)))
	sums := f.Let(m.Cumsum(x))
	f.Set(&lower, n.lowerTriangle(chunk))
	f.Set(&sums, m.MaskedFill(sums, m.Unary(torch.LogicalNot, lower)))
	return f.Return(sums)
}

func (n *Net) lowerTriangle(side int64) torch.Tensor {
	ones := n.m.Empty("ones", dtype.Bool, side, side)
	lower := n.m.Empty("tril", dtype.Bool, side, side)
	n.m.Drop(ones)
	return lower
}
