package hfmodel

import "floodmark/model"

// dense is what a row says of a feed-forward network.
type dense struct {
	plain  bool // up and down alone, no gate
	bias   flag
	times  int64 // width in multiples of the hidden size where the configuration has none
	halved bool  // the configuration states both halves of the gate together
}

// feed adds one dense feed-forward network of that width.
func (c scope) feed(s section, d *decoder, hidden, width int64) model.Dense {
	n := d.slot
	bias := s.is(d.ffn.bias)
	switch {
	case d.ffn.plain:
		c.project(d, model.RoleUp, n["up"], hidden, width, model.RoleUpBias, bias)
	case n["gate_up"] != "":
		c.project(d, model.RoleGateUp, n["gate_up"], hidden, 2*width, model.RoleGateUpBias, bias)
	default:
		c.project(d, model.RoleGate, n["gate"], hidden, width, model.RoleGateBias, bias)
		c.project(d, model.RoleUp, n["up"], hidden, width, model.RoleUpBias, bias)
	}
	c.project(d, model.RoleDown, n["down"], width, hidden, model.RoleDownBias, bias)
	return model.Dense{Width: int(width), Gated: !d.ffn.plain, Activation: s.text(keyAct), Bias: bias}
}

// width is the intermediate size of dense layers.
func (d dense) width(s section, hidden int64) int64 {
	w, ok := s.number(keyFFN)
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
