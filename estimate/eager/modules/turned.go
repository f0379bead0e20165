package modules

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// turned is an adapter that changes what goes into a layer or comes out of it:
// one tensor on a machine.
type turned struct {
	Adapter
	weight torch.Tensor
	block  int64          // inputs that one block of a rotation turns
	all    []torch.Tensor // of an adapter without a program
}

// beforeOrAfter makes such an adapter for a layer of [out, in].
func (n *Net) beforeOrAfter(a Adapter, w Weight, shape []int64) *turned {
	t := &turned{Adapter: a}
	out, in := shape[0], shape[1]
	switch {
	case a.Kind == Undescribed:
		n.holdUndescribed(t, w)
		return t
	case a.Kind == Rotation:
		t.block = in / a.Rank
		pairs := t.block * (t.block - 1) / 2
		t.weight = n.beside(w, a.Format, a.Rank, pairs)
		n.m.Buffer(dtype.I64, pairs) // rows
		n.m.Buffer(dtype.I64, pairs) // columns
	case a.Input:
		t.weight = n.beside(w, a.Format, 1, in)
	default:
		t.weight = n.beside(w, a.Format, out, 1)
	}
	n.parameters = append(n.parameters, Parameter{Tensor: t.weight, Trained: true})
	return t
}

// scaled runs a linear layer whose input or output a vector scales
// (https://github.com/huggingface/peft/blob/v0.17.1/src/peft/tuners/ia3/layer.py).
func (n *Net) scaled(l linear, x torch.Tensor) torch.Tensor {
	m, a, was := n.m, l.turned, x.Dtype()
	f := m.Module(l.name, &x)
	scale := f.Let(m.Unary(torch.MulScalar, m.Reshape(a.weight, -1)))
	if a.Input {
		f.Set(&x, m.To(x, a.Format))
		inner := f.Let(m.To(m.Binary(torch.Mul, x, scale), was))
		return f.Return(n.base(l, inner))
	}
	result := f.Let(n.base(l, x))
	f.Set(&result, m.To(m.Binary(torch.Mul, result, scale), was))
	return f.Return(result)
}

// rotated runs a linear layer whose input is turned, block by block
// (https://github.com/huggingface/peft/blob/v0.17.1/src/peft/tuners/oft/layer.py).
func (n *Net) rotated(l linear, x torch.Tensor) torch.Tensor {
	m, a, was := n.m, l.turned, x.Dtype()
	f := m.Module(l.name, &x)
	f.Set(&x, m.To(x, a.Format))
	f.Set(&x, n.turn(a, x))
	return f.Return(m.To(n.base(l, m.To(x, was)), was))
}

// turn is OFTRotationModule: each block of the input times an orthogonal matrix.
func (n *Net) turn(a *turned, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("oft_R", &x)
	matrices := f.Let(n.cayley(a))
	blocks := f.Let(m.Reshape(x, x.Size(0), x.Size(1), a.Rank, a.block))
	product := f.Let(m.Einsum("bsrk,rkc->bsrc", blocks, matrices))
	return f.Return(f.Let(m.Reshape(product, x.Size(0), x.Size(1), -1)))
}

// cayley is an orthogonal matrix for each block, of the powers of a skew one up
// to the fourth (_cayley_batch).
func (n *Net) cayley(a *turned) torch.Tensor {
	m := n.m
	f := m.Function()
	skew := f.Let(n.skew(a))
	eye := m.Empty("eye", a.Format, a.block, a.block)
	sum := f.Let(m.Empty("repeat", a.Format, a.Rank, a.block, a.block))
	m.Drop(eye)
	sum = m.InPlace(torch.AddScaled, sum, skew)
	square := f.Let(m.Matmul(skew, skew))
	sum = m.InPlace(torch.AddScaled, sum, square)
	power := f.Let(square)
	f.Set(&power, m.Matmul(power, skew))
	sum = m.InPlace(torch.AddScaled, sum, power)
	f.Set(&power, m.Matmul(power, skew))
	return f.Return(m.InPlace(torch.Add, sum, power))
}

// skew is the matrices whose upper triangles are the weight.
func (n *Net) skew(a *turned) torch.Tensor {
	m := n.m
	f := m.Function()
	matrix := f.Let(m.Empty("zeros", a.Format, a.Rank, a.block, a.block))
	matrix = m.IndexPut(matrix, a.weight)
	f.Set(&matrix, m.Binary(torch.Sub, matrix, m.Transpose(matrix, 1, 2)))
	return f.Return(matrix)
}

// holdUndescribed makes the tensors of an adapter that has no program.
func (n *Net) holdUndescribed(t *turned, w Weight) {
	for _, shape := range t.Shapes {
		own := n.beside(w, t.Format, shape...)
		t.all = append(t.all, own)
		n.parameters = append(n.parameters, Parameter{Tensor: own, Trained: true})
	}
	for _, f := range t.Frozen {
		n.m.Buffer(f.Format, f.Shape...)
	}
}

// undescribed runs the layer itself. What the adapter makes in the pass is not known;
// its tensors are tied to the result by their sums alone, so that each has the
// gradient that it has in truth. Whoever runs the model says so beside the passes, and
// keeps what is known: what is held between them.
func (n *Net) undescribed(l linear, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module(l.name, &x)
	result := f.Let(n.base(l, x))
	for _, t := range l.turned.all {
		f.Set(&result, n.tiedTo(result, t))
	}
	return f.Return(result)
}

// Beside is tensors that are trained beside the modules, of an adapter without a
// program: the embedded inputs depend on them.
func (n *Net) Beside(list ...torch.Tensor) { n.besides = append(n.besides, list...) }

// tiedTo is a result that depends on every element of another tensor.
func (n *Net) tiedTo(result, t torch.Tensor) torch.Tensor {
	sum := n.m.To(n.m.Sum(t, false), result.Dtype())
	return n.m.Binary(torch.Add, result, sum)
}
