package model

import (
	"slices"
	"strings"
)

// Untied is the model as software has it whose head is always a matrix of its own.
func (m *Model) Untied() *Model {
	c := *m
	c.Tensors = slices.Clone(m.Tensors)
	for i, t := range c.Tensors {
		if t.Role == RoleHead && t.TiedTo != NotTied {
			c.Tensors[i].TiedTo = NotTied
		}
	}
	return &c
}

// ApartQKV is the model with names for the parts of a projection that a checkpoint
// joins: q_proj, k_proj and v_proj in its place, of as many rows as the layer's
// heads need. A matrix of other rows, or of a layer that is not described, stays.
// Worked number: 32 heads of 128 make 12,288 rows of [12288, 4096] three of 4,096.
func (m *Model) ApartQKV() *Model {
	c := *m
	c.Tensors = make([]Tensor, 0, len(m.Tensors))
	moved := make([]int32, len(m.Tensors))
	for i, t := range m.Tensors {
		moved[i] = int32(len(c.Tensors))
		if parts := m.partsOfQKV(t); parts != nil {
			c.Tensors = append(c.Tensors, parts...)
		} else {
			c.Tensors = append(c.Tensors, t)
		}
	}
	for i, t := range c.Tensors {
		if t.TiedTo != NotTied {
			c.Tensors[i].TiedTo = moved[t.TiedTo]
		}
	}
	return &c
}

// partsOfQKV is query, key and value of a matrix that joins them; nil for any other
// tensor.
func (m *Model) partsOfQKV(t Tensor) []Tensor {
	joined, named := strings.CutSuffix(t.Name, ".weight")
	if t.Role != RoleQKV || !named || len(t.Shape) != 2 || t.Packed != nil || t.Stack < 0 || int(t.Stack) >= len(m.Stacks) ||
		t.Layer < 0 || int(t.Layer) >= len(m.Stacks[t.Stack].Layers) || m.StoresTransposed(t.Stack) {
		return nil
	}
	mixers := m.Stacks[t.Stack].Layers[t.Layer].Mixers
	if len(mixers) != 1 {
		return nil
	}
	a, is := mixers[0].(Attention)
	query, keys, values := int64(a.QueryHeads)*int64(a.KeyDim), int64(a.KVHeads)*int64(a.KeyDim), int64(a.KVHeads)*int64(a.ValueDim)
	if !is || query+keys+values != t.Shape[0] {
		return nil
	}
	holder := joined[:strings.LastIndex(joined, ".")+1]
	part := func(name string, role Role, rows int64) Tensor {
		p := t
		p.Name, p.Role, p.Shape = holder+name+".weight", role, []int64{rows, t.Shape[1]}
		return p
	}
	return []Tensor{part("q_proj", RoleQuery, query), part("k_proj", RoleKey, keys), part("v_proj", RoleValue, values)}
}
