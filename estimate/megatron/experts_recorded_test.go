package megatron

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

//go:embed testdata/local/experts.tsv
var recordedExperts string

// expertsCase is what one recording of testdata/local/experts.tsv had: EXPERTS, ROWS,
// HIDDEN and WIDTH of oracle/megatron_experts.py.
type expertsCase struct {
	gate                    gate
	biased, frozen, unfused bool
	probabilities           dtype.Format
}

var expertsCases = map[string]expertsCase{
	"silu":         {gate: gate{gated: true}},
	"quick":        {gate: gate{gated: true, quick: true}},
	"clamped":      {gate: gate{gated: true, quick: true, clamped: true}},
	"biases":       {gate: gate{gated: true, quick: true, clamped: true}, biased: true},
	"narrow":       {gate: gate{gated: true, quick: true, clamped: true}, biased: true, probabilities: dtype.BF16},
	"frozen":       {gate: gate{gated: true, quick: true, clamped: true}, biased: true, frozen: true},
	"unfused":      {gate: gate{gated: true, quick: true, clamped: true}, biased: true, unfused: true},
	"unfused-silu": {gate: gate{gated: true}, unfused: true},
}

// laid is the peak of forward, what is kept, and the peak of backward of a recording's
// experts, beyond their beginning.
func (c expertsCase) laid(t testing.TB) (forward, kept, back int64) {
	t.Helper()
	const count, rows, hidden, width = 4, 512, 256, 320
	s := settings{compute: dtype.BF16, fusion: true, tensor: 1}
	s.GroupedGEMM, s.ExpertTensor = true, 1
	if c.unfused {
		s.Unfused = []workload.MegatronFusion{workload.BiasActivationFusion}
	}
	if c.frozen {
		s.lora = &workload.Tuning{}
	}
	if c.probabilities == dtype.Unknown {
		c.probabilities = dtype.F32
	}
	m := torch.New(torch.Options{Device: torch.CPU(), Provenance: requested(operatorFormula)})
	e := &te{m: m, s: s, made: true, spread: true, dummies: map[[2]int64]torch.Tensor{}}
	r := &run{te: e, states: &states{m: m, s: s}}
	r.tl, _ = m.Timeline()
	x := &experts{count: count, local: count, active: 1, gate: c.gate}
	for range count {
		x.up, x.down = append(x.up, r.expert(hidden, 2*width, c.biased)), append(x.down, r.expert(width, hidden, false))
		if c.biased {
			x.biases = append(x.biases, r.states.add(true, hidden))
		}
	}
	for step := 1; step <= 2; step++ {
		in := m.RequireGrad(m.Keep(m.Empty("x", dtype.BF16, rows, hidden)))
		shares := m.RequireGrad(m.Keep(m.Empty("probabilities", c.probabilities, rows, 1)))
		r.phase("forward", step)
		y := m.Keep(x.worked(e, in, shares))
		gradient := m.Keep(m.Empty("gradient", dtype.BF16, rows, hidden))
		r.phase("backward", step)
		m.BackwardWith(y, gradient)
		r.phase("optimizer", step)
		m.Drop(gradient, y, shares, in)
	}
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	return levelsOf(tl)
}

// near reports levels that are the recorded ones but for vectors, one in two hundred.
func near(line string, got ...int64) bool {
	for i, text := range strings.Fields(line)[1:] {
		var want int64
		if _, err := fmt.Sscan(text, &want); err != nil || max(got[i]-want, want-got[i])*200 > want {
			return false
		}
	}
	return true
}

// The experts of a rank keep and reach what they were recorded to: the halves of
// quick_gelu are clamped before its kernel reads them, and biases that are times
// probabilities of 32 bits are added and joined in 32.
func TestExpertsAsRecorded(t *testing.T) {
	for line := range strings.Lines(recordedExperts) {
		name := strings.Fields(line)[0]
		if name == "case" {
			continue
		}
		if forward, kept, back := expertsCases[name].laid(t); !near(line, forward, kept, back) {
			t.Errorf("%s: forward %d, kept %d, backward %d, recorded %s", name, forward, kept, back, line)
		}
	}
}

// Sabotage: without the clamps, without the biases, and with trained matrices in place
// of frozen ones the recordings are missed.
func TestExpertsMissATerm(t *testing.T) {
	for line := range strings.Lines(recordedExperts) {
		name := strings.Fields(line)[0]
		for what, change := range map[string]func(*expertsCase){
			"clamps": func(c *expertsCase) { c.gate.clamped = false },
			"biases": func(c *expertsCase) { c.biased = false },
			"frozen": func(c *expertsCase) { c.frozen = false },
			"format": func(c *expertsCase) {
				if c.probabilities != dtype.Unknown {
					c.probabilities = dtype.F32
				}
			},
		} {
			c := expertsCases[name]
			was := c
			if change(&c); c == was {
				continue
			}
			if forward, kept, back := c.laid(t); near(line, forward, kept, back) {
				t.Errorf("%s is as close without its %s", name, what)
			}
		}
	}
}
