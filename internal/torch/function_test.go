package torch

import (
	"testing"

	"floodmark/dtype"
)

// doubling is a function that keeps its input and makes a scratch tensor beside its
// result.
func doubling(m *Machine, x Tensor) Tensor {
	return m.Apply1(Function{
		Name: "Doubling",
		Forward: func(c *Call) []Tensor {
			c.Save(x)
			scratch := c.Empty(dtype.F32, 100)
			out := c.Empty(dtype.F32, x.Shape()...)
			c.Free(scratch)
			return []Tensor{out}
		},
		Backward: func(g *Gradients) {
			grad := g.Empty(dtype.F32, g.Saved(0).Shape()...)
			g.Release(0)
			g.Give(0, grad)
		},
	}, x)
}

// What a function saves lives to its backward, what it frees does not, and a leaf
// whose gradient goes into a buffer keeps none.
func TestFunction(t *testing.T) {
	m := New(Options{Device: CPU()})
	w := m.Parameter(dtype.F32, true, 10)
	m.ReduceInto(w)
	m.Phase("forward", 1)
	x := m.Keep(m.Unary(MulScalar, w))
	y := doubling(m, x)
	m.Drop(x)
	loss := m.Keep(m.Sum(y, false, 0))
	m.Backward(loss)
	m.Drop(loss)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	if end := tl.EndRequested(); end != 40 || w.HasGrad() {
		t.Errorf("%d bytes are left, want the parameter's 40; gradient %v", end, w.HasGrad())
	}
	if peak, _ := tl.PeakRequested(); peak < 40+40+400 {
		t.Errorf("the peak is %d", peak)
	}
}

// Deallocate leaves the graph and frees the bytes; PlaceIn moves a tensor into
// another one's.
func TestDeallocateAndPlace(t *testing.T) {
	m := New(Options{Device: CPU()})
	w := m.Parameter(dtype.F32, true, 1000)
	buffer := m.GradientBuffer(dtype.F32, 1000)
	m.Phase("forward", 1)
	out := m.Keep(m.Unary(MulScalar, w))
	m.Deallocate(out)
	tl, _ := m.Timeline()
	if end := tl.EndRequested(); end != 8004 {
		t.Errorf("%d bytes after deallocation, want two buffers and one element", end)
	}
	gradient := m.Keep(m.Empty("recv", dtype.F32, 1000))
	m.BackwardWith(out, gradient)
	m.Drop(out, gradient)
	m.PlaceIn(w, buffer)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	if end := tl.EndRequested(); end != 4000+4000 {
		t.Errorf("%d bytes at the end, want the buffer and the gradient", end)
	}
}
