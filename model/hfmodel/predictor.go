package hfmodel

import (
	"strconv"
	"strings"

	"floodmark/model"
)

// predictor is what a row says of multi-token prediction: layers after the
// last that a checkpoint stores and num_hidden_layers does not count. Its
// names are those of the layers, continued, or those under the slot mtp.
type predictor struct {
	key    string   // how many there are
	joint  []*piece // what joins the hidden state with the next token's embedding
	shared []*piece // once for all of them
	copies bool     // embedding and head are stored again
	unsure bool     // releases of one configuration differ in whether they are
}

// predict builds the layers of multi-token prediction.
func (b *builder) predict(s section, k *stack, e sections, at site, hidden, layers int64) {
	p := k.predict
	count := s.or(p.key, 0)
	if count == 0 || !b.bounded(s, p.key, count) {
		return
	}
	name, first := k.slot["mtp"], int64(0)
	if name == "" {
		name, first = at.prefix+strings.TrimPrefix(k.slot["layers"], at.strip), layers
	}
	index := b.stackOf(name, model.Predictor, hidden, count)
	last := step{mixing: full, cacheOf: -1, sparse: k.experts != nil && s.or(keyExperts, 0) > 1}
	for i := range count {
		c := scope{builder: b, stack: index, layer: int32(i), prefix: name + "." + strconv.FormatInt(first+i, 10) + "."}
		layer := c.oneLayer(s.at(int(layers+i)), k, last)
		c.pieces(e, k.layer)
		c.pieces(e, p.joint)
		if p.copies {
			vocab := s.need(keyVocab)
			c.add(model.RoleTokenEmbedding, embedding, "embed_tokens.weight", vocab, hidden)
			c.add(model.RoleHead, linear, "shared_head.head.weight", vocab, hidden)
		}
		b.model.Stacks[index].Layers = append(b.model.Stacks[index].Layers, layer)
	}
	b.outside(site{}).pieces(e, p.shared)
	if p.unsure {
		b.doubt(s.path+p.key, strconv.FormatInt(count, 10),
			"releases with this configuration differ in whether they store the embedding and the head again for these layers")
	}
}
