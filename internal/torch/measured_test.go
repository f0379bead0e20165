package torch_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/replay"
)

// measured is one curve of the benchmarks of Liger-Kernel on an A100: for each
// size the peak of torch.cuda.max_memory_allocated in MiB, forward and backward
// after iterations before
// (https://github.com/linkedin/Liger-Kernel/blob/main/benchmark/data/all_benchmark_data.csv,
// the rows of PyTorch's own modules, 2024).
type measured struct {
	name  string
	peaks map[int64]float64
	build func(m *torch.Machine, size int64) (iterate func())
}

func measurements() []measured {
	return []measured{
		{"cross entropy of 16,384 rows, by vocabulary", map[int64]float64{
			4096: 1280.126, 8192: 2560.126, 16384: 5120.126, 32768: 10240.126, 65536: 20480.125, 131072: 40960.125,
		}, crossEntropyBenchmark},
		{"head of 128,256 and cross entropy, by rows", map[int64]float64{
			4096: 6092.28, 8192: 9162.31, 16384: 15302.38, 32768: 27582.5,
		}, headBenchmark},
		{"gated network of 4,096 and 11,008, by positions of 4 sequences", map[int64]float64{
			1024: 1294.25, 2048: 1992.25, 4096: 3452.25, 8192: 6372.25,
		}, gatedBenchmark},
	}
}

func crossEntropyBenchmark(m *torch.Machine, vocabulary int64) func() {
	const rows = 8 * 2048
	logits := m.Parameter(dtype.F32, true, rows, vocabulary)
	targets := m.Input(dtype.I64, rows)
	return func() {
		f := m.Function()
		loss := f.Let(m.CrossEntropy(logits, targets))
		one := m.Keep(m.Like("ones_like", loss))
		m.BackwardRetaining(loss, one)
		m.Drop(one)
		f.End()
	}
}

// headBenchmark has the weights of two modules, of which one runs, and keeps no
// graph: with one, the smallest size would peak 32 MiB higher.
func headBenchmark(m *torch.Machine, rows int64) func() {
	weight := m.Parameter(dtype.BF16, true, 128256, 4096)
	m.Parameter(dtype.BF16, true, 128256, 4096)
	x := m.Parameter(dtype.BF16, true, rows, 4096)
	targets := m.Input(dtype.I64, rows)
	return func() {
		f := m.Function()
		loss := f.Let(m.CrossEntropy(m.Linear(x, weight, torch.Tensor{}), targets))
		m.Backward(loss)
		f.End()
	}
}

func gatedBenchmark(m *torch.Machine, positions int64) func() {
	gate, up := m.Parameter(dtype.BF16, true, 11008, 4096), m.Parameter(dtype.BF16, true, 11008, 4096)
	down := m.Parameter(dtype.BF16, true, 4096, 11008)
	x := m.Parameter(dtype.BF16, true, 4, positions, 4096)
	gradient := m.Input(dtype.BF16, 4, positions, 4096)
	return func() {
		f := m.Function()
		hidden := m.Binary(torch.Mul, m.Unary(torch.SiLU, m.Linear(x, gate, torch.Tensor{})), m.Linear(x, up, torch.Tensor{}))
		y := f.Let(m.Linear(hidden, down, torch.Tensor{}))
		m.BackwardRetaining(y, gradient)
		f.End()
	}
}

// TestMeasuredOnCUDA compares fused operators with what was measured of them on a
// card: the peak of allocated bytes of an iteration that is not the first.
func TestMeasuredOnCUDA(t *testing.T) {
	for _, c := range measurements() {
		for size, want := range c.peaks {
			m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 4}})
			iterate := c.build(m, size)
			for step := range 3 {
				m.Phase(account.PhaseBackward, step+1)
				iterate()
			}
			tl := finished(t, m)
			a := replay.Account(tl, simulate(t, tl), account.Calculated)
			peak, _ := a.Phases[2].Peak(account.Allocated).Figure.IsExact()
			if got := float64(peak) / (1 << 20); got < want*0.9999 || got > want*1.0001 {
				t.Errorf("%s, %d: %.3f MiB, measured %.3f (%+.2f %%)", c.name, size, got, want, 100*(got/want-1))
			}
		}
	}
}
