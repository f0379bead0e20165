package torch_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// TestOptimizers compares two steps of each optimizer, and the clipping of a
// norm, with what PyTorch recorded of them.
func TestOptimizers(t *testing.T) {
	recorded := readOperators(t, "testdata/optimizers_2.15.txt")
	for name, o := range map[string]torch.OptimizerOptions{
		"adamw foreach":               {Algorithm: torch.AdamW},
		"adamw for-loop":              {Algorithm: torch.AdamW, Form: torch.ForLoop},
		"adamw fused":                 {Algorithm: torch.AdamW, Form: torch.Fused},
		"sgd":                         {Algorithm: torch.SGD},
		"sgd momentum foreach":        {Algorithm: torch.SGD, Momentum: true},
		"sgd momentum decay foreach":  {Algorithm: torch.SGD, Momentum: true, WeightDecay: true},
		"sgd nesterov foreach":        {Algorithm: torch.SGD, Momentum: true, Nesterov: true},
		"sgd nesterov decay for-loop": {Algorithm: torch.SGD, Form: torch.ForLoop, Momentum: true, Nesterov: true, WeightDecay: true},
		"rmsprop foreach":             {Algorithm: torch.RMSprop},
		"rmsprop for-loop":            {Algorithm: torch.RMSprop, Form: torch.ForLoop},
		"adamax foreach":              {Algorithm: torch.Adamax},
		"adamax for-loop":             {Algorithm: torch.Adamax, Form: torch.ForLoop},
		"nadam foreach":               {Algorithm: torch.NAdam},
		"nadam for-loop":              {Algorithm: torch.NAdam, Form: torch.ForLoop},
	} {
		t.Run(name, func(t *testing.T) {
			m := torch.New(torch.Options{Device: torch.CPU()})
			m.Phase(account.PhaseOptimizerStep, 1)
			var parameters []torch.Tensor
			for _, n := range []int64{10, 20, 30} {
				parameters = append(parameters, m.Parameter(dtype.F32, true, n, 64))
			}
			for _, p := range parameters {
				m.GradOf(p)
			}
			optimizer := m.NewOptimizer(o, parameters)
			optimizer.Step()
			optimizer.Step()
			m.ClipGradNorm(parameters)
			tl, err := m.Timeline()
			if err != nil {
				t.Fatal(err)
			}
			// The recording ends with everything; the state of a program goes on.
			got := strings.Join(compact(tl), "\n")
			if !strings.HasPrefix(recorded[name], got) {
				t.Errorf("got\n%s\nrecorded\n%s", got, recorded[name])
			}
		})
	}
}
