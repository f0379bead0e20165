package hfmodel

import (
	"strconv"

	"floodmark/model"
)

// decode builds a stack of decoder layers with its embedding, final norm and
// head.
func (b *builder) decode(s section, d *decoder, prefix, use string) {
	d.slot = d.names.table()
	n := d.slot
	hidden, vocab := s.need(keyHidden), s.need(keyVocab)
	count := b.layers(s, keyLayers)
	b.model.Vocab = int(vocab)
	b.model.MaxPosition = int(s.or(keyPositions, 0))
	out := b.outside(prefix)
	table := out.add(model.RoleTokenEmbedding, embedding, n["embed"]+".weight", vocab, hidden)
	if n["positions"] != "" {
		out.add(model.RolePositionEmbedding, embedding, n["positions"]+".weight", s.need(keyPositions)+d.positions, hidden)
	}
	final := d.residualNorm(s, hidden)
	if n["embed_norm"] != "" {
		out.norm(model.RoleNorm, n["embed_norm"], final)
	}
	stack := b.stackOf(prefix+n["layers"], model.Decoder, hidden, count)
	for i, planned := range s.plan(d, count) {
		if b.err != nil {
			return
		}
		c := scope{builder: b, stack: stack, layer: int32(i), prefix: prefix + n["layers"] + "." + strconv.Itoa(i) + "."}
		layer := c.oneLayer(s, d, planned)
		b.model.Stacks[stack].Layers = append(b.model.Stacks[stack].Layers, layer)
	}
	if n["final"] != "" {
		out.norm(model.RoleFinalNorm, n["final"], final)
	}
	out.head(s, d, n, table, hidden, vocab, use)
}

// oneLayer adds one layer: its norms, its mixer and its feed-forward network.
func (c scope) oneLayer(s section, d *decoder, planned step) model.Layer {
	hidden := s.need(keyHidden)
	layer := model.Layer{Index: int(c.layer), Residual: d.residual}
	if layer.Residual == "" {
		layer.Residual = model.PreNorm
	}
	norm := d.residualNorm(s, hidden)
	for _, name := range words(d.slot["norms"]) {
		c.norm(model.RoleNorm, name, norm)
		layer.Norms = append(layer.Norms, norm)
	}
	if m := c.mixer(s, d, planned); m != nil {
		layer.Mixers = []model.Mixer{m}
	}
	switch {
	case planned.noFeed:
	case planned.sparse:
		layer.FeedForward = c.mix(s, d, hidden)
	default:
		layer.FeedForward = c.feed(s, d, hidden, d.ffn.width(s, hidden))
	}
	return layer
}

// mixer adds what moves information between the positions of one layer. A kind
// that the family is not known to have is unknown, and adds nothing.
func (c scope) mixer(s section, d *decoder, planned step) model.Mixer {
	switch planned.mixing {
	case absent:
		return nil
	case full, sliding, chunked:
		a := c.attend(s, d, s.attentionSizes(d))
		switch planned.mixing {
		case sliding:
			a.Window = int(s.window())
		case chunked:
			a.Chunk = int(s.or("attention_chunk_size", 0))
		}
		return a
	}
	c.doubt(s.path+"layer_types", string(planned.mixing), "a layer of this kind is not known in this family")
	return nil
}

// residualNorm is the norm that the family puts over its residual stream.
func (d *decoder) residualNorm(s section, width int64) model.Norm {
	n := model.Norm{Kind: model.RMSNorm, Width: int(width), Bias: s.is(d.normBias)}
	if d.norm != "" {
		n.Kind = d.norm
	}
	return n
}
