package torch_test

import (
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// TestShapesThatDoNotFit: whatever shapes an operator is given, it does not
// panic. What does not fit is an error of the timeline.
func TestShapesThatDoNotFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := torch.New(torch.Options{Device: rapid.SampledFrom([]torch.Device{torch.H100(), torch.CPU()}).Draw(t, "device")})
		tensor := func() torch.Tensor {
			shape := rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1, 2, 3, 7, 64, 1 << 20, 1 << 40}), 0, 5).Draw(t, "shape")
			return m.Parameter(rapid.SampledFrom([]dtype.Format{dtype.F32, dtype.BF16, dtype.I64, dtype.Bool}).Draw(t, "format"), rapid.Bool().Draw(t, "trained"), shape...)
		}
		dim := func() int { return rapid.IntRange(-6, 6).Draw(t, "dimension") }
		size := func() int64 { return rapid.SampledFrom([]int64{-1, 0, 1, 2, 3, 64, 1 << 40}).Draw(t, "size") }
		m.Phase(account.PhaseForward, 1)
		x := m.Keep(tensor())
		for range rapid.IntRange(1, 6).Draw(t, "operators") {
			y := anyOperator(t, m, x, tensor, dim, size)
			if y.Defined() {
				x = m.Keep(y)
			}
		}
		if x.RequiresGrad() {
			m.Backward(m.Sum(x, false))
		}
		_, _ = m.Timeline()
	})
}

// anyOperator runs one of them on x and what is drawn beside it.
func anyOperator(t *rapid.T, m *torch.Machine, x torch.Tensor, tensor func() torch.Tensor, dim func() int, size func() int64) torch.Tensor {
	switch rapid.IntRange(0, 32).Draw(t, "operator") {
	case 30:
		return m.LogSumExp(x)
	case 31:
		return m.ArgMax(x)
	case 32:
		return m.MaskedRows(x, tensor(), size())
	case 28:
		return m.IndexCopy(x, tensor(), tensor())
	case 29:
		return m.CrossEntropyEach(x, tensor())
	case 27:
		return m.IndexPut(m.Unary(torch.MulScalar, x), tensor())
	case 0:
		return m.Binary(torch.Mul, x, tensor())
	case 1:
		return m.Linear(x, tensor(), tensor())
	case 2:
		return m.Matmul(x, tensor())
	case 3:
		return m.Reshape(x, size(), size(), size())
	case 4:
		return m.Transpose(x, dim(), dim())
	case 5:
		return m.Slice(x, dim(), size(), size())
	case 6:
		return m.Select(x, dim())
	case 7:
		return m.Cat(dim(), x, tensor())
	case 8:
		p := m.Split(x, dim(), size(), size())
		return p[0]
	case 9:
		return m.LayerNorm(x, tensor(), tensor())
	case 10:
		return m.RMSNorm(x, tensor())
	case 11:
		return m.Softmax(x, dtype.F32)
	case 12:
		return m.CrossEntropy(x, tensor())
	case 13:
		return m.Embedding(x, tensor())
	case 14:
		return m.Gather(x, dim(), tensor())
	case 15:
		return m.ScaledDotProduct(torch.Attention{Kernel: torch.Kernel(rapid.IntRange(0, 3).Draw(t, "kernel")), Causal: true}, x, tensor(), tensor(), tensor())
	case 16:
		return m.Einsum("bij,bjk->bik", x, tensor())
	case 17:
		return m.Expand(x, size(), size(), size())
	case 18:
		return m.Unsqueeze(x, dim())
	case 19:
		return m.Squeeze(x, dim())
	case 20:
		return m.Mean(x, rapid.Bool().Draw(t, "keep"), dim())
	case 21:
		v, _ := m.Max(x, dim(), true)
		return v
	case 22:
		return m.Baddbmm(x, tensor(), tensor(), true)
	case 23:
		return m.Convolution(x, tensor(), tensor(), []int64{2, 2}, []int64{0, 0}, 1)
	case 24:
		return m.Stack(dim(), x, tensor())
	case 25:
		return m.Permute(x, dim(), dim(), dim())
	}
	if p := m.Unbind(x, dim()); len(p) > 0 {
		return p[0]
	}
	return torch.Tensor{}
}
