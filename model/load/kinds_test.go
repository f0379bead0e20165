package load_test

import (
	"strings"
	"testing"

	"floodmark/model/load"
)

// What adapters add that are no pair of matrices: IA3 a vector over an output, of
// a network's last layer over its input; OFT the upper triangles of its blocks;
// trained norms a copy of each.
func TestOtherAdapters(t *testing.T) {
	m := base(t)
	for _, c := range []struct {
		kind    string
		rank    int
		targets []string
		want    int64
	}{
		{"ia3", 0, []string{"k_proj", "v_proj", "down_proj"}, 2 * (4 + 4 + 16)},
		{"oft", 2, []string{"q_proj"}, 2 * (2 * 4 * 3 / 2)},
		{"ln_tuning", 0, []string{"input_layernorm", "norm"}, 2*8 + 8},
	} {
		a, err := load.NewAdapter(c.kind, c.rank, c.targets, nil).On(m)
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		if n, exact := a.Parameters.IsExact(); n != c.want || !exact {
			t.Errorf("%s: %d parameters, want %d", c.kind, n, c.want)
		}
	}
	if _, err := load.NewAdapter("lora", 4, []string{"c_attn"}, nil).On(m); err == nil || !strings.Contains(err.Error(), "targets c_attn, and no module of") || !strings.Contains(err.Error(), "q_proj") {
		t.Errorf("a target that the model does not have: %v", err)
	}
	if _, err := load.NewAdapter("oft", 3, []string{"q_proj"}, nil).On(m); err == nil || !strings.Contains(err.Error(), "3 blocks do not divide the 8 inputs") {
		t.Errorf("blocks that do not divide the input: %v", err)
	}
}
