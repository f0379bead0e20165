package hfmodel

import (
	"floodmark/dtype"
	"floodmark/model"
)

const (
	keyExperts     = "num_local_experts|num_experts|n_routed_experts|moe_num_experts"
	keyActive      = "num_experts_per_tok|experts_per_token|num_experts_per_token|moe_topk|moe_k|moe_router_topk|top_k_experts"
	keyExpertWidth = "moe_intermediate_size|expert_intermediate_size|moe_ffn_hidden_size"
	keyShared      = "n_shared_experts|num_shared_experts|moe_num_shared_experts"
	keySharedWidth = "shared_expert_intermediate_size|moe_shared_expert_intermediate_size|shared_intermediate_size"
)

// experts is what a row says of a mixture of experts. Its names are the slots
// router, experts, e_gate, e_up, e_down; shared, shared_mix; correction.
type experts struct {
	fused      bool  // one parameter holds all experts, gate and up together
	outFirst   bool  // that parameter is [experts, out, in]
	plain      bool  // no gate
	bias       bool  // experts and router have biases
	alternate  bool  // gate and up alternate, clamped, and shares are of the chosen alone
	correction flag  // a bias per expert that only the choice of experts sees
	float32    bool  // the correction is stored in 32 bits
	router32   bool  // the router is stored in 32 bits
	beside     bool  // the layer's dense network works beside the experts
	always     int64 // shared experts where the configuration states none
}

// mix adds one mixture of experts.
func (c scope) mix(s section, k *stack, hidden int64) model.Experts {
	n := k.slot
	e := model.Experts{
		Count: int(s.need(keyExperts)), Active: int(s.or(keyActive, 0)),
		Width: int(s.expertWidth()), Gated: !k.experts.plain, Activation: s.activation(k), Bias: k.experts.bias, Alternating: k.experts.alternate,
		Shared: int(s.or(keyShared, k.experts.always)),
	}
	count, width := int64(e.Count), int64(e.Width)
	at := c.add(model.RoleRouter, linear, n["router"]+".weight", count, hidden)
	if k.experts.router32 {
		c.store(at, dtype.F32)
	}
	if k.experts.bias {
		c.add(model.RoleRouterBias, parameter, n["router"]+".bias", count)
	}
	switch {
	case n["hashed"] != "" && int64(s.layer) < s.or("num_hash_layers", 0):
		// The first layers choose experts by the token: a table of its experts.
		c.store(c.add(model.RoleBuffer, parameter, n["hashed"], s.need(keyVocab), int64(e.Active)), dtype.I64)
	case s.is(k.experts.correction):
		at := c.add(model.RoleRouterBias, parameter, n["correction"], count)
		if k.experts.float32 {
			c.store(at, dtype.F32)
		}
		e.RouterBias = true
	}
	inner := hidden
	if e.Latent = int(s.or("moe_latent_size|routed_expert_hidden_size", 0)); e.Latent > 0 && n["latent_in"] != "" {
		inner = int64(e.Latent)
		c.narrow(n, hidden, inner)
	}
	c.routed(n, k.experts, inner, count, width)
	if n["shared"] != "" {
		c.shareExperts(s, k, n, hidden, &e)
	}
	return e
}

// narrow adds the projections into the narrower space of the routed experts
// and back. Quantised checkpoints keep them as they keep routers.
func (c scope) narrow(n map[string]string, hidden, inner int64) {
	kind := linear
	if n["latent_norm"] != "" {
		kind = parameter
		c.add(model.RoleNorm, parameter, n["latent_norm"]+".weight", inner)
	}
	c.add(model.RoleProjector, kind, n["latent_in"]+".weight", inner, hidden)
	c.add(model.RoleProjector, kind, n["latent_out"]+".weight", hidden, inner)
}

// expertWidth is the intermediate size of one routed expert. Families whose
// layers are all sparse state it as the size of the feed-forward network.
func (s section) expertWidth() int64 {
	if w, ok := s.number(keyExpertWidth); ok {
		s.has(keyFFN) // the width of dense layers, of which there may be none
		return w
	}
	return s.need(keyFFN)
}

// routed adds the routed experts.
func (c scope) routed(n map[string]string, e *experts, hidden, count, width int64) {
	at := n["experts"] + "."
	if e.fused {
		if e.outFirst {
			c.add(model.RoleExpertGateUp, expertStacked, at+n["e_gate_up"], count, 2*width, hidden)
			c.add(model.RoleExpertDown, expertStacked, at+n["e_down"], count, hidden, width)
		} else {
			c.add(model.RoleExpertGateUp, expertFused, at+n["e_gate_up"], count, hidden, 2*width)
			c.add(model.RoleExpertDown, expertFused, at+n["e_down"], count, width, hidden)
		}
		if e.bias {
			c.add(model.RoleExpertGateUpBias, parameter, at+n["e_gate_up"]+"_bias", count, 2*width)
			c.add(model.RoleExpertDownBias, parameter, at+n["e_down"]+"_bias", count, hidden)
		}
		return
	}
	at += "*."
	if !e.plain {
		c.add(model.RoleExpertGate, expertLinear, at+n["e_gate"]+".weight", count, width, hidden)
	}
	c.add(model.RoleExpertUp, expertLinear, at+n["e_up"]+".weight", count, width, hidden)
	c.add(model.RoleExpertDown, expertLinear, at+n["e_down"]+".weight", count, hidden, width)
}

// shareExperts adds the experts that every position uses: one network as wide
// as all of them, and where the family weighs it, a scalar gate.
func (c scope) shareExperts(s section, k *stack, n map[string]string, hidden int64, e *model.Experts) {
	width, stated := s.number(keySharedWidth)
	if k.experts.beside {
		width, stated = s.need(keyFFN), true
	}
	if !stated {
		width = int64(e.Shared) * int64(e.Width)
	}
	if width == 0 {
		return
	}
	e.Shared, e.SharedWidth = max(1, e.Shared), int(width)
	at := n["shared"] + "."
	if !k.experts.plain {
		c.linear(model.RoleSharedExpertGate, at+orElse(n["s_gate"], "gate_proj"), hidden, width, 0, false)
	}
	c.linear(model.RoleSharedExpertUp, at+orElse(n["s_up"], "up_proj"), hidden, width, 0, false)
	c.linear(model.RoleSharedExpertDown, at+orElse(n["s_down"], "down_proj"), width, hidden, 0, false)
	if mix := n["shared_mix"]; mix != "" {
		c.linear(model.RoleSharedExpertMix, mix, hidden, 1, 0, false)
		e.SharedGate = true
	}
}

// orElse is a name, or the usual one where a family has none.
func orElse(name, usual string) string {
	if name == "" {
		return usual
	}
	return name
}
