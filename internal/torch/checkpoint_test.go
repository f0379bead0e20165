package torch_test

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// smallBlock mirrors Block of oracle/checkpoints.py.
type smallBlock struct{ norm, up, down torch.Tensor }

func (b smallBlock) forward(m *torch.Machine, x torch.Tensor) torch.Tensor {
	f := m.Module("block", &x)
	h := f.Let(b.normed(m, x))
	f.Set(&h, b.linear(m, b.down, m.Unary(torch.SiLU, b.linear(m, b.up, h))))
	return f.Return(m.Binary(torch.Add, x, h))
}

func (b smallBlock) linear(m *torch.Machine, w, x torch.Tensor) torch.Tensor {
	f := m.Module("linear", &x)
	return f.Return(m.Linear(x, w, torch.Tensor{}))
}

func (b smallBlock) normed(m *torch.Machine, x torch.Tensor) torch.Tensor {
	f := m.Module("norm", &x)
	r := f.Let(m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, x), true, -1))))
	f.Set(&x, m.Binary(torch.Mul, x, r))
	return f.Return(m.Binary(torch.Mul, b.norm, x))
}

// smallStep is one step over three blocks.
func smallStep(m *torch.Machine, mode string) {
	start := m.Parameter(dtype.F32, true, 4, 64, 128)
	parameters := []torch.Tensor{start}
	var blocks []smallBlock
	for range 3 {
		b := smallBlock{m.Parameter(dtype.F32, true, 128), m.Parameter(dtype.F32, true, 256, 128), m.Parameter(dtype.F32, true, 128, 256)}
		blocks = append(blocks, b)
		parameters = append(parameters, b.norm, b.up, b.down)
	}
	gradient := m.Input(dtype.F32, 4, 64, 128)
	m.Phase(account.PhaseForward, 1)
	f := m.Function()
	h := f.Let(m.Unary(torch.MulScalar, start))
	for _, b := range blocks {
		run := func(args []torch.Tensor) torch.Tensor { return b.forward(m, args[0]) }
		switch mode {
		case "plain":
			f.Set(&h, b.forward(m, h))
		case "chosen":
			f.Set(&h, m.CheckpointKeeping(func(op string, n int) bool { return op == "mm" && n%2 == 1 }, run, h))
		default:
			f.Set(&h, m.Checkpoint(mode == "reentrant", run, h))
		}
	}
	m.Phase(account.PhaseBackward, 1)
	m.BackwardWith(h, gradient)
	for _, p := range parameters {
		m.ZeroGrad(p, true)
	}
	f.End()
}

// TestCheckpoint compares plain, reentrant and other checkpointing with what
// PyTorch recorded of them, event by event.
func TestCheckpoint(t *testing.T) {
	for _, release := range []torch.Release{{Major: 1, Minor: 13}, {Major: 2, Minor: 15}} {
		recorded := readOperators(t, fmt.Sprintf("testdata/checkpoints_%d.%d.txt", release.Major, release.Minor))
		for _, mode := range []string{"plain", "reentrant", "not reentrant", "chosen"} {
			if recorded[mode] == "" {
				continue // that release has no choice of operators
			}
			t.Run(fmt.Sprintf("%d.%d %s", release.Major, release.Minor, mode), func(t *testing.T) {
				m := torch.New(torch.Options{Device: torch.CPU(), Release: release})
				smallStep(m, mode)
				tl, err := m.Timeline()
				if err != nil {
					t.Fatal(err)
				}
				got, want := compact(tl), strings.Split(recorded[mode], "\n")
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("event %d of %d is %q, recorded %q (of %d)\n%s", i, len(got), got[i], want[i], len(want), strings.Join(got[max(0, i-5):i], "\n"))
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d events, recorded %d", len(got), len(want))
				}
			})
		}
	}
}
