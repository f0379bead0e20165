package floodmark

import (
	"errors"
	"strings"

	"floodmark/model"
	"floodmark/workload"
)

// firstPrompted is the first layer with prompts (adapter_start_layer of
// https://github.com/Lightning-AI/litgpt/blob/v0.4.0/litgpt/adapter.py).
const firstPrompted = 2

// errPromptsElsewhere is prompts of software whose program is not known.
var errPromptsElsewhere = errors.New("the adapter of the kind " + workload.AdaptionPrompt + " is modelled for litgpt alone: name the engine, as litgpt@0.4")

// prompted is what an adapter of prompts trains: in every layer from the third on as
// many embeddings as the rank says, and a gate for each head. Worked number: Llama 2
// of 7 B has 30 such layers of 10 × 4,096 + 32, 1,229,760 parameters.
func prompted(m *model.Model, positions int64) []workload.TunedModule {
	var list []workload.TunedModule
	for i, t := range m.Tensors {
		if t.Role != model.RoleQuery || len(t.Shape) != 2 || t.Layer < firstPrompted || t.Stack < 0 || int(t.Stack) >= len(m.Stacks) || int(t.Layer) >= len(m.Stacks[t.Stack].Layers) {
			continue
		}
		if a, is := attentionOf(m.Stacks[t.Stack].Layers[t.Layer]); is {
			name := strings.TrimSuffix(t.Name, ".weight")
			list = append(list, workload.TunedModule{Module: name, Tensor: i, Shapes: [][]int64{{positions, t.Shape[1]}, {1, 1, int64(a.QueryHeads), 1}}})
		}
	}
	return list
}

func attentionOf(l model.Layer) (model.Attention, bool) {
	if len(l.Mixers) != 1 {
		return model.Attention{}, false
	}
	a, is := l.Mixers[0].(model.Attention)
	return a, is
}
