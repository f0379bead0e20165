package vllm

import (
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/state"
	"floodmark/model"
	"floodmark/parallel"
)

// kind is what decides how a layer's cache is paged.
type kind int

const (
	full kind = iota
	window
	chunk
	recurrent
	encoder // cross-attention
)

// spec is the cache of layers that are paged alike (KVCacheSpec of
// vllm/v1/kv_cache_interface.py).
type spec struct {
	kind     kind
	span     int64 // positions of a window or chunk
	perToken int64 // bytes of one position in one layer; of a state, all its bytes
	block    int64 // positions of one block
	page     int64 // bytes of one block in one layer
}

// cacheOptions are how this engine keeps what it caches. Where layers choose what
// they attend to, 8 bits mean a layout of its own
// (DeepseekV32ForCausalLM of vllm/model_executor/models/config.py). Worked number:
// 656 bytes a position and layer, and 132 of the indexer.
func (o *options) cacheOptions(in estimate.Input) state.Options {
	s := state.Options{Compute: o.compute, Keys: in.Workload.Precision.Cache}
	if o.PackedLatent || s.Keys == dtype.F8E4M3 && chooses(in.Model) {
		s.Layout = state.FP8Latent
	}
	return s
}

// chooses reports latent attention with an indexer.
func chooses(m *model.Model) bool {
	return slices.ContainsFunc(m.Stacks, func(s model.Stack) bool {
		return slices.ContainsFunc(s.Layers, func(l model.Layer) bool {
			return slices.ContainsFunc(l.Mixers, func(x model.Mixer) bool {
				a, is := x.(model.LatentAttention)
				return is && a.Indexer != nil
			})
		})
	})
}

// specs is the cache of each layer of a plan that has one, in the order of
// layers. A figure that is not exact is an error in a sentence: pages are
// counted, not bounded.
func (o *options) specs(in estimate.Input, plan parallel.RankPlan) (list []spec, unknown string) {
	options := o.cacheOptions(in)
	for _, ref := range plan.Layers {
		one := plan
		one.Layers = []parallel.LayerRef{ref}
		stack := in.Model.Stacks[ref.Stack].Kind
		for _, m := range plan.Layer(in.Model, ref).Mixers {
			s, has, why := o.spec(in, one, options, m, stack)
			if why != "" {
				return nil, why
			}
			if has {
				list = append(list, s)
			}
		}
	}
	return list, ""
}

// spec is the cache of one mixer of a plan of one layer.
func (o *options) spec(in estimate.Input, one parallel.RankPlan, options state.Options, m model.Mixer, stack model.StackKind) (s spec, has bool, unknown string) {
	s = spec{kind: full, block: o.Block}
	switch a := m.(type) {
	case model.Attention:
		switch {
		case a.Cross:
			s.kind = encoder
			if n, known := in.Workload.Dimension("encoder_length"); known {
				s.span = n
			} else {
				return s, false, "the workload does not say how many positions cross-attention reads (encoder_length of an input: of an image of Llama 3.2 up to 4 × 1,601)"
			}
		case a.CacheOf >= 0 || !a.Causal && stack != model.Decoder:
			return s, false, ""
		case o.groups.together && (a.Window > 0 || a.Chunk > 0) && o.mixed(in.Model):
		case a.Window > 0:
			s.kind, s.span = window, int64(a.Window)
		case a.Chunk > 0:
			s.kind, s.span = chunk, int64(a.Chunk)
		}
	case model.LatentAttention:
	case nil:
		return s, false, ""
	default:
		s.kind = recurrent
		bytes, exact := state.Of(in.Model, one, options, state.Lengths{Sequences: 1}).Recurrent.IsExact()
		if !exact {
			options.Recurrent = o.compute
			if bytes, exact = state.Of(in.Model, one, options, state.Lengths{Sequences: 1}).Recurrent.IsExact(); !exact {
				return s, false, "the state that a recurrent layer keeps is not known to the byte"
			}
		}
		s.perToken = bytes + o.guessed(m)
		return s, s.perToken > 0, ""
	}
	f := state.PerPosition(in.Model, one, options)
	bytes, exact := f.IsExact()
	if !exact {
		return s, false, f.Reason()
	}
	s.perToken = bytes
	return s, bytes > 0, ""
}

// guessed is what the convolution of a gated delta layer keeps more for each
// token that is guessed ahead.
func (o *options) guessed(m model.Mixer) int64 {
	d, is := m.(model.GatedDelta)
	if !is {
		return 0
	}
	return o.Speculative * o.width * int64(2*d.KeyHeads*d.KeyDim+d.ValueHeads*d.ValueDim)
}

// mixed reports a model whose layers differ in what they keep.
func (o *options) mixed(m *model.Model) bool {
	seen := map[[2]int]bool{}
	for _, s := range m.Stacks {
		if s.Kind != model.Decoder {
			continue
		}
		for _, l := range s.Layers {
			for _, mixer := range l.Mixers {
				if a, is := mixer.(model.Attention); is && !a.Cross {
					seen[[2]int{a.Window, a.Chunk}] = true
				}
			}
		}
	}
	return len(seen) > 1
}

// paged gives the layers their blocks. Beside recurrent states, a block of
// attention is made so long that it takes as much as a state, in steps of 16
// positions, 64 for latent attention; states are padded to it
// (HybridAttentionMambaModelConfig of vllm/model_executor/models/config.py). Where
// pages still differ, blocks of smaller ones are made longer.
func paged(list []spec, latent bool) (out []spec, unknown string) {
	var states, tokens int64
	for _, s := range list {
		if s.kind == recurrent {
			states = max(states, s.perToken)
		} else {
			tokens = max(tokens, s.perToken)
		}
	}
	step := int64(16)
	if latent {
		step = 64
	}
	for _, s := range list {
		if s.kind == recurrent {
			s.page = s.perToken
			if tokens > 0 {
				s.page = hybridBlock(s.block, step, states, tokens) * tokens
			}
			s.block = 0
			out = append(out, s)
			continue
		}
		if states > 0 {
			s.block = hybridBlock(s.block, step, states, tokens)
		}
		s.page = s.block * s.perToken
		out = append(out, s)
	}
	return out, ""
}

// hybridBlock is the positions of a block that takes as much as a state.
func hybridBlock(block, step, state, perToken int64) int64 {
	return max(block, step*bytesize.CeilDiv(state, step*perToken))
}

// perRequest is how many blocks of its kind one request takes at a length, at
// most.
func (s spec) perRequest(o *options, length int64) int64 {
	context := int64(max(1, o.DecodeContext))
	switch s.kind {
	case window:
		return bytesize.CeilDiv(min(s.span-1+o.BatchedTokens, length), s.block) + 1
	case chunk:
		return bytesize.CeilDiv(min(s.span+o.BatchedTokens, length), s.block)
	case encoder:
		return bytesize.CeilDiv(s.span, s.block)
	case recurrent:
		if o.PrefixCaching != nil && *o.PrefixCaching {
			return 2 + o.Speculative
		}
		return 1 + o.Speculative
	}
	return bytesize.CeilDiv(bytesize.CeilDiv(length, context), s.block)
}

func provenance(formula, source string, scope account.Scope) account.Provenance {
	return account.Provenance{Origin: account.Calculated, Scope: scope, Counter: formula, Source: source}
}
