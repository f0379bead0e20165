package hfmodel

import "floodmark/model"

// headNorm is what a norm of queries and keys spans.
type headNorm uint8

const (
	perHead  headNorm = iota + 1 // one weight of the head's width, shared by all heads
	eachHead                     // a weight of the head's width for each head
	allHeads                     // one norm over all heads together
)

// attention is what a row says of multi-head attention.
type attention struct {
	bias    flag // of queries, keys and values
	outBias flag
	qkNorm  headNorm
	qkIf    flag // the switch of the norm; "" with qkNorm set is on
}

// attentionSizes is the shape of one layer's attention.
type attentionSizes struct {
	hidden, heads, kvHeads, keyDim, valueDim, rotary int64
}

func (s section) attentionSizes(d *decoder) attentionSizes {
	a := attentionSizes{hidden: s.need(keyHidden), heads: s.need(keyHeads)}
	a.kvHeads = s.or(keyKVHeads, a.heads)
	if a.keyDim = s.or(keyHeadDim, 0); a.keyDim == 0 && a.heads > 0 {
		a.keyDim = a.hidden / a.heads
	}
	a.valueDim = a.keyDim
	if !d.noRotary {
		a.rotary = s.or("rotary_dim|rotary_ndims", a.keyDim)
		if share := s.real("partial_rotary_factor|rotary_pct|rope_pct"); share > 0 {
			a.rotary = int64(float64(a.keyDim) * share)
		}
	}
	return a
}

// attend adds one layer of attention.
func (c scope) attend(s section, d *decoder, a attentionSizes) model.Attention {
	n := d.slot
	bias, outBias := s.is(d.attn.bias), s.is(d.attn.outBias)
	q, k, v := a.heads*a.keyDim, a.kvHeads*a.keyDim, a.kvHeads*a.valueDim
	if fused := n["qkv"]; fused != "" {
		c.project(d, model.RoleQKV, fused, a.hidden, q+k+v, model.RoleQKVBias, bias)
	} else {
		c.project(d, model.RoleQuery, n["q"], a.hidden, q, model.RoleQueryBias, bias)
		c.project(d, model.RoleKey, n["k"], a.hidden, k, model.RoleKeyBias, bias)
		c.project(d, model.RoleValue, n["v"], a.hidden, v, model.RoleValueBias, bias)
	}
	c.project(d, model.RoleAttentionOutput, n["o"], a.heads*a.valueDim, a.hidden, model.RoleAttentionOutputBias, outBias)
	norm := d.attn.qkNorm != 0 && (d.attn.qkIf == "" || s.is(d.attn.qkIf))
	if norm {
		c.headNorms(d, n, a)
	}
	return model.Attention{
		QueryHeads: int(a.heads), KVHeads: int(a.kvHeads), KeyDim: int(a.keyDim), ValueDim: int(a.valueDim),
		RotaryDim: int(a.rotary), Causal: true, CacheOf: -1,
		QKNorm: norm, QKVBias: bias, OutputBias: outBias,
		SoftCap: s.real("attn_logit_softcapping"),
	}
}

// project adds a linear layer in the way the family stores them.
func (c scope) project(d *decoder, role model.Role, name string, in, out int64, biasRole model.Role, bias bool) {
	if !d.conv1D {
		c.linear(role, name, in, out, biasRole, bias)
		return
	}
	c.add(role, conv1D, name+".weight", in, out)
	if bias {
		c.add(biasRole, parameter, name+".bias", out)
	}
}

func (c scope) headNorms(d *decoder, n map[string]string, a attentionSizes) {
	q, k := []int64{a.keyDim}, []int64{a.keyDim}
	switch d.attn.qkNorm {
	case eachHead:
		q, k = []int64{a.heads, a.keyDim}, []int64{a.kvHeads, a.keyDim}
	case allHeads:
		q, k = []int64{a.heads * a.keyDim}, []int64{a.kvHeads * a.keyDim}
	}
	c.add(model.RoleQueryNorm, parameter, n["q_norm"]+".weight", q...)
	c.add(model.RoleKeyNorm, parameter, n["k_norm"]+".weight", k...)
}
