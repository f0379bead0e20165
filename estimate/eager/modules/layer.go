package modules

import (
	"floodmark/internal/torch"
	"floodmark/model"
)

// segment is how many layers run at once: where they are computed again in
// backward, those that are so together.
func (n *Net) segment() int {
	if n.recomputes() {
		return max(n.o.Segment, 1)
	}
	return 1
}

// drops reports that dropout is on. TRL's trainers switch it off
// (disable_dropout_in_model, by default).
func (n *Net) drops() bool { return n.o.Training && n.o.Objective == nil }

func (n *Net) recomputes() bool { return n.o.Checkpointing && n.o.Training }

// through runs layers one after another, computed again in backward where that is
// asked for. What all layers share is among the arguments then: the checkpoint
// keeps it. Who is told of a layer stands around its checkpoint, as transformers
// and accelerate have it; of several that are computed again together, each is met
// within it.
func (n *Net) through(layers []layer, x torch.Tensor, p position) torch.Tensor {
	if n.segment() > 1 {
		return n.recomputed(layers, x, p)
	}
	n.before(&layers[0], x)
	out := n.recomputed(layers, x, p)
	n.after(&layers[0], out)
	return out
}

// before tells that a layer begins.
func (n *Net) before(l *layer, x torch.Tensor) {
	n.enters(l.Index, x)
}

// after tells that a layer has ended.
func (n *Net) after(l *layer, out torch.Tensor) {
	n.leaves(l.Index, out)
}

// enters tells that a part begins.
func (n *Net) enters(part int, x torch.Tensor) {
	if n.o.Around != nil {
		n.o.Around.Before(part, x)
	}
}

// leaves tells that a part has ended.
func (n *Net) leaves(part int, out torch.Tensor) {
	if n.o.Around != nil {
		n.o.Around.After(part, out)
	}
}

// recomputed runs layers, as a checkpoint where that is asked for.
func (n *Net) recomputed(layers []layer, x torch.Tensor, p position) torch.Tensor {
	if !n.recomputes() {
		return n.sequence(layers, x, p)
	}
	p = p.usedBy(layers)
	args := []torch.Tensor{x}
	for _, shared := range p.list() {
		if shared.Defined() {
			args = append(args, *shared)
		}
	}
	return n.m.Checkpoint(n.o.Reentrant, func(args []torch.Tensor) torch.Tensor {
		own, next := p, 1
		for _, shared := range own.list() {
			if shared.Defined() {
				*shared = args[next]
				next++
			}
		}
		return n.sequence(layers, args[0], own)
	}, args...)
}

// sequence runs layers one after another.
func (n *Net) sequence(layers []layer, x torch.Tensor, p position) torch.Tensor {
	if n.segment() == 1 {
		return n.joinedBy(&layers[0], x, p)
	}
	f := n.m.Function(&x)
	for i := range layers {
		n.before(&layers[i], x)
		made := n.joinedBy(&layers[i], x, p)
		n.after(&layers[i], made)
		f.Set(&x, made)
	}
	return f.Return(x)
}

// usedBy is what of the shared tensors layers are given: each its own mask and
// tables.
func (p position) usedBy(layers []layer) position {
	var full, window bool
	for _, l := range layers {
		for _, mixer := range l.Mixers {
			a, plain := mixer.(model.Attention)
			window = window || plain && a.Window > 0
			full = full || !plain || a.Window == 0
		}
	}
	if !window {
		p.window, p.localCos, p.localSin = torch.Tensor{}, torch.Tensor{}, torch.Tensor{}
	}
	if !full {
		p.full = torch.Tensor{}
		if p.localCos.Defined() {
			p.cos, p.sin = torch.Tensor{}, torch.Tensor{}
		}
	}
	return p
}

// list is what layers share, in the order in which they are given it.
func (p *position) list() []*torch.Tensor {
	return []*torch.Tensor{&p.encoded, &p.full, &p.window, &p.cos, &p.sin, &p.localCos, &p.localSin, &p.ids}
}

// joinedBy runs a layer by how its parts are joined.
func (n *Net) joinedBy(l *layer, x torch.Tensor, p position) torch.Tensor {
	if n.qwen() {
		return n.qwenBlock(l, x, p)
	}
	f := n.m.Module("layers", &x)
	switch {
	case n.crosses():
		return f.Return(n.inTurn(f, l, x, p))
	case len(l.Mixers) != 1:
		n.m.Unknown("a layer with other than one mixer has no program here")
		return f.Return(x)
	case n.encodesText() && l.normsBehind():
		return f.Return(n.behind(f, l, x, p))
	case l.Residual == model.PreNorm && len(l.Norms) == 2 && l.FeedForward != nil:
		return f.Return(n.preNorm(f, l, x, p))
	case l.Residual == model.PostNorm && len(l.Norms) == 2 && l.Norms[0].Kind == model.RMSNorm && l.FeedForward != nil:
		return f.Return(n.postNorm(f, l, x, p))
	case l.Residual == model.Sandwich && len(l.Norms) == 4 && l.FeedForward != nil:
		return f.Return(n.sandwich(f, l, x, p))
	}
	switch {
	case l.Residual == model.Parallel && (len(l.Norms) == 1 || len(l.Norms) == 2) && l.FeedForward != nil:
		return f.Return(n.parallel(f, l, x, p))
	case l.Residual == model.PreNorm && len(l.Norms) == 1 && l.FeedForward == nil:
		return f.Return(n.alone(f, l, x, p))
	}
	n.m.Unknown("a layer joined as " + string(l.Residual) + " has no program here")
	return f.Return(x)
}

// preNorm is x + f(norm(x)), twice.
func (n *Net) preNorm(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	residual := f.Let(x)
	f.Set(&x, n.layerNorm(l, 0, x))
	if l.has(model.RoleLayerScale) {
		return n.scaledParts(f, l, x, residual, p)
	}
	if l.transposed { // GPT-2's block has a name for what attention made, which lasts
		attended := f.Let(n.mixer(l, x, p))
		f.Set(&attended, n.dropped(attended, n.manner().Dropout.Residual))
		f.Set(&x, n.m.Binary(torch.Add, attended, residual))
	} else {
		f.Set(&x, n.mixer(l, x, p))
		f.Set(&x, n.dropped(x, n.manner().Dropout.Residual))
		f.Set(&x, n.m.Binary(torch.Add, residual, n.scaledResidual(x)))
	}
	f.Set(&residual, x)
	f.Set(&x, n.layerNorm(l, 1, x))
	f.Set(&x, n.feedForward(l, x))
	f.Set(&x, n.dropped(x, n.manner().Dropout.Residual))
	f.Set(&x, n.m.Binary(torch.Add, residual, n.scaledResidual(x)))
	return x
}

// scaledParts is x + scale·f(norm(x)), twice, where the layer has weights that
// scale what joins the stream
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/dinov2/modeling_dinov2.py).
func (n *Net) scaledParts(f *torch.Frame, l *layer, x, residual torch.Tensor, p position) torch.Tensor {
	f.Set(&x, n.mixer(l, x, p))
	f.Set(&x, n.layerScale(l, 0, x))
	f.Set(&x, n.m.Binary(torch.Add, x, residual))
	f.Set(&residual, x)
	f.Set(&x, n.layerNorm(l, 1, x))
	f.Set(&x, n.feedForward(l, x))
	f.Set(&x, n.layerScale(l, 1, x))
	f.Set(&x, n.m.Binary(torch.Add, x, residual))
	return x
}

func (n *Net) layerScale(l *layer, place int, x torch.Tensor) torch.Tensor {
	f := n.m.Module("layer_scale", &x)
	return f.Return(n.m.Binary(torch.Mul, x, l.at(model.RoleLayerScale, place).weight))
}

// scaledResidual is what joins the stream, times a number where the class has one.
func (n *Net) scaledResidual(x torch.Tensor) torch.Tensor {
	if !n.manner().ScaledResidual {
		return x
	}
	return n.m.Unary(torch.MulScalar, x)
}

// postNorm is x + norm(f(x)), twice, as OLMo 2 has it
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/olmo2/modeling_olmo2.py).
func (n *Net) postNorm(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	residual := f.Let(x)
	f.Set(&x, n.mixer(l, x, p))
	f.Set(&x, n.layerNorm(l, 0, x))
	f.Set(&x, n.m.Binary(torch.Add, residual, x))
	f.Set(&residual, x)
	f.Set(&x, n.feedForward(l, x))
	f.Set(&x, n.layerNorm(l, 1, x))
	f.Set(&x, n.m.Binary(torch.Add, residual, x))
	return x
}

// sandwich is x + norm(f(norm(x))), twice.
func (n *Net) sandwich(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	residual := f.Let(x)
	f.Set(&x, n.layerNorm(l, 0, x))
	f.Set(&x, n.mixer(l, x, p))
	f.Set(&x, n.layerNorm(l, 1, x))
	f.Set(&x, n.m.Binary(torch.Add, residual, x))
	f.Set(&residual, x)
	f.Set(&x, n.layerNorm(l, 2, x))
	f.Set(&x, n.feedForward(l, x))
	f.Set(&x, n.layerNorm(l, 3, x))
	f.Set(&x, n.m.Binary(torch.Add, residual, x))
	return x
}

// parallel is x + attention(norm(x)) + network(norm(x)), of one norm or of two.
func (n *Net) parallel(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	residual := f.Let(x)
	f.Set(&x, n.layerNorm(l, 0, x))
	attended := f.Let(n.mixer(l, x, p))
	f.Set(&attended, n.dropped(attended, n.manner().Dropout.Residual))
	if len(l.Norms) == 2 {
		f.Set(&x, n.layerNorm(l, 1, residual))
	}
	made := f.Let(n.feedForward(l, x))
	f.Set(&made, n.dropped(made, n.manner().Dropout.Residual))
	return n.m.Binary(torch.Add, n.m.Binary(torch.Add, attended, made), residual)
}

// alone is x + mixer(norm(x)): a layer without a network.
func (n *Net) alone(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	residual := f.Let(x)
	f.Set(&x, n.layerNorm(l, 0, x))
	f.Set(&x, n.mixer(l, x, p))
	return n.m.Binary(torch.Add, residual, x)
}

func (n *Net) layerNorm(l *layer, place int, x torch.Tensor) torch.Tensor {
	return n.norm("norm", l.Norms[place], l.at(model.RoleNorm, place).weight, l.at(model.RoleNormBias, place).weight, x)
}

// mixer runs what moves information between positions.
func (n *Net) mixer(l *layer, x torch.Tensor, p position) torch.Tensor {
	switch a := l.Mixers[0].(type) {
	case model.Attention:
		return n.attention(l, a, x, p)
	case model.LatentAttention:
		return n.latent(l, a, x, p)
	case model.Mamba:
		return n.scan(l, a, x)
	}
	n.m.Unknown("a mixer of this kind has no program here")
	return x
}

// feedForward runs what a layer does to each position alone.
func (n *Net) feedForward(l *layer, x torch.Tensor) torch.Tensor {
	switch d := l.FeedForward.(type) {
	case model.Dense:
		return n.dense(l, d, x)
	case model.Experts:
		return n.mixture(l, d, x)
	}
	n.m.Unknown("a feed-forward network of this kind has no program here")
	return x
}
