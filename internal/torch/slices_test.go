package torch_test

import (
	"fmt"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// sliced is a fourth author's model of the same assignment: linears that name the
// weight first, norms that divide by a root, sines made in every layer, and rotary
// positions that are assigned into slices.
type sliced struct {
	layers, width, hidden, heads, vocabulary, context, batch int64

	m      *torch.Machine
	table  torch.Tensor
	blocks []slicedBlock
	final  torch.Tensor
	head   torch.Tensor
	ids    torch.Tensor
}

type slicedBlock struct{ norm1, q, k, v, o, norm2, w1, w3, w2 torch.Tensor }

func (c *sliced) build(m *torch.Machine) {
	c.m = m
	weight := func(shape ...int64) torch.Tensor { return m.Parameter(dtype.F32, true, shape...) }
	c.table = weight(c.vocabulary, c.width)
	for range c.layers {
		c.blocks = append(c.blocks, slicedBlock{
			norm1: weight(c.width), q: weight(c.width, c.width), k: weight(c.width, c.width), v: weight(c.width, c.width), o: weight(c.width, c.width),
			norm2: weight(c.width), w1: weight(c.hidden, c.width), w3: weight(c.hidden, c.width), w2: weight(c.width, c.hidden),
		})
	}
	c.final, c.head = weight(c.width), weight(c.vocabulary, c.width)
	c.ids = m.Input(dtype.I64, c.batch, c.context)
}

func (c *sliced) parameters() []torch.Tensor {
	list := []torch.Tensor{c.table}
	for _, b := range c.blocks {
		list = append(list, b.norm1, b.q, b.k, b.v, b.o, b.norm2, b.w1, b.w2, b.w3)
	}
	return append(list, c.final, c.head)
}

func (c *sliced) forward() torch.Tensor {
	m := c.m
	f := m.Module("model")
	x := f.Let(m.IndexRows(c.table, c.ids))
	for i, b := range c.blocks {
		f.Set(&x, c.block(fmt.Sprintf("layers.%d", i), b, x))
	}
	f.Set(&x, c.norm("ln_final", c.final, x))
	return f.Return(c.linear("lm_head", c.head, x))
}

func (c *sliced) linear(name string, w, x torch.Tensor) torch.Tensor {
	f := c.m.Module(name, &x)
	return f.Return(c.m.Einsum("oi,bsi->bso", w, x))
}

func (c *sliced) norm(name string, w, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module(name, &x)
	square := f.Let(m.Unsqueeze(m.Mean(m.Unary(torch.Square, x), false, -1), -1))
	rms := f.Let(m.Unary(torch.Sqrt, m.Unary(torch.AddScalar, square)))
	return f.Return(m.Binary(torch.Mul, m.Binary(torch.Div, x, rms), w))
}

func (c *sliced) block(name string, b slicedBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module(name, &x)
	f.Set(&x, m.Binary(torch.Add, x, c.attention(b, c.norm("ln1", b.norm1, x))))
	f.Set(&x, m.Binary(torch.Add, x, c.feedForward(b, c.norm("ln2", b.norm2, x))))
	return f.Return(x)
}

func (c *sliced) feedForward(b slicedBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module("ffn", &x)
	gate := f.Let(c.linear("w1", b.w1, x))
	up := f.Let(c.linear("w3", b.w3, x))
	silu := f.Let(m.Binary(torch.Mul, gate, m.Unary(torch.Sigmoid, gate)))
	return f.Return(c.linear("w2", b.w2, m.Binary(torch.Mul, silu, up)))
}

func (c *sliced) attention(b slicedBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module("attn", &x)
	q := f.Let(c.linear("q_proj", b.q, x))
	k := f.Let(c.linear("k_proj", b.k, x))
	v := f.Let(c.linear("v_proj", b.v, x))
	for _, t := range []*torch.Tensor{&q, &k, &v} {
		f.Set(t, c.split(*t))
	}
	positions := f.Let(m.Arange(c.context))
	cos, sin := c.tables()
	cos, sin = f.Let(cos), f.Let(sin)
	turnedQ := f.Let(c.rope(q, positions, cos, sin))
	turnedK := f.Let(c.rope(k, positions, cos, sin))
	mask := f.Let(c.mask())
	out := f.Let(c.scaled(turnedQ, turnedK, v, mask))
	merged := f.Let(m.Reshape(m.Permute(out, 0, 2, 1, 3), c.batch, c.context, c.width))
	return f.Return(c.linear("output_proj", b.o, merged))
}

func (c *sliced) mask() torch.Tensor {
	m := c.m
	ones := m.Empty("ones", dtype.Bool, c.context, c.context)
	lower := m.Empty("tril", dtype.Bool, c.context, c.context)
	m.Drop(ones)
	return lower
}

func (c *sliced) split(x torch.Tensor) torch.Tensor {
	return c.m.Permute(c.m.Reshape(x, c.batch, c.context, c.heads, c.width/c.heads), 0, 2, 1, 3)
}

// tables makes sines and cosines of all positions.
func (c *sliced) tables() (cos, sin torch.Tensor) {
	m := c.m
	half := c.width / c.heads / 2
	f := m.Function()
	even := f.Let(m.Empty("arange", dtype.F32, half))
	f.Let(m.Unary(torch.DivScalar, even))
	power := m.Empty("pow", dtype.F32, half)
	m.Drop(m.Empty("scalar_tensor", dtype.F64))
	frequencies := m.Unary(torch.MulScalar, m.Unary(torch.Reciprocal, m.Keep(power)))
	m.Drop(power)
	frequencies = f.Let(frequencies)
	positions := f.Let(m.Empty("arange", dtype.F32, c.context))
	angles := f.Let(m.Einsum("i,j->ij", positions, frequencies))
	return f.Return2(m.Unary(torch.Cos, angles), m.Unary(torch.Sin, angles))
}

func (c *sliced) rope(x, positions, cos, sin torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&x, &positions, &cos, &sin)
	ids := m.Keep(m.Expand(positions, c.batch, c.context))
	cosAt := f.Let(m.Unsqueeze(m.IndexRows(cos, ids), 1))
	sinAt := f.Let(m.Unsqueeze(m.IndexRows(sin, ids), 1))
	m.Drop(ids)
	x1, x2 := f.Let(m.SliceEvery(x, -1, 2)), f.Let(m.SliceEvery(x, -1, 2))
	even := f.Let(m.Binary(torch.Sub, m.Binary(torch.Mul, x1, cosAt), m.Binary(torch.Mul, x2, sinAt)))
	odd := f.Let(m.Binary(torch.Add, m.Binary(torch.Mul, x1, sinAt), m.Binary(torch.Mul, x2, cosAt)))
	out := f.Let(m.Like("empty_like", x))
	m.AssignEvery(out, -1, 2, even)
	m.AssignEvery(out, -1, 2, odd)
	return f.Return(out)
}

func (c *sliced) scaled(q, k, v, mask torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&q, &k, &v, &mask)
	scores := f.Let(m.Einsum("bhqd,bhkd->bhqk", q, k))
	masked := f.Let(m.WhereScalar(mask, scores))
	weights := f.Let(c.softmax(m.Unary(torch.DivScalar, masked)))
	return f.Return(m.Einsum("bhqk,bhkd->bhqd", weights, v))
}

func (c *sliced) softmax(x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&x)
	values, indices := m.Max(x, -1, true)
	m.Drop(indices)
	most := f.Let(values)
	shifted := f.Let(m.Binary(torch.Sub, x, most))
	exp := f.Let(m.Unary(torch.Exp, shifted))
	sum := f.Let(m.Sum(exp, true, -1))
	return f.Return(m.Binary(torch.Div, exp, sum))
}

// trainedBefore gives every parameter a gradient and two moments, of which the
// second are returned.
func (c *sliced) trainedBefore() (second []torch.Tensor) {
	for _, p := range c.parameters() {
		c.m.GradOf(p)
		c.m.State(dtype.F32, p.Shape()...)
		second = append(second, c.m.State(dtype.F32, p.Shape()...))
	}
	return second
}

// TestSlicedTraining is one step: forward, a sum, gradients set to None, backward,
// and an AdamW that keeps one root at a time.
func TestSlicedTraining(t *testing.T) {
	m := torch.New(torch.Options{Device: torch.RTX4090(), Release: torch.Release{Major: 2, Minor: 6}})
	c := &sliced{layers: 36, width: 1280, hidden: 5120, heads: 20, vocabulary: 10000, context: 256, batch: 4}
	c.build(m)
	roots := c.trainedBefore()
	m.Workspace(true)
	oldLogits, oldLoss := m.Input(dtype.F32, 4, 256, 10000), m.Input(dtype.F32)
	m.Phase(account.PhaseForward, 2)
	logits := m.Keep(c.forward())
	m.Drop(oldLogits)
	m.Phase(account.PhaseLoss, 2)
	loss := m.Keep(m.Sum(logits, false))
	m.Drop(oldLoss)
	for _, p := range c.parameters() {
		m.ZeroGrad(p, true)
	}
	m.Phase(account.PhaseBackward, 2)
	m.Backward(loss)
	m.Phase(account.PhaseOptimizerStep, 2)
	m.NoGrad(func() {
		f := m.Function()
		var root torch.Tensor
		for _, second := range roots {
			f.Set(&root, m.Unary(torch.Sqrt, second))
		}
		f.End()
	})
	compare(t, finished(t, m), readTrace(t, "nothanmin_training"), 1)
}

// TestSlicedForward is the forward of a larger one, as it is and under autocast.
func TestSlicedForward(t *testing.T) {
	for name, format := range map[string]dtype.Format{"nothanmin_forward": dtype.Unknown, "nothanmin_forward_mixed": dtype.BF16} {
		m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 6}})
		c := &sliced{layers: 48, width: 1600, hidden: 6400, heads: 25, vocabulary: 10000, context: 256, batch: 4}
		c.build(m)
		c.trainedBefore()
		m.Workspace(true)
		run := func(part func()) { part() }
		old := dtype.F32
		if format != dtype.Unknown {
			old = format
			run = func(part func()) { m.Autocast(format, part) }
		}
		oldLogits := m.Input(old, 4, 256, 10000)
		m.Phase(account.PhaseForward, 1)
		run(func() {
			m.Keep(c.forward())
			m.Drop(oldLogits)
		})
		compare(t, finished(t, m), readTrace(t, name), 1)
	}
}
