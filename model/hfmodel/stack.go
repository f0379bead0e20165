package hfmodel

import (
	"strconv"
	"strings"

	"floodmark/model"
)

// site is where a stack is built.
type site struct {
	prefix  string // before the names of its tensors
	strip   string // what of its names this place leaves out
	base    string // what its names begin with that the bare model lacks
	use     string // what the class is used for: "ForCausalLM"
	topHead bool   // the head stands outside the part
	untied  bool   // a tied head is stored all the same
	fewer   int64  // layers at the end that the class around the stack leaves out
	alone   bool
	axes    model.Axes
	parts   sections
}

// stackUp builds a stack of layers with what stands around them.
func (b *builder) stackUp(s section, k *stack, at site) {
	if k.notFor != "" && k.notFor == at.use {
		s.has(keyVocab + "|num_decoder_layers|decoder_layers|tie_word_embeddings|encoder_layers|encoder_ffn_dim|encoder_attention_heads")
		return
	}
	s = s.derived(k.derive).renamed(k.rename)
	k.slot = k.names.table()
	if at.use == "Model" || at.use == "EncoderModel" {
		at.strip = at.base
	}
	e := sections{}
	for name, part := range at.parts {
		e[name] = part
	}
	e[""] = s
	hidden := s.need(keyHidden)
	out := b.outside(at)
	table := b.embed(s, k, out, hidden)
	out.pieces(e, k.before)
	count := max(0, b.layers(s, keyLayers)-at.fewer)
	b.run(s, k, e, at, hidden, count)
	e[""] = s
	if k.slot["final"] != "" {
		out.norm(model.RoleFinalNorm, k.slot["final"], k.residualNorm(s, hidden))
	}
	out.pieces(e, k.after)
	if at.topHead {
		out.prefix = ""
	}
	out.head(s, k, e, table, hidden, at)
	if k.predict != nil {
		b.predict(s, k, e, at, hidden, count)
	}
}

// derived is the section with values that follow from others.
func (s section) derived(expressions map[string]string) section {
	if len(expressions) == 0 {
		return s
	}
	all := map[string]string{}
	for key, given := range s.defaults {
		all[key] = given
	}
	for key, expression := range expressions {
		all[key] = strconv.FormatInt(sections{"": s}.eval(expression), 10)
	}
	s.defaults = all
	return s
}

// embed adds the token embedding, or finds the one that the stack shares.
func (b *builder) embed(s section, k *stack, out scope, hidden int64) int32 {
	if k.shared && b.embedding != model.NotTied {
		return b.embedding
	}
	if k.slot["embed"] == "" {
		return model.NotTied
	}
	vocab := s.need(keyVocab)
	b.model.Vocab = int(vocab)
	b.model.MaxPosition = max(b.model.MaxPosition, int(s.or(keyPositions, 0)))
	b.model.RotaryPositions = max(b.model.RotaryPositions, stretched(s))
	if b.model.RotaryScaling == "" {
		b.model.RotaryScaling = scalingKind(s)
	}
	b.embedding = out.add(model.RoleTokenEmbedding, embedding, k.slot["embed"]+".weight", vocab+k.vocabExtra, s.or("word_embed_proj_dim|embedding_size", hidden))
	return b.embedding
}

// scaling is a key of the table that says how rotary positions are stretched, wherever
// that stands.
func scaling(key string) string {
	const where = "rope_scaling|rope_parameters|rope_parameters.full_attention"
	return strings.ReplaceAll(where, "|", "."+key+"|") + "." + key
}

// scalingKind is the way in which they are stretched.
func scalingKind(s section) string { return s.text(scaling("rope_type") + "|" + scaling("type")) }

// stretched is for how many positions a serving engine tabulates what turns
// them, where a factor stretches the longest context; 0 where none does
// (linear_scaling_rope.py, dynamic_ntk_scaling_rope.py and yarn_scaling_rope.py of
// https://github.com/vllm-project/vllm/tree/v0.19.0/vllm/model_executor/layers/rotary_embedding).
// Worked number: Gemma 3 declares 131,072 positions and a linear factor of 8, so
// that 1,048,576 are tabulated.
func stretched(s section) int64 {
	factor := s.real(scaling("factor"))
	positions := s.or(keyPositions, 0)
	switch scalingKind(s) {
	case "linear", "dynamic":
	case "yarn":
		positions = s.or(scaling("original_max_position_embeddings"), 0)
	default:
		return 0
	}
	if total := float64(positions) * factor; factor > 1 && total > 0 && total < 1<<40 {
		return int64(total)
	}
	return 0
}

// run builds the layers.
func (b *builder) run(s section, k *stack, e sections, at site, hidden, count int64) {
	kind := k.kind
	if kind == "" {
		kind = model.Decoder
	}
	if kind == model.Vision || kind == model.Audio {
		s.has(keyPositions) // bounds rotary positions, where it is stated at all
	}
	name := at.prefix + strings.TrimPrefix(k.slot["layers"], at.strip)
	index := b.stackOf(name, kind, hidden, count)
	b.model.Stacks[index].Manner = k.manner(s)
	b.model.Stacks[index].Manner.Axes, b.model.Stacks[index].Manner.Alone = at.axes, at.alone
	if _, own := k.heads[at.use]; own {
		b.model.Stacks[index].Manner.Use = at.use
	}
	var groups int64
	first := 0
	if k.repeated != "" {
		groups = s.or(k.repeated, 1)
	}
	for i, planned := range s.plan(k, count) {
		if b.err != nil {
			return
		}
		c := scope{builder: b, stack: index, layer: int32(i), prefix: name + "." + strconv.Itoa(i) + "."}
		from := len(b.drafts)
		layer := c.oneLayer(s.at(i), k, planned)
		e[""] = s.at(i)
		c.pieces(e, k.layer)
		if i == 0 {
			c.pieces(e, k.first)
		}
		if int64(i) == count-1 {
			c.pieces(e, k.last)
		} else {
			c.pieces(e, k.butLast)
		}
		b.model.Stacks[index].Layers = append(b.model.Stacks[index].Layers, layer)
		if groups > 0 && i > 0 && int64(i)*groups/count == int64(i-1)*groups/count {
			b.tie(from, first)
		} else {
			first = from
		}
	}
}

// tie makes the tensors from one place on share the storage of those from
// another.
func (b *builder) tie(from, owner int) {
	for i := from; i < len(b.drafts); i++ {
		b.drafts[i].TiedTo = int32(owner + i - from)
	}
}

// oneLayer adds one layer: its norms, its mixers and its feed-forward network.
func (c scope) oneLayer(s section, k *stack, planned step) model.Layer {
	hidden := s.need(keyHidden)
	if planned.mixing == hybrid && k.blocks {
		return c.hybridLayer(s, k, hidden)
	}
	layer := model.Layer{Index: int(c.layer), Residual: k.residual}
	if layer.Residual == "" {
		layer.Residual = model.PreNorm
	}
	norm := k.residualNorm(s, hidden)
	for _, name := range s.normNames(k, planned) {
		c.norm(model.RoleNorm, name, norm)
		layer.Norms = append(layer.Norms, norm)
	}
	if m := c.mixer(s, k, planned, hidden); m != nil {
		layer.Mixers = append(layer.Mixers, m)
	}
	if k.slot["cross"] != "" {
		layer.Mixers = append(layer.Mixers, c.cross(s, k))
	}
	switch {
	case k.slot["channel_mix"] != "":
		layer.FeedForward = c.channelMix(s, k, hidden)
	case planned.noFeed || k.slot["down"] == "" && !planned.sparse:
	case planned.sparse:
		layer.FeedForward = c.mix(s, k, hidden)
	default:
		width := planned.width(hidden)
		if planned.block == nil {
			width = k.ffn.width(s, hidden)
		}
		if planned.cacheOf >= 0 && s.is(k.ffn.wide) {
			width *= 2
		}
		layer.FeedForward = c.feed(s, k, hidden, width)
	}
	return layer
}

// normNames is the norms of one layer.
func (s section) normNames(k *stack, planned step) []string {
	for _, c := range k.norms {
		if s.is(c.when) {
			return words(c.names)
		}
	}
	names := words(k.slot["norms"])
	if planned.block != nil && len(names) == 2 {
		switch {
		case planned.noFeed && planned.mixing == absent:
			return nil
		case planned.noFeed:
			return names[:1]
		case planned.mixing == absent:
			return names[1:]
		}
	}
	return names
}

// mixer adds what moves information between the positions of one layer. A kind
// that the family is not known to have is unknown, and adds nothing.
func (c scope) mixer(s section, k *stack, planned step, hidden int64) model.Mixer {
	switch {
	case planned.mixing == absent:
		return nil
	case planned.mixing == across && k.crossing:
		return c.acrossLayer(s, k)
	case planned.mixing == recur && k.delta != nil:
		return c.gatedDelta(s, k, hidden)
	case planned.mixing == recur && k.slot["rwkv"] != "":
		return c.timeMix(s, k, hidden)
	case planned.mixing == recur && k.lightning:
		return c.lightning(s, k, hidden)
	case planned.mixing == mamba && k.mamba != nil:
		return c.mambaMixer(s, k, hidden)
	case planned.mixing == conv && k.conv:
		return c.shortConv(s, k, hidden)
	case planned.mixing.attends() && k.compressed:
		return c.attendCompressed(s, hidden)
	case planned.mixing.attends() && k.latent != nil && s.or("kv_lora_rank", 0) > 0:
		return c.attendLatent(s, k, hidden)
	case planned.mixing.attends() && (k.slot["o"] != "" || k.ffn.joined):
		return c.attention(s, k, planned)
	}
	c.doubt(s.path+"layer_types", string(planned.mixing), "a layer of this kind is not known in this family")
	return nil
}

// residualNorm is the norm that the family puts over its residual stream.
func (k *stack) residualNorm(s section, width int64) model.Norm {
	n := model.Norm{Kind: model.RMSNorm, Width: int(width), Bias: s.is(k.normBias), Offset: k.offset, Wide: k.wide}
	if k.norm != "" {
		n.Kind = k.norm
	}
	return n
}
