package model

import (
	"cmp"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/sorting"
)

// Part is a share of a model's weights: a module of a stack, or a layer.
type Part struct {
	Stack      string // "model.layers"; empty for what stands in no stack
	Kind       StackKind
	Layer      int    // within the stack, or NoLayer
	Module     Module // empty in a part that is a layer
	Tensors    int    // with storage of their own
	Parameters account.Figure
	Bytes      account.Figure
	Formats    []FormatBytes // the largest first
}

// FormatBytes is how many bytes are stored in one format.
type FormatBytes struct {
	Format dtype.Format
	Bytes  int64
}

// Module names what a group of roles does together.
type Module string

const (
	EmbeddingModule    Module = "embedding"
	AttentionModule    Module = "attention"
	MixerModule        Module = "mixer" // state space, linear attention, convolution
	FeedForwardModule  Module = "feed_forward"
	ExpertsModule      Module = "experts"
	SharedModule       Module = "shared_experts"
	RouterModule       Module = "router"
	NormModule         Module = "norm"
	HeadModule         Module = "head"
	ProjectorModule    Module = "projector"
	QuantisationModule Module = "quantisation_metadata"
	BufferModule       Module = "buffer"
	OtherModule        Module = "other"
)

// Module is the module that a role belongs to.
func (r Role) Module() Module {
	switch {
	case r == RoleBuffer:
		return BufferModule
	case r.Category() == account.CategoryQuantisationMetadata:
		return QuantisationModule
	case r == RoleFinalNorm || r == RoleNorm || r == RoleNormBias || r == RoleLayerScale:
		return NormModule
	case r >= RoleTokenEmbedding && r <= RolePerLayerEmbedding || r == RolePatchEmbedding:
		return EmbeddingModule
	case r >= RoleHead && r <= RoleClassifier:
		return HeadModule
	case r >= RoleQuery && r <= RoleIndexer:
		return AttentionModule
	case r >= RoleMixerIn && r <= RoleMixerGate:
		return MixerModule
	case r >= RoleGate && r <= RoleDownBias:
		return FeedForwardModule
	case r == RoleRouter || r == RoleRouterBias:
		return RouterModule
	case r >= RoleExpertGate && r <= RoleExpertDownBias:
		return ExpertsModule
	case r >= RoleSharedExpertGate && r <= RoleSharedExpertMix:
		return SharedModule
	case r == RoleProjector:
		return ProjectorModule
	}
	return OtherModule
}

// ByModule splits the weights by stack and module: what stands in no stack
// first, then the stacks in their order. Bytes and parameters of the parts add
// up to those of the model.
func (m *Model) ByModule() []Part {
	return m.parts(func(t Tensor) partKey { return partKey{t.Stack, NoLayer, t.Role.Module()} })
}

// ByLayer splits the weights by stack and layer: what stands in no layer of a
// stack is one part.
func (m *Model) ByLayer() []Part {
	return m.parts(func(t Tensor) partKey { return partKey{t.Stack, t.Layer, ""} })
}

type partKey struct {
	stack, layer int32
	module       Module
}

// parts gathers the tensors of each key in the order of stack and layer, and of
// appearance.
func (m *Model) parts(key func(Tensor) partKey) []Part {
	var order []partKey
	tensors := map[partKey][]Tensor{}
	for _, t := range m.Tensors {
		if t.TiedTo != NotTied {
			continue
		}
		k := key(t)
		if tensors[k] == nil {
			order = append(order, k)
		}
		tensors[k] = append(tensors[k], t)
	}
	sorting.By(order, func(i, j int) int {
		a, b := order[i], order[j]
		return cmp.Or(cmp.Compare(a.stack, b.stack), cmp.Compare(a.layer, b.layer))
	})
	parts := make([]Part, len(order))
	for i, k := range order {
		parts[i] = m.part(k, tensors[k])
	}
	return parts
}

func (m *Model) part(k partKey, tensors []Tensor) Part {
	p := Part{Layer: int(k.layer), Module: k.module, Tensors: len(tensors)}
	if k.stack >= 0 && int(k.stack) < len(m.Stacks) {
		p.Stack, p.Kind = m.Stacks[k.stack].Name, m.Stacks[k.stack].Kind
	}
	// A part is what is there: what of the configuration is not understood
	// bears on the whole.
	whole := Model{Tensors: tensors, FormatOrigin: m.FormatOrigin, Listed: m.Listed}
	p.Parameters, p.Bytes = whole.Parameters(), whole.WeightsBytes()
	for f, n := range whole.Formats() {
		p.Formats = append(p.Formats, FormatBytes{f, n})
	}
	sorting.By(p.Formats, func(i, j int) int {
		a, b := p.Formats[i], p.Formats[j]
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Format, b.Format))
	})
	return p
}

// AddParts adds up the bytes of parts; false when one of them is not exact or
// the sum does not fit.
func AddParts(parts []Part) (int64, bool) {
	var sum int64
	for _, p := range parts {
		n, exact := p.Bytes.IsExact()
		if !exact {
			return 0, false
		}
		var fits bool
		if sum, fits = bytesize.Add(sum, n); !fits {
			return 0, false
		}
	}
	return sum, true
}
