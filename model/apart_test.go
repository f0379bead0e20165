package model

import (
	"slices"
	"testing"

	"floodmark/dtype"
)

// joined is a model of one layer of 4 heads of 16 with 2 for keys and values, whose
// checkpoint joins them and whose head is the embedding.
func joined() *Model {
	attention := Attention{QueryHeads: 4, KVHeads: 2, KeyDim: 16, ValueDim: 16}
	tensor := func(name string, role Role, shape ...int64) Tensor {
		return Tensor{Name: name, Role: role, Shape: shape, Stored: dtype.BF16, TiedTo: NotTied}
	}
	m := &Model{Stacks: []Stack{{Kind: Decoder, Width: 64, Layers: []Layer{{Mixers: []Mixer{attention}}}}}, Tensors: []Tensor{
		tensor("layers.0.attention.query_key_value.weight", RoleQKV, 128, 64),
		tensor("layers.0.attention.query_key_value.bias", RoleQKVBias, 128),
		tensor("embed.weight", RoleTokenEmbedding, 1000, 64),
		tensor("head.weight", RoleHead, 1000, 64),
	}}
	m.Tensors[2].Layer, m.Tensors[2].Stack = -1, -1
	m.Tensors[3].Layer, m.Tensors[3].Stack, m.Tensors[3].TiedTo = -1, -1, 2
	return m
}

// Parts of a joined projection have names of their own, and ties follow the tensors
// that moved.
func TestApartQKV(t *testing.T) {
	m := joined().ApartQKV()
	var names []string
	var rows []int64
	for _, tensor := range m.Tensors[:3] {
		names, rows = append(names, tensor.Name), append(rows, tensor.Shape[0])
	}
	want := []string{"layers.0.attention.q_proj.weight", "layers.0.attention.k_proj.weight", "layers.0.attention.v_proj.weight"}
	if !slices.Equal(names, want) || !slices.Equal(rows, []int64{64, 32, 32}) {
		t.Errorf("%v of %v rows", names, rows)
	}
	if head := m.Tensors[5]; head.Role != RoleHead || head.TiedTo != 4 {
		t.Errorf("the head is tied to %d, want 4", head.TiedTo)
	}
	other := joined()
	other.Tensors[0].Shape[0] = 100 // more or less than heads of that size
	if len(other.ApartQKV().Tensors) != 4 {
		t.Error("a matrix of other rows was cut")
	}
}

// A head of its own is a matrix like others: packed it has scales.
func TestUntiedAndPacked(t *testing.T) {
	whole, err := joined().Untied().WithEveryLinear("nf4")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(whole.Tensors, func(t Tensor) bool { return t.Role == RoleHead })
	head, scales := whole.Tensors[i], whole.Tensors[i+1]
	if head.TiedTo != NotTied || head.Stored != dtype.U4 || scales.Role != RoleScale || scales.Shape[0] != 1000 {
		t.Errorf("%+v, %+v", head, scales)
	}
	plain, err := joined().WithFormat("nf4")
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(plain.Tensors, func(t Tensor) bool { return t.Role == RoleHead }); plain.Tensors[i].Stored != dtype.BF16 {
		t.Error("transformers leaves the head alone")
	}
	if _, err := joined().WithEveryLinear("none such"); err == nil {
		t.Error("an unknown format was taken")
	}
}
