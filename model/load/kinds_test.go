package load_test

import (
	"strings"
	"testing"

	"floodmark/internal/source"
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

// Kinds of PEFT's that the table counts, read from an adapter_config.json: the base
// has two layers of q [8, 8], k and v [4, 8].
func TestCountedKinds(t *testing.T) {
	m := base(t)
	for _, c := range []struct {
		name, fields string
		want         int64
	}{
		{"IA3 on the input of what it is told", `"peft_type": "IA3", "target_modules": ["up_proj"], "feedforward_modules": ["up_proj"]`, 2 * 8},
		{"OFT by the size of its blocks", `"peft_type": "OFT", "oft_block_size": 4, "r": 0, "target_modules": ["q_proj"]`, 2 * 2 * 4 * 3 / 2},
		{"trained norms", `"peft_type": "LN_TUNING", "target_modules": ["input_layernorm"]`, 2 * 8},
		{"LoHa is two pairs", `"peft_type": "LOHA", "r": 2, "target_modules": ["v_proj"]`, 2 * 2 * 2 * (8 + 4)},
		{"LoKr", `"peft_type": "LOKR", "r": 1, "decompose_factor": 2, "target_modules": ["q_proj"]`, 2 * (4 + 4 + 4)},
		{"VeRA", `"peft_type": "VERA", "r": 3, "target_modules": ["q_proj", "v_proj"]`, 2 * (3 + 8 + 3 + 4)},
		{"FourierFT", `"peft_type": "FOURIERFT", "n_frequency": 5, "target_modules": ["q_proj"]`, 2 * 5},
		{"BOFT", `"peft_type": "BOFT", "target_modules": ["q_proj"]`, 2 * (2*4*4 + 8)},
		{"a bank that modules share", `"peft_type": "VBLORA", "r": 1, "num_vectors": 6, "vector_length": 4, "target_modules": ["q_proj"]`, 2*(2*6+2*6) + 6*4},
		{"a prompt", `"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 5`, 5 * 8},
		{"a prefix", `"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 5`, 5 * 2 * 2 * 4},
		{"tokens", `"peft_type": "TRAINABLE_TOKENS", "token_indices": [1, 2, 3]`, 3 * 8},
	} {
		counts(t, m, c.name, "{"+c.fields+"}", c.want)
	}
	for name, text := range map[string]string{
		"a variant that is not counted":        `{"peft_type": "P_TUNING", "encoder_reparameterization_type": "LSTM"}`,
		"a field that changes what is held":    `{"peft_type": "LOKR", "decompose_both": true, "target_modules": ["q_proj"]}`,
		"a size that divides nothing":          `{"peft_type": "C3A", "block_size": 3, "target_modules": ["q_proj"]}`,
		"a prompt of no length":                `{"peft_type": "PROMPT_TUNING"}`,
		"a tensor beyond all bounds":           `{"peft_type": "FOURIERFT", "n_frequency": 9223372036854775807, "target_modules": ["q_proj"]}`,
		"a prompt beyond all bounds":           `{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 9223372036854775807}`,
		"no word of the modules that it is on": `{"peft_type": "VERA"}`,
	} {
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", []byte(text)))
		if err == nil {
			_, err = config.On(m)
		}
		if err == nil {
			t.Errorf("%s is counted", name)
		}
	}
	vera := load.NewAdapter("vera", 4, []string{"q_proj"}, nil)
	vera.Options = map[string]int64{"blocks": 3}
	if _, err := vera.On(m); err == nil || !strings.Contains(err.Error(), "blocks") {
		t.Errorf("an option that no kind has: %v", err)
	}
	if _, err := load.NewAdapter("poly", 4, []string{"q_proj"}, nil).On(m); err == nil {
		t.Error("a kind that nobody knows is counted")
	}
}
