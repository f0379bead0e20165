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
