package torch

import (
	"testing"

	"floodmark/dtype"
	"floodmark/timeline"
)

// on is the requested bytes of a space that are alive now.
func on(m *Machine, space timeline.Space) (n int64) {
	for _, a := range m.tl.AliveAt(len(m.tl.Events) - 1) {
		if m.tl.Allocs[a].Space == space {
			n += m.tl.Allocs[a].Requested
		}
	}
	return n
}

// What a part without output made is given back when its reader is done, and made once
// more when the gradient of what the reader made is there; at the end nothing is left.
func TestCheckpointWithoutOutput(t *testing.T) {
	m := New(Options{Device: CPU()})
	w := m.Parameter(dtype.F32, true, 1000)
	m.ReduceInto(w)
	m.Phase("forward", 1)
	x := m.Keep(m.Unary(MulScalar, w))
	runs := 0
	outs, again := m.CheckpointWithoutOutput(func(args []Tensor) []Tensor {
		runs++
		return []Tensor{m.Unary(Exp, args[0]), m.Unary(SiLU, args[0])}
	}, x)
	a, b := m.Keep(outs[0]), m.Keep(outs[1])
	y := m.Keep(m.Binary(Mul, a, b)) // keeps both
	if got := on(m, timeline.Caching); got != 5*4000 {
		t.Errorf("%d bytes while the results are there, want parameter, input, two results and their product", got)
	}
	again.Discard(y)
	if got := on(m, timeline.Caching); got != 3*4000 {
		t.Errorf("%d bytes when they were given back, want 12000", got)
	}
	m.Drop(a, b)
	seen := int64(0)
	m.BeforeBackward(y, func() { seen = on(m, timeline.Caching) })
	loss := m.Keep(m.Sum(y, false, 0))
	m.Backward(loss)
	m.Drop(loss, y, x)
	if runs != 2 {
		t.Errorf("the part ran %d times, want 2", runs)
	}
	if _, err := m.Timeline(); err != nil {
		t.Fatal(err)
	}
	if got := on(m, timeline.Caching); got != 4000 {
		t.Errorf("%d bytes at the end, want the parameter alone", got)
	}
	if seen == 0 {
		t.Error("backward did not pass the product")
	}
}

// A tensor that two operators saved moves twice and comes back twice, in a power of two
// of main memory each, which the next move gets again; what is small stays.
func TestOffload(t *testing.T) {
	m := New(Options{Device: CPU()})
	w := m.Parameter(dtype.F32, true, 1000)
	m.ReduceInto(w)
	m.Phase("forward", 1)
	step := func() {
		x := m.Keep(m.Unary(MulScalar, w))
		var y Tensor
		saved := m.Watch(func() { y = m.Keep(doubling(m, m.Keep(doubling(m, x)))) })
		small := m.Watch(func() { y = m.Keep(m.Unary(Exp, y)) })
		m.Drop(x)
		before := on(m, timeline.Caching)
		saved.Offload(1000)
		small.Offload(1001)
		if moved := before - on(m, timeline.Caching); moved != 4000 { // the second input has a name
			t.Errorf("%d bytes left the device, want 4000", moved)
		}
		saved.Reload()
		if back := on(m, timeline.Caching) - before; back != 4000 {
			t.Errorf("%d bytes more than before, want a second copy of what has a name", back)
		}
		loss := m.Keep(m.Sum(m.Keep(y), false, 0))
		m.Backward(loss)
		if got := on(m, timeline.Pinned); got != 2*4096 {
			t.Errorf("%d bytes of main memory, want 8192", got)
		}
	}
	step()
	step()
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
}

// What was not brought back comes when backward reads it; what never runs is forgotten.
func TestOffloadOnDemand(t *testing.T) {
	m := New(Options{Device: CPU()})
	w := m.Parameter(dtype.F32, true, 1000)
	m.ReduceInto(w)
	m.Phase("forward", 1)
	for _, runs := range []bool{true, false} {
		x := m.Keep(m.Unary(MulScalar, w))
		var y Tensor
		saved := m.Watch(func() { y = m.Keep(doubling(m, x)) })
		m.Drop(x)
		saved.Offload(1)
		if runs {
			loss := m.Keep(m.Sum(y, false, 0))
			m.Backward(loss)
			m.Drop(loss)
		}
		m.Drop(y)
		saved.Reload() // nothing is left to come back
		if got := on(m, timeline.Caching); got != 4000 || m.Err() != nil {
			t.Errorf("%d bytes are left, want the parameter alone (%v)", got, m.Err())
		}
	}
}
