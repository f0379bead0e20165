package modules

import (
	"floodmark/internal/torch"
	"floodmark/model"
)

// linear runs a linear layer, with its adapter where it has one.
func (n *Net) linear(l linear, x torch.Tensor) torch.Tensor {
	switch {
	case n.off:
		return n.switchedOff(l, x)
	case l.adapter != nil:
		return n.adapted(l, x)
	case l.turned != nil && l.turned.Kind == Scaling:
		return n.scaled(l, x)
	case l.turned != nil && l.turned.Kind == Undescribed:
		return n.undescribed(l, x)
	case l.turned != nil:
		return n.rotated(l, x)
	}
	return n.bare(l, x)
}

// bare runs a linear layer without its adapter.
func (n *Net) bare(l linear, x torch.Tensor) torch.Tensor {
	f := n.m.Module(l.name, &x)
	return f.Return(n.product(f, l, x))
}

// switchedOff is the layer whose adapter is off, and whose trained copy is not read.
func (n *Net) switchedOff(l linear, x torch.Tensor) torch.Tensor {
	if l.own.Defined() {
		l.weight = l.own
	}
	return n.bare(l, x)
}

// base is the layer within the module that holds its adapter.
func (n *Net) base(l linear, x torch.Tensor) torch.Tensor {
	l.name = "base_layer"
	return n.bare(l, x)
}

func (n *Net) product(f *torch.Frame, l linear, x torch.Tensor) torch.Tensor {
	m := n.m
	switch {
	case l.gptq != nil:
		return n.gptqProduct(l.gptq, x, l.bias)
	case l.packed != nil && n.o.Software == LitGPT:
		return m.Linear4Bit(x, *l.packed, l.bias) // in the input's format
	case l.packed != nil:
		was := x.Dtype()
		f.Set(&x, m.To(x, l.packed.Format))
		return m.To(m.Linear4Bit(x, *l.packed, l.bias), was)
	case l.transposed:
		flat := m.Reshape(x, -1, x.Size(-1))
		shape := append(append([]int64{}, x.Shape()[:x.Dims()-1]...), l.weight.Size(1))
		f.Set(&x, m.AddMM(l.bias, flat, l.weight))
		return m.Reshape(x, shape...)
	}
	return m.Linear(x, l.weight, l.bias)
}

// dense runs a feed-forward network.
func (n *Net) dense(l *layer, d model.Dense, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("mlp", &x)
	switch {
	case l.has(model.RoleGateUp):
		both := f.Let(n.linear(l.linear("gate_up_proj", model.RoleGateUp, model.RoleGateUpBias, 0), x))
		halves := m.Split(both, -1, int64(d.Width), int64(d.Width))
		gate, up := f.Let(halves[0]), f.Let(halves[1])
		f.Set(&both, m.Binary(torch.Mul, up, n.activation(d.Activation, gate)))
		return f.Return(n.linear(l.linear("down_proj", model.RoleDown, model.RoleDownBias, 0), both))
	case d.Gated:
		gate := n.activation(d.Activation, n.linear(l.linear("gate_proj", model.RoleGate, model.RoleGateBias, 0), x))
		up := n.linear(l.linear("up_proj", model.RoleUp, model.RoleUpBias, 0), x)
		down := n.linear(l.linear("down_proj", model.RoleDown, model.RoleDownBias, 0), m.Binary(torch.Mul, gate, up))
		return f.Return(down)
	}
	f.Set(&x, n.linear(l.linear("fc1", model.RoleUp, model.RoleUpBias, 0), x))
	f.Set(&x, n.activation(d.Activation, x))
	f.Set(&x, n.linear(l.linear("fc2", model.RoleDown, model.RoleDownBias, 0), x))
	return f.Return(x)
}

// activation runs an activation by the name that transformers gives it
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/activations.py).
func (n *Net) activation(name string, x torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Module("act_fn", &x)
	switch name {
	case "silu", "swish":
		return f.Return(m.Unary(torch.SiLU, x))
	case "gelu", "gelu_pytorch_tanh", "gelu_python_tanh":
		return f.Return(m.Unary(torch.GELU, x))
	case "relu":
		return f.Return(m.Unary(torch.ReLU, x))
	case "relu2":
		relu := f.Let(m.Unary(torch.ReLU, x))
		return f.Return(m.Unary(torch.Square, relu))
	case "gelu_new", "gelu_fast":
		return f.Return(n.writtenGELU(x))
	case "tanh":
		return f.Return(m.Unary(torch.Tanh, x))
	case "sigmoid":
		return f.Return(m.Unary(torch.Sigmoid, x))
	}
	m.Unknown("the activation " + name + " has no program here")
	return f.Return(m.Unary(torch.SiLU, x))
}

// writtenGELU is GPT-2's, written out: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
func (n *Net) writtenGELU(x torch.Tensor) torch.Tensor {
	m := n.m
	half := m.Unary(torch.MulScalar, x)
	cube := m.Unary(torch.MulScalar, m.Unary(torch.Pow, x))
	inner := m.Unary(torch.MulScalar, m.Binary(torch.Add, x, cube))
	return m.Binary(torch.Mul, half, m.Unary(torch.AddScalar, m.Unary(torch.Tanh, inner)))
}
