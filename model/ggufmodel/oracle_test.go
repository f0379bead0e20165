package ggufmodel_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// fact is a row of gguf_facts.jsonl as far as it is scored.
type fact struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Tensors int            `json:"n_tensors"`
	Params  string         `json:"model_params"`
	Size    string         `json:"model_size"`
	Exact   []int64        `json:"param_counts_exact"`
	Info    map[string]any `json:"model_info"`
	Arch    any            `json:"arch"`
}

func facts(t *testing.T, zoo string) []fact {
	t.Helper()
	f, err := os.Open(filepath.Join(zoo, "gguf_facts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []fact
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r fact
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// shapes is the model of a configuration as llama.cpp converts it: text alone,
// no prediction layers, and nothing tied but what is left out.
func shapes(t *testing.T, zoo, config string) *model.Model {
	t.Helper()
	text := []byte(config)
	if !strings.HasPrefix(config, "{") {
		var err error
		if text, err = os.ReadFile(filepath.Join(zoo, config, "config.json")); err != nil {
			t.Fatal(err)
		}
	}
	m, err := hfmodel.Read(source.Bytes("config.json", text))
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return m
}

// textOnly leaves out towers, projectors, prediction layers and scales.
func textOnly(m *model.Model) []model.Tensor {
	var list []model.Tensor
	for _, t := range m.Tensors {
		switch {
		case t.TiedTo != model.NotTied, t.Role.Category() != account.CategoryParameter, t.Role == model.RoleProjector, t.Role == model.RolePatchEmbedding,
			strings.Contains(t.Name, "vision") || strings.Contains(t.Name, "projector"):
			continue
		case t.Stack >= 0 && (m.Stacks[t.Stack].Kind == model.Predictor || m.Stacks[t.Stack].Kind == model.Vision):
			continue
		}
		list = append(list, t)
	}
	return list
}

// build is the tensors of a listing in its types: bytes and elements.
func (l listing) build(t *testing.T, zoo string) (elements, bytes int64) {
	m := shapes(t, zoo, l.config)
	m.Tensors = textOnly(m)
	if l.kvSplit {
		m.Tensors = splitLatent(m.Tensors)
	}
	if l.rope > 0 {
		m.Tensors = append(m.Tensors, model.Tensor{Name: "rope_freqs.weight", Stack: -1, Layer: -1, Shape: []int64{l.rope}, TiedTo: model.NotTied})
	}
	if l.mix != "" {
		mixed, err := m.WithFormat(l.mix)
		if err != nil {
			t.Fatal(err)
		}
		m = mixed
	}
	for _, x := range m.Tensors {
		n, _ := x.Parameters()
		elements += n
		if l.mix != "" {
			n, _ = x.Bytes()
		} else {
			n = l.chosen(t, x)
		}
		bytes += n
	}
	return elements, bytes
}

// splitLatent adds the halves of kv_b that are multiplied into queries and
// outputs: keys of [heads · rank, nope] and values of [heads · value, rank].
func splitLatent(list []model.Tensor) []model.Tensor {
	const heads, nope, value, rank = 128, 128, 128, 512
	var more []model.Tensor
	for _, t := range list {
		if t.Role == model.RoleKVUp {
			k, v := t, t
			k.Name, k.Shape = "attn_k_b", []int64{heads * rank, nope}
			v.Name, v.Shape = "attn_v_b", []int64{heads * value, rank}
			more = append(more, k, v)
		}
	}
	return append(list, more...)
}

// module is what a choice calls a tensor.
func module(t model.Tensor) string {
	switch t.Name {
	case "attn_k_b", "attn_v_b":
		return t.Name
	}
	return map[model.Role]string{
		model.RoleTokenEmbedding: "token_embd", model.RoleHead: "output",
		model.RoleQuery: "attn_q", model.RoleKey: "attn_k", model.RoleValue: "attn_v", model.RoleAttentionOutput: "attn_o",
		model.RoleQueryDown: "attn_q_a", model.RoleQueryUp: "attn_q_b", model.RoleKVDown: "attn_kv_a", model.RoleKVUp: "attn_kv_b",
		model.RoleGate: "ffn_gate", model.RoleUp: "ffn_up", model.RoleGateUp: "ffn_up", model.RoleDown: "ffn_down",
		model.RoleSharedExpertGate: "shexp_gate", model.RoleSharedExpertUp: "shexp_up", model.RoleSharedExpertDown: "shexp_down",
		model.RoleExpertGate: "exps_gate", model.RoleExpertUp: "exps_up", model.RoleExpertDown: "exps_down",
	}[t.Role]
}

// chosen is the bytes of a tensor by the choice.
func (l listing) chosen(t *testing.T, x model.Tensor) int64 {
	name, kind := module(x), "f32"
	if len(x.Shape) > 1 && name != "" {
		for entry := range strings.FieldsSeq(l.choice) {
			selector, chosen, _ := strings.Cut(entry, "=")
			wanted, span, ranged := strings.Cut(selector, "[")
			var from, to int32
			if ranged {
				if _, err := fmt.Sscanf(span, "%d:%d]", &from, &to); err != nil {
					t.Fatal(err)
				}
			}
			if wanted == "*" || wanted == name && (!ranged || x.Layer >= from && x.Layer < to) {
				kind = chosen
			}
		}
	}
	rows, last := int64(1), x.Shape[len(x.Shape)-1]
	for _, n := range x.Shape[:len(x.Shape)-1] {
		rows *= n
	}
	if elements, bytes, row, fork := forkBlock(kind); fork {
		return rows * (last/elements*bytes + row)
	}
	f, ok := dtype.Parse(kind)
	if !ok {
		t.Fatalf("%s: %s is no type", l.name, kind)
	}
	n, _ := f.Size(x.Shape)
	return n
}

// printed reports whether a log would print a number so, to its digits.
func printed(text string, n int64, units map[string]int64) bool {
	number, unit, _ := strings.Cut(text, " ")
	_, fraction, _ := strings.Cut(number, ".")
	return units[unit] > 0 && strconv.FormatFloat(float64(n)/float64(units[unit]), 'f', len(fraction), 64) == number
}

// TestOracleLogs recomputes what llama.cpp printed of a model when it loaded
// it, parameters and size, to the last digit. KV lines are not scored here.
func TestOracleLogs(t *testing.T) {
	zoo := filepath.Join(oracle.Dir(t), "zoo")
	counts := map[string]int64{"B": 1e9, "T": 1e12}
	sizes := map[string]int64{"GiB": bytesize.GiB.Bytes(), "MiB": bytesize.MiB.Bytes()}
	var exact, wrong, without int
	for _, f := range facts(t, zoo) {
		if f.Kind != "llama.cpp-log" {
			continue
		}
		l, known := find(f)
		if !known {
			without++
			t.Logf("no recipe: %s, %d tensors, %s", f.Name, f.Tensors, f.Size)
			continue
		}
		elements, bytes := l.build(t, zoo)
		if printed(f.Params, elements, counts) && printed(f.Size, bytes, sizes) {
			exact++
			continue
		}
		wrong++
		t.Errorf("%s, %d tensors: %d parameters and %.4f GiB; the log prints %s and %s", f.Name, f.Tensors, elements, float64(bytes)/float64(1<<30), f.Params, f.Size)
	}
	t.Logf("of %d logs: exact %d, wrong %d, without a recipe %d", exact+wrong+without, exact, wrong, without)
	if exact < 60 || wrong > 0 {
		t.Errorf("at least 60 exact and none wrong are required")
	}
}

func find(f fact) (listing, bool) {
	for _, l := range listings() {
		if l.name == f.Name && l.size == f.Size && (l.tensors == 0 || l.tensors == f.Tensors) {
			return l, true
		}
	}
	return listing{}, false
}

// TestOracleOllama recomputes each general.parameter_count from the metadata
// beside it.
func TestOracleOllama(t *testing.T) {
	zoo := filepath.Join(oracle.Dir(t), "zoo")
	scored := 0
	for _, f := range facts(t, zoo) {
		if f.Kind != "ollama-show" {
			continue
		}
		s, known := shows()[f.Name]
		if !known {
			t.Errorf("%s has no recipe", f.Name)
			continue
		}
		got := s.count(t, zoo, f)
		if got != f.Exact[0] {
			t.Errorf("%s has %d parameters, shown are %d", f.Name, got, f.Exact[0])
			continue
		}
		scored++
		if len(f.Exact) == 2 && f.Exact[1] != minicpmVision() {
			t.Errorf("%s: the tower has %d parameters, shown are %d", f.Name, minicpmVision(), f.Exact[1])
		}
	}
	t.Logf("%d counts are exact", scored)
}

// count is the parameters of one model.
func (s show) count(t *testing.T, zoo string, f fact) int64 {
	arch := fmt.Sprint(f.Info["general.architecture"])
	if arch == "clip" {
		arch = "qwen2"
	}
	number := func(key string) int64 { n, _ := f.Info[arch+"."+key].(float64); return int64(n) }
	switch {
	case s.formula != nil:
		return s.formula(number("block_count"), number("feed_forward_length"))
	case s.config != "":
		n, _ := shapes(t, zoo, s.config).Parameters().IsExact()
		return n
	}
	class := map[string]string{"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma", "gemma3": "Gemma3", "granite": "Granite"}[arch]
	kind := arch
	if arch == "gemma3" {
		kind = "gemma3_text"
	}
	heads := number("attention.head_count")
	dim := number("attention.key_length")
	if dim == 0 {
		dim = number("embedding_length") / heads
	}
	config := fmt.Sprintf(`{"model_type": %q, "architectures": [%q], "torch_dtype": "float16", "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d,
		"num_attention_heads": %d, "num_key_value_heads": %d, "head_dim": %d, "vocab_size": %d, "tie_word_embeddings": %v}`,
		kind, class+"ForCausalLM", number("embedding_length"), number("feed_forward_length"), number("block_count"), heads, number("attention.head_count_kv"), dim, s.vocab, !s.head)
	n, _ := shapes(t, zoo, config).Parameters().IsExact()
	return n + s.extra
}
