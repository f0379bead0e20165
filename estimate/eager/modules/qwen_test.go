package modules

import (
	"strings"
	"testing"

	"floodmark/internal/torch"
	"floodmark/model"
)

// Qwen's class has a program with flash-attn on a GPU, and none without.
func TestQwenNeedsFlashAttention(t *testing.T) {
	m := torch.New(torch.Options{Device: torch.A100()})
	n := &Net{m: m, model: &model.Model{Type: qwenType}, rotary: 128, o: Options{Attention: Flash2}}
	if why := n.qwenLacks(); why != "" {
		t.Error(why)
	}
	for want, spoil := range map[string]func(*Net){
		"with flash-attn alone": func(n *Net) { n.o.Attention = SDPA },
		"needs a GPU":           func(n *Net) { n.o.CPU = true },
		"rotary positions":      func(n *Net) { n.rotary = 0 },
	} {
		spoiled := *n
		spoil(&spoiled)
		if why := spoiled.qwenLacks(); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}
