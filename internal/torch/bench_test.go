package torch_test

import (
	"fmt"
	"runtime"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/replay"
	"floodmark/timeline"
)

// large is a decoder of the shapes of Llama-3.1-70B as transformers writes it: 80
// layers, each recomputed in backward.
type large struct {
	m                                    *torch.Machine
	width, hidden, heads, pairs, context int64
	table, final, head, ids, targets     torch.Tensor
	layers                               []largeLayer
	parameters                           []torch.Tensor
}

type largeLayer struct{ norm1, q, k, v, o, norm2, gate, up, down torch.Tensor }

func (l *large) weight(shape ...int64) torch.Tensor {
	p := l.m.Parameter(dtype.BF16, true, shape...)
	l.parameters = append(l.parameters, p)
	return p
}

func newLarge(m *torch.Machine) *large {
	l := &large{m: m, width: 8192, hidden: 28672, heads: 64, pairs: 8, context: 4096}
	const vocabulary = 128256
	l.table = l.weight(vocabulary, l.width)
	for range 80 {
		l.layers = append(l.layers, largeLayer{
			norm1: l.weight(l.width), q: l.weight(l.width, l.width), k: l.weight(l.pairs*128, l.width), v: l.weight(l.pairs*128, l.width),
			o: l.weight(l.width, l.width), norm2: l.weight(l.width),
			gate: l.weight(l.hidden, l.width), up: l.weight(l.hidden, l.width), down: l.weight(l.width, l.hidden),
		})
	}
	l.final, l.head = l.weight(l.width), l.weight(vocabulary, l.width)
	l.ids, l.targets = m.Input(dtype.I64, 1, l.context), m.Input(dtype.I64, l.context)
	return l
}

func (l *large) norm(name string, w, x torch.Tensor) torch.Tensor {
	m := l.m
	f := m.Module(name, &x)
	f.Set(&x, m.To(x, dtype.F32))
	variance := f.Let(m.Mean(m.Unary(torch.Square, x), true, -1))
	f.Set(&x, m.Binary(torch.Mul, x, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, variance))))
	return f.Return(m.Binary(torch.Mul, w, m.To(x, dtype.BF16)))
}

func (l *large) linear(name string, w, x torch.Tensor) torch.Tensor {
	f := l.m.Module(name, &x)
	return f.Return(l.m.Linear(x, w, torch.Tensor{}))
}

func (l *large) rotate(x, cos, sin torch.Tensor) torch.Tensor {
	m := l.m
	f := m.Function(&x, &cos, &sin)
	left, right := m.Slice(x, -1, 0, 64), m.Slice(x, -1, 64, 128)
	turned := m.Cat(-1, m.Unary(torch.Neg, right), left)
	return f.Return(m.Binary(torch.Add, m.Binary(torch.Mul, x, cos), m.Binary(torch.Mul, turned, sin)))
}

func (l *large) attention(b largeLayer, x, cos, sin torch.Tensor) torch.Tensor {
	m := l.m
	f := m.Module("self_attn", &x)
	heads := func(x torch.Tensor, n int64) torch.Tensor {
		return m.Transpose(m.Reshape(x, 1, l.context, n, 128), 1, 2)
	}
	q := f.Let(heads(l.linear("q_proj", b.q, x), l.heads))
	k := f.Let(heads(l.linear("k_proj", b.k, x), l.pairs))
	v := f.Let(heads(l.linear("v_proj", b.v, x), l.pairs))
	f.Set(&q, l.rotate(q, cos, sin))
	f.Set(&k, l.rotate(k, cos, sin))
	out := f.Let(m.ScaledDotProduct(torch.Attention{Kernel: torch.Flash, Causal: true}, q, k, v, torch.Tensor{}))
	f.Set(&out, m.Reshape(m.Transpose(out, 1, 2), 1, l.context, l.width))
	return f.Return(l.linear("o_proj", b.o, out))
}

func (l *large) layer(i int, x, cos, sin torch.Tensor) torch.Tensor {
	m, b := l.m, l.layers[i]
	f := m.Module(fmt.Sprintf("layers.%d", i), &x)
	h := f.Let(l.norm("input_layernorm", b.norm1, x))
	f.Set(&h, l.attention(b, h, cos, sin))
	f.Set(&h, m.Binary(torch.Add, x, h))
	residual := f.Let(h)
	f.Set(&h, l.norm("post_attention_layernorm", b.norm2, h))
	f.Set(&h, l.linear("down_proj", b.down, m.Binary(torch.Mul, m.Unary(torch.SiLU, l.linear("gate_proj", b.gate, h)), l.linear("up_proj", b.up, h))))
	f.Set(&h, m.Binary(torch.Add, residual, h))
	return f.Return(h)
}

func (l *large) step(n int, optimizer *torch.Optimizer) {
	m := l.m
	m.Phase(account.PhaseForward, n)
	f := m.Function()
	x := f.Let(m.Embedding(l.table, l.ids))
	cos := f.Let(m.Empty("cos", dtype.BF16, 1, 1, l.context, 128))
	sin := f.Let(m.Empty("sin", dtype.BF16, 1, 1, l.context, 128))
	for i := range l.layers {
		f.Set(&x, m.Checkpoint(false, func(args []torch.Tensor) torch.Tensor { return l.layer(i, args[0], cos, sin) }, x))
	}
	f.Set(&x, l.norm("norm", l.final, x))
	logits := f.Let(m.AsLogits(l.linear("lm_head", l.head, x)))
	m.Phase(account.PhaseLoss, n)
	loss := f.Let(m.CrossEntropy(m.Reshape(m.To(logits, dtype.F32), l.context, -1), l.targets))
	m.Phase(account.PhaseBackward, n)
	m.Backward(loss)
	m.Phase(account.PhaseOptimizerStep, n)
	optimizer.Step()
	for _, p := range l.parameters {
		m.ZeroGrad(p, true)
	}
	f.End()
}

func runLarge(tb testing.TB) *timeline.Timeline {
	m := torch.New(torch.Options{Device: torch.H100()})
	l := newLarge(m)
	optimizer := m.NewOptimizer(torch.OptimizerOptions{Algorithm: torch.AdamW}, l.parameters)
	l.step(1, optimizer)
	l.step(2, optimizer)
	tl, err := m.Timeline()
	if err != nil {
		tb.Fatal(err)
	}
	return tl
}

// BenchmarkLarge is the timeline and the replay of two steps of a model of 70
// billion parameters with full recomputation.
func BenchmarkLarge(b *testing.B) {
	for b.Loop() {
		tl := runLarge(b)
		o := replay.DefaultOptions()
		o.Curve = false
		if _, err := replay.Simulate(b.Context(), tl, o); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(tl.Events)), "events")
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	b.ReportMetric(float64(stats.Sys)/(1<<20), "MiB-from-system")
}

// TestLarge: with recomputation the activations that backward keeps are the
// inputs of 80 layers, and the peak is the optimizer's.
func TestLarge(t *testing.T) {
	tl := runLarge(t)
	if start := tl.Start(); start != 2*70_553_706_496+2*8*4096 {
		t.Errorf("weights and inputs are %d bytes", start)
	}
	_, moment := tl.PeakRequested()
	for _, p := range tl.Phases {
		if p.First <= moment && moment < p.Last && p.Phase != account.PhaseOptimizerStep {
			t.Errorf("the peak lies in %s", p.Phase)
		}
	}
	var kept int64
	for _, a := range tl.AliveAt(tl.Phases[1].First - 1) {
		if tl.Terms[tl.Allocs[a].Term].ID == account.TermActivations {
			kept += tl.Allocs[a].Requested
		}
	}
	inputs := int64(80 * 4096 * 8192 * 2)
	if outside := kept - inputs; outside < 0 || outside > inputs/10 {
		t.Errorf("%d bytes are kept for backward, of which the inputs of 80 layers are %d", kept, inputs)
	}
}
