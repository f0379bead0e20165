package load_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/load"
)

// base is the model of the configuration llama: two layers of q [8, 8], k and v
// [4, 8], o [8, 8], gate and up [16, 8], down [8, 16].
func base(t *testing.T) *model.Model {
	t.Helper()
	m, err := load.Open(folder(t, map[string]any{"config.json": llama}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What LoRA adds: r · (in + out) for each module that it is on.
func TestAdapter(t *testing.T) {
	m := base(t)
	const q, k, wide = 8 + 8, 8 + 4, 8 + 16
	for _, c := range []struct {
		name, fields string
		want         int64
	}{
		{"by names", `"r": 4, "target_modules": ["q_proj", "v_proj"]`, 2 * 4 * (q + k)},
		{"by a whole name", `"r": 4, "target_modules": ["model.layers.0.self_attn.q_proj"]`, 4 * q},
		{"names do not end in the middle of a word", `"r": 4, "target_modules": ["proj", "q_proj"]`, 2 * 4 * q},
		{"by a pattern over the whole name", `"r": 4, "target_modules": ".*\\.1\\..*(q|v)_proj"`, 4 * (q + k)},
		{"every linear layer but the head", `"r": 1, "target_modules": "all-linear"`, 2 * (2*q + 2*k + 3*wide)},
		{"without some", `"r": 4, "target_modules": ["q_proj", "v_proj"], "exclude_modules": ["v_proj"]`, 2 * 4 * q},
		{"in one layer", `"r": 4, "target_modules": ["q_proj"], "layers_to_transform": [1]`, 4 * q},
		{"in the first layer, as a number", `"r": 4, "target_modules": ["q_proj"], "layers_to_transform": 0`, 4 * q},
		{"another rank for some", `"r": 4, "target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 8}`, 2 * (8*q + 4*k)},
		{"a rank for one layer", `"r": 4, "target_modules": ["q_proj"], "rank_pattern": {"layers.1.self_attn.q_proj": 8}`, 8*q + 4*q},
		{"with a magnitude for each output", `"r": 4, "target_modules": ["q_proj"], "use_dora": true`, 2 * (4*q + 8)},
		{"the embedding is a module", `"r": 4, "target_modules": ["embed_tokens"]`, 4 * (32 + 8)},
		{"and the head saved whole", `"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]`, 2*4*q + 32*8},
	} {
		counts(t, m, c.name, `{"peft_type": "LORA", "lora_alpha": 8, `+c.fields+`}`, c.want)
	}
}

// What a configuration asks for beyond what is counted is open, with its field.
func TestAdapterOpen(t *testing.T) {
	m, biased := base(t), base(t)
	biased.Tensors = append(biased.Tensors, model.Tensor{Name: "model.layers.0.self_attn.q_proj.bias", Role: model.RoleQuery, Shape: []int64{8}})
	for _, c := range []struct {
		fields string
		base   *model.Model
		want   string // empty for nothing
	}{
		{`"peft_version": "0.18.0", "inference_mode": true, "trainable_token_indices": null, "layer_replication": [], "new_switch": false, "new_list": []`, m, ""},
		{`"some_new_size_key": 5`, m, `"some_new_size_key": this key is not known here`},
		{`"modules_to_save": ["lm_head"]`, m, ""},
		{`"modules_to_save": ["lm_head", "nope"]`, m, `modules_to_save: no module of`},
		{`"modules_to_save": ["classifier", "score"]`, m, `is called "score"`},
		{`"bias": "all"`, m, ""},
		{`"bias": "none"`, biased, ""},
		{`"bias": "all"`, biased, `bias: "all" trains biases of the base model too`},
	} {
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", []byte(`{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], `+c.fields+`}`)))
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		a, err := config.On(c.base)
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		if open := strings.Join(a.Open, "\n"); c.want == "" && open != "" || !strings.Contains(open, c.want) {
			t.Errorf("%s: open is %q, want %q", c.fields, open, c.want)
		}
	}
}

func TestAdapterRefuses(t *testing.T) {
	m := base(t)
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", `x`, "is not valid JSON"},
		{"a list", `[]`, "is not a JSON object"},
		{"another kind", `{"peft_type": "POLY"}`, `peft_type: is "POLY"`},
		{"no rank", `{"peft_type": "LORA", "target_modules": ["q_proj"]}`, "a rank of 1 or more"},
		{"a negative rank", `{"peft_type": "LORA", "r": -4, "target_modules": ["q_proj"]}`, "r: is"},
		{"a rank that is text", `{"peft_type": "LORA", "r": "four", "target_modules": ["q_proj"]}`, "r: is"},
		{"no targets", `{"peft_type": "LORA", "r": 4}`, "target_modules"},
		{"targets of another type", `{"peft_type": "LORA", "r": 4, "target_modules": [1]}`, "target_modules"},
		{"a base model of another kind", `{"peft_type": "LORA", "r": 4, "target_modules": ["c_attn"]}`, "no module of"},
		{"a pattern that looks ahead", `{"peft_type": "LORA", "r": 4, "target_modules": "(?!x).*"}`, "cannot be matched here"},
		{"a rank of nothing", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "rank_pattern": {"q": 0}}`, "rank_pattern"},
		{"replicated layers", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "layer_replication": [[0, 4], [2, 8]]}`, "layer_replication: is"},
		{"trained tokens", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [1]}}`, "trainable_token_indices: is"},
		{"parameters of their own", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "target_parameters": ["mlp.experts.gate_up_proj"]}`, "target_parameters: is"},
		{"inputs in groups", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "use_qalora": true}`, "use_qalora: is"},
		{"a module without a name", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", null]}`, "target_modules: is"},
		{"nothing to save", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "modules_to_save": [null]}`, "modules_to_save: is"},
		{"biases of no kind", `{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "bias": "some"}`, `bias: is "\"some\"", expected none, all or lora_only`},
		{"more parameters than can be counted", `{"peft_type": "LORA", "r": 9223372036854775807, "target_modules": ["q_proj"]}`, ""},
	} {
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", []byte(c.text)))
		if err == nil {
			_, err = config.On(m)
		}
		var f *source.FormatError
		if c.want != "" && (!errors.As(err, &f) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The adapter's own file is compared with what its configuration makes.
func TestOpenAdapter(t *testing.T) {
	m := base(t)
	pair := func(layer int, module string, in, out int64) []entry {
		at := fmt.Sprintf("base_model.model.model.layers.%d.self_attn.%s.lora_", layer, module)
		return []entry{{at + "A.weight", dtype.F32, []int64{4, in}}, {at + "B.weight", dtype.F32, []int64{out, 4}}}
	}
	config := `{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj"]}`
	both := append(pair(0, "q_proj", 8, 8), pair(1, "q_proj", 8, 8)...)
	for _, c := range []struct {
		name     string
		files    map[string]any
		bytes    int64 // −1 without a weight file
		warnings int
	}{
		{"alone", map[string]any{"adapter_config.json": config}, -1, 0},
		{"with its weights", map[string]any{"adapter_config.json": config, "adapter_model.safetensors": both}, 4 * 128, 0},
		{"with others", map[string]any{"adapter_config.json": config, "adapter_model.safetensors": both[:2]}, 4 * 64, 1},
	} {
		root := folder(t, c.files)
		for _, name := range []string{root, filepath.Join(root, "adapter_config.json")} {
			a, err := load.OpenAdapter(context.Background(), name, m, load.Options{})
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			n, exact := a.Stored.IsExact()
			if exact != (c.bytes >= 0) || exact && n != c.bytes || len(a.Warnings) != c.warnings {
				t.Errorf("%s: %d bytes, exact %v, warnings %v", c.name, n, exact, a.Warnings)
			}
		}
	}
}

// counts checks how many parameters an adapter's configuration trains on a model.
func counts(t *testing.T, m *model.Model, name, text string, want int64) {
	t.Helper()
	config, err := load.ReadAdapter(source.Bytes("adapter_config.json", []byte(text)))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	a, err := config.On(m)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if n, exact := a.Parameters.IsExact(); n != want || !exact {
		t.Errorf("%s: %d parameters, want %d", name, n, want)
	}
}

// Kinds that are no LoRA have keys of their own, and what is none of them is open.
func TestKeysOfOtherKinds(t *testing.T) {
	m := base(t)
	for fields, want := range map[string]string{
		`"peft_type": "BOFT", "boft_dropout": 0.1, "init_weights": true, "revision": null, "new_switch": false`:                                                   "",
		`"peft_type": "BOFT", "some_new_size_key": 5`:                                                                                                             `"some_new_size_key": this key is not known here`,
		`"peft_type": "IA3", "feedforward_modules": [], "init_ia3_weights": true`:                                                                                 "",
		`"peft_type": "IA3", "new_bank": 2`:                                                                                                                       `"new_bank": this key is not known here`,
		`"peft_type": "OFT", "r": 2, "block_share": true`:                                                                                                         `"block_share": this key is not known here`,
		`"peft_type": "PSOFT", "r": 4, "psoft_svd": "lowrank", "psoft_orth": true, "psoft_alpha": 8`:                                                              "",
		`"peft_type": "PSOFT", "r": 4, "psoft_svd": "lowrank", "psoft_orth": false`:                                                                               `"psoft_orth" is "false", and sizes are counted for true`,
		`"peft_type": "PEANUT", "r": 4, "depth": 2`:                                                                                                               `"depth": this key is not known here`,
		`"peft_type": "GLORA", "r": 4, "config_A_B": "lora", "config_C": "lora", "config_D_E": "constant"`:                                                        "",
		`"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 5, "prompt_tuning_init": "RANDOM", "token_dim": 8, "num_transformer_submodules": 1, "num_layers": 2`: "",
		`"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 5, "num_transformer_submodules": 2`:                                                                  "counted for 1",
	} {
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", []byte(`{"target_modules": ["q_proj"], `+fields+`}`)))
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		a, err := config.On(m)
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		if open := strings.Join(a.Open, "; "); want == "" && open != "" || !strings.Contains(open, want) {
			t.Errorf("%s: open is %q, want %q", fields, open, want)
		}
	}
}
