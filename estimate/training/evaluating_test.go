package training_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/checklist"
	"floodmark/workload"
)

// scoring is a forward pass for log-probabilities alone, over one packed row of
// 11,600 positions (https://github.com/THUDM/slime/issues/2253).
func scoring(chunk int64) workload.Workload {
	return workload.Workload{Operation: workload.Evaluation, Mesh: workload.Single(),
		Inputs:   []workload.Input{{Name: "packed", Dimensions: map[workload.Dimension]int64{workload.Context: 11_600}}},
		Training: &workload.Train{Evaluation: &workload.EvaluationLoop{Batch: 1, Logits: dtype.F32, Chunk: chunk}}}
}

// Logits of a batch in 32 bits are the least that such a pass takes, whatever
// else it does; made in chunks, those of one chunk are.
func TestLogProbabilities(t *testing.T) {
	m := *llama(t)
	m.Vocab = 248_320
	for chunk, want := range map[int64]int64{0: 11_522_048_000, 1024: 1_017_118_720, 20_000: 11_522_048_000} {
		w := scoring(chunk)
		w.Engine.Name = "autogptq" // whose modules have no program
		a := accountOf(t, &m, w)
		p := phase(t, a, account.PhaseEvaluation, 0)
		if got := held(a, p, account.TermLogits); got.Low() != want || got.Known() {
			t.Errorf("chunk %d: logits of at least %d bytes, known %v; want %d", chunk, got.Low(), got.Known(), want)
		}
		// They outweigh a model of a billion parameters, which is said once.
		said := false
		for _, note := range a.Warnings {
			said = said || note.Code == "logits_outweigh_model" && strings.Contains(note.Text, "11,522,048,000 bytes") && strings.Contains(note.Text, "1,017,118,720 bytes (0.95 GiB")
		}
		if said != (chunk == 0) {
			t.Errorf("chunk %d: noted %v, in %v", chunk, said, a.Warnings)
		}
	}
}

// A batch with labels computes the loss: its logits in 32 bits and what log_softmax
// makes of them stand beside the model's own in 16, which are all that a batch without
// labels makes. litgpt copies all positions but the last of several sequences, and has
// them in 32 bits.
func TestEvaluationComputesLoss(t *testing.T) {
	m := llama(t)
	const batch, context, vocabulary = 2, 2048, 128_256
	peak := func(e workload.Engine, unlabelled bool) int64 {
		w := scoring(0)
		w.Engine = e
		w.Inputs[0].Dimensions[workload.Context] = context
		w.Training.Evaluation = &workload.EvaluationLoop{Batch: batch, Batches: 1, Unlabelled: unlabelled}
		return phase(t, accountOf(t, m, w), account.PhaseEvaluation, 0).Peak(account.Allocated).Figure.Low()
	}
	for _, c := range []struct {
		engine workload.Engine
		each   int64 // bytes of an element of the logits that the loss adds
	}{
		{workload.Engine{}, 8},
		{workload.Engine{Name: "transformers", Version: "4.46"}, 12}, // logits are copied where they are shifted
		{workload.Engine{Name: "transformers", Version: "4.44"}, 6},  // 12 beside 6, those of 16 bits and their copy in 32
		{workload.Engine{Name: "litgpt", Version: "0.4"}, 6},
	} {
		want := c.each * batch * context * vocabulary
		if got := peak(c.engine, false) - peak(c.engine, true); got < want-8<<20 || got > want+8<<20 {
			t.Errorf("%v: the loss adds %d bytes, want %d", c.engine, got, want)
		}
	}
}

// Ranks gather each other's predictions, and each keeps those of all: the last batch
// runs beside what was joined before it and beside the batch before it.
func TestKeptPredictionsOfRanks(t *testing.T) {
	m := llama(t)
	const batch, context, batches, ranks = 2, 512, 10, 4
	one := int64(batch * context * 128_256 * 2)
	for n, want := range map[int]int64{1: 2 * batches * one, ranks: 2 * batches * ranks * one} {
		w := scoring(0)
		w.Mesh.DataParallel = n
		w.Training.Evaluation = &workload.EvaluationLoop{Batch: batch, Batches: batches, Context: context, KeepLogits: true}
		a := accountOf(t, m, w)
		if got := bytesOf(a, phase(t, a, account.PhaseEvaluation, 0), account.TermKeptPredictions); got != want {
			t.Errorf("%d ranks keep %d bytes at the most, want %d", n, got, want)
		}
	}
	// Nobody said how many batches there are.
	w := scoring(0)
	w.Training.Evaluation.KeepLogits = true
	a := accountOf(t, m, w)
	if f := held(a, phase(t, a, account.PhaseEvaluation, 0), account.TermKeptPredictions); f.Known() {
		t.Errorf("kept of an unknown number of batches: %v", f)
	}
}

// Where the model has a program, its logits stand beside their copy in 32 bits,
// and a chunk's go before the next chunk's are made.
func TestLogitsInChunks(t *testing.T) {
	m := llama(t)
	for chunk, positions := range map[int64]int64{0: 11_600, 1024: 1024, 11_600: 11_600} {
		a := accountOf(t, m, scoring(chunk))
		p := phase(t, a, account.PhaseEvaluation, 0)
		if got, want := bytesOf(a, p, account.TermLogits), positions*128_256*(2+4); got != want {
			t.Errorf("chunk %d: logits of %d bytes, want %d", chunk, got, want)
		}
	}
}

// An evaluation after training runs beside all that training keeps.
func TestEvaluationBesideStates(t *testing.T) {
	checklist.Covers(t, 14)
	m := llama(t)
	w := work(t, "bf16-params", "adamw", "fused")
	w.Training.Evaluation = &workload.EvaluationLoop{Batch: 1}
	a := accountOf(t, m, w)
	step, evaluation := phase(t, a, account.PhaseOptimizerStep, 2), phase(t, a, account.PhaseEvaluation, 0)
	for _, id := range []account.TermID{account.TermWeights, account.TermOptimizerState} {
		if kept, got := bytesOf(a, step, id), bytesOf(a, evaluation, id); kept == 0 || got != kept {
			t.Errorf("%s is %d bytes in training and %d in the evaluation", id, kept, got)
		}
	}
}
