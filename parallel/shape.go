package parallel

import (
	"slices"

	"floodmark/model"
)

// side is which dimension of a matrix a rank has a part of.
type side uint8

const (
	everything side = iota // the rank holds all of it
	output                 // rows of [out, in]: column-parallel in Megatron's words
	input                  // columns of [out, in]: row-parallel
	unsure                 // engines differ, or the role does not say
)

// sideOf is how tensor parallelism divides a role's tensors. A bias of a
// row-parallel layer is whole, for it is added after the sum over ranks.
func sideOf(r model.Role) side {
	switch r {
	case model.RoleTokenEmbedding, model.RolePerLayerEmbedding, model.RoleHead, model.RoleHeadBias,
		model.RoleQuery, model.RoleKey, model.RoleValue, model.RoleQKV, model.RoleQueryBias, model.RoleKeyBias, model.RoleValueBias, model.RoleQKVBias,
		model.RoleSinks, model.RoleAttentionGate, model.RoleQueryUp, model.RoleKVUp, model.RoleQueryNorm, model.RoleKeyNorm,
		model.RoleMixerIn, model.RoleMixerConv, model.RoleMixerState, model.RoleMixerNorm, model.RoleMixerGate,
		model.RoleGate, model.RoleUp, model.RoleGateUp, model.RoleGateBias, model.RoleUpBias, model.RoleGateUpBias,
		model.RoleExpertGate, model.RoleExpertUp, model.RoleExpertGateUp, model.RoleExpertGateUpBias,
		model.RoleSharedExpertGate, model.RoleSharedExpertUp:
		return output
	case model.RoleAttentionOutput, model.RoleMixerOut, model.RoleDown, model.RoleExpertDown, model.RoleSharedExpertDown:
		return input
	case model.RoleOther, model.RoleClassifier, model.RoleProjector, model.RoleRelativeBias, model.RoleScale, model.RoleZeroPoint, model.RoleQuantised:
		return unsure
	}
	return everything
}

func vocabularyRole(r model.Role) bool {
	switch r {
	case model.RoleTokenEmbedding, model.RolePerLayerEmbedding, model.RoleHead, model.RoleHeadBias:
		return true
	}
	return false
}

// shape is a rank's part of a tensor; false when the role does not tell it.
func (d *divider) shape(t model.Tensor) ([]int64, bool) {
	at := sideOf(t.Role)
	if vocabularyRole(t.Role) && len(t.Shape) > 0 && t.Packed == nil {
		shape := slices.Clone(t.Shape)
		shape[0] = d.rules.vocabulary(shape[0], d.share.tensor) / int64(d.share.tensor)
		return shape, true
	}
	replicated := t.Role == model.RoleProjector && slices.Contains(d.rules.WholeProjectors, d.m.Type)
	switch {
	case replicated || at == everything && t.Role != model.RoleExpertDownBias || d.share == (shares{1, 1, 1}):
		return t.Shape, true
	case at == unsure || vocabularyRole(t.Role):
		return nil, false
	}
	if t.Stack < 0 || int(t.Stack) >= len(d.m.Stacks) || t.Layer < 0 {
		return nil, false
	}
	whole := d.layer(t)
	part := localLayer(d.m.Stacks[t.Stack].Kind, whole, d.share)
	shape := slices.Clone(t.Shape)
	if t.Role == model.RoleQueryNorm || t.Role == model.RoleKeyNorm {
		return shape, cutNorm(shape, t.Role, whole, part)
	}
	if expertRole(t.Role) {
		stacked := 3
		if biasOfExperts(t.Role) {
			stacked = 2
		}
		if len(shape) == stacked {
			shape[0] /= int64(d.share.expert)
		}
		if t.Role == model.RoleExpertDownBias {
			return shape, true
		}
	}
	return shape, cut(shape, at, t.Role, widths(t.Role, whole), widths(t.Role, part))
}

// cut replaces one dimension of a shape by the rank's part of it: the first
// that is exactly, or else a multiple of, a width of the role. The dimension
// where the role's side puts it is tried first, then the other: families store
// matrices either way.
func cut(shape []int64, at side, role model.Role, whole, part []int64) bool {
	order := []int{len(shape) - 2, len(shape) - 1}
	switch {
	case len(shape) < 2 || role == model.RoleMixerConv || role == model.RoleMixerState:
		order = []int{0}
	case at == input:
		slices.Reverse(order)
	}
	for _, exact := range []bool{true, false} {
		if role == model.RoleMixerNorm && !exact {
			break // a norm of one head's width is no multiple of anything
		}
		for _, dim := range order {
			if dim < 0 || dim >= len(shape) {
				continue
			}
			for i, w := range whole {
				if w > 0 && (shape[dim] == w || !exact && shape[dim]%w == 0) {
					shape[dim] = shape[dim] / w * part[i]
					return true
				}
			}
		}
	}
	return keeps(role)
}

// cutNorm divides a norm that has a weight for each head, [heads, width] or all
// in one row; a norm that all heads share is whole.
func cutNorm(shape []int64, r model.Role, whole, part model.Layer) bool {
	for i, m := range whole.Mixers {
		a, ok := m.(model.Attention)
		if !ok {
			continue
		}
		b := part.Mixers[i].(model.Attention)
		heads, mine := int64(a.QueryHeads), int64(b.QueryHeads)
		if r == model.RoleKeyNorm {
			heads, mine = int64(a.KVHeads), int64(b.KVHeads)
		}
		switch {
		case heads == 0 || len(shape) == 0:
		case len(shape) == 2 && shape[0] == heads:
			shape[0] = mine
			return true
		case len(shape) == 1 && shape[0] == heads*int64(a.KeyDim):
			shape[0] = mine * int64(a.KeyDim)
			return true
		}
	}
	return true
}

// keeps reports the roles of which some families have tensors that no head
// owns: a norm of one head's width, a gate for the whole layer, the biases of
// latent attention's down-projections.
func keeps(r model.Role) bool {
	switch r {
	case model.RoleAttentionGate, model.RoleMixerNorm, model.RoleKeyBias, model.RoleQueryBias:
		return true
	}
	return false
}

// widths is the sizes that the divided dimension of a role can have in a
// layer, in the same order for the layer and for a rank's part of it.
func widths(r model.Role, l model.Layer) []int64 {
	var list []int64
	for _, m := range l.Mixers {
		list = append(list, mixerWidths(r, m)...)
	}
	switch f := l.FeedForward.(type) {
	case model.Dense:
		switch r {
		case model.RoleGate, model.RoleUp, model.RoleGateUp, model.RoleDown, model.RoleGateBias, model.RoleUpBias, model.RoleGateUpBias:
			list = append(list, int64(f.Width))
		}
	case model.Experts:
		switch r {
		case model.RoleExpertGate, model.RoleExpertUp, model.RoleExpertGateUp, model.RoleExpertDown, model.RoleExpertGateUpBias:
			list = append(list, int64(f.Width))
		case model.RoleSharedExpertGate, model.RoleSharedExpertUp, model.RoleSharedExpertDown:
			list = append(list, int64(f.SharedWidth))
		}
	}
	return list
}

func mixerWidths(r model.Role, m model.Mixer) []int64 {
	switch a := m.(type) {
	case model.Attention:
		return attentionWidths(r, a)
	case model.LatentAttention:
		heads := int64(a.QueryHeads)
		switch r {
		case model.RoleQuery, model.RoleQueryUp:
			return []int64{heads * int64(a.NopeDim+a.RopeDim)}
		case model.RoleKVUp:
			return []int64{heads * int64(a.NopeDim+a.ValueDim)}
		case model.RoleAttentionOutput, model.RoleAttentionGate:
			return []int64{heads * int64(a.ValueDim)}
		}
	case model.Mamba:
		return mambaWidths(r, a)
	case model.GatedDelta:
		return deltaWidths(r, a)
	case model.LinearAttention:
		return linearWidths(r, a)
	case model.ShortConv:
		return []int64{int64(a.Width)}
	}
	return nil
}

func attentionWidths(r model.Role, a model.Attention) []int64 {
	q, k, v := int64(a.QueryHeads)*int64(a.KeyDim), int64(a.KVHeads)*int64(a.KeyDim), int64(a.KVHeads)*int64(a.ValueDim)
	switch r {
	case model.RoleQuery, model.RoleQueryBias:
		return []int64{q}
	case model.RoleKey, model.RoleKeyBias:
		return []int64{k}
	case model.RoleValue, model.RoleValueBias:
		return []int64{v}
	case model.RoleQKV, model.RoleQKVBias:
		return []int64{q + k + v, 2*q + k + v}
	case model.RoleAttentionOutput:
		return []int64{int64(a.QueryHeads) * int64(a.ValueDim)}
	case model.RoleSinks, model.RoleAttentionGate:
		return []int64{int64(a.QueryHeads)}
	}
	return nil
}

// mambaWidths: the projections of version 1 that mix the state (x_proj) take
// the inner stream in, all others make a multiple of it.
func mambaWidths(r model.Role, m model.Mamba) []int64 {
	inner, heads := int64(m.Inner), int64(m.Heads)
	state := 2 * int64(m.Groups) * int64(m.State)
	if m.Version == 1 {
		return []int64{inner}
	}
	switch r {
	case model.RoleMixerIn:
		return []int64{2*inner + state + heads}
	case model.RoleMixerConv:
		return []int64{inner + state}
	case model.RoleMixerState:
		return []int64{heads}
	}
	return []int64{inner}
}

func deltaWidths(r model.Role, d model.GatedDelta) []int64 {
	keys, values, heads := int64(d.KeyHeads)*int64(d.KeyDim), int64(d.ValueHeads)*int64(d.ValueDim), int64(d.ValueHeads)
	switch r {
	case model.RoleMixerIn:
		return []int64{2*keys + 2*values, 2*keys + values, values}
	case model.RoleMixerConv:
		return []int64{2*keys + values}
	case model.RoleMixerState, model.RoleMixerGate:
		return []int64{heads}
	case model.RoleMixerOut:
		return []int64{values}
	}
	return nil
}

func linearWidths(r model.Role, a model.LinearAttention) []int64 {
	keys, values := int64(a.Heads)*int64(a.KeyDim), int64(a.Heads)*int64(a.ValueDim)
	if r == model.RoleQKV {
		return []int64{2*keys + values}
	}
	return []int64{values, keys}
}
