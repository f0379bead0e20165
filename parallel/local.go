package parallel

import (
	"floodmark/model"
)

// Local is the model as a rank of the plan runs it, and the plan of that: its layers
// with its share of their heads and widths, and of each tensor its part. Where nobody
// divides anything it is the model itself.
func (p RankPlan) Local(m *model.Model) (*model.Model, RankPlan) {
	if s := p.share.atLeastOne(); s.tensor*s.expert*p.Mesh.PipelineParallel == 1 {
		return m, p
	}
	own := *m
	own.Vocab = p.Vocab
	own.Stacks = make([]model.Stack, len(m.Stacks))
	for i, s := range m.Stacks {
		s.Layers = nil
		own.Stacks[i] = s
	}
	layers := map[LayerRef]int32{}
	for _, ref := range p.Layers {
		s := &own.Stacks[ref.Stack]
		layers[ref] = int32(len(s.Layers))
		own := p.Layer(m, ref)
		own.Index = len(s.Layers)
		s.Layers = append(s.Layers, own)
	}
	own.Tensors = nil
	held := map[int]int32{} // by where a tensor stands in the whole model
	moved := func(t model.Tensor) model.Tensor {
		if at, has := layers[LayerRef{t.Stack, t.Layer}]; has {
			t.Layer = at
		}
		return t
	}
	local := p
	local.Tensors = nil
	for _, l := range p.Tensors {
		t := moved(m.Tensors[l.Tensor])
		t.Shape, t.Packed = l.Shape, l.Packed
		t.TiedTo = model.NotTied
		held[l.Tensor] = int32(len(own.Tensors))
		l.Tensor = len(own.Tensors)
		own.Tensors = append(own.Tensors, t)
		local.Tensors = append(local.Tensors, l)
	}
	for i, t := range m.Tensors {
		owner, has := held[int(t.TiedTo)]
		if _, is := held[i]; t.TiedTo == model.NotTied || !has || is {
			continue
		}
		t = moved(t)
		t.Shape, t.TiedTo = own.Tensors[owner].Shape, owner
		own.Tensors = append(own.Tensors, t)
	}
	for i := range local.Layers {
		local.Layers[i].Layer = layers[p.Layers[i]]
	}
	return &own, local
}
