package modules_test

import (
	"math"
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
)

// evaluateTwice is the loop of two batches that recordings are of.
func evaluateTwice(m *torch.Machine, n *modules.Net, loop modules.Evaluation, b modules.Batch) {
	for batch := 1; batch <= 2; batch++ {
		m.Phase(account.PhaseForward, batch)
		n.Evaluate(&loop, b)
	}
}

// loops are the families of which Trainer's evaluation loop is recorded.
var loops = []string{"llama", "qwen2", "gemma2", "gpt2", "bert", "roberta_qa", "t5", "bart",
	"transformers-llama-4.40", "transformers-llama-4.55", "transformers-llama-4.57"}

// without is a part of the loop that a test leaves out: it changes how a recording is
// run, and says whether its batches lose their labels.
type without func(r recorded, o *modules.Options, loop *modules.Evaluation) (labels bool)

// worstOfLoops is the largest share by which the peak of a batch is off, in all
// recordings of evaluation loops.
func worstOfLoops(t *testing.T, change without) (worst float64, batches int) {
	t.Helper()
	for _, r := range readRecordings(t, loops...) {
		if r.option("operation") != "evaluation_loop" {
			continue
		}
		o, loop := optionsOf(r), modules.Evaluation{Keeps: r.flag("keep-logits")}
		unlabelled := change(r, &o, &loop)
		m := torch.New(torch.Options{Device: torch.CPU()})
		m.Phase(account.PhaseModelLoad, 0)
		n := modules.New(m, modelOf(t, r.family), o)
		b := batchOf(m, n, r)
		if unlabelled {
			b.Labels = torch.Tensor{}
		}
		evaluateTwice(m, n, loop, b)
		tl, err := m.Timeline()
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		want, have := phases(r.events), phases(eventsOf(tl))
		for i := range 2 {
			worst = max(worst, math.Abs(off(want[i].peak, have[i].peak)))
			batches++
		}
	}
	return worst, batches
}

// TestEvaluationLoop compares each batch of Trainer's own evaluation loop with what
// PyTorch did: the loss without a graph, and in the second batch beside what is kept of
// the first. What is left is the loop's own numbers, of 16 bytes, and the ends of
// answers.
func TestEvaluationLoop(t *testing.T) {
	worst, batches := worstOfLoops(t, func(recorded, *modules.Options, *modules.Evaluation) bool { return false })
	if worst > 0.0005 || batches < 38 {
		t.Errorf("of %d batches a peak is off by %.3f %%", batches, 100*worst)
	}
	t.Logf("%d batches, worst %.3f %%", batches, 100*worst)
}

// TestEvaluationLoopSabotage leaves out one part of the loop after another.
func TestEvaluationLoopSabotage(t *testing.T) {
	for name, change := range map[string]without{
		"the loss": func(r recorded, _ *modules.Options, _ *modules.Evaluation) bool {
			return slices.Contains([]string{"llama", "gpt2"}, r.family)
		},
		"what is kept": func(_ recorded, _ *modules.Options, loop *modules.Evaluation) bool {
			loop.Keeps = false
			return false
		},
		"the cache of earlier releases": func(r recorded, o *modules.Options, _ *modules.Evaluation) bool {
			if r.family == "transformers-llama-4.57" {
				o.Release.Major = 5
			}
			return false
		},
		"the wide logits of earlier releases": func(r recorded, o *modules.Options, _ *modules.Evaluation) bool {
			if r.family == "transformers-llama-4.40" {
				o.Release.Minor = 57
			}
			return false
		},
	} {
		if worst, _ := worstOfLoops(t, change); worst < 0.01 {
			t.Errorf("without %s all peaks still agree (worst %.3f %%)", name, 100*worst)
		}
	}
}
