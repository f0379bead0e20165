package torch_test

import (
	"fmt"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// The norm of the package's comment over 2 × 128 positions of 64 channels, forward
// and backward: each allocation with its operator, the node of backward and the
// module, and each end.
func ExampleMachine() {
	m := torch.New(torch.Options{Device: torch.A100()})
	weight := m.Parameter(dtype.F32, true, 64)
	x := m.Input(dtype.F32, 2, 128, 64)
	norm := func(x torch.Tensor) torch.Tensor {
		f := m.Module("norm", &x)
		rms := f.Let(m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar, m.Mean(m.Unary(torch.Square, x), true, -1))))
		f.Set(&x, m.Binary(torch.Mul, x, rms))
		return f.Return(m.Binary(torch.Mul, weight, x))
	}
	m.Phase(account.PhaseForward, 1)
	loss := m.Keep(m.Sum(norm(x), false))
	m.Phase(account.PhaseBackward, 1)
	m.Backward(loss)
	tl, err := m.Timeline()
	if err != nil {
		panic(err)
	}
	for _, e := range tl.Events {
		a := tl.Allocs[e.Alloc]
		if e.Kind != timeline.Born {
			fmt.Printf("- %d\n", e.Alloc)
			continue
		}
		fmt.Printf("+ %d: %d %s", e.Alloc, a.Requested, tl.Terms[a.Term].ID)
		for _, frame := range tl.Stacks.Stack(a.Stack) {
			fmt.Print(" ", tl.Stacks.Function(frame))
		}
		fmt.Println()
	}
	// Output:
	// + 2: 65536 temporaries pow norm
	// + 3: 1024 temporaries mean norm
	// - 2
	// + 4: 1024 temporaries add norm
	// - 3
	// + 5: 1024 temporaries rsqrt norm
	// - 4
	// + 6: 65536 activations mul norm
	// + 7: 65536 temporaries mul norm
	// - 5
	// + 8: 4 temporaries sum
	// - 7
	// + 9: 4 temporaries ones_like
	// + 10: 65536 temporaries mul MulBackward0 norm
	// + 11: 256 gradients sum norm
	// - 10
	// - 6
	// - 9
}
