package model_test

import (
	"fmt"
	"testing"

	"floodmark/dtype"
	"floodmark/model"
)

// deep is a decoder of that many layers with matrices that make values and
// that lead back to the stream, rows of that many elements.
func deep(layers, queryHeads, kvHeads, experts int, row int64) *model.Model {
	m := &model.Model{Stacks: []model.Stack{{Kind: model.Decoder}}}
	add := func(role model.Role, layer int32, name string) {
		stack := int32(0)
		if layer < 0 {
			stack = -1
		}
		m.Tensors = append(m.Tensors, model.Tensor{Name: name, Role: role, Stack: stack, Layer: layer, Shape: []int64{256, row}, Stored: dtype.BF16, TiedTo: model.NotTied})
	}
	add(model.RoleTokenEmbedding, -1, "embed")
	for i := range layers {
		l := model.Layer{Index: i, Mixers: []model.Mixer{model.Attention{QueryHeads: queryHeads, KVHeads: kvHeads}}}
		if experts > 0 {
			l.FeedForward = model.Experts{Count: experts}
		}
		m.Stacks[0].Layers = append(m.Stacks[0].Layers, l)
		for role, name := range map[model.Role]string{model.RoleKey: "k", model.RoleValue: "v", model.RoleAttentionOutput: "o", model.RoleDown: "down", model.RoleRouter: "router"} {
			add(role, int32(i), fmt.Sprintf("%d.%s", i, name))
		}
	}
	add(model.RoleHead, -1, "head")
	return m
}

// What llama.cpp raises: by file type, place in the stack, sharing of heads and
// number of experts. Layers 0 and 15 are ends of a stack of sixteen, 5 is not
// among those between that are raised.
func TestMixtures(t *testing.T) {
	ordinary, shared, eight, wide := deep(16, 8, 8, 0, 256), deep(16, 8, 2, 0, 256), deep(16, 8, 8, 8, 256), deep(80, 64, 8, 0, 256)
	narrow, odd := deep(16, 8, 8, 0, 96), deep(16, 8, 8, 0, 33)
	for _, c := range []struct {
		m            *model.Model
		format, name string
		want         dtype.Format
	}{
		{ordinary, "q4_k_m", "embed", dtype.Q4_K}, {ordinary, "q4_k_m", "head", dtype.Q6_K}, {ordinary, "q8_0", "head", dtype.Q8_0},
		{ordinary, "q4_k_m", "0.v", dtype.Q6_K}, {ordinary, "q4_k_m", "5.v", dtype.Q4_K}, {ordinary, "q4_k_m", "15.down", dtype.Q6_K}, {ordinary, "q4_k_m", "5.down", dtype.Q4_K},
		{ordinary, "q4_k_s", "0.v", dtype.Q5_K}, {ordinary, "q4_k_s", "5.v", dtype.Q4_K}, {ordinary, "q4_k_s", "0.down", dtype.Q5_K}, {ordinary, "q4_k_s", "5.down", dtype.Q4_K},
		{ordinary, "q3_k_m", "0.v", dtype.Q5_K}, {ordinary, "q3_k_m", "5.v", dtype.Q4_K}, {ordinary, "q3_k_m", "0.down", dtype.Q5_K}, {ordinary, "q3_k_m", "5.down", dtype.Q4_K}, {ordinary, "q3_k_m", "5.o", dtype.Q4_K},
		{ordinary, "q3_k_l", "5.v", dtype.Q5_K}, {ordinary, "q3_k_l", "5.down", dtype.Q5_K}, {ordinary, "q3_k_s", "5.o", dtype.Q3_K},
		{ordinary, "q2_k", "5.v", dtype.Q3_K}, {shared, "q2_k", "5.v", dtype.Q4_K}, {ordinary, "q2_k", "5.down", dtype.Q3_K}, {ordinary, "q2_k", "5.o", dtype.Q3_K}, {ordinary, "q2_k", "5.k", dtype.Q2_K},
		{ordinary, "iq4_xs", "5.v", dtype.IQ4_XS}, {shared, "iq4_xs", "5.v", dtype.Q5_K}, {ordinary, "iq4_xs", "0.down", dtype.Q5_K},
		{eight, "q4_k_m", "5.k", dtype.Q8_0}, {eight, "q4_k_m", "5.v", dtype.Q8_0}, {eight, "q4_k_m", "5.o", dtype.Q5_K}, {eight, "q6_k", "5.o", dtype.Q6_K},
		{wide, "q4_k_m", "22.v", dtype.Q5_K},
		{ordinary, "q4_k_m", "5.router", dtype.F32}, {ordinary, "gguf_bf16", "5.k", dtype.BF16},
		{narrow, "q4_k_m", "5.k", dtype.Q5_0}, {narrow, "q5_k_m", "5.k", dtype.Q5_1}, {narrow, "q6_k", "5.k", dtype.Q8_0}, {narrow, "q2_k", "5.k", dtype.IQ4_NL}, {odd, "q8_0", "5.k", dtype.F16}, {odd, "q4_k_m", "5.k", dtype.F16},
	} {
		mixed, err := c.m.WithFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, x := range mixed.Tensors {
			if x.Name == c.name {
				found = true
				if x.Stored != c.want {
					t.Errorf("%s: %s is %s, want %s", c.format, c.name, x.Stored, c.want)
				}
			}
		}
		if !found {
			t.Errorf("there is no %s", c.name)
		}
	}
	for _, name := range model.Mixtures() {
		if _, err := ordinary.WithFormat(name); err != nil {
			t.Errorf("%s is listed: %v", name, err)
		}
	}
}
