package megatron

import (
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// graphWarmup is the steps before graphs are captured.
func (s *settings) graphWarmup() int {
	if s.GraphWarmup == nil {
		return 3
	}
	return int(*s.GraphWarmup)
}

// unmodelledGraphs is why graphs have no program; empty where they have.
func (s *settings) unmodelledGraphs(mixtures bool) string {
	for _, module := range s.Graphs {
		switch {
		case s.Implementation == workload.LocalLayers || s.lora != nil || !s.fusion || len(s.OffloadModules) > 0 || s.granularity == workload.FullCheckpointing:
			return "captured graphs beside mcore's own layers, adapters, offloading, whole layers computed again or separate gradients are not modelled (--cuda-graph-impl)"
		case module == "attn" || module == "mlp" || !mixtures && strings.HasPrefix(module, "moe"):
		default:
			return "captured graphs of " + module + " are not modelled for Megatron-LM"
		}
	}
	return ""
}

// graphed is which parts of a layer graphs run: what comes before the network with its
// residual, and the network with its own
// (_te_cuda_graph_capture of megatron/core/transformer/transformer_layer.py).
func (l *layer) graphed() (attention, network bool) {
	return l.te.s.graphsAttention, l.te.s.graphsNetwork && l.experts == nil
}

// graph is the part of a layer that one graph runs.
func (l *layer) graph(x torch.Tensor) torch.Tensor {
	switch attention, network := l.graphed(); {
	case !network:
		return l.attentionPass(x)
	case !attention:
		return l.networkPass(x)
	}
	return l.forward(x)
}

// graphs is the layers of a chunk that have one.
func (c *chunk) graphs() (list []*layer) {
	for _, l := range c.layers {
		if attention, network := l.graphed(); attention || network {
			list = append(list, l)
		}
	}
	return list
}

// replay runs a part of a layer by its graph, where it has been captured: what comes in
// is copied into the graph's own input and goes, and all else lies in the graph's pool
// (Graphed of transformer_engine/pytorch/graph.py). x stays with its holder.
func (e *te) replay(graphed bool, x torch.Tensor, part func(torch.Tensor) torch.Tensor) (out torch.Tensor) {
	if !graphed || !e.replays {
		return part(x)
	}
	e.m.In(torch.Replayed, func() {
		// Not a clone: the gradient that goes out is the graph's own, too.
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

// capture makes the graphs of all layers and micro-batches, in the order in which they
// will run, out of one pool, which keeps what it grew to; without a pipeline of one
// micro-batch. Before, each layer runs by itself on another stream, so that libraries have
// what they keep, and there are all inputs: tensors of the program's own, which the next
// pass uses again when a backward is through
// (TECudaGraphHelper of megatron/core/transformer/cuda_graphs.py, _make_graphed_callables
// of transformer_engine/pytorch/graph.py, 2.7 to 2.18).
func (r *run) capture(step int) {
	m, s := r.te.m, &r.te.s
	r.captured = len(r.tl.Phases)
	r.phase("graphs", step)
	m.EmptyCache()
	order := s.order(int64(r.stage))
	if s.pipeline == 1 {
		order = order[:2]
	}
	var inputs []torch.Tensor
	stream := func() torch.Tensor { return m.Scratch(s.compute, s.resident(), r.hidden) }
	passes := 0
	for _, p := range order {
		if n := len(r.chunks[p.Chunk].graphs()); p.Backward {
			passes -= n
		} else {
			passes += n
		}
		for len(inputs) < passes {
			if inputs = append(inputs, stream()); s.graphsAttention {
				m.Scratch(dtype.Bool, s.maskBytes())
			}
		}
	}
	slope := stream()
	m.On("warm-up of graphs", func() {
		for _, c := range r.chunks {
			r.tabulate(c)
			for _, l := range c.graphs() {
				m.Drop(l.passGraph(inputs[0]).back(m, slope))
			}
		}
	})
	m.On("graphs", func() {
		m.In(torch.Captured, func() { r.capturePasses(order, inputs, slope) })
	})
	m.EmptyCache()
	r.states.zeroGrad()
	r.te.replays = true
	p := requested(graphFormula)
	p.Scope = account.Process
	r.tl.Hold(account.TermGraphPools, account.CategoryGraphPool, r.captured, timeline.ToEnd, account.Unknown("what the driver holds for graphs of training was measured nowhere", p))
}

// passed is a pass of a part of a layer whose forward ran and whose backward did not.
type passed struct{ input, in, out torch.Tensor }

// passGraph runs a part of a layer forward on one of the inputs.
func (l *layer) passGraph(input torch.Tensor) passed {
	m := l.te.m
	in := m.RequireGrad(m.Keep(m.Detach(input)))
	return passed{input, in, m.Keep(l.graph(in))}
}

// back runs it backward, and is the gradient that it gives, for its maker to drop.
func (f passed) back(m *torch.Machine, slope torch.Tensor) torch.Tensor {
	m.BackwardWith(f.out, slope)
	given := m.Hold(m.GradientOf(f.in))
	m.Drop(f.out, f.in)
	return given
}

// capturePasses captures in order. What a pass made goes when its backward is there, and
// the gradient that it gives when the next one is: within a chunk, or that of the next
// chunk. The gradients that come in are copied into slope.
func (r *run) capturePasses(order []parallel.Pass, inputs []torch.Tensor, slope torch.Tensor) {
	m := r.te.m
	queues := make([][]passed, len(r.chunks))
	var sent torch.Tensor
	for _, p := range order {
		queue, layers := &queues[p.Chunk], r.chunks[p.Chunk].graphs()
		var before torch.Tensor
		for i, l := range layers {
			if !p.Backward {
				*queue = append(*queue, l.passGraph(inputs[0]))
				inputs = inputs[1:]
				continue
			}
			f := (*queue)[len(layers)-1-i]
			given := f.back(m, slope)
			m.Drop(before)
			before, inputs = given, append(inputs, f.input)
		}
		if p.Backward && len(layers) > 0 {
			*queue = (*queue)[len(layers):]
			m.Drop(sent)
			sent = before
		}
	}
}
