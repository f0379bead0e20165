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
