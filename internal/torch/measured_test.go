package torch_test

import (
	"math/rand/v2"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/replay"
)

// measured is one curve of the benchmarks of Liger-Kernel on a card: for each
// size the peak of torch.cuda.max_memory_allocated in MiB, forward and backward
// after iterations before
// (https://github.com/linkedin/Liger-Kernel/blob/ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c/benchmark/data/all_benchmark_data.csv,
// the rows of PyTorch's own modules, 2024 to 2026; BSD 2-Clause).
type measured struct {
	name    string
	peaks   map[int64]float64
	build   func(m *torch.Machine, size int64) (iterate func())
	device  torch.Device  // A100 unless named
	release torch.Release // 2.4 unless named
}

func measurements() []measured {
	return []measured{
		{"cross entropy of 16,384 rows, by vocabulary", map[int64]float64{
			4096: 1280.126, 8192: 2560.126, 16384: 5120.126, 32768: 10240.126, 65536: 20480.125, 131072: 40960.125,
		}, crossEntropyBenchmark, torch.Device{}, torch.Release{}},
		{"head of 128,256 and cross entropy, by rows", map[int64]float64{
			4096: 6092.28, 8192: 9162.31, 16384: 15302.38, 32768: 27582.5,
		}, headBenchmark, torch.Device{}, torch.Release{}},
		{"gated network of 4,096 and 11,008, by positions of 4 sequences", map[int64]float64{
			1024: 1294.25, 2048: 1992.25, 4096: 3452.25, 8192: 6372.25,
		}, gatedBenchmark(gated{4, 4096, 11008, torch.SiLU}, true), torch.Device{}, torch.Release{}},
		{"the same of 8 sequences with GELU", map[int64]float64{
			1024: 1992.25, 2048: 3452.25, 4096: 6372.25, 8192: 12212.25,
		}, gatedBenchmark(gated{8, 4096, 11008, torch.GELU}, true), torch.Device{}, torch.Release{}},
		{"its forward", map[int64]float64{
			1024: 1090.25, 2048: 1906.25, 4096: 3538.25, 8192: 6802.25,
		}, gatedBenchmark(gated{8, 4096, 11008, torch.GELU}, false), torch.Device{}, torch.Release{}},
		{"one of 2,048 and 4,096 on an RTX 4090, 2025", map[int64]float64{
			1024: 264.25, 2048: 400.25, 4096: 688.25, 8192: 1264.25, 16384: 2416.25,
		}, gatedBenchmark(gated{2, 2048, 4096, torch.SiLU}, true), torch.RTX4090(), torch.Release{Major: 2, Minor: 9}},
		{"its forward", map[int64]float64{
			1024: 144.25, 2048: 224.25, 4096: 384.25, 8192: 704.25, 16384: 1344.25,
		}, gatedBenchmark(gated{2, 2048, 4096, torch.SiLU}, false), torch.RTX4090(), torch.Release{Major: 2, Minor: 9}},
		{"layer_norm of 4,096 rows, by columns", map[int64]float64{
			1024: 80.0625, 2048: 160.09375, 4096: 320.15625, 8192: 640.28125, 16384: 1280.53125,
		}, layerNormBenchmark, torch.Device{}, torch.Release{}},
		{"layer_norm on an H100, 2025", map[int64]float64{
			1024: 80.0625, 2048: 160.09375, 4096: 320.15625, 8192: 640.28125, 16384: 1280.53125,
		}, layerNormBenchmark, torch.H100(), torch.Release{Major: 2, Minor: 7}},
		{"LlamaRMSNorm of 2,048 rows in 16 bits with a weight in 32, by columns", map[int64]float64{
			1024: 80.01953125, 2048: 160.03125, 4096: 320.0546875, 8192: 640.1015625, 16384: 1280.1953125, 32768: 2560.3828125,
		}, rmsNormBenchmark, torch.Device{}, torch.Release{}},
		{"nn.RMSNorm of 4,096 rows and a sum on an H100, 2026", map[int64]float64{
			1024: 40.0224609375, 2048: 80.0283203125, 4096: 160.0400390625, 8192: 320.0634765625, 16384: 640.1103515625,
		}, fusedNormBenchmark, torch.H100(), torch.Release{Major: 2, Minor: 11}},
		{"KLDivLoss of 16,384 rows on an H100, by vocabulary", map[int64]float64{
			4096: 1792, 8192: 3584, 16384: 7168, 32768: 14336, 65536: 28672, 131072: 57344,
		}, divergenceBenchmark, torch.H100(), torch.Release{}},
	}
}

// layerNormBenchmark has the weights of two modules, of which one runs.
func layerNormBenchmark(m *torch.Machine, columns int64) func() {
	var vectors [4]torch.Tensor
	for i := range vectors {
		vectors[i] = m.Parameter(dtype.F32, true, columns)
	}
	x := m.Parameter(dtype.F32, true, 4096, columns)
	gradient := m.Input(dtype.F32, 4096, columns)
	return func() {
		f := m.Function()
		m.BackwardRetaining(f.Let(m.LayerNorm(x, vectors[0], vectors[1])), gradient)
		f.End()
	}
}

func rmsNormBenchmark(m *torch.Machine, columns int64) func() {
	weight := m.Parameter(dtype.F32, true, columns)
	m.Parameter(dtype.F32, true, columns)
	x := m.Parameter(dtype.BF16, true, 2048, columns)
	gradient := m.Input(dtype.BF16, 2048, columns)
	norm := func() torch.Tensor {
		f := m.Module("norm", &x)
		h := f.Let(m.To(x, dtype.F32))
		variance := f.Let(m.Mean(m.Unary(torch.Square, h), true, -1))
		f.Set(&h, m.Binary(torch.Mul, h, m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, variance))))
		return f.Return(m.Binary(torch.Mul, weight, m.To(h, dtype.BF16)))
	}
	return func() {
		f := m.Function()
		m.BackwardRetaining(f.Let(norm()), gradient)
		f.End()
	}
}

func fusedNormBenchmark(m *torch.Machine, columns int64) func() {
	weight := m.Parameter(dtype.BF16, true, columns)
	x := m.Parameter(dtype.BF16, true, 4096, 1, columns)
	return func() {
		f := m.Function()
		y := f.Let(m.RMSNorm(x, weight))
		m.Backward(m.Sum(y, false))
		f.End()
	}
}

// divergenceBenchmark: the input is a log_softmax whose graph stays, and kl_div is
// xlogy(target, target) − target × input.
func divergenceBenchmark(m *torch.Machine, vocabulary int64) func() {
	const rows = 8 * 2048
	leaf := m.Parameter(dtype.F32, true, rows, vocabulary)
	logs := m.Keep(m.LogSoftmax(leaf, dtype.Unknown))
	target := m.Input(dtype.F32, rows, vocabulary)
	return func() {
		f := m.Function()
		pointwise := m.Binary(torch.Sub, m.Binary(torch.Mul, target, target), m.Binary(torch.Mul, target, logs))
		loss := f.Let(m.Unary(torch.DivScalar, m.Sum(pointwise, false)))
		one := m.Keep(m.Like("ones_like", loss))
		m.BackwardRetaining(loss, one)
		m.Drop(one)
		f.End()
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

// gated is a network with a gate.
type gated struct {
	sequences, width, hidden int64
	activation               torch.UnaryOp
}

func gatedBenchmark(g gated, backward bool) func(*torch.Machine, int64) func() {
	return func(m *torch.Machine, positions int64) func() {
		gate, up := m.Parameter(dtype.BF16, true, g.hidden, g.width), m.Parameter(dtype.BF16, true, g.hidden, g.width)
		down := m.Parameter(dtype.BF16, true, g.width, g.hidden)
		x := m.Parameter(dtype.BF16, true, g.sequences, positions, g.width)
		return func() {
			m.Workspace(true) // the modes ran in one process, backward before
			f := m.Function()
			hidden := m.Binary(torch.Mul, m.Unary(g.activation, m.Linear(x, gate, torch.Tensor{})), m.Linear(x, up, torch.Tensor{}))
			y := f.Let(m.Linear(hidden, down, torch.Tensor{}))
			if backward {
				gradient := m.Keep(m.Like("randn_like", y))
				m.BackwardRetaining(y, gradient)
				m.Drop(gradient)
			}
			f.End()
		}
	}
}

// TestMeasuredOnCUDA compares fused operators with what was measured of them on a
// card: the peak of allocated bytes of an iteration that is not the first.
func TestMeasuredOnCUDA(t *testing.T) {
	for _, c := range measurements() {
		for size, want := range c.peaks {
			o := torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 4}}
			if c.device.Name != "" {
				o.Device = c.device
			}
			if c.release.Major != 0 {
				o.Release = c.release
			}
			m := torch.New(o)
			iterate := c.build(m, size)
			for step := range 3 {
				m.Phase(account.PhaseBackward, step+1)
				iterate()
			}
			if got := lastPeak(t, m); got < want*0.9999 || got > want*1.0001 {
				t.Errorf("%s, %d: %.3f MiB, measured %.3f (%+.2f %%)", c.name, size, got, want, 100*(got/want-1))
			}
		}
	}
}

// lastPeak is the peak of allocated bytes in the last phase, in MiB.
func lastPeak(t *testing.T, m *torch.Machine) float64 {
	t.Helper()
	return lastPeakUnder(t, m, replay.DefaultOptions())
}

func lastPeakUnder(t *testing.T, m *torch.Machine, o replay.Options) float64 {
	t.Helper()
	tl := finished(t, m)
	run, err := replay.Simulate(t.Context(), tl, o)
	if err != nil {
		t.Fatal(err)
	}
	a := replay.Account(tl, run, account.Calculated)
	peak, _ := a.Phases[len(a.Phases)-1].Peak(account.Allocated).Figure.IsExact()
	return float64(peak) / (1 << 20)
}

// TestEmbeddingMeasuredOnCUDA compares how the peak of an embedding of 16,384 ids
// grows with its table: the benchmark's process holds something else beside it.
// The table counts four times (two modules, a gradient and the one that is added),
// and as long as it has fewer rows than ids are looked up, so do the sums of its
// backward, with three columns of 8 bytes a row.
func TestEmbeddingMeasuredOnCUDA(t *testing.T) {
	for _, c := range []struct {
		sequences, length, width int64
		peaks                    []float64 // of 2,048, 4,096, … rows
	}{
		{32, 512, 768, []float64{12371.359375, 12401.40625, 12461.5, 12581.6875, 12773.6875, 13157.6875, 13925.6875}},
		{8, 2048, 4096, []float64{14468.154296875, 14628.201171875, 14948.294921875, 15588.482421875, 16612.482421875, 18660.482421875, 22756.482421875}},
	} {
		var before float64
		for i, measured := range c.peaks {
			m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 4}})
			rows := int64(2048) << i
			table := m.Parameter(dtype.F32, true, rows, c.width)
			m.Parameter(dtype.F32, true, rows, c.width)
			ids := m.Input(dtype.I64, c.sequences, c.length)
			for step := range 3 {
				m.Phase(account.PhaseBackward, step+1)
				f := m.Function()
				out := f.Let(m.Embedding(table, ids))
				m.BackwardWith(out, m.Like("randn_like", out))
				f.End()
			}
			peak := lastPeak(t, m)
			if i > 0 {
				got, want := peak-before, measured-c.peaks[i-1]
				if got < want-0.03 || got > want+0.03 {
					t.Errorf("width %d, %d rows: %.3f MiB more than half as many, measured %.3f", c.width, rows, got, want)
				}
			}
			before = peak
		}
	}
}

// drawnRows is how many positions each expert gets when every position draws its
// own experts.
func drawnRows(positions, chosen, experts int64) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]int64, experts)
	for range positions {
		for _, e := range r.Perm(int(experts))[:chosen] {
			rows[e]++
		}
	}
	return rows
}

// loopedExperts is the loop over experts of the benchmark. Weights are products of
// leaves, as the benchmark makes them.
func loopedExperts(m *torch.Machine, positions, experts int64) func(backward bool) {
	const width, hidden, chosen = 2048, 768, 8
	x := m.Parameter(dtype.BF16, true, positions, width)
	made := func(shape ...int64) torch.Tensor {
		leaf := m.Parameter(dtype.BF16, true, shape...)
		return m.Keep(m.Unary(torch.MulScalar, leaf))
	}
	gateUp, down := made(experts, 2*hidden, width), made(experts, width, hidden)
	m.Input(dtype.I32, positions, chosen)
	shares := m.Parameter(dtype.BF16, true, positions, chosen)
	rows := drawnRows(positions, chosen, experts)
	forward := func() torch.Tensor {
		f := m.Function()
		final := f.Let(m.Like("zeros_like", x))
		f.Let(m.Empty("one_hot", dtype.I64, positions, chosen, experts))
		var ids, current, gate, up torch.Tensor
		for i := range experts {
			f.Set(&ids, m.Empty("nonzero", dtype.I64, rows[i]))
			f.Set(&current, m.IndexRows(x, ids))
			halves := m.Split(m.Linear(current, m.Select(gateUp, 0), torch.Tensor{}), -1, hidden, hidden)
			f.Set(&gate, halves[0])
			f.Set(&up, halves[1])
			f.Set(&current, m.Binary(torch.Mul, m.Unary(torch.SiLU, gate), up))
			f.Set(&current, m.Linear(current, m.Select(down, 0), torch.Tensor{}))
			share := m.Unsqueeze(m.IndexRows(m.Reshape(shares, -1), ids), -1)
			f.Set(&current, m.Binary(torch.Mul, current, share))
			m.IndexAdd(final, ids, current)
		}
		return f.Return(final)
	}
	return func(backward bool) {
		final := m.Keep(forward())
		if backward {
			gradient := m.Keep(m.Like("randn_like", final))
			m.BackwardRetaining(final, gradient)
			m.Drop(gradient)
		}
		m.Drop(final)
	}
}

// TestLoopedExpertsMeasuredOnCUDA compares a loop over experts with what was
// measured of it on an H100 in 2026, where blocks were split as expandable segments
// split them. How many rows an expert gets was drawn at random there, and is here,
// so that peaks agree to 0.15 %.
func TestLoopedExpertsMeasuredOnCUDA(t *testing.T) {
	for _, c := range []struct {
		positions, experts int64
		backward           bool
		measured           float64
	}{
		{128, 128, false, 2388.1318359375}, {1024, 128, false, 2528.26513671875}, {8192, 128, false, 3650.37158203125}, {32768, 128, false, 7497.27587890625},
		{8192, 8, false, 1429.50048828125}, {8192, 32, false, 1874.1826171875},
		{128, 128, true, 5466.693359375}, {1024, 128, true, 5610.61962890625}, {8192, 128, true, 6763.20654296875}, {32768, 128, true, 10711.859375},
		{8192, 8, true, 1761.765625}, {8192, 32, true, 2738.263671875},
	} {
		m := torch.New(torch.Options{Device: torch.H100(), Release: torch.Release{Major: 2, Minor: 10}})
		run := loopedExperts(m, c.positions, c.experts)
		m.Workspace(true)
		for step := range 2 {
			m.Phase(account.PhaseBackward, step+1)
			run(c.backward)
		}
		o := replay.DefaultOptions()
		o.Settings.ExpandableSegments = true
		got := lastPeakUnder(t, m, o)
		if off := got/c.measured - 1; off > 0.0015 || off < -0.0015 {
			t.Errorf("%d positions, %d experts, backward %t: %.1f MiB, measured %.1f (%+.2f %%)", c.positions, c.experts, c.backward, got, c.measured, 100*off)
		}
	}
}
