package torch_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// microBatches is one step of so many micro-batches through a linear of 256 × 128.
func microBatches(n int, setToNone bool) *timeline.Timeline {
	m := torch.New(torch.Options{Device: torch.A100()})
	weight := m.Parameter(dtype.F32, true, 256, 128)
	x := m.Input(dtype.F32, 32, 128)
	m.Workspace(true)
	for range 2 {
		m.Phase(account.PhaseForward, 1)
		for range n {
			m.Backward(m.Sum(m.Linear(x, weight, torch.Tensor{}), false))
		}
		m.ZeroGrad(weight, setToNone)
	}
	tl, _ := m.Timeline()
	return tl
}

// TestAccumulation: the first micro-batch's gradient becomes the weight's own,
// and later ones are added to it and go; set to None it is made again in each
// step, filled with zeros it stays.
func TestAccumulation(t *testing.T) {
	const gradient = 256 * 128 * 4
	for _, c := range []struct {
		micro     int
		setToNone bool
		kept      int // gradients that become the weight's own
		end       int64
	}{
		{1, true, 2, 0},
		{4, true, 2, 0},
		{4, false, 1, gradient},
	} {
		tl := microBatches(c.micro, c.setToNone)
		kept, products := 0, 0
		for _, a := range tl.Allocs {
			if a.Requested != gradient {
				continue
			}
			switch tl.Terms[a.Term].ID {
			case account.TermGradients:
				kept++
			case account.TermTemporaries:
				products++
			}
		}
		if kept != c.kept || products != 2*c.micro-c.kept {
			t.Errorf("%d micro-batches, set to none %t: %d gradients are kept and %d added, want %d and %d", c.micro, c.setToNone, kept, products, c.kept, 2*c.micro-c.kept)
		}
		if end := tl.EndRequested() - tl.Start(); end != c.end {
			t.Errorf("%d micro-batches, set to none %t: %d bytes are left, want %d", c.micro, c.setToNone, end, c.end)
		}
	}
}
