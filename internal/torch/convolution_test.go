package torch

import (
	"math"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
)

// Of one channel of 2 GiB in 16 bits a plan asked for 48.01 GiB, which is within the
// copies that are counted (https://github.com/pytorch/pytorch/issues/31500).
func TestConvolutionWork(t *testing.T) {
	shape := func(size ...int64) *impl {
		i := &impl{dtype: dtype.F16, dims: int8(len(size))}
		copy(i.size[:], size)
		return i
	}
	for _, c := range []struct {
		name      string
		x, weight *impl
		made      []int64
		groups    int64
		want      int64
	}{
		{"one channel in eights", shape(1024, 1, 1024, 1024), shape(1, 1, 1, 1), []int64{1, 1024, 1024}, 1, 2*(32<<30) + 32},
		{"two groups of eight", shape(8, 16, 512), shape(4096, 8, 1), []int64{4096, 512}, 2, 4 * (8*16*512 + 8*4096*512 + 4096*8)},
		{"more than can be counted", shape(1<<40, 1<<40), shape(1, 1), []int64{1}, 1, math.MaxInt64},
	} {
		if got := convolutionWork(c.x, c.weight, c.made, c.groups); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A processor's convolutions have no cuDNN.
func TestConvolutionWorkOfADevice(t *testing.T) {
	for _, c := range []struct {
		device Device
		want   int64
	}{{A100(), 4 * (2*8*9 + 2*8*9 + 8*8)}, {CPU(), 0}} {
		m := New(Options{Device: c.device})
		x, w := m.Input(dtype.F32, 2, 8, 9), m.Parameter(dtype.F32, true, 8, 8, 1)
		m.Phase(account.PhaseForward, 1)
		y := m.Sum(m.Convolution(x, w, Tensor{}, []int64{1}, []int64{0}, 1), false)
		m.Phase(account.PhaseLoss, 1)
		m.Phase(account.PhaseBackward, 1)
		m.Backward(y)
		m.Phase(account.PhaseOptimizerStep, 1)
		for span, want := range []int64{c.want, 0, c.want, 0} { // where convolutions and their gradients ran, and nowhere else
			if got := m.ConvolutionWork(span); got != want {
				t.Errorf("%s: %d in phase %d, want %d", c.device.Name, got, span, want)
			}
		}
	}
}
