package modules_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/model"
)

// TestTorchtuneTurns: how many tables of rotary positions there are depends on
// the release and on the builder
// (torchtune/models/{llama3,llama3_1}/_component_builders.py at v0.1.1 to v0.6.1).
func TestTorchtuneTurns(t *testing.T) {
	source := modelOf(t, "torchtune-0.5")
	layers := int64(len(source.Stacks[0].Layers))
	adapts := func(m model.Tensor) (modules.Adapter, bool) {
		return modules.Adapter{Rank: 8, Format: dtype.BF16}, m.Role == model.RoleQuery
	}
	for _, c := range []struct {
		release, scaling string
		adapter          bool
		tables           int64
	}{
		{"0.2.1", "llama3", false, layers}, // lora_llama3_1 and llama3_1 copy a layer with its table
		{"0.3.0", "llama3", true, layers},
		{"0.3.1", "llama3", false, 1}, // each layer is given the one that was made
		{"0.3.1", "llama3", true, 1},
		{"0.4", "llama3", true, 1},
		{"0.6.1", "llama3", true, 1},
		{"", "llama3", false, 1},
		{"0.4", "", false, layers}, // llama2, llama3, mistral copy still
		{"0.5", "", true, layers},
		{"0.6", "", false, 1},     // and make each from here on
		{"0.6", "", true, layers}, // lora_…_self_attention makes one for itself
	} {
		own := *source
		own.RotaryScaling = c.scaling
		release, err := modules.ParseRelease(c.release)
		if err != nil {
			t.Fatal(err)
		}
		o := modules.Options{CPU: true, Attention: modules.SDPA, Software: modules.Torchtune, Release: release, Loss: modules.PlainLoss,
			Weight: func(model.Tensor) modules.Weight { return modules.Weight{Format: dtype.BF16, Trained: !c.adapter} }}
		if c.adapter {
			o.Adapter = adapts
		}
		m := torch.New(torch.Options{Device: torch.CPU()})
		modules.New(m, &own, o)
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for _, a := range tl.Allocs {
			if tl.Terms[a.Term].ID == account.TermBuffers {
				got += a.Requested
			}
		}
		a := source.Stacks[0].Layers[0].Mixers[0].(model.Attention)
		one := int64(source.MaxPosition+1) * int64(a.RotaryDim/2) * 4 // positions × angles × sine and cosine, and the angles
		one += int64(source.MaxPosition) * int64(a.RotaryDim/2) * 4
		if got != one*c.tables {
			t.Errorf("torchtune %s, scaling %q, adapter %v: buffers of %d B, want %d tables of %d", c.release, c.scaling, c.adapter, got, c.tables, one)
		}
	}
}
