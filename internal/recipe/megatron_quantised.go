package recipe

import "floodmark/workload"

// megatronQuantises reads --fp8-format with its recipe: products of layers in 8 bits
// (TransformerConfig of megatron/core/transformer/transformer_config.py).
func (p *plan) megatronQuantises(m *workload.Megatron) {
	if p.text("fp8") == "" {
		return
	}
	p.workload.Features = append(p.workload.Features, workload.FP8Compute)
	switch name := workload.MegatronQuantisation(p.text("fp8_recipe")); name {
	case "":
		m.Quantisation = workload.DelayedScaling
	case workload.DelayedScaling, workload.CurrentScaling, workload.BlockScaling, workload.MXScaling:
		m.Quantisation = name
	default:
		p.lowersPasses(p.where("fp8_recipe"), "products in 8 bits by the recipe "+string(name)+" are not modelled")
	}
	m.QuantisedParameters, m.UncachedWeights = p.yes("fp8_parameters"), p.yes("uncached_weights")
	m.AmaxHistory, m.RouterFills = p.number("amax_history"), p.yes("router_fills")
	if p.yes("wide_ends") {
		m.WideAtStart, m.WideAtEnd = p.wideLayers("wide_at_start"), p.wideLayers("wide_at_end")
	}
}

// wideLayers is how many layers at an end stay in 16 bits: one where nobody said.
func (p *plan) wideLayers(f field) int64 {
	if p.said(f) {
		return p.number(f)
	}
	return 1
}

// megatronGraphs reads --cuda-graph-impl, and the two switches that it replaced. Without
// modules whole layers are captured
// (TransformerConfig of megatron/core/transformer/transformer_config.py).
func (p *plan) megatronGraphs(m *workload.Megatron) {
	on, impl := field("graph_impl"), p.text("graph_impl")
	switch {
	case p.yes("own_graphs"):
		on, impl = "own_graphs", "local"
	case p.yes("layer_graphs"):
		impl = "transformer_engine"
	}
	switch impl {
	case "", "none":
	case "transformer_engine":
		if m.Graphs = p.list("graph_modules"); len(m.Graphs) == 0 || m.Graphs[0] == "full" {
			m.Graphs = []string{"attn", "mlp", "moe"}
		}
		if p.said("graph_warmup") {
			steps := p.number("graph_warmup")
			m.GraphWarmup = &steps
		}
	default:
		p.open(p.where(on), "captured graphs hold memory")
	}
}
