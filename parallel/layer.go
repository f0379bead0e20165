package parallel

import (
	"floodmark/model"
	"floodmark/workload"
)

// shares is by how much one rank's part of a layer is smaller.
type shares struct {
	tensor, expert int
	expertTensor   int // by how much each routed expert is
}

func (r Rules) shares(mesh workload.Mesh) shares {
	s := shares{tensor: mesh.TensorParallel, expert: mesh.ExpertParallel, expertTensor: mesh.TensorParallel}
	if s.expert > 1 && !r.ExpertTensor {
		s.expertTensor = 1
	}
	return s
}

// atLeastOne is the shares of a plan that nobody divided: everything.
func (s shares) atLeastOne() shares {
	return shares{max(1, s.tensor), max(1, s.expert), max(1, s.expertTensor)}
}

// tower reports a stack beside the text. One whose heads do not divide is
// whole on every rank; the text must divide.
func tower(k model.StackKind) bool { return k == model.Vision || k == model.Audio }

// localLayer is what one rank runs of a layer.
func localLayer(kind model.StackKind, l model.Layer, s shares) model.Layer {
	if tower(kind) && checkLayer(l, s) != nil {
		return l
	}
	local := l
	local.Mixers = make([]model.Mixer, len(l.Mixers))
	for i, m := range l.Mixers {
		local.Mixers[i] = localMixer(m, s.tensor)
	}
	switch f := l.FeedForward.(type) {
	case model.Dense:
		f.Width /= s.tensor
		local.FeedForward = f
	case model.Experts:
		f.Count /= s.expert
		f.Width /= s.expertTensor
		f.SharedWidth /= s.tensor
		local.FeedForward = f
	}
	return local
}

// localMixer is a mixer with one rank's share of the heads. Latent attention
// shares its one compressed vector among all heads, so that does not shrink.
func localMixer(m model.Mixer, tensor int) model.Mixer {
	switch a := m.(type) {
	case model.Attention:
		a.QueryHeads /= tensor
		a.KVHeads = fewer(a.KVHeads, tensor)
		return a
	case model.LatentAttention:
		a.QueryHeads /= tensor
		return a
	case model.Mamba:
		a.Inner /= tensor
		a.Heads /= tensor
		a.Groups = fewer(a.Groups, tensor)
		return a
	case model.GatedDelta:
		a.KeyHeads /= tensor
		a.ValueHeads /= tensor
		return a
	case model.LinearAttention:
		a.Heads /= tensor
		return a
	case model.ShortConv:
		a.Width /= tensor
		return a
	}
	return m
}

// fewer divides heads of which there may be fewer than ranks: then each rank
// holds one, and several hold the same. Worked number: 8 heads over 16 ranks
// are one each.
func fewer(heads, ranks int) int {
	if heads == 0 {
		return 0
	}
	return max(1, heads/ranks)
}

// checkLayer says which rule a layer breaks.
func checkLayer(l model.Layer, s shares) error {
	for _, m := range l.Mixers {
		if err := checkMixer(m, s.tensor); err != nil {
			return err
		}
	}
	switch f := l.FeedForward.(type) {
	case model.Dense:
		return whole(f.Width, s.tensor, "a feed-forward width")
	case model.Experts:
		if f.Count%s.expert != 0 {
			return notSupported("%d experts are not a multiple of %d expert-parallel ranks", f.Count, s.expert)
		}
		if err := whole(f.Width, s.expertTensor, "the width of an expert"); err != nil {
			return err
		}
		return whole(f.SharedWidth, s.tensor, "the width of the shared experts")
	}
	return nil
}

func checkMixer(m model.Mixer, tensor int) error {
	switch a := m.(type) {
	case model.Attention:
		if err := whole(a.QueryHeads, tensor, "query heads"); err != nil {
			return err
		}
		if a.KVHeads%tensor != 0 && (a.KVHeads == 0 || tensor%a.KVHeads != 0) {
			return notSupported("%d KV heads and %d tensor-parallel ranks: one must be a multiple of the other", a.KVHeads, tensor)
		}
	case model.LatentAttention:
		return whole(a.QueryHeads, tensor, "query heads")
	case model.Mamba:
		if a.Version == 1 {
			return whole(a.Inner, tensor, "the inner width of a Mamba mixer")
		}
		if a.Groups > 0 && a.Groups%tensor != 0 && tensor%a.Groups != 0 {
			return notSupported("%d groups of a Mamba mixer and %d tensor-parallel ranks: one must be a multiple of the other", a.Groups, tensor)
		}
		return whole(a.Heads, tensor, "heads of a Mamba mixer")
	case model.GatedDelta:
		if err := whole(a.KeyHeads, tensor, "key heads of a gated delta rule"); err != nil {
			return err
		}
		return whole(a.ValueHeads, tensor, "value heads of a gated delta rule")
	case model.LinearAttention:
		return whole(a.Heads, tensor, "heads of linear attention")
	case model.ShortConv:
		return whole(a.Width, tensor, "the width of a short convolution")
	}
	return nil
}

func whole(n, tensor int, what string) error {
	if n%tensor != 0 {
		return notSupported("%s: %d is not a multiple of %d tensor-parallel ranks", what, n, tensor)
	}
	return nil
}
