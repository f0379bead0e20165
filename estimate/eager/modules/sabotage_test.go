package modules_test

import (
	"testing"

	"floodmark/model"
)

// TestRecordedSabotage drops one part of a layer after another: what is left must
// not agree with the recordings.
func TestRecordedSabotage(t *testing.T) {
	for _, c := range []struct {
		name, family string
		change       func(*model.Model)
	}{
		{"the gate of the network", "llama", everyLayer(func(l *model.Layer) {
			d := l.FeedForward.(model.Dense)
			d.Gated = false
			l.FeedForward = d
		})},
		{"a layer", "llama", func(m *model.Model) { m.Stacks[0].Layers = m.Stacks[0].Layers[:2] }},
		{"norms of queries and keys", "qwen3", everyAttention(func(a *model.Attention) { a.QKNorm = false })},
		{"the cap of the logits", "gemma2", func(m *model.Model) { m.Stacks[0].Manner.LogitCap = 0 }},
		{"dropout", "gpt2", func(m *model.Model) { m.Stacks[0].Manner.Dropout = model.Dropout{} }},
		{"its own activation, of torchtune", "torchtune-0.1", everyLayer(func(l *model.Layer) {
			d := l.FeedForward.(model.Dense)
			d.Activation = "gelu_new"
			l.FeedForward = d
		})},
		{"its own activation, of litgpt", "litgpt-mha-0.4", everyLayer(func(l *model.Layer) {
			d := l.FeedForward.(model.Dense)
			d.Activation = "gelu_new"
			l.FeedForward = d
		})},
		{"a layer, beside a tower", "qwen2_vl", func(m *model.Model) { m.Stacks[0].Layers = m.Stacks[0].Layers[:2] }},
		{"a layer that attends to the encoder", "bart", func(m *model.Model) { m.Stacks[1].Layers = m.Stacks[1].Layers[:1] }},
		{"copies of heads", "whisper", func(m *model.Model) {
			for _, s := range m.Stacks {
				for i := range s.Layers {
					for place, mixer := range s.Layers[i].Mixers {
						a := mixer.(model.Attention)
						a.HeadsCopied = false
						s.Layers[i].Mixers[place] = a
					}
				}
			}
		}},
		{"a layer, of torchtune", "torchtune-tied-0.5", func(m *model.Model) { m.Stacks[0].Layers = m.Stacks[0].Layers[:2] }},
		{"what its layers are scaled by, of timm", "timm-dinov2-1.0", func(m *model.Model) {
			for i := range m.Tensors {
				if m.Tensors[i].Role == model.RoleLayerScale {
					m.Tensors[i].Role = model.RoleOther
				}
			}
		}},
		{"dropout, of timm", "timm-dropped-0.9", func(m *model.Model) { m.Stacks[0].Manner.Dropout = model.Dropout{} }},
		{"a layer, of timm", "timm-pooled-0.9", func(m *model.Model) { m.Stacks[0].Layers = m.Stacks[0].Layers[:2] }},
	} {
		var s score
		for _, r := range readRecordings(t, c.family) {
			m := modelOf(t, r.family)
			c.change(m)
			got, unknown := simulateModel(t, r, m)
			if unknown == "" {
				s.add(compare(t, r, got))
			}
		}
		if s.within(0.01) >= 0.9 && s.worst() <= 0.03 {
			t.Errorf("%s without %s: %d peaks still agree (%.1f %% within 1 %%, worst %.2f %%)", c.family, c.name, len(s.errors), 100*s.within(0.01), 100*s.worst())
		}
	}
}

func everyLayer(change func(*model.Layer)) func(*model.Model) {
	return func(m *model.Model) {
		for i := range m.Stacks[0].Layers {
			change(&m.Stacks[0].Layers[i])
		}
	}
}

func everyAttention(change func(*model.Attention)) func(*model.Model) {
	return everyLayer(func(l *model.Layer) {
		a := l.Mixers[0].(model.Attention)
		change(&a)
		l.Mixers[0] = a
	})
}
