package hfmodel

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/model"
)

// headNorm is what a norm of queries and keys spans.
type headNorm uint8

const (
	perHead  headNorm = iota + 1 // one weight of the head's width, shared by all heads
	eachHead                     // a weight of the head's width for each head
	allHeads                     // one norm over all heads together
)

// attention is what a row says of multi-head attention. Its names are the
// slots q, k, v or qkv, o; q_norm, k_norm; sinks, out_gate.
type attention struct {
	bias      flag // of queries, keys and values
	keyless   bool // but the key has none
	outBias   flag
	qkNorm    headNorm
	qkIf      flag              // the switch of the norm; "" with qkNorm set is on
	qkBias    bool              // the norm is a layer norm with a bias
	gate      flag              // the query projection also makes a gate
	oneKV     flag              // one head of keys and values for all
	oneKVNot  flag              // unless this is on
	kvAll     bool              // keys and values have as many heads as queries
	keyValue  flag              // full layers take the keys as values
	fullKeys  map[string]string // spellings that hold in full layers alone
	slideKeys map[string]string // and in sliding ones
	slideSink flag
	fullSink  flag
	rotaryCut bool   // heads are cut into what rotary positions turn and a rest
	halves    bool   // the halves of a head are turned apart, by tables of half its width
	scaled    bool   // the query is scaled before the logits
	copied    bool   // heads are copied, so that each lies together
	cacheTail string // key: how many layers at the end read the cache of an earlier one; checkpoints store their own all the same
}

// attentionSizes is the shape of one layer's attention.
type attentionSizes struct {
	hidden, heads, kvHeads, keyDim, valueDim, rotary int64
}

func (m mixing) attends() bool { return m == full || m == sliding || m == chunked }

func (s section) attentionSizes(k *stack) attentionSizes {
	a := attentionSizes{hidden: s.need(keyHidden), heads: s.need(keyHeads)}
	a.kvHeads = s.or(keyKVHeads, a.heads)
	if a.kvHeads > a.heads && !s.has(keyKVHeads) {
		a.kvHeads = a.heads // the class's default belongs to its default of query heads
	}
	s.group(a.heads, a.kvHeads)
	if k.attn.oneKV != "" && s.is(k.attn.oneKV) && !s.is(k.attn.oneKVNot) {
		a.kvHeads = 1
	}
	if k.attn.kvAll {
		a.kvHeads = a.heads
	}
	if a.keyDim = s.or(keyHeadDim, 0); a.keyDim == 0 && a.heads > 0 {
		a.keyDim = a.hidden / a.heads
	}
	a.valueDim = s.or("v_head_dim", 0)
	if a.valueDim == 0 {
		a.valueDim = a.keyDim
	}
	s.fit(a)
	if !k.noRotary {
		a.rotary = s.or("rotary_dim|rotary_ndims", a.keyDim)
		if share := s.real("partial_rotary_factor|rotary_pct|rope_pct|rope_parameters.partial_rotary_factor"); share > 0 {
			a.rotary = int64(float64(a.keyDim) * share)
		}
	}
	return a
}

// group doubts heads of keys and values that do not share out the query heads.
func (s section) group(heads, kvHeads int64) {
	field, stated := s.path+s.spellings(keyKVHeads)[0], strconv.FormatInt(kvHeads, 10)
	if _, at := s.find(keyKVHeads); at != "" {
		field = at
	}
	switch {
	case kvHeads == 0 && heads > 0:
		s.doubt(field, stated, "attention has at least one key and value head")
	case kvHeads > 0 && heads%kvHeads != 0:
		s.doubt(field, stated, fmt.Sprintf("%d query heads are no multiple of it, so that the model cannot run", heads))
	}
}

// maxHeadsWidth bounds all heads of a layer together, far above every model, so
// that no product of theirs leaves 63 bits.
const maxHeadsWidth = 1 << 28

// fit doubts heads of no width, and heads that are too wide together.
func (s section) fit(a attentionSizes) {
	if a.heads <= 0 || a.hidden <= 0 {
		return // which is already said
	}
	_, field := s.find(keyHeads)
	field = orElse(field, s.path+s.spellings(keyHeads)[0])
	switch width := max(a.keyDim, a.valueDim); {
	case a.keyDim == 0:
		s.doubt(field, strconv.FormatInt(a.heads, 10), fmt.Sprintf("so many heads have no width in a stream of %d", a.hidden))
	case width > maxHeadsWidth/max(a.heads, a.kvHeads):
		s.doubt(field, strconv.FormatInt(a.heads, 10), fmt.Sprintf("no model has so many heads of width %d", width))
	}
}

// attention adds the attention of one layer, and what of it depends on the
// kind of the layer.
func (c scope) attention(s section, k *stack, planned step) model.Attention {
	window := s.window()
	switch planned.mixing {
	case sliding:
		s = s.renamed(k.attn.slideKeys)
	default:
		s = s.renamed(k.attn.fullKeys)
	}
	size := s.attentionSizes(k)
	size.kvHeads = planned.kvHeads(size.heads, size.kvHeads)
	a := c.attend(s, k, size, k.slot, planned.mixing != sliding && s.is(k.attn.keyValue))
	a.CacheOf = planned.cacheOf
	switch planned.mixing {
	case sliding:
		a.Window = int(window)
		a.Sinks = s.is(k.attn.slideSink)
	case chunked:
		a.Chunk = int(s.or("attention_chunk_size", 0))
	default:
		a.Sinks = s.is(k.attn.fullSink)
	}
	if a.Sinks {
		c.add(model.RoleSinks, parameter, k.slot["sinks"], size.heads)
	}
	a.Causal = k.kind == "" || k.kind == model.Decoder || k.kind == model.Predictor
	return a
}

// cross adds attention over the positions of another stack.
func (c scope) cross(s section, k *stack) model.Attention {
	size := s.attentionSizes(k)
	size.rotary = 0
	at := k.slot["cross"] + "."
	slot := map[string]string{}
	for _, name := range []string{"q", "k", "v", "o"} {
		slot[name] = at + k.slot["x"+name]
	}
	for _, name := range []string{"q_norm", "k_norm"} { // called as those of the layer's own attention
		own := k.slot[name]
		slot[name] = at + own[strings.LastIndexByte(own, '.')+1:]
	}
	a := c.attend(s, k, size, slot, false)
	a.Cross = true
	return a
}

// acrossLayer adds a layer of Llama 3.2 Vision that attends to images alone,
// through a gate, and normalises queries and keys.
func (c scope) acrossLayer(s section, k *stack) model.Attention {
	size := s.attentionSizes(k)
	size.rotary = 0
	at := k.slot["crossing"] + "."
	slot := map[string]string{"q": at + "q_proj", "k": at + "k_proj", "v": at + "v_proj", "o": at + "o_proj", "q_norm": at + "q_norm", "k_norm": at + "k_norm"}
	a := c.attend(s, k, size, slot, false)
	c.add(model.RoleQueryNorm, parameter, slot["q_norm"]+".weight", size.keyDim)
	c.add(model.RoleKeyNorm, parameter, slot["k_norm"]+".weight", size.keyDim)
	c.add(model.RoleAttentionGate, parameter, "cross_attn_attn_gate", 1)
	c.add(model.RoleAttentionGate, parameter, "cross_attn_mlp_gate", 1)
	a.Cross, a.QKNorm, a.OutputGate = true, true, true
	return a
}

// attend adds the projections of one layer of attention and the norms of
// queries and keys.
func (c scope) attend(s section, k *stack, a attentionSizes, n map[string]string, keysAreValues bool) model.Attention {
	bias, outBias, gated := s.is(k.attn.bias), s.is(k.attn.outBias), s.is(k.attn.gate)
	q, key, value := a.heads*a.keyDim, a.kvHeads*a.keyDim, a.kvHeads*a.valueDim
	if gated {
		q *= 2
	}
	if fused := n["qkv"]; fused != "" {
		c.project(k, model.RoleQKV, fused, a.hidden, q+key+value, model.RoleQKVBias, bias)
	} else {
		c.project(k, model.RoleQuery, n["q"], a.hidden, q, model.RoleQueryBias, bias)
		c.project(k, model.RoleKey, n["k"], a.hidden, key, model.RoleKeyBias, bias && !k.attn.keyless)
		if !keysAreValues {
			c.project(k, model.RoleValue, n["v"], a.hidden, value, model.RoleValueBias, bias)
		}
	}
	if n["o"] != "" {
		c.project(k, model.RoleAttentionOutput, n["o"], a.heads*a.valueDim, a.hidden, model.RoleAttentionOutputBias, outBias)
	}
	norm := k.attn.qkNorm != 0 && (k.attn.qkIf == "" || s.is(k.attn.qkIf))
	if norm {
		c.headNorms(k, n, a)
	}
	return model.Attention{
		QueryHeads: int(a.heads), KVHeads: int(a.kvHeads), KeyDim: int(a.keyDim), ValueDim: int(a.valueDim),
		RotaryDim: int(a.rotary), CacheOf: -1,
		QKNorm: norm, QKVBias: bias, OutputBias: outBias, OutputGate: gated,
		SoftCap: s.real("attn_logit_softcapping"), RotaryCut: k.attn.rotaryCut, QueryScaled: k.attn.scaled, HeadsCopied: k.attn.copied, RotaryHalves: k.attn.halves,
	}
}

// project adds a linear layer in the way the family stores them.
func (c scope) project(k *stack, role model.Role, name string, in, out int64, biasRole model.Role, bias bool) {
	if !k.conv1D {
		c.linear(role, name, in, out, biasRole, bias)
		return
	}
	c.add(role, conv1D, name+".weight", in, out)
	if bias {
		c.add(biasRole, parameter, name+".bias", out)
	}
}

func (c scope) headNorms(k *stack, n map[string]string, a attentionSizes) {
	q, key := []int64{a.keyDim}, []int64{a.keyDim}
	switch k.attn.qkNorm {
	case eachHead:
		q, key = []int64{a.heads, a.keyDim}, []int64{a.kvHeads, a.keyDim}
	case allHeads:
		q, key = []int64{a.heads * a.keyDim}, []int64{a.kvHeads * a.keyDim}
	}
	c.add(model.RoleQueryNorm, parameter, n["q_norm"]+".weight", q...)
	c.add(model.RoleKeyNorm, parameter, n["k_norm"]+".weight", key...)
	if k.attn.qkBias {
		c.add(model.RoleQueryNorm, parameter, n["q_norm"]+".bias", q...)
		c.add(model.RoleKeyNorm, parameter, n["k_norm"]+".bias", key...)
	}
}
