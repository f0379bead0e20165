package megatron

import (
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// graphed reports a module whose passes CUDA graphs run.
func (s settings) graphed(module string) bool { return slices.Contains(s.Graphs, module) }

// graphWarmup is the steps before graphs are captured.
func (s settings) graphWarmup() int {
	if s.GraphWarmup == nil {
		return 3
	}
	return int(*s.GraphWarmup)
}

// unmodelledGraphs is why graphs have no program; empty where they have.
func (s settings) unmodelledGraphs(chunks []*chunk) string {
	if len(s.Graphs) == 0 {
		return ""
	}
	beside := ""
	switch {
	case s.local():
		beside = "mcore's own layers"
	case s.frozen():
		beside = "adapters"
	case len(s.OffloadModules) > 0:
		beside = "offloading of activations"
	case s.granularity == workload.FullCheckpointing:
		beside = "layers that are computed again"
	case !s.fusion:
		beside = "gradients that are not added to their buffer by the product itself"
	}
	if beside != "" {
		return "captured graphs beside " + beside + " are not modelled for Megatron-LM (--cuda-graph-impl)"
	}
	for _, module := range s.Graphs {
		switch module {
		case "attn", "mlp":
		case "moe", "moe_router", "moe_preprocess":
			if slices.ContainsFunc(chunks, (*chunk).mixes) {
				return fmt.Sprintf("captured graphs of %s are not modelled for Megatron-LM (--cuda-graph-modules)", module)
			}
		default:
			return fmt.Sprintf("captured graphs of %s are not modelled for Megatron-LM (--cuda-graph-modules)", module)
		}
	}
	return ""
}

// mixes reports a chunk with experts.
func (c *chunk) mixes() bool {
	return slices.ContainsFunc(c.layers, func(l *layer) bool { return l != nil && l.experts != nil })
}

// graphed is which parts of a layer graphs run: what comes before the network with its
// residual, and the network with its own
// (_te_cuda_graph_capture of megatron/core/transformer/transformer_layer.py).
func (l *layer) graphed() (attention, network bool) {
	return l.te.s.graphed("attn"), l.te.s.graphed("mlp") && l.experts == nil
}

// captured is the part of a layer that one graph runs; nil where none does.
func (l *layer) captured() func(torch.Tensor) torch.Tensor {
	switch attention, network := l.graphed(); {
	case attention && network:
		return l.forward
	case attention:
		return l.attentionPass
	case network:
		return l.networkPass
	}
	return nil
}

// replay runs a part of a layer by its graph, where it has been captured: what comes in
// is copied into the graph's own input and goes, and all else lies in the graph's pool
// (Graphed of transformer_engine/pytorch/graph.py). x stays with its holder.
func (e *te) replay(graphed bool, x torch.Tensor, part func(torch.Tensor) torch.Tensor) (out torch.Tensor) {
	if !graphed || !e.replays {
		return part(x)
	}
	e.m.In(torch.Replayed, func() {
		rows, width := x.Size(0), x.Size(1)
		own := e.m.Keep(e.m.Apply1(torch.Function{
			Name:     "Graphed",
			Forward:  func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Empty(e.s.compute, rows, width)} },
			Backward: func(g *torch.Gradients) { g.Give(0, g.Empty(e.s.compute, rows, width)) },
		}, x))
		out = part(own)
		e.m.Drop(own)
	})
	return out
}

// graphs is the parts of a chunk that are captured.
func (c *chunk) graphs() (parts []func(torch.Tensor) torch.Tensor) {
	for _, l := range c.layers {
		if part := l.captured(); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// captureOrder is the passes that are captured: of one micro-batch without a pipeline.
func (s settings) captureOrder(stage int64) []parallel.Pass {
	if order := s.order(stage); s.pipeline > 1 {
		return order
	}
	return []parallel.Pass{{}, {Backward: true}}
}

// capture makes the graphs of all layers and micro-batches, in the order in which they
// will run, out of one pool, which keeps what it grew to. Before, each layer runs by
// itself, so that libraries have what they keep, and there are all inputs: tensors of the
// program's own, which the next pass uses again when a backward is through
// (TECudaGraphHelper of megatron/core/transformer/cuda_graphs.py, _make_graphed_callables
// of transformer_engine/pytorch/graph.py, 2.7 to 2.18).
func (r *run) capture(step int) {
	m, s := r.te.m, r.te.s
	r.phase("graphs", step)
	m.EmptyCache()
	order := s.captureOrder(int64(r.stage))
	var inputs []torch.Tensor
	for range r.mostPassed(order) {
		inputs = append(inputs, m.Scratch(s.compute, s.resident(), r.hidden))
		if s.graphed("attn") {
			m.Scratch(dtype.Bool, s.maskBytes())
		}
	}
	m.On("warm-up of graphs", func() { r.warmGraphs(inputs) })
	slope := m.Scratch(s.compute, s.resident(), r.hidden)
	m.On("graphs", func() {
		m.In(torch.Captured, func() { r.capturePasses(order, inputs, slope) })
	})
	m.EmptyCache()
	r.states.zeroGrad()
	r.te.replays = true
	p := requested(graphFormula)
	p.Scope = account.Process
	r.tl.Hold(account.TermGraphPools, account.CategoryGraphPool, len(r.tl.Phases)-1, timeline.ToEnd, account.Unknown("what the driver holds for captured graphs of training was measured nowhere", p))
}

// warmGraphs runs each captured part once, there and back.
func (r *run) warmGraphs(inputs []torch.Tensor) {
	m := r.te.m
	for _, c := range r.chunks {
		r.tabulate(c)
		for _, part := range c.graphs() {
			in, out := r.passGraph(part, inputs[0])
			slope := m.Keep(m.Empty("empty_like", r.te.s.compute, r.te.s.resident(), r.hidden))
			m.BackwardWith(out, slope)
			m.Drop(out, in, slope)
		}
	}
}

// mostPassed is how many passes of graphs are between their forward and their backward
// at most.
func (r *run) mostPassed(order []parallel.Pass) (most int) {
	now := 0
	for _, p := range order {
		n := len(r.chunks[p.Chunk].graphs())
		if p.Backward {
			n = -n
		}
		now += n
		most = max(most, now)
	}
	return most
}

// passGraph runs a part of a layer forward on one of the inputs.
func (r *run) passGraph(part func(torch.Tensor) torch.Tensor, input torch.Tensor) (in, out torch.Tensor) {
	in = r.te.m.RequireGrad(r.te.m.Keep(r.te.m.Detach(input)))
	return in, r.te.m.Keep(part(in))
}

// passed is a pass whose forward was captured and whose backward was not.
type passed struct{ input, in, out torch.Tensor }

// capturePasses captures in order. What a pass made goes when its backward is there, and
// the gradient that it gives when the next one is: within a chunk, or that of the next
// chunk. The gradients that come in are copied into slope.
func (r *run) capturePasses(order []parallel.Pass, inputs []torch.Tensor, slope torch.Tensor) {
	m := r.te.m
	queues := make([][]passed, len(r.chunks))
	var sent torch.Tensor
	for _, p := range order {
		parts := r.chunks[p.Chunk].graphs()
		if !p.Backward {
			for _, part := range parts {
				in, out := r.passGraph(part, inputs[0])
				queues[p.Chunk] = append(queues[p.Chunk], passed{inputs[0], in, out})
				inputs = inputs[1:]
			}
			continue
		}
		var before torch.Tensor
		for i := range parts {
			f := queues[p.Chunk][len(parts)-1-i]
			m.BackwardWith(f.out, slope)
			given := m.Hold(m.GradientOf(f.in))
			m.Drop(f.out, f.in, before)
			before = given
			inputs = append(inputs, f.input)
		}
		if queues[p.Chunk] = queues[p.Chunk][len(parts):]; len(parts) > 0 {
			m.Drop(sent)
			sent = before
		}
	}
}
