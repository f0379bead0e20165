package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// weights is tensors by what they are for; norms of a layer are several of one
// role, in the order of the layer.
type weights map[model.Role][]linear

// one is the only tensor of a role, or none.
func (w weights) one(r model.Role) torch.Tensor { return w.at(r, 0).weight }

// at is the module of a role by its place, or none.
func (w weights) at(r model.Role, place int) linear {
	if place >= len(w[r]) {
		return linear{}
	}
	return w[r][place]
}

func (w weights) has(r model.Role) bool { return len(w[r]) > 0 }

// place makes a parameter of every tensor with storage of its own, and finds
// where it belongs.
func (n *Net) place() {
	made := make([]linear, len(n.model.Tensors))
	fused := n.fused()
	within := func(from, to int) {
		for i := from; i < to; i++ {
			n.placeOne(i, made, fused)
		}
	}
	first, last := n.layersFirst()
	within(0, first)
	before := len(n.parameters)
	within(last, len(made))
	behind := slices.Clone(n.parameters[before:])
	n.parameters = n.parameters[:before]
	within(first, last)
	n.parameters = append(n.parameters, behind...)
}

// layersFirst is the tensors of layers that are made after what stands behind them
// in the model's order: none, but where a builder copies its layers into a model whose
// head is there already.
func (n *Net) layersFirst() (from, to int) {
	all := n.model.Tensors
	if n.o.Software != Torchtune || !n.copiesLayers() {
		return len(all), len(all)
	}
	layered := func(t model.Tensor) bool { return t.Layer >= 0 }
	from = slices.IndexFunc(all, layered)
	if from < 0 {
		return len(all), len(all)
	}
	for to = from; to < len(all) && layered(all[to]); to++ {
	}
	return from, to
}

func (n *Net) placeOne(i int, made []linear, fused []int) {
	t := n.model.Tensors[i]
	switch {
	case n.within(t):
		return
	case t.TiedTo != model.NotTied:
		made[i] = n.tied(t, made[t.TiedTo], i)
	case t.Role == model.RoleBuffer:
		made[i] = linear{weight: n.m.Buffer(n.held(t).Format, t.Shape...)}
	case n.cutInTwo(t):
		n.halves(t, i)
		return
	case fused[i] == i:
		made[i] = n.parameter(t, fusedShape(t), i, partner(fused, i))
	case fused[i] >= 0:
		made[i] = made[fused[i]]
		return
	default:
		made[i] = n.parameter(t, n.asClass(t), i)
	}
	w := n.weightsOf(t)
	if at := n.beyond[i]; at >= 0 {
		w = n.stacks[at].own
	}
	w[t.Role] = append(w[t.Role], made[i])
}

// asClass is the shape in which a class holds a tensor: as it is stored, but for
// experts that a file stores [experts, in, out], which are turned while they are loaded.
func (n *Net) asClass(t model.Tensor) []int64 {
	if t.Stack < 0 || int(t.Stack) >= len(n.stacks) || len(t.Shape) != 3 || n.o.Adapter != nil {
		return t.Shape
	}
	s := n.stacks[t.Stack]
	if t.Layer < 0 || int(t.Layer) >= len(s.layers) {
		return t.Shape
	}
	e, routed := s.layers[t.Layer].FeedForward.(model.Experts)
	in, out := t.Shape[1], t.Shape[2]
	gateUp := t.Role == model.RoleExpertGateUp && in == int64(s.Width) && out == int64(2*e.Width)
	down := t.Role == model.RoleExpertDown && in == int64(e.Width) && out == int64(s.Width)
	if routed && !e.Alternating && (gateUp || down) {
		return []int64{t.Shape[0], out, in}
	}
	return t.Shape
}

// cutInTwo reports a fused gate and up that the class holds apart.
func (n *Net) cutInTwo(t model.Tensor) bool {
	return (t.Role == model.RoleGateUp || t.Role == model.RoleGateUpBias) &&
		t.Stack >= 0 && int(t.Stack) < len(n.stacks) && n.stacks[t.Stack].Manner.ApartGate && n.o.Adapter == nil
}

// halves are gate and up of a tensor that holds both.
func (n *Net) halves(t model.Tensor, of int) {
	w := n.weightsOf(t)
	roles := []model.Role{model.RoleGate, model.RoleUp}
	if t.Role == model.RoleGateUpBias {
		roles = []model.Role{model.RoleGateBias, model.RoleUpBias}
	}
	for _, r := range roles {
		shape := append([]int64{t.Shape[0] / 2}, t.Shape[1:]...)
		w[r] = append(w[r], n.parameter(t, shape, of))
	}
}

// towers finds the tensors that stand around the layers of a tower which stands
// beside a decoder, from its first embedding of patches on: the index of its stack,
// and −1 for any other tensor.
func (n *Net) towers() []int {
	list := make([]int, len(n.model.Tensors))
	at := -1
	for i, t := range n.model.Tensors {
		list[i] = -1
		switch {
		case int(t.Stack) >= len(n.stacks):
		case t.Stack >= 0 && tower(n.stacks[t.Stack].Kind):
			at = int(t.Stack)
		case t.Stack >= 0 || t.Role == model.RoleTokenEmbedding:
			at = -1
		case t.Role == model.RolePatchEmbedding && at < 0:
			at = slices.IndexFunc(n.model.Tensors[i:], func(t model.Tensor) bool { return t.Stack >= 0 })
			if at >= 0 {
				at = int(n.model.Tensors[i+at].Stack)
			}
		}
		if t.Stack < 0 && n.sees() && t.Role != model.RoleHead && t.Role != model.RoleProjector {
			list[i] = at
		}
	}
	return list
}

// weightsOf is where a tensor belongs. One of a layer that the model does not
// describe belongs to none.
func (n *Net) weightsOf(t model.Tensor) weights {
	switch {
	case t.Stack < 0:
		return n.outside
	case int(t.Stack) >= len(n.stacks):
		return weights{}
	case t.Layer < 0:
		return n.stacks[t.Stack].own
	case int(t.Layer) >= len(n.stacks[t.Stack].layers):
		return weights{}
	}
	return n.stacks[t.Stack].layers[t.Layer].weights
}

// fused finds the gates and ups of routed experts that the file stores apart and
// the class holds in one parameter: the index of the gate for both, −1 elsewhere.
func (n *Net) fused() []int {
	list := make([]int, len(n.model.Tensors))
	gates := map[[2]int32]int{}
	for i, t := range n.model.Tensors {
		list[i] = -1
		at := [2]int32{t.Stack, t.Layer}
		switch t.Role {
		case model.RoleExpertGate:
			gates[at], list[i] = i, i
		case model.RoleExpertUp:
			if gate, ok := gates[at]; ok {
				list[i] = gate
			}
		}
	}
	return list
}

func partner(fused []int, gate int) int { return gate + 1 + slices.Index(fused[gate+1:], gate) }

// fusedShape is gate and up of every expert in one: [experts, 2·width, in].
func fusedShape(t model.Tensor) []int64 {
	return []int64{t.Shape[0], 2 * t.Shape[1], t.Shape[2]}
}

// held is how a tensor is held.
func (n *Net) held(t model.Tensor) Weight {
	if n.o.Weight != nil {
		return n.o.Weight(t)
	}
	return Weight{Format: t.Stored, Trained: n.o.Training}
}

// parameter makes one weight, what is beside it where it is saved in whole, and
// its adapter.
func (n *Net) parameter(t model.Tensor, shape []int64, of ...int) linear {
	w := n.held(t)
	w.Trained = w.Trained && !n.fixed(t)
	l := linear{}
	first := len(n.parameters)
	defer func() {
		for i := first; i < len(n.parameters); i++ {
			n.parameters[i].Part = n.partOf(t)
		}
	}()
	switch {
	case w.GPTQ != nil:
		l.gptq = n.gptq(*w.GPTQ, w.Format)
		n.packed4 = append(n.packed4, Parameter{Tensor: l.gptq.words, Of: of, Part: n.partOf(t)})
	case w.Packed:
		l.packed = n.packed(t, w, n.asLinear(t, shape))
		n.packed4 = append(n.packed4, Parameter{Tensor: l.packed.Weight, Of: of, Part: n.partOf(t)})
	default:
		l.weight = n.weight(w, w.Trained && !w.Copied, shape)
		n.parameters = append(n.parameters, Parameter{Tensor: l.weight, Of: of, Trained: w.Trained && !w.Copied})
	}
	l.own = l.weight
	if w.Copied {
		l.weight = n.copied(w, shape, of...)
		if w.Packed {
			n.why = "a trained copy of a packed weight has no program here"
		}
	}
	if n.o.Software == LitGPT && w.Packed && n.o.Checkpointing {
		n.why = "packed weights of litgpt beside checkpointing have no program here"
	}
	if n.o.Adapter != nil && n.o.Software == LitGPT && t.Role == model.RoleQKV {
		if l.prompt = n.prompted(t); l.prompt == nil {
			l.adapter = n.qkvAdapter(t)
		}
	} else if n.o.Adapter != nil {
		if a, ok := n.o.Adapter(t); ok {
			n.lacksAdapter(t, a, w)
			if a.Kind == LowRank {
				l.adapter = n.lowRank(a, w, n.asLinear(t, shape))
			} else {
				l.turned = n.beforeOrAfter(a, w, n.asLinear(t, shape))
			}
		}
	}
	return l
}

// fixed reports the positions of sound, sines that the class does not train.
func (n *Net) fixed(t model.Tensor) bool {
	return t.Role == model.RolePositionEmbedding && !n.outside.has(t.Role) && n.Hears()
}

// weight makes the tensor of a weight that is not packed.
func (n *Net) weight(w Weight, trained bool, shape []int64) torch.Tensor {
	if w.Absent {
		return n.m.Absent(w.Format, trained, shape...)
	}
	return n.m.Parameter(w.Format, trained, shape...)
}

// partOf is the layer of a tensor, or Outside, or Entry.
func (n *Net) partOf(t model.Tensor) int {
	switch {
	case t.Stack >= 0 && t.Layer >= 0:
		return int(t.Layer)
	case t.Role == model.RoleTokenEmbedding && n.o.Software == TorchTitan && n.o.Release.partsApart():
		return Entry
	}
	return Outside
}

// asLinear is the shape of a linear layer as a packed one and an adapter have it:
// [out, in], where the tensor is not one of several in a parameter.
func (n *Net) asLinear(t model.Tensor, shape []int64) []int64 {
	if slices.Equal(shape, t.Shape) {
		return n.model.Linear(t)
	}
	return shape
}

// tied is a module that shares another's weight: what stands beside the other is
// not its own, and a trained copy of it leaves the other as it was.
func (n *Net) tied(t model.Tensor, other linear, of int) linear {
	l := linear{weight: other.own, own: other.own, packed: other.packed, gptq: other.gptq}
	if w := n.held(t); w.Copied {
		l.weight, l.packed, l.gptq = n.copied(w, t.Shape, of), nil, nil
	}
	if n.o.Adapter != nil && n.why == "" {
		if _, ok := n.o.Adapter(t); ok {
			n.why = "an adapter on a tied weight has no program here"
		}
	}
	return l
}

// copied is the trained copy of a module that is saved in whole.
func (n *Net) copied(w Weight, shape []int64, of ...int) torch.Tensor {
	c := n.beside(w, w.Format, shape...)
	n.parameters = append(n.parameters, Parameter{Tensor: c, Of: of, Trained: true})
	return c
}

// beside makes a trained tensor beside a frozen weight.
func (n *Net) beside(w Weight, f dtype.Format, shape ...int64) torch.Tensor {
	if w.Absent {
		return n.m.Absent(f, true, shape...)
	}
	return n.m.Adapter(f, shape...)
}

// lacksAdapter notes an adapter that has no program.
func (n *Net) lacksAdapter(t model.Tensor, a Adapter, w Weight) {
	switch {
	case n.why != "":
	case t.Role.Module() == model.EmbeddingModule:
		n.why = "an adapter on an embedding has no program here"
	case a.Kind != LowRank && w.Packed:
		n.why = "an adapter of this kind beside packed weights has no program here"
	case a.DoRA && w.Packed:
		n.why = "DoRA beside packed weights has no program here"
	}
}

// linear is a weight and its bias, if it has one. A transposed weight is stored
// [in, out], as GPT-2's is.
type linear struct {
	name         string
	weight, bias torch.Tensor
	own          torch.Tensor // the weight itself, where weight is a trained copy of it
	packed       *torch.Packed
	gptq         *gptqLinear
	adapter      *lowRank
	turned       *turned
	prompt       *prompt
	transposed   bool
}

// module is a linear layer outside the layers.
func (w weights) module(name string, weight, bias model.Role) linear {
	m := w.at(weight, 0)
	m.name, m.bias = name, w.one(bias)
	return m
}

// linear is the module of two roles of a layer.
func (l *layer) linear(name string, weight, bias model.Role, place int) linear {
	m := l.at(weight, place)
	m.name, m.bias, m.transposed = name, l.at(bias, place).weight, l.transposed
	return m
}
