package torch_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// program draws operators on tensors of [rows, columns], forward, backward and a
// step of an optimizer, in a frame of names.
type program struct {
	t          *rapid.T
	m          *torch.Machine
	parameters []torch.Tensor
	rows       int64
	width      int64
}

func (p *program) expression(f *torch.Frame, names []torch.Tensor, depth int) torch.Tensor {
	m := p.m
	if depth == 0 {
		return rapid.SampledFrom(names).Draw(p.t, "name")
	}
	next := func() torch.Tensor { return p.expression(f, names, depth-1) }
	switch rapid.IntRange(0, 13).Draw(p.t, "operator") {
	case 0:
		return m.Unary(torch.UnaryOp(rapid.IntRange(int(torch.Neg), int(torch.DivScalar)).Draw(p.t, "unary")), next())
	case 1:
		op := rapid.SampledFrom([]torch.BinaryOp{torch.Add, torch.Sub, torch.Mul, torch.Div, torch.Maximum}).Draw(p.t, "binary")
		return m.Binary(op, next(), next())
	case 2:
		return m.Linear(next(), p.square(), torch.Tensor{})
	case 3:
		return m.Linear(next(), p.square(), p.vector())
	case 4:
		return m.LayerNorm(next(), p.vector(), p.vector())
	case 5:
		return m.Softmax(next(), dtype.Unknown)
	case 6:
		return m.Transpose(m.Transpose(next(), 0, 1), 0, 1)
	case 7:
		return m.Binary(torch.Mul, next(), m.Mean(next(), true, -1))
	case 8:
		halves := m.Split(next(), -1, p.width/2, p.width-p.width/2)
		return m.Cat(-1, halves[1], halves[0])
	case 9:
		return m.To(m.To(next(), dtype.BF16), dtype.F32)
	case 10:
		return m.RMSNorm(next(), p.vector())
	case 11:
		values, indices := m.Max(next(), -1, true)
		m.Drop(indices)
		return m.Binary(torch.Sub, next(), values)
	case 12:
		x := next()
		reentrant := rapid.Bool().Draw(p.t, "reentrant")
		w := p.square()
		return m.Checkpoint(reentrant, func(args []torch.Tensor) torch.Tensor {
			g := m.Function(&args[0])
			h := g.Let(m.Unary(torch.GELU, m.Linear(args[0], w, torch.Tensor{})))
			return g.Return(m.Binary(torch.Mul, h, args[0]))
		}, x)
	}
	return m.Dropout(m.Reshape(m.Reshape(next(), -1), p.rows, p.width))
}

func (p *program) square() torch.Tensor {
	return p.parameter(p.width, p.width)
}

func (p *program) vector() torch.Tensor { return p.parameter(p.width) }

// parameter is one that is there, or a new one.
func (p *program) parameter(shape ...int64) torch.Tensor {
	for _, x := range p.parameters {
		if slices.Equal(x.Shape(), shape) && rapid.Bool().Draw(p.t, "again") {
			return x
		}
	}
	x := p.m.Parameter(dtype.F32, rapid.Bool().Draw(p.t, "trained"), shape...)
	p.parameters = append(p.parameters, x)
	return x
}

// TestNothingLeaks: whatever a program computes, no reference is released twice,
// and when its names are gone only parameters, gradients, states and workspaces
// are left; without gradients, exactly the parameters.
func TestNothingLeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		device := rapid.SampledFrom([]torch.Device{torch.A100(), torch.CPU()}).Draw(t, "device")
		device.Workspace = 0
		release := rapid.SampledFrom([]torch.Release{{}, {Major: 1, Minor: 13}, {Major: 2, Minor: 6}}).Draw(t, "release")
		m := torch.New(torch.Options{Device: device, Release: release})
		p := &program{t: t, m: m, rows: rapid.Int64Range(1, 5000).Draw(t, "rows"), width: rapid.Int64Range(2, 70).Draw(t, "width")}
		start := m.Parameter(dtype.F32, true, p.rows, p.width)
		p.parameters = append(p.parameters, start)
		m.Phase(account.PhaseForward, 1)
		run := func() {
			f := m.Function()
			names := []torch.Tensor{f.Let(m.Unary(torch.MulScalar, start))}
			for range rapid.IntRange(1, 4).Draw(t, "statements") {
				names = append(names, f.Let(p.expression(f, names, rapid.IntRange(1, 4).Draw(t, "depth"))))
			}
			m.Backward(m.Sum(names[len(names)-1], false))
			f.End()
		}
		if rapid.Bool().Draw(t, "autocast") {
			m.Autocast(dtype.BF16, run)
		} else {
			run()
		}
		for _, x := range p.parameters {
			m.ZeroGrad(x, true)
		}
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		var weights int64
		for _, x := range p.parameters {
			weights += 4 * x.Elements()
		}
		if end := tl.EndRequested(); end != weights {
			for _, a := range tl.AliveAt(len(tl.Events) - 1) {
				var place []string
				for _, frame := range tl.Stacks.Stack(tl.Allocs[a].Stack) {
					place = append(place, tl.Stacks.Function(frame))
				}
				t.Logf("allocation %d: %d bytes of %s by %v", a, tl.Allocs[a].Requested, tl.Terms[tl.Allocs[a].Term].ID, place)
			}
			t.Fatalf("%d bytes are left, the parameters are %d", end, weights)
		}
		bornOnce(t, tl)
	})
}

// bornOnce: an allocation is born at most once and dies at most once, after it.
func bornOnce(t *rapid.T, tl *timeline.Timeline) {
	alive := make([]bool, len(tl.Allocs))
	for _, a := range tl.Before {
		alive[a] = true
	}
	for i, e := range tl.Events {
		if alive[e.Alloc] == (e.Kind == timeline.Born) {
			t.Fatalf("event %d: allocation %d is born or dies twice", i, e.Alloc)
		}
		alive[e.Alloc] = e.Kind == timeline.Born
	}
}
