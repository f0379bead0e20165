package torch_test

import (
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// TestLinear4Bit follows one product with a weight of 4096 × 11008 in 4 bits with
// packed scales: 2,818,048 bytes of scales, 90,177,536 of weight, the output; in
// backward scales and weight again, and the gradient of the input. Nothing is
// kept in between.
func TestLinear4Bit(t *testing.T) {
	m := torch.New(torch.Options{Device: torch.CPU()})
	weight := m.Parameter(dtype.U8, false, 4096*11008/2, 1)
	x := m.RequireGrad(m.Input(dtype.BF16, 8, 4096))
	m.Phase(account.PhaseForward, 1)
	packed := torch.Packed{Weight: weight, Shape: []int64{11008, 4096}, Format: dtype.BF16, Block: 64, Nested: true}
	out := m.Keep(m.Linear4Bit(x, packed, torch.Tensor{}))
	grad := m.Keep(m.Like("grad", out))
	m.Phase(account.PhaseBackward, 1)
	m.BackwardWith(out, grad)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	var born []int64
	for _, e := range tl.Events {
		if e.Kind == timeline.Born {
			born = append(born, tl.Allocs[e.Alloc].Requested)
		}
	}
	want := []int64{2818048, 90177536, 8 * 11008 * 2, 8 * 11008 * 2, 2818048, 90177536, 8 * 4096 * 2}
	if !slices.Equal(born, want) {
		t.Errorf("born %v, want %v", born, want)
	}
}

// TestLinear4BitKeepsInput: as an attribute of the node an input outlives backward,
// which would release what is saved, and goes with the last name of the graph: 8
// rows of 64 in bfloat16 are 1,024 bytes.
func TestLinear4BitKeepsInput(t *testing.T) {
	after := func(keeps bool, let bool) int64 {
		m := torch.New(torch.Options{Device: torch.CPU()})
		weight := m.Parameter(dtype.U8, false, 64*64/2, 1)
		leaf := m.RequireGrad(m.Input(dtype.BF16, 8, 64))
		packed := torch.Packed{Weight: weight, Shape: []int64{64, 64}, Format: dtype.BF16, Block: 64, KeepsInput: keeps}
		loss := m.Keep(m.Sum(m.Linear4Bit(m.Unary(torch.MulScalar, leaf), packed, torch.Tensor{}), false))
		m.Backward(m.Hold(loss))
		m.Drop(loss)
		if let {
			m.Drop(loss)
		}
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		var level int64
		for _, e := range tl.Events {
			switch e.Kind {
			case timeline.Born:
				level += tl.Allocs[e.Alloc].Requested
			case timeline.FreeCompleted:
				level -= tl.Allocs[e.Alloc].Requested
			}
		}
		return level
	}
	if more := after(true, false) - after(false, false); more != 8*64*2 {
		t.Errorf("after backward %d bytes more are alive, want 1024", more)
	}
	if more := after(true, true) - after(false, true); more != 0 {
		t.Errorf("without a name for the loss %d bytes more are alive, want none", more)
	}
}
