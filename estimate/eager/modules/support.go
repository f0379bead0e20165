package modules

import (
	"fmt"

	"floodmark/model"
)

// softwareLacks is what of the model the software with modules of its own does not
// build of them.
func (n *Net) softwareLacks() string {
	switch n.o.Software {
	case LitGPT:
		return n.litgptLacks()
	case Timm:
		return n.timmLacks()
	case TorchTitan:
		return n.titanLacks()
	case Torchtune:
		return n.torchtuneLacks()
	}
	if n.model.Type == model.TimmVision {
		return "the modules of timm's models are timm's own: say so of the software (engine timm)"
	}
	return ""
}

// Unsupported is why the model has no program here, or "".
func (n *Net) Unsupported() string {
	if n.why != "" {
		return n.why
	}
	if len(n.stacks) == 0 {
		return "the model describes no layers"
	}
	if why := n.softwareLacks(); why != "" {
		return why
	}
	if n.o.Objective != nil {
		if why := n.objectiveLacks(); why != "" {
			return why
		}
	}
	if n.qwen() {
		if why := n.qwenLacks(); why != "" {
			return why
		}
	}
	for _, u := range n.model.Unknown {
		if !u.FormatOnly && !n.model.Listed {
			return "not understood of the model: " + u.Field
		}
	}
	for _, t := range n.model.Tensors {
		if size, known := t.Parameters(); !known || size <= 0 {
			return "the shape of " + t.Name + " is not known"
		}
	}
	if why := n.lacksFlash(); why != "" {
		return why
	}
	if why := n.lacksStacks(); why != "" {
		return why
	}
	for _, s := range n.stacks {
		if s.Kind == model.Predictor || n.sees() && tower(s.Kind) {
			continue // built for speculation alone, or idle where there are no pictures
		}
		for i := range s.layers {
			if s.layers[i].idle(s) {
				continue
			}
			if why := n.positionless(&s.layers[i]); why != "" {
				return why
			}
			if why := n.ungrouped(&s.layers[i]); why != "" {
				return why
			}
			if why := s.layers[i].unsupported(n.o.Reference); why != "" {
				return why
			}
		}
	}
	return ""
}

// lacksStacks is what of the stacks together, and of what stands around them, has no
// program.
func (n *Net) lacksStacks() string {
	switch {
	case n.relative(), n.vision(), n.o.Software == Timm:
	case n.encodesText():
		return n.lacksEncoding()
	case n.crosses():
		return n.lacksCrossing()
	case n.language().Kind != model.Decoder:
		return fmt.Sprintf("a stack of the kind %s has no program here", n.stacks[0].Kind)
	case n.sees():
		if !n.manner().Alone || n.o.Software != Transformers || n.o.Release != (Release{}) {
			return "how this class joins a decoder with towers has no program here"
		}
	case len(n.stacks) > 1 && n.stacks[1].Kind != model.Predictor:
		return "models of several stacks have no program here but T5"
	case !n.o.Stage && (!n.outside.has(model.RoleTokenEmbedding) || !n.outside.has(model.RoleHead)):
		return "a model without token embedding or head has no program here"
	}
	return ""
}

// positionless is a reason where positions come into attention in a way that no
// program here knows.
func (n *Net) positionless(l *layer) string {
	for _, mixer := range l.Mixers {
		a, ok := mixer.(model.Attention)
		if ok && a.Causal && a.RotaryDim == 0 && !n.outside.has(model.RolePositionEmbedding) && !n.relative() && !n.crosses() {
			return "attention without rotary, learned or relative positions has no program here"
		}
	}
	return ""
}

// lacksFlash is a reason where the package flash-attn was asked for and the class has no
// such attention, or none that has a program here.
func (n *Net) lacksFlash() string {
	if n.o.Attention != Flash2 {
		return ""
	}
	if n.olderThan(flashClass) {
		return fmt.Sprintf("the class has no flash-attn in transformers %d.%d", n.o.Release.Major, n.o.Release.Minor)
	}
	plain := n.o.Software == Transformers && len(n.stacks) == 1 && n.stacks[0].Kind == model.Decoder
	for _, l := range n.stacks[0].layers {
		for _, mixer := range l.Mixers {
			a, is := mixer.(model.Attention)
			plain = plain && is && a.SoftCap == 0 && !a.Sinks && a.KeyDim == a.ValueDim
		}
	}
	if !plain {
		return "flash-attn has a program for decoders of transformers alone, of plain attention; sdpa and eager have others"
	}
	return ""
}

// ungrouped is a reason where a layer has fewer heads of keys than of queries and the
// class does not know of such yet.
func (n *Net) ungrouped(l *layer) string {
	for _, mixer := range l.Mixers {
		if a, ok := mixer.(model.Attention); ok && a.KVHeads != a.QueryHeads && n.olderThan(groupedHeads) && !n.encodesText() {
			return fmt.Sprintf("the class has as many heads of keys as of queries in transformers %d.%d", n.o.Release.Major, n.o.Release.Minor)
		}
	}
	return ""
}

// unsupported is what a layer has no program for, or lacks.
func (l *layer) unsupported(reference bool) string {
	if len(l.Norms) == 0 || len(l.weights[model.RoleNorm]) < len(l.Norms) {
		return fmt.Sprintf("layer %d has no norms that a program here knows", l.Index)
	}
	if n := l.Norms[0]; n.Kind == model.LayerNorm && !n.Bias {
		return "layer norms without a bias have no program here: classes write them out in different ways"
	}
	for place, mixer := range l.Mixers {
		if why := l.lacks(place, mixer, reference); why != "" {
			return why
		}
	}
	switch f := l.FeedForward.(type) {
	case nil:
		return ""
	case model.Dense:
		return l.without(model.RoleDown, f.Gated && !l.has(model.RoleGateUp), model.RoleGate, model.RoleUp)
	case model.Experts:
		if !f.Gated || f.Bias != f.Alternating || f.Latent > 0 {
			return "routed experts without a gate, with biases or in a space of their own have no program here"
		}
		if f.Active < 1 || f.Active > f.Count {
			return "the configuration does not say how many experts a position uses"
		}
		if f.Shared > 0 && (!l.has(model.RoleSharedExpertGate) || !l.has(model.RoleSharedExpertUp) || !l.has(model.RoleSharedExpertDown)) {
			return "shared experts of this kind have no program here"
		}
		if gateUp, down := l.experts(); !gateUp.Defined() || !down.Defined() || !l.has(model.RoleRouter) || gateUp.Dims() != 3 || gateUp.Size(2) != down.Size(1) && !f.Alternating {
			return "experts that are stored in this way have no program here"
		}
		return ""
	}
	return "a feed-forward network of this kind has no program here"
}

// lacks is what a mixer has no program for, or lacks.
func (l *layer) lacks(place int, mixer model.Mixer, reference bool) string {
	switch a := mixer.(type) {
	case model.Attention:
		switch {
		case a.CacheOf >= 0 || a.Chunk > 0:
			return "attention that reads another layer's cache or within chunks has no program here"
		case a.Sinks && !l.has(model.RoleSinks):
			return "attention with sinks of this kind has no program here"
		case a.QueryHeads < 1 || a.KVHeads < 1 || a.QueryHeads%a.KVHeads != 0:
			return "the heads of attention do not share out"
		case a.QKNorm && (!l.has(model.RoleQueryNorm) || !l.has(model.RoleKeyNorm)):
			return "norms of queries and keys of this kind have no program here"
		case a.QKNorm && l.has(model.RoleQueryNorm) && !l.normsHeads(a):
			return "norms of queries and keys of this kind have no program here"
		case a.OutputGate && !a.QKNorm:
			return "a gate of the output without norms of queries has no program here"
		}
		if l.has(model.RoleQKV) {
			return l.without(model.RoleAttentionOutput, false)
		}
		for _, r := range []model.Role{model.RoleQuery, model.RoleKey, model.RoleValue, model.RoleAttentionOutput} {
			if len(l.weights[r]) <= place {
				return fmt.Sprintf("layer %d lacks a projection of attention", l.Index)
			}
		}
		return ""
	case model.LatentAttention:
		if a.Indexer != nil || a.CompressedEvery > 1 || a.Window > 0 {
			return "sparse latent attention has no program here"
		}
		if a.QueryRank > 0 && (!l.has(model.RoleQueryDown) || !l.has(model.RoleQueryUp) || len(l.weights[model.RoleLatentNorm]) < 2) {
			return fmt.Sprintf("layer %d lacks a projection of latent attention", l.Index)
		}
		for _, r := range []model.Role{model.RoleKVDown, model.RoleKVUp, model.RoleLatentNorm, model.RoleAttentionOutput} {
			if !l.has(r) {
				return fmt.Sprintf("layer %d lacks a projection of latent attention", l.Index)
			}
		}
		return ""
	}
	if a, ok := mixer.(model.Mamba); ok && a.Version == 2 && a.Chunk > 0 && l.has(model.RoleMixerNorm) &&
		len(l.weights[model.RoleMixerState]) == 3 && l.has(model.RoleMixerIn) && l.has(model.RoleMixerOut) && l.has(model.RoleMixerConv) {
		if !reference {
			return "what the kernels of mamba-ssm allocate is not described; without them (the reference path) there is a program"
		}
		return ""
	}
	return "a mixer of this kind has no program here"
}

// normsHeads reports norms of queries and keys over one head, or over all.
func (l *layer) normsHeads(a model.Attention) bool {
	q, k := l.one(model.RoleQueryNorm).Elements(), l.one(model.RoleKeyNorm).Elements()
	each := q == int64(a.KeyDim) && k == q
	all := q == int64(a.QueryHeads*a.KeyDim) && k == int64(a.KVHeads*a.KeyDim)
	return (each || all) && l.Norms[0].Kind == model.RMSNorm
}

// without is which of a network's weights the layer lacks.
func (l *layer) without(down model.Role, gated bool, rest ...model.Role) string {
	if gated && len(rest) > 0 && !l.has(rest[0]) {
		return fmt.Sprintf("layer %d lacks the gate of its network", l.Index)
	}
	if len(rest) > 1 && !l.has(model.RoleGateUp) && !l.has(rest[1]) || !l.has(down) {
		return fmt.Sprintf("layer %d lacks a projection", l.Index)
	}
	return ""
}
