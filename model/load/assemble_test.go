package load

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/dtype"
	"floodmark/model"
)

// lines is each tensor of a model as one line.
func lines(m *model.Model) []string {
	var list []string
	for _, t := range m.Tensors {
		n, _ := t.Bytes()
		stored := t.Stored.String()
		if t.Opaque {
			stored = "unknown"
		}
		list = append(list, fmt.Sprintf("%s %d %v %s %d %d", t.Name, t.Role, t.Shape, stored, n, t.TiedTo))
	}
	return list
}

// What files list becomes the tensors of a model: experts of a layer are one,
// except where they differ, and what shares storage is tied to the first.
func TestAssemble(t *testing.T) {
	const name = "model.layers.0.mlp.experts.%d.up_proj.weight"
	expert := func(i int, f dtype.Format, bytes int64, shape ...int64) tensor {
		return tensor{name: fmt.Sprintf(name, i), format: f, shape: shape, bytes: bytes, twin: -1}
	}
	experts := &model.Model{Stacks: []model.Stack{{Name: "model.layers", Layers: make([]model.Layer, 1)}}, Tensors: []model.Tensor{
		{Name: "model.layers.0.mlp.experts.*.up_proj.weight", Role: model.RoleExpertUp, Shape: []int64{3, 4, 8}, Stored: dtype.BF16, TiedTo: model.NotTied}}}
	heads := &model.Model{Tensors: []model.Tensor{
		{Name: "embed.weight", Role: model.RoleTokenEmbedding, Stack: -1, Layer: -1, Shape: []int64{4, 2}, Stored: dtype.F16, TiedTo: model.NotTied},
		{Name: "head.weight", Role: model.RoleHead, Stack: -1, Layer: -1, Shape: []int64{4, 2}, Stored: dtype.F16, TiedTo: 0}}}
	plain := func(name string, bytes int64, twin int) tensor {
		return tensor{name: name, format: dtype.F16, shape: []int64{4, 2}, bytes: bytes, twin: twin}
	}
	up, embedding, head := model.RoleExpertUp, model.RoleTokenEmbedding, model.RoleHead
	const starred = "model.layers.0.mlp.experts.*.up_proj.weight"
	for _, c := range []struct {
		name     string
		config   *model.Model
		tensors  []tensor
		want     []string
		warnings int
	}{
		{"experts alike", experts, []tensor{expert(0, dtype.BF16, 64, 4, 8), expert(1, dtype.BF16, 64, 4, 8), expert(2, dtype.BF16, 64, 4, 8)},
			[]string{fmt.Sprintf("%s %d [3 4 8] BF16 192 -1", starred, up)}, 0},
		{"one expert in another format", experts, []tensor{expert(0, dtype.BF16, 64, 4, 8), expert(1, dtype.BF16, 64, 4, 8), expert(2, dtype.F32, 128, 4, 8)},
			[]string{fmt.Sprintf("%s %d [2 4 8] BF16 128 -1", starred, up), fmt.Sprintf("%s %d [4 8] F32 128 -1", starred, up)}, 0},
		{"one expert packed", experts, []tensor{expert(0, dtype.BF16, 64, 4, 8), expert(1, dtype.BF16, 64, 4, 8), expert(2, dtype.U8, 16, 4, 4)},
			[]string{fmt.Sprintf("%s %d [2 4 8] BF16 128 -1", starred, up), fmt.Sprintf("%s %d [4 8] U8 16 -1", starred, up)}, 0},
		{"an expert of another shape", experts, []tensor{expert(0, dtype.BF16, 64, 4, 8), expert(1, dtype.BF16, 64, 4, 8), expert(2, dtype.BF16, 48, 3, 8)},
			[]string{fmt.Sprintf("%s %d [2 4 8] BF16 128 -1", starred, up), fmt.Sprintf("%s %d [3 8] BF16 48 -1", starred, up)}, 1},
		{"shared storage", heads, []tensor{plain("embed.weight", 16, -1), plain("head.weight", 16, 0)},
			[]string{fmt.Sprintf("embed.weight %d [4 2] F16 16 -1", embedding), fmt.Sprintf("head.weight %d [4 2] F16 16 0", head)}, 0},
		{"shared storage, the head first", heads, []tensor{plain("head.weight", 16, -1), plain("embed.weight", 16, 0)},
			[]string{fmt.Sprintf("head.weight %d [4 2] F16 16 -1", head), fmt.Sprintf("embed.weight %d [4 2] F16 16 0", embedding)}, 0},
		{"a view of a larger storage", heads, []tensor{plain("embed.weight", 64, -1)},
			[]string{fmt.Sprintf("embed.weight %d [4 2] F16 64 -1", embedding), fmt.Sprintf("head.weight %d [4 2] F16 16 0", head)}, 0},
		{"a type that is newer than this program", heads, []tensor{{name: "embed.weight", dtype: "BF17", shape: []int64{4, 2}, bytes: 3, twin: -1}},
			[]string{fmt.Sprintf("embed.weight %d [4 2] unknown 3 -1", embedding), fmt.Sprintf("head.weight %d [4 2] unknown 3 0", head)}, 1},
	} {
		w := &weights{tensors: c.tensors}
		for _, x := range c.tensors {
			if x.twin < 0 {
				w.data += x.bytes
			}
		}
		m := assemble(c.config, w)
		if diff := cmp.Diff(c.want, lines(m)); diff != "" || len(m.Warnings) != c.warnings {
			t.Errorf("%s: warnings %v (-want +got)\n%s", c.name, m.Warnings, diff)
		}
		if n, exact := m.WeightsBytes().IsExact(); n != w.data || !exact {
			t.Errorf("%s: %d bytes, the files have %d", c.name, n, w.data)
		}
	}
}

// Names in other spellings, and those that are told by their ends.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"model.layers.3.mlp.experts.17.up_proj.weight": "model.layers.3.mlp.experts.*.up_proj.weight",
		"model.layers.3.mlp.experts.gate_up_proj":      "model.layers.3.mlp.experts.gate_up_proj",
		"experts.7": "experts.7",
		"model.layers.3.mlp.shared_experts.up.weight": "model.layers.3.mlp.shared_experts.up.weight",
	} {
		if got := star(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"model.layers.3.mlp.weight":        "model.layers 3",
		"transformer.h.11.attn.weight":     "transformer.h 11",
		"h.0.ln_1.weight":                  "h 0",
		"model.layers.x.mlp":               "",
		"encoder.block.2.layer.0.q.weight": "encoder.block 2",
		"lm_head.weight":                   "",
		"layers.99999999.q":                "",
	} {
		stack, layer, ok := layerOf(name)
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d", stack, layer)
		}
		if got != want {
			t.Errorf("%s stands in %q, want %q", name, got, want)
		}
	}
}
