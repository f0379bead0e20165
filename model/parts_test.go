package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/dtype"
	"floodmark/internal/checklist"
	"floodmark/model"
)

// small is a decoder of two layers with a tied head, stored in 16 bits: an
// embedding of 64·256, two layers of 256·256 each and a norm.
func small() *model.Model {
	t := func(name string, role model.Role, stack, layer int32, shape ...int64) model.Tensor {
		return model.Tensor{Name: name, Role: role, Stack: stack, Layer: layer, Shape: shape, Stored: dtype.BF16, TiedTo: model.NotTied}
	}
	head := t("head", model.RoleHead, -1, -1, 64, 256)
	head.TiedTo = 0
	return &model.Model{
		Stacks: []model.Stack{{Name: "layers", Kind: model.Decoder, Width: 256, Layers: make([]model.Layer, 2)}},
		Tensors: []model.Tensor{
			t("embed", model.RoleTokenEmbedding, -1, -1, 64, 256),
			t("0.norm", model.RoleNorm, 0, 0, 256), t("0.q", model.RoleQuery, 0, 0, 256, 256),
			t("1.norm", model.RoleNorm, 0, 1, 256), t("1.q", model.RoleQuery, 0, 1, 256, 256), head,
		},
	}
}

// row is a part as one line.
func row(p model.Part) string {
	bytes, _ := p.Bytes.IsExact()
	n, _ := p.Parameters.IsExact()
	formats := []string{}
	for _, f := range p.Formats {
		formats = append(formats, fmt.Sprintf("%s %d", f.Format, f.Bytes))
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d %s: %d tensors, %d parameters, %d bytes (%s)", p.Stack, p.Layer, p.Module, p.Tensors, n, bytes, strings.Join(formats, ", ")))
}

func rows(parts []model.Part) []string {
	var list []string
	for _, p := range parts {
		list = append(list, row(p))
	}
	return list
}

// Parts add up to the model, whichever way it is cut; a tied head is in none.
func TestParts(t *testing.T) {
	m := small()
	for _, c := range []struct {
		name  string
		parts []model.Part
		want  []string
	}{
		{"by module", m.ByModule(), []string{
			"-1 embedding: 1 tensors, 16384 parameters, 32768 bytes (BF16 32768)",
			"layers -1 norm: 2 tensors, 512 parameters, 1024 bytes (BF16 1024)",
			"layers -1 attention: 2 tensors, 131072 parameters, 262144 bytes (BF16 262144)"}},
		{"by layer", m.ByLayer(), []string{
			"-1 : 1 tensors, 16384 parameters, 32768 bytes (BF16 32768)",
			"layers 0 : 2 tensors, 65792 parameters, 131584 bytes (BF16 131584)",
			"layers 1 : 2 tensors, 65792 parameters, 131584 bytes (BF16 131584)"}},
	} {
		if diff := cmp.Diff(c.want, rows(c.parts)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
		whole, _ := m.WeightsBytes().IsExact()
		if sum, exact := model.AddParts(c.parts); !exact || sum != whole {
			t.Errorf("%s: %d bytes, exact %v; the model has %d", c.name, sum, exact, whole)
		}
	}
}

// A module that stays in another precision is counted in its own, beside what is
// quantised, and a part that holds both says how much of each.
func TestPartsOfTwoFormats(t *testing.T) {
	checklist.Covers(t, 30)
	m := small()
	for i, x := range m.Tensors {
		switch x.Role {
		case model.RoleQuery:
			m.Tensors[i].Stored = dtype.I8
		case model.RoleNorm:
			m.Tensors[i].Stored = dtype.F32
		}
	}
	want := []string{
		"-1 embedding: 1 tensors, 16384 parameters, 32768 bytes (BF16 32768)",
		"layers -1 norm: 2 tensors, 512 parameters, 2048 bytes (F32 2048)",
		"layers -1 attention: 2 tensors, 131072 parameters, 131072 bytes (I8 131072)"}
	if diff := cmp.Diff(want, rows(m.ByModule())); diff != "" {
		t.Errorf("by module (-want +got)\n%s", diff)
	}
	if got, want := row(m.ByLayer()[1]), "layers 0 : 2 tensors, 65792 parameters, 66560 bytes (I8 65536, F32 1024)"; got != want {
		t.Errorf("a layer is %s, want %s", got, want)
	}
}

// Every role belongs to a module; only what is told by no name is other.
func TestModules(t *testing.T) {
	for r := model.RoleOther + 1; r <= model.RoleQuantised; r++ {
		if r.Module() == model.OtherModule {
			t.Errorf("role %d has no module", r)
		}
	}
}

// What each way of storing does to the model of small: its norms of 512
// parameters and its embedding of 16,384 stay where the way leaves them.
func TestWithFormat(t *testing.T) {
	const matrices, rest = 2 * 256 * 256, 512 + 16384
	for format, want := range map[string]int64{
		"bf16": 2 * (matrices + rest), "fp16": 2 * (matrices + rest), "fp32": 4 * (matrices + rest), "torch.float32": 4 * (matrices + rest),
		"int8":      matrices + 2*256*4 + 2*rest,
		"fp8":       matrices + 2*4 + 2*rest,
		"nf4":       matrices/2 + matrices/64*4 + 2*rest,
		"gguf_f16":  2*(matrices+16384) + 4*512,
		"q8_0":      34*(matrices+16384)/32 + 4*512,
		"q4_0":      18*matrices/32 + 210*16384/256 + 4*512,
		"Q4_K-M":    144*matrices/256 + 210*16384/256 + 4*512,
		"gguf-bf16": 2*(matrices+16384) + 4*512,
	} {
		m, err := small().WithFormat(format)
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		if got, exact := m.WeightsBytes().IsExact(); got != want || !exact {
			t.Errorf("%s: %d bytes, exact %v; want %d", format, got, exact, want)
		}
		if n, _ := m.Parameters().IsExact(); n != matrices+rest {
			t.Errorf("%s: %d parameters: a format changes none", format, n)
		}
	}
	for _, format := range []string{"", "int3", "auto", "i64", "q9_k"} {
		if _, err := small().WithFormat(format); err == nil || !strings.Contains(err.Error(), "q4_k_m") {
			t.Errorf("%q: %v, want an error that lists the formats", format, err)
		}
	}
}

// A packed matrix is taken for what it stands for, and its scales go.
func TestWithFormatUnpacks(t *testing.T) {
	m := small()
	q := &m.Tensors[2]
	q.Stored, q.Packed = dtype.I32, []int64{32, 256}
	scales := m.Tensors[2]
	scales.Name, scales.Role, scales.Stored, scales.Shape, scales.Packed = "0.q.scales", model.RoleScale, dtype.F16, []int64{2, 256}, nil
	m.Tensors = append(m.Tensors[:3:3], append([]model.Tensor{scales}, m.Tensors[3:]...)...)
	back, err := m.WithFormat("bf16")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := small().WeightsBytes().IsExact()
	if got, exact := back.WeightsBytes().IsExact(); got != want || !exact {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if last := back.Tensors[len(back.Tensors)-1]; last.TiedTo != 0 {
		t.Errorf("the head is tied to %d", last.TiedTo)
	}
}
