package training_test

import (
	"testing"

	"floodmark/account"
	"floodmark/workload"
)

// Where a parameter's step and its gradient are: after all of backward, as soon as
// the gradient is there, or in main memory. Llama-3.2-1B has 1,235,814,400
// parameters, of which 2 bytes each are the weights, their gradients and each of
// two moments.
func TestWhereTheOptimizerSteps(t *testing.T) {
	const each = 2 * 1_235_814_400
	const norms = 33 * 2048 * 2 // tensors below 4,096 elements step on the device
	m := llama(t)
	for _, c := range []struct {
		name    string
		change  func(*workload.Train)
		between int64 // weights, gradients and moments after a step
		host    int64
		// gathered says that the gradients of all parameters are there at once.
		gathered bool
	}{
		{"after backward", func(*workload.Train) {}, 3 * each, 0, true},
		{"in backward", func(t *workload.Train) { t.InBackward = true }, 3 * each, 0, false},
		{"states in main memory", func(t *workload.Train) { t.HostOptimizer = workload.HostStates }, each + 2*norms, 4 * (each - norms), true},
		{"gradients too", func(t *workload.Train) { t.HostOptimizer = workload.HostGradients }, each + 2*norms, 4 * (each - norms), false},
	} {
		w := work(t, "bf16-params", "adamw", "fused")
		c.change(w.Training)
		a := accountOf(t, m, w)
		last := a.Phases[len(a.Phases)-1]
		var backward account.Phase
		for _, p := range a.Phases {
			if p.ID == account.PhaseBackward {
				backward = p
			}
		}
		high, known := backward.Peak(account.Allocated).Figure.High()
		if !known {
			t.Fatalf("%s: nothing is known of backward: %s", c.name, backward.Peak(account.Allocated).Figure.Reason())
		}
		if beside := high - backward.Start.Allocated.Low(); beside > each != c.gathered {
			t.Errorf("%s: %d bytes beside what was there before backward", c.name, beside)
		}
		if low := last.End.Allocated.Low(); low < c.between || low > c.between+c.between/50 {
			t.Errorf("%s: %d bytes after the step, want %d and the workspaces", c.name, low, c.between)
		}
		if host := last.End.Host.Low(); host != c.host {
			t.Errorf("%s: %d bytes in main memory, want %d", c.name, host, c.host)
		}
	}
}
