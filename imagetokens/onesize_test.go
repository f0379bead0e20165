package imagetokens

import (
	"testing"

	"floodmark/model"
	"floodmark/workload"
)

// A tower that sees every image at one size needs no resolution: 576 positions
// of LLaVA, 256 of PaliGemma and Gemma 3.
func TestOneSizeNeedsNoResolution(t *testing.T) {
	for name, want := range map[string]int64{"llava": 576, "paligemma": 256, "gemma3": 256, "qwen2_vl": -1, "llava_next": -1} {
		m := &model.Model{Type: name, Stacks: []model.Stack{{Kind: model.Vision}}}
		total, err := OfInput(m, workload.Input{Dimensions: map[workload.Dimension]int64{workload.Images: 2}})
		if want < 0 {
			if err == nil {
				t.Errorf("%s counts images of no size", name)
			}
			continue
		}
		if err != nil || total.Tokens != 2*want {
			t.Errorf("%s: %d positions, %v", name, total.Tokens, err)
		}
	}
}
