package hfmodel

import "floodmark/model"

// dense is what a row says of a feed-forward network.
type dense struct {
	plain  bool // up and down alone, no gate
	gated  flag // a plain network that this switch gates
	bias   flag
	times  int64  // width in multiples of the hidden size where the configuration has none
	wide   flag   // twice as wide in the layers that read another layer's cache
	key    string // another key of the width
	adjust flag   // the width is two thirds of what is stated, rounded up to block_multiple_of
	halved bool   // the configuration states both halves of the gate together
	lists  bool   // the class reads a list of widths, one for each layer
	joined bool   // down also reads what the heads of attention made, which has no output projection of its own
}

// feed adds one dense feed-forward network of that width.
func (c scope) feed(s section, k *stack, hidden, width int64) model.Dense {
	n := k.slot
	bias := s.is(k.ffn.bias)
	up := n["up"]
	gated := !k.ffn.plain || s.is(k.ffn.gated)
	switch {
	case !gated:
		c.project(k, model.RoleUp, up, hidden, width, model.RoleUpBias, bias)
	case n["gate_up"] != "":
		c.project(k, model.RoleGateUp, n["gate_up"], hidden, 2*width, model.RoleGateUpBias, bias)
	default:
		c.project(k, model.RoleGate, n["gate"], hidden, width, model.RoleGateBias, bias)
		if n["gated_up"] != "" {
			up = n["gated_up"]
		}
		c.project(k, model.RoleUp, up, hidden, width, model.RoleUpBias, bias)
	}
	inner := width
	if k.ffn.joined {
		inner += hidden
	}
	c.project(k, model.RoleDown, n["down"], inner, hidden, model.RoleDownBias, bias)
	return model.Dense{Width: int(width), Gated: gated, Activation: s.activation(k), Bias: bias}
}

// width is the intermediate size of dense layers.
func (d dense) width(s section, hidden int64) int64 {
	if v, field := s.find(keyFFN); v != nil && v.kind == isList && !d.lists {
		s.doubt(field, v.String(), "the class of this family reads one width for all layers, not a list")
	}
	w, ok := s.number(keyFFN)
	if d.key != "" && s.has(d.key) {
		w, ok = s.number(d.key)
	}
	if ok && s.is(d.adjust) {
		return s.adjusted(w)
	}
	if times := s.real("expansion_ratio|mlp_ratio"); !ok && times > 0 {
		return int64(times * float64(hidden))
	}
	switch {
	case ok && d.halved:
		return w / 2
	case ok:
		return w
	case d.times > 0:
		return d.times * hidden
	}
	return s.need(keyFFN)
}

// adjusted is the width of LFM2's networks (Lfm2MLP): two thirds of the stated
// one, times a multiplier, rounded up. Worked number: 12288 is 8192.
func (s section) adjusted(w int64) int64 {
	w = 2 * w / 3
	if times := s.real("block_ffn_dim_multiplier"); times > 0 {
		w = int64(times * float64(w))
	}
	multiple := max(1, s.or("block_multiple_of", 256))
	return multiple * ((w + multiple - 1) / multiple)
}
