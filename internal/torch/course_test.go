package torch_test

import (
	"fmt"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// course is the small decoder of a public assignment: unfused RMS norms, rotary
// positions, attention and softmax by hand, SwiGLU, an untied head. The recorded
// traces in testdata/traces are of it.
type course struct {
	layers, width, hidden, heads, vocabulary, context, batch int64
	compute                                                  dtype.Format // of autocast; Unknown for none

	m             *torch.Machine
	table         torch.Tensor
	blocks        []courseBlock
	final, head   torch.Tensor
	rotary        torch.Tensor
	ids, targets  torch.Tensor
	first, second []torch.Tensor // moments
}

type courseBlock struct {
	q, k, v, o, w1, w2, w3, norm1, norm2 torch.Tensor
}

// medium is the size of the files medium_*: 423,183,360 parameters.
func medium(context int64, compute dtype.Format) *course {
	return &course{layers: 24, width: 1024, hidden: 4096, heads: 16, vocabulary: 10000, context: context, batch: 4, compute: compute}
}

// build makes the weights, in the order of model.parameters().
func (c *course) build(m *torch.Machine) {
	c.m = m
	weight := func(shape ...int64) torch.Tensor { return m.Parameter(dtype.F32, true, shape...) }
	c.table = weight(c.vocabulary, c.width)
	for range c.layers {
		c.blocks = append(c.blocks, courseBlock{
			q: weight(c.width, c.width), k: weight(c.width, c.width), v: weight(c.width, c.width), o: weight(c.width, c.width),
			w1: weight(c.hidden, c.width), w2: weight(c.width, c.hidden), w3: weight(c.hidden, c.width),
			norm1: weight(c.width), norm2: weight(c.width),
		})
	}
	c.final, c.head = weight(c.width), weight(c.vocabulary, c.width)
	c.rotary = m.Buffer(dtype.F32, 2, c.context, c.width/c.heads/2)
	c.ids = m.Input(dtype.I64, c.batch, c.context)
	c.targets = m.Input(dtype.I64, c.batch, c.context)
}

func (c *course) parameters() []torch.Tensor {
	list := []torch.Tensor{c.table}
	for _, b := range c.blocks {
		list = append(list, b.q, b.k, b.v, b.o, b.w1, b.w2, b.w3, b.norm1, b.norm2)
	}
	return append(list, c.final, c.head)
}

// moments are what an earlier step of the optimizer left.
func (c *course) moments() {
	for _, p := range c.parameters() {
		c.first = append(c.first, c.m.State(dtype.F32, p.Shape()...))
		c.second = append(c.second, c.m.State(dtype.F32, p.Shape()...))
	}
}

func (c *course) forward(ids torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module("model", &ids)
	embedded := f.Let(c.embed(ids))
	f.Set(&ids, embedded)
	x := ids
	for i, b := range c.blocks {
		f.Set(&x, c.block(fmt.Sprintf("layers.%d", i), b, x))
	}
	f.Set(&x, c.norm("ln_final", c.final, x))
	return f.Return(c.linear("lm_head", c.head, x))
}

func (c *course) embed(ids torch.Tensor) torch.Tensor {
	f := c.m.Module("token_embeddings", &ids)
	return f.Return(c.m.IndexRows(c.table, ids))
}

func (c *course) linear(name string, weight, x torch.Tensor) torch.Tensor {
	f := c.m.Module(name, &x)
	return f.Return(c.m.Einsum("bsi,oi->bso", x, weight))
}

func (c *course) norm(name string, weight, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module(name, &x)
	rms := f.Let(m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, x), true, -1))))
	f.Set(&x, m.Binary(torch.Mul, x, rms))
	return f.Return(m.Binary(torch.Mul, weight, x))
}

func (c *course) block(name string, b courseBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module(name, &x)
	attended := f.Let(c.attention(b, c.norm("ln1", b.norm1, x)))
	middle := f.Let(m.Binary(torch.Add, x, attended))
	fed := f.Let(c.feedForward(b, c.norm("ln2", b.norm2, middle)))
	out := f.Let(m.Binary(torch.Add, middle, fed))
	return f.Return(out)
}

func (c *course) feedForward(b courseBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module("ffn", &x)
	gate := c.silu(c.linear("w1", b.w1, x))
	return f.Return(c.linear("w2", b.w2, m.Binary(torch.Mul, gate, c.linear("w3", b.w3, x))))
}

func (c *course) silu(x torch.Tensor) torch.Tensor {
	f := c.m.Function(&x)
	return f.Return(c.m.Binary(torch.Mul, x, c.m.Unary(torch.Sigmoid, x)))
}

func (c *course) attention(b courseBlock, x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Module("attn", &x)
	q := f.Let(c.linear("q_proj", b.q, x))
	k := f.Let(c.linear("k_proj", b.k, x))
	v := f.Let(c.linear("v_proj", b.v, x))
	for _, t := range []*torch.Tensor{&q, &k, &v} {
		f.Set(t, c.split(*t))
	}
	f.Set(&q, c.rope(q))
	f.Set(&k, c.rope(k))
	seq := f.Let(m.Arange(c.context))
	rows := f.Let(m.Reshape(seq, 1, 1, c.context, 1))
	columns := f.Let(m.Reshape(seq, 1, 1, 1, c.context))
	mask := f.Let(m.Binary(torch.Ge, rows, columns))
	out := f.Let(c.scaled(q, k, v, mask))
	f.Set(&out, m.Reshape(m.Permute(out, 0, 2, 1, 3), c.batch, c.context, c.width))
	return f.Return(c.linear("output_proj", b.o, out))
}

// split is rearrange("... seq (heads d) -> ... heads seq d").
func (c *course) split(x torch.Tensor) torch.Tensor {
	return c.m.Permute(c.m.Reshape(x, c.batch, c.context, c.heads, c.width/c.heads), 0, 2, 1, 3)
}

func (c *course) rope(x torch.Tensor) torch.Tensor {
	m := c.m
	half := c.width / c.heads / 2
	f := m.Module("positional_encoder", &x)
	halves := m.Unbind(m.Permute(m.Reshape(x, c.batch, c.heads, c.context, half, 2), 4, 0, 1, 2, 3), 0)
	x1, x2 := f.Let(halves[0]), f.Let(halves[1])
	cos, sin := f.Let(m.Select(c.rotary, 0)), f.Let(m.Select(c.rotary, 0))
	rot1 := f.Let(m.Binary(torch.Sub, m.Binary(torch.Mul, cos, x1), m.Binary(torch.Mul, sin, x2)))
	rot2 := f.Let(m.Binary(torch.Add, m.Binary(torch.Mul, sin, x1), m.Binary(torch.Mul, cos, x2)))
	joined := m.Cat(-1, m.Unsqueeze(rot1, -1), m.Unsqueeze(rot2, -1))
	return f.Return(m.Reshape(joined, c.batch, c.heads, c.context, 2*half))
}

func (c *course) scaled(q, k, v, mask torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&k, &q, &v, &mask)
	scores := f.Let(m.Unary(torch.DivScalar, m.Einsum("bhqd,bhkd->bhqk", q, k)))
	f.Set(&scores, m.WhereScalar(mask, scores))
	weights := f.Let(c.softmax(scores))
	return f.Return(m.Einsum("bhqk,bhkd->bhqd", weights, v))
}

func (c *course) softmax(x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&x)
	values, indices := m.Max(x, -1, true)
	m.Drop(indices)
	rescaled := f.Let(m.Binary(torch.Sub, x, values))
	exp := f.Let(m.Unary(torch.Exp, rescaled))
	return f.Return(m.Binary(torch.Div, exp, m.Sum(exp, true, -1)))
}

func (c *course) loss(logits, targets torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&logits, &targets)
	minus := f.Let(m.Unary(torch.Neg, c.logSoftmax(logits)))
	return f.Return(m.Mean(m.Gather(minus, -1, m.Unsqueeze(targets, -1)), false))
}

func (c *course) logSoftmax(x torch.Tensor) torch.Tensor {
	m := c.m
	f := m.Function(&x)
	values, indices := m.Max(x, -1, true)
	m.Drop(indices)
	most := f.Let(values)
	f.Set(&x, m.Binary(torch.Sub, x, most))
	return f.Return(m.Binary(torch.Sub, x, m.Unary(torch.Log, m.Sum(m.Unary(torch.Exp, x), true, -1))))
}

// step is AdamW by hand, parameter by parameter.
func (c *course) step() {
	m := c.m
	f := m.Function()
	var oldFirst, oldSecond, first, second torch.Tensor
	for i, p := range c.parameters() {
		grad := m.GradientOf(p)
		m.InPlace(torch.Sub, p, m.Unary(torch.MulScalar, p))
		m.Drop(m.Like("zeros_like", grad))
		f.Set(&oldFirst, c.first[i])
		m.Drop(m.Like("zeros_like", grad))
		f.Set(&oldSecond, c.second[i])
		f.Set(&first, m.Binary(torch.Add, m.Unary(torch.MulScalar, oldFirst), m.Unary(torch.MulScalar, grad)))
		f.Set(&second, m.Binary(torch.Add, m.Unary(torch.MulScalar, oldSecond), m.Unary(torch.MulScalar, m.Unary(torch.Square, grad))))
		numerator := m.Unary(torch.MulScalar, first)
		m.InPlace(torch.Sub, p, m.Binary(torch.Div, numerator, m.Unary(torch.AddScalar, m.Unary(torch.Sqrt, second))))
		m.Drop(c.first[i], c.second[i])
		c.first[i], c.second[i] = m.AsState(m.Keep(first)), m.AsState(m.Keep(second))
	}
	f.End()
}

// train is one step.
func (c *course) train() {
	m := c.m
	f := m.Function()
	run := func(part func()) { part() }
	if c.compute != dtype.Unknown {
		run = func(part func()) { m.Autocast(c.compute, part) }
	}
	var logits, loss torch.Tensor
	run(func() {
		m.Phase(account.PhaseForward, 2)
		logits = f.Let(c.forward(c.ids))
		m.AsLogits(logits)
		m.Phase(account.PhaseLoss, 2)
		loss = f.Let(c.loss(logits, c.targets))
	})
	m.Phase(account.PhaseBackward, 2)
	m.Backward(loss)
	m.Phase(account.PhaseOptimizerStep, 2)
	m.NoGrad(c.step)
	// The loop's logits and loss outlive the step.
	m.Keep(logits)
	m.Keep(loss)
}

// infer is one forward in inference mode.
func (c *course) infer() {
	m := c.m
	run := func(part func()) { part() }
	if c.compute != dtype.Unknown {
		run = func(part func()) { m.Autocast(c.compute, part) }
	}
	m.Phase(account.PhaseForward, 1)
	m.InferenceMode(func() { run(func() { m.Drop(m.AsLogits(c.forward(c.ids))) }) })
}
