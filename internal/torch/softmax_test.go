package torch_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// Softmax keeps its result for backward, and to PyTorch 1.10 its input too.
func TestSoftmaxKeepsItsInput(t *testing.T) {
	const bytes = 64 * 64 * 4
	for _, c := range []struct {
		release torch.Release
		kept    int64
	}{{torch.Release{}, bytes}, {torch.Release{Major: 1, Minor: 13}, bytes}, {torch.Release{Major: 1, Minor: 10}, 2 * bytes}} {
		m := torch.New(torch.Options{Device: torch.A100(), Release: c.release})
		w := m.Parameter(dtype.F32, true, 64, 64)
		m.Phase(account.PhaseForward, 1)
		m.Keep(m.Sum(m.Softmax(m.Unary(torch.MulScalar, w), dtype.Unknown), false))
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		if kept := tl.EndRequested() - tl.Start(); kept < c.kept || kept >= c.kept+bytes {
			t.Errorf("%v: %d bytes are kept, want %d and a number", c.release, kept, c.kept)
		}
	}
}
