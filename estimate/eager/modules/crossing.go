package modules

import (
	"slices"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// Crosses reports an encoder of words or of sound, and a decoder whose layers attend to
// it between their own attention and their network: BART and Whisper
// (https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/bart/modeling_bart.py,
// …/models/whisper/modeling_whisper.py).
func Crosses(m *model.Model) bool {
	if len(m.Stacks) != 2 || m.Stacks[1].Kind != model.Decoder || len(m.Stacks[1].Layers) == 0 || len(m.Stacks[0].Layers) == 0 ||
		m.Stacks[0].Kind != model.Encoder && m.Stacks[0].Kind != model.Audio {
		return false
	}
	mixers := m.Stacks[1].Layers[0].Mixers
	if len(mixers) != 2 || slices.ContainsFunc(m.Tensors, func(t model.Tensor) bool { return t.Role == model.RoleRelativeBias }) {
		return false
	}
	a, ok := mixers[1].(model.Attention)
	return ok && a.Cross
}

func (n *Net) crosses() bool { return n.across }

// Hears reports a model that reads sound.
func (n *Net) Hears() bool { return n.crosses() && n.stacks[0].Kind == model.Audio }

// lacksCrossing is what of an encoder and a decoder has no program.
func (n *Net) lacksCrossing() string {
	tables, filters := len(n.outside[model.RolePositionEmbedding]), len(n.outside[model.RolePatchEmbedding])
	norms := n.outside[model.RoleNorm]
	switch {
	case n.o.Software != Transformers || n.o.Release != (Release{}):
		return "encoders and decoders of other software than transformers 5 have no program here"
	case n.outside.has(model.RoleClassifier) || !n.outside.has(model.RoleHead) || n.olderThan(sharedAttention):
		return "an encoder and a decoder with another head than over words have no program here"
	case tables != 2 || n.Hears() != (filters == 4) || len(n.outside[model.RoleFinalNorm]) != 2 && len(norms) != 2:
		return "an encoder and a decoder whose embeddings are of this kind have no program here"
	}
	return ""
}

// Sounds makes a batch of spectrograms of the length that the encoder's positions are
// for: its second filter leaves out every other frame.
func (n *Net) Sounds(f dtype.Format, batch int64) torch.Tensor {
	frames := 2 * n.outside.at(model.RolePositionEmbedding, 0).weight.Size(0)
	return n.m.Input(f, batch, n.outside.at(model.RolePatchEmbedding, 0).weight.Size(1), frames)
}

// translated is the class with its head, whose decoder reads labels shifted to the
// right.
func (n *Net) translated(b Batch) (logits, loss torch.Tensor) {
	m := n.m
	f := m.Module("", &b.IDs, &b.Pixels)
	ids := b.DecoderIDs
	if b.Labels.Defined() {
		ids = f.Let(n.shiftedRight(b.Labels))
	}
	encoded := f.Let(n.aside(b))
	n.returnsEncoding(encoded)
	x := f.Let(n.crossing(ids, encoded))
	logits = f.Let(n.linear(n.outside.module("lm_head", model.RoleHead, model.RoleHeadBias), x))
	if bias := n.outside.one(model.RoleBuffer); bias.Defined() {
		f.Set(&logits, m.Binary(torch.Add, logits, bias))
	}
	m.AsLogits(logits)
	if b.Labels.Defined() {
		n.beforeLoss()
		loss = f.Let(m.CrossEntropy(m.Reshape(logits, -1, logits.Size(-1)), m.Reshape(b.Labels, -1)))
	}
	return f.Return2(logits, loss)
}

// aside is the encoder.
func (n *Net) aside(b Batch) torch.Tensor {
	m, s := n.m, n.stacks[0]
	f := m.Module("encoder", &b.IDs, &b.Pixels)
	var embeds torch.Tensor
	table := n.outside.at(model.RolePositionEmbedding, 0).weight
	var places torch.Tensor
	if n.Hears() {
		embeds = f.Let(n.filtered(b.Pixels))
		at := f.Let(m.Arange(table.Size(0)))
		places = m.Embedding(table, at)
	} else {
		embeds = f.Let(n.scaledWords(s, b.IDs))
		at := m.Expand(m.Unsqueeze(m.Arange(embeds.Size(1)), 0), embeds.Size(0), embeds.Size(1))
		places = f.Let(m.Embedding(table, m.Unary(torch.AddScalar, at)))
	}
	x := f.Let(m.Binary(torch.Add, embeds, places))
	return f.Return(n.ended(f, s, n.begun(f, s, x, 0), position{}, 0))
}

// filtered is two convolutions over a spectrogram, of which the second takes every
// other frame.
func (n *Net) filtered(sounds torch.Tensor) torch.Tensor {
	m := n.m
	f := m.Function(&sounds)
	x := f.Let(torch.Tensor{})
	for i, stride := range []int64{1, 2} {
		of := sounds
		if i > 0 {
			of = x
		}
		weight, bias := n.outside.at(model.RolePatchEmbedding, 2*i).weight, n.outside.at(model.RolePatchEmbedding, 2*i+1).weight
		f.Set(&x, m.Unary(torch.GELU, m.Convolution(of, weight, bias, []int64{stride}, []int64{1}, 1)))
	}
	return f.Return(m.Permute(x, 0, 2, 1))
}

// scaledWords is token embeddings, scaled where the class scales them, be it by one.
func (n *Net) scaledWords(s stack, ids torch.Tensor) torch.Tensor {
	f := n.m.Module("embed_tokens", &ids)
	x := n.m.Embedding(n.outside.one(model.RoleTokenEmbedding), ids)
	if s.Manner.ScaledEmbedding {
		x = n.m.Unary(torch.MulScalar, x)
	}
	return f.Return(x)
}

// crossing is the decoder.
func (n *Net) crossing(ids, encoded torch.Tensor) torch.Tensor {
	m, s := n.m, n.stacks[1]
	f := m.Module("decoder", &ids, &encoded)
	embeds := f.Let(n.scaledWords(s, ids))
	batch, length := embeds.Size(0), embeds.Size(1)
	table := n.outside.at(model.RolePositionEmbedding, 1).weight
	at := f.Let(m.Unary(torch.AddScalar, m.Arange(length)))
	p := position{encoded: encoded}
	var places torch.Tensor
	if n.Hears() {
		f.Set(&at, m.Contiguous(m.Expand(m.Unsqueeze(at, 0), batch, length)))
		places = f.Let(m.IndexRows(table, at))
	} else {
		places = f.Let(m.Embedding(table, m.Unsqueeze(m.Unary(torch.AddScalar, at), 0)))
	}
	if n.o.Attention == Eager {
		p.full = f.Let(n.mask(embeds, at, torch.Tensor{}, 0))
	}
	x := f.Let(m.Binary(torch.Add, embeds, places))
	return f.Return(n.ended(f, s, n.begun(f, s, x, 1), p, 1))
}

// begun normalises what goes into a stack, where it does, and drops of it.
func (n *Net) begun(f *torch.Frame, s stack, x torch.Tensor, at int) torch.Tensor {
	if w := n.outside.at(model.RoleNorm, at).weight; w.Defined() {
		f.Set(&x, n.norm("layernorm_embedding", s.layers[0].Norms[0], w, n.outside.at(model.RoleNormBias, at).weight, x))
	}
	f.Set(&x, n.dropped(x, s.Manner.Dropout.Residual))
	return x
}

// ended runs the layers, and the norm behind them.
func (n *Net) ended(f *torch.Frame, s stack, x torch.Tensor, p position, at int) torch.Tensor {
	for layers := range slices.Chunk(s.layers, n.segment()) {
		f.Set(&x, n.through(layers, x, p))
	}
	if w := n.outside.at(model.RoleFinalNorm, at).weight; w.Defined() {
		bias := n.outside[model.RoleNormBias]
		f.Set(&x, n.norm("layer_norm", s.layers[0].Norms[0], w, bias[len(bias)-2+at].weight, x))
	}
	return x
}

// inTurn is a layer of attention to the own stack, attention to the other where it has
// one, and a network: norms stand before each, or behind each sum.
func (n *Net) inTurn(f *torch.Frame, l *layer, x torch.Tensor, p position) torch.Tensor {
	m, before := n.m, l.Residual == model.PreNorm
	drop := n.stacks[1].Manner.Dropout
	residual := f.Let(torch.Tensor{})
	part := func(place int, run func(x torch.Tensor) torch.Tensor) {
		f.Set(&residual, x)
		if before {
			f.Set(&x, n.layerNorm(l, place, x))
		}
		f.Set(&x, n.dropped(run(x), drop.Residual))
		f.Set(&x, m.Binary(torch.Add, residual, x))
		if !before {
			f.Set(&x, n.layerNorm(l, place, x))
		}
	}
	for place, mixer := range l.Mixers {
		a, _ := mixer.(model.Attention)
		part(place, func(x torch.Tensor) torch.Tensor { return n.attention(l, a, x, p) })
	}
	part(len(l.Mixers), func(x torch.Tensor) torch.Tensor { return n.droppingInside(l, drop.FeedForward, x) })
	return x
}

// droppingInside is a network that drops of what its activation made.
func (n *Net) droppingInside(l *layer, drop float64, x torch.Tensor) torch.Tensor {
	d, dense := l.FeedForward.(model.Dense)
	if !dense || d.Gated {
		n.m.Unknown("an encoder and a decoder with networks of this kind have no program here")
		return x
	}
	f := n.m.Function(&x)
	f.Set(&x, n.activation(d.Activation, n.linear(l.linear("fc1", model.RoleUp, model.RoleUpBias, 0), x)))
	f.Set(&x, n.dropped(x, drop))
	f.Set(&x, n.linear(l.linear("fc2", model.RoleDown, model.RoleDownBias, 0), x))
	return f.Return(x)
}
