package state_test

import (
	"strings"
	"testing"

	"floodmark/estimate/state"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/workload"
)

// What is not understood of a model is never a cache of nothing: a file that
// does not say its layers, or says of them what nobody knows, leaves the state
// unknown.
func TestUnknownLayersAreNoEmptyCache(t *testing.T) {
	checklist.Covers(t, 91)
	weights := []model.Tensor{{Name: "blk.0.attn_q", Shape: []int64{8, 8}, Stored: 4, TiedTo: model.NotTied}}
	for name, m := range map[string]*model.Model{
		"no layers":         {Tensors: weights},
		"a key left over":   {Tensors: weights, Unknown: []model.Unknown{{Field: "llama.attention.head_count", Why: "is absent"}}},
		"an unknown family": {Unknown: []model.Unknown{{Field: "model_type", Why: "no family of that name is known here"}}},
	} {
		plans, err := parallel.Plan(m, workload.Single())
		if err != nil {
			t.Fatal(err)
		}
		s := state.Of(m, plans[0], state.Options{}, state.Lengths{Sequences: 1, Positions: 8})
		if s.Payload.Known() || s.Reserved.Known() || s.Recurrent.Known() || !strings.Contains(s.Payload.Reason(), "not known") {
			t.Errorf("%s: payload known %v, because %q", name, s.Payload.Known(), s.Payload.Reason())
		}
	}
}
