package model

import (
	"slices"
	"testing"
)

// GPT-2 stores its linear layers [in, out]; an adapter's matrices and a packed
// weight are those of a layer [out, in].
func TestLinearIsOutByIn(t *testing.T) {
	m := &Model{Stacks: []Stack{{Width: 768}, {Width: 768}}, Tensors: []Tensor{
		{Name: "h.*.attn.c_attn.weight", Role: RoleQKV, Shape: []int64{768, 2304}},
		{Name: "h.*.mlp.c_fc.weight", Role: RoleUp, Shape: []int64{768, 3072}},
		{Name: "layers.*.up_proj.weight", Role: RoleUp, Stack: 1, Shape: []int64{3072, 768}},
	}}
	for i, want := range [][]int64{{2304, 768}, {3072, 768}, {3072, 768}} {
		if got := m.Linear(m.Tensors[i]); !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", m.Tensors[i].Name, got, want)
		}
	}
	if m.StoresTransposed(-1) || m.StoresTransposed(2) {
		t.Error("what stands in no stack is stored as it is")
	}
}
