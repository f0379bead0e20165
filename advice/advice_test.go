package advice

import (
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
)

func ids(operation string, term account.TermID, phase account.PhaseID) (reach, cannot []string) {
	for _, s := range Of(operation) {
		if s.Can(term, phase) {
			reach = append(reach, s.ID)
		} else {
			cannot = append(cannot, s.ID)
		}
	}
	return reach, cannot
}

// Which switch reaches which term is a matter of the term and of the phase that
// fails, never of habit.
func TestReach(t *testing.T) {
	checklist.Covers(t, 40, 147, 148, 150, 183)
	for _, c := range []struct {
		name          string
		operation     string
		term          account.TermID
		phase         account.PhaseID
		reach, cannot []string
	}{
		{"weights dominate: another format", "generation", account.TermWeights, account.PhaseModelLoad,
			[]string{"weights", "tensor_parallel", "pipeline_parallel"}, []string{"sequences", "context", "cache_format", "data_parallel"}},
		{"the cache dominates: context, concurrency, strategy", "generation", account.TermKVCache, account.PhaseDecode,
			[]string{"context", "sequences", "generated", "cache", "cache_format"}, []string{"weights", "attention", "data_parallel"}},
		{"what is not generated yet takes nothing in prefill", "generation", account.TermKVCache, account.PhasePrefill,
			[]string{"context"}, []string{"generated"}},
		{"activations dominate: micro-batches or checkpointing", "training", account.TermActivations, account.PhaseBackward,
			[]string{"micro_batch", "checkpointing"}, []string{"lora_rank", "optimizer"}},
		{"a failure in evaluation is not answered with the training batch", "training", account.TermActivations, account.PhaseEvaluation,
			[]string{"batch"}, []string{"micro_batch", "checkpointing"}},
		{"adapters have no states of the frozen base", "fine-tuning", account.TermOptimizerState, account.PhaseOptimizerStep,
			[]string{"lora_rank", "optimizer", "sharding"}, []string{"micro_batch"}},
		{"gradients: fewer parameters or other formats, never another optimizer", "training", account.TermGradients, account.PhaseBackward,
			[]string{"lora_rank", "precision", "sharding"}, []string{"optimizer", "optimizer_implementation", "checkpointing", "zero_grad"}},
		{"temporaries of a step: how PyTorch loops over parameters", "training", account.TermTemporaries, account.PhaseOptimizerStep,
			[]string{"optimizer_implementation", "optimizer"}, []string{"zero_grad", "base_format"}},
	} {
		reach, cannot := ids(c.operation, c.term, c.phase)
		for _, id := range c.reach {
			if !slices.Contains(reach, id) {
				t.Errorf("%s: %s is said not to reach %s in %s", c.name, id, c.term, c.phase)
			}
		}
		for _, id := range c.cannot {
			if !slices.Contains(cannot, id) {
				t.Errorf("%s: %s is said to reach %s in %s", c.name, id, c.term, c.phase)
			}
		}
	}
}

// Every switch that lowers something says what it takes away, and one that
// changes answers or duration says what to look at.
func TestEverySwitchHasACost(t *testing.T) {
	checklist.Covers(t, 146, 149)
	check := []string{"weights", "cache_format", "context", "checkpointing", "optimizer", "lora_rank", "precision", "base_format"}
	for _, operation := range []string{"generation", "training"} {
		for _, s := range Of(operation) {
			if len(s.Reaches) > 0 && s.Cost == "" {
				t.Errorf("%s costs nothing", s.ID)
			}
			if slices.Contains(check, s.ID) && s.Check == "" {
				t.Errorf("%s asks for no check", s.ID)
			}
			for _, term := range []account.TermID{account.TermWeights, account.TermKVCache, account.TermContext} {
				if !s.Can(term, account.PhaseDecode) && s.Why(term, account.PhaseDecode) == "" {
					t.Errorf("nobody says why %s does not reach %s", s.ID, term)
				}
			}
		}
	}
}
