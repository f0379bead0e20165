package megatron

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// experts is a MoELayer of one rank
// (megatron/core/transformer/moe/moe_layer.py).
type experts struct {
	norm       weight // before the layer, a module of its own
	router     torch.Tensor
	routerBias torch.Tensor // empty where there is none

	count, active int64 // experts of the layer, and those of one position
	local         int64 // of this rank
	up, down      []weight
	biases        []torch.Tensor // of down, which are added behind it
	width         int64          // inner, of the rank's part of an expert
	gate          gate

	held []torch.Tensor // what the dispatcher has of its last micro-batch

	shared               bool
	sharedUp, sharedDown weight
}

// newExperts makes the parameters of a mixture; whole is the layer before it is
// divided.
func (r *run) newExperts(f, whole model.Experts, n model.Norm, width int64) (*experts, string) {
	switch {
	case f.Latent > 0 || f.SharedGate || f.Active < 1 || f.Count < 1:
		return nil, "experts with latent widths or gates of shared experts are not modelled for Megatron-LM"
	case f.Bias && (!r.te.s.GroupedGEMM || r.te.s.local() || r.te.groupOf() > 1):
		return nil, "biases of experts are modelled for Megatron-LM in one product and on one rank each (--moe-grouped-gemm, --expert-tensor-parallel-size 1)"
	}
	if whole.Count > workload.MostExperts {
		return nil, fmt.Sprintf("more than %d experts are not counted for Megatron-LM", workload.MostExperts)
	}
	if r.quantised && !r.te.s.GroupedGEMM {
		return nil, "experts one after another in 8 bits are not modelled for Megatron-LM (without --moe-grouped-gemm)"
	}
	x := &experts{count: int64(whole.Count), active: int64(f.Active), local: int64(f.Count), width: int64(f.Width)}
	x.gate = gate{gated: f.Gated, clamped: f.Gated && (f.Clamped || f.Alternating), quick: f.Activation == "quick_gelu" || f.Alternating}
	x.norm = r.normOf(n, width)
	x.router = r.states.add(false, x.count, width)
	if f.Bias {
		x.routerBias = r.states.add(false, x.count)
	}
	wide := x.width
	if f.Gated {
		wide *= 2
	}
	for range x.local {
		x.up = append(x.up, r.expert(width, wide, f.Bias))
		if r.te.s.local() { // a module for each expert
			x.down = append(x.down, r.expert(x.width, width, false))
		}
	}
	for range x.local - int64(len(x.down)) {
		x.down = append(x.down, r.expert(x.width, width, false))
		if f.Bias {
			x.biases = append(x.biases, r.states.add(true, width))
		}
	}
	r.adapt(upTarget, &x.up[0], true)
	r.adapt(downTarget, &x.down[0], true)
	if f.SharedWidth > 0 {
		inner := int64(f.SharedWidth)
		if f.Gated {
			inner *= 2
		}
		x.shared = true
		x.sharedUp = r.plainColumn(width, inner)
		if up := x.sharedUp.eight; up != nil {
			// The router keeps its input too (megatron/core/transformer/moe/shared_experts.py).
			up.original = up.recipe != workload.DelayedScaling
		}
		x.sharedDown = r.row(int64(f.SharedWidth), width, false)
		r.adapt(upTarget, &x.sharedUp, false)
		r.adapt(downTarget, &x.sharedDown, false)
	}
	return x, ""
}

// expert is a matrix of one expert: its input comes to it, and its result is brought
// back by the dispatcher.
func (r *run) expert(in, out int64, bias bool) weight {
	w := weight{in: in, out: out}
	w.matrix, w.eight = r.matrix(true, out, in)
	if bias {
		w.bias = r.states.add(true, out)
	}
	return w
}

// received is the rows that the rank's experts work on, where every rank gets as
// many as another. With a capacity that is filled up it is exact.
func (e *te) received(rows int64, x *experts) int64 {
	group := e.s.tensor // ranks that divide each expert see the same rows
	if e.s.ExpertTensor == 1 {
		group = 1
	}
	ranks := x.count / x.local
	sent := rows * x.active
	if e.s.Capacity > 0 && e.s.Padded {
		capacity := int64(float64(sent)/float64(x.count)*e.s.Capacity + 0.999999)
		return capacity * x.count / ranks * ranks * group
	}
	if e.s.Imbalance > 1 {
		sent = int64(float64(sent) * e.s.Imbalance)
	}
	return sent * group
}

// forward is one pass: the norm, the shared experts, the router, the rows on their way
// to the experts and back (custom_forward of megatron/core/transformer/moe/moe_layer.py).
func (x *experts) forward(e *te, norm *group) (torch.Tensor, *torch.Outputless) {
	normed, again := e.normed(norm, &x.norm)
	out := x.mixture(e, normed)
	e.m.Drop(normed)
	return out, again
}

// mixture is the layer behind its norm; what that made stays with its holder.
func (x *experts) mixture(e *te, normed torch.Tensor) torch.Tensor {
	m := e.m
	var common torch.Tensor
	if x.shared {
		common = m.Keep(e.linear(e.activation(e.linear(normed, &x.sharedUp), torch.Tensor{}, x.gate), &x.sharedDown))
	}
	probabilities, routes := x.route(e, normed)
	var out torch.Tensor
	if e.s.Dispatcher == workload.AllToAll {
		out = x.exchange(e, normed, probabilities, routes)
	} else {
		out = x.gather(e, normed, probabilities, routes)
	}
	if x.shared {
		out = m.Binary(torch.Add, out, common)
	}
	m.Drop(common)
	return out
}

// groupOf is the ranks that divide each expert.
func (e *te) groupOf() int64 { return int64(e.s.ExpertTensor) }

// route is the router: logits of every expert, their probabilities and those that
// were chosen (megatron/core/transformer/moe/router.py). It keeps its input, the
// probabilities in 32 bits twice (for the choice and for the balance), and which
// experts each position goes to.
func (x *experts) route(e *te, normed torch.Tensor) (probabilities, routes torch.Tensor) {
	rows, count, width := normed.Size(0), x.count, normed.Size(1)
	f := e.s.compute
	if e.s.RouterFormat != dtype.Unknown {
		f = e.s.RouterFormat
	}
	parts := e.m.Apply(torch.Function{
		Name: "TopKRouter",
		Forward: func(c *torch.Call) []torch.Tensor {
			e.gemm() // its product is TransformerEngine's, whosever the layers are (router_gating_linear of moe_utils.py)
			c.Save(normed, x.router, x.routerBias, c.Empty(f, rows, count), c.Empty(dtype.F32, rows, count), c.Empty(dtype.F32, rows, count))
			chosen := c.Empty(f, rows, count)
			return []torch.Tensor{chosen, c.Empty(dtype.Bool, rows, count)}
		},
		Backward: func(g *torch.Gradients) {
			g.Empty(dtype.F32, rows, count)
			g.Give(0, g.Empty(e.s.compute, rows, width))
			if g.Needs(1) {
				g.Give(1, g.Empty(e.s.compute, count, width))
			}
			e.vectors(g, 2, x.routerBias)
		},
	}, normed, x.router, x.routerBias)
	return e.m.Keep(parts[0]), e.m.Keep(parts[1])
}

// worked is the rows through the experts of the rank
// (TEGroupedMLP.forward of megatron/core/transformer/moe/experts.py).
func (x *experts) worked(e *te, rows, probabilities torch.Tensor) torch.Tensor {
	if e.s.local() {
		return x.sequential(e, rows, probabilities)
	}
	first := e.offload("expert_fc1", rows)
	var wide, inner torch.Tensor
	first.watch(func() { wide = e.grouped(first.input, x.up) })
	act := e.offload("moe_act", first.commit(wide))
	var again *torch.Outputless
	act.watch(func() {
		run := func(args []torch.Tensor) torch.Tensor { return e.weighted(args[0], args[1], x.gate) }
		inner, again = e.outputless("moe_act", run, act.input, probabilities)
	})
	inner = e.m.Keep(inner) // it has a name until all is done
	out := e.grouped(inner, x.down)
	again.Discard(out)
	out = e.addBiases(act.commit(out), probabilities, x.biases)
	e.m.Drop(inner)
	return out
}

// grouped is the product of the experts of a rank, with what the adapter that they share
// adds.
func (e *te) grouped(x torch.Tensor, list []weight) torch.Tensor {
	if list[0].eight != nil {
		return e.groupedIn8(x, list)
	}
	a := list[0].lora
	if a == nil {
		return e.groupedProduct(x, list)
	}
	x = e.m.Keep(x)
	y := a.beside(e, e.groupedProduct(x, list), x)
	e.m.Drop(x)
	return y
}

// groupedProduct is TEGroupedLinear over the experts of a rank, or one linear layer after
// another on its part of the rows: both keep what they read, where matrices are trained
// (transformer_engine/pytorch/module/grouped_linear.py).
func (e *te) groupedProduct(x torch.Tensor, list []weight) torch.Tensor {
	f, rows := e.s.compute, x.Size(0)
	in, out := list[0].in, list[0].out
	return e.m.Apply1(torch.Function{
		Name: "_GroupedLinear",
		Forward: func(c *torch.Call) []torch.Tensor {
			if !e.s.frozen() {
				c.Save(x)
			}
			e.groupedGEMM()
			return []torch.Tensor{c.Empty(f, rows, out)}
		},
		Backward: func(g *torch.Gradients) {
			g.Give(0, g.Empty(f, rows, in))
			e.groupedGradients(g, list)
		},
	}, groupedInputs(x, list)...)
}

// streams is the streams over which products of experts are spread
// (nvte_get_num_compute_streams of transformer_engine/common/util/multi_stream.cpp).
const streams = 4

// groupedGEMM makes the workspaces of products of experts: one of each stream.
func (e *te) groupedGEMM() {
	if !e.s.GroupedGEMM {
		e.gemm()
		return
	}
	if !e.spread {
		e.spread = true
		for range streams {
			e.m.Scratch(dtype.U8, e.workspace)
		}
	}
}

// weighted is the activation of experts, times the probability of each row. Gated it
// is one function that keeps what comes in and the probabilities
// (WeightedSwiGLUFunction of megatron/core/fusions/fused_bias_swiglu.py); quick_gelu is
// given halves that were clamped before, which keep what they clamp, joined again
// (weighted_bias_quick_geglu_impl of megatron/core/fusions/fused_bias_geglu.py). Else three
// operators: the activation and the product each keep what they read, and with
// probabilities of 32 bits the product has as many until it is cast (MLP.forward of
// megatron/core/transformer/mlp.py).
func (e *te) weighted(x, probabilities torch.Tensor, a gate) torch.Tensor {
	gated := a.gated
	switch {
	case gated && e.s.unfused(workload.BiasActivationFusion):
		return e.plainWeighted(e.plainActivation(x, torch.Tensor{}, a), probabilities)
	case a.clamped && a.quick:
		x = e.m.Cat(1, e.halves(x, true)...)
	}
	f, rows, width := e.s.compute, x.Size(0), x.Size(1)
	positions, count := probabilities.Size(0), probabilities.Size(1)
	out := width
	if gated {
		out /= 2
	}
	wide := !gated && probabilities.Dtype() == dtype.F32 && f != dtype.F32
	return e.m.Apply1(torch.Function{
		Name: "WeightedActivation",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(x, c.Empty(dtype.F32, rows))
			if !gated {
				c.Save(c.Empty(f, rows, out))
			}
			if wide {
				product := c.Empty(dtype.F32, rows, out)
				defer c.Free(product)
			}
			return []torch.Tensor{c.Empty(f, rows, out)}
		},
		Backward: func(g *torch.Gradients) {
			if wide {
				g.Empty(dtype.F32, rows, out)
				g.Empty(dtype.F32, rows, out)
			}
			if !gated {
				g.Empty(f, rows, out)
			}
			g.Give(0, g.Empty(f, rows, width))
			if g.Needs(1) {
				g.Give(1, g.Empty(dtype.F32, positions, count))
			}
		},
	}, x, probabilities)
}

// uneven is what experts could keep beside what they keep where every rank gets as
// many rows as another: at worst all ranks that hold parts of a layer's experts send
// every row that they can to this one. Nothing where rows are dropped and filled up,
// or where the workload says how full the fullest rank is.
// What moves to main memory or is computed again is there for a few layers at once:
// stays is what waits for backward, passing what does not.
func (x *experts) uneven(e *te, rows int64) (stays, passing int64) {
	if e.s.Capacity > 0 && e.s.Padded || e.s.Imbalance > 0 {
		return 0, 0
	}
	ranks := x.count / x.local
	most := ranks * min(x.active, x.local) // for each position that a rank has
	extra := rows * max(0, most-x.active) * e.groupOf()
	read, wide, inner := x.up[0].in, x.up[0].out, x.down[0].in
	wide += e.beforeInner(x.gate, inner)
	if len(x.biases) > 0 {
		passing = 8 * extra * read // their sum and all of it joined, in 32 bits
	}
	for _, part := range []struct {
		elements int64
		goes     bool
	}{{read, e.s.offloads("expert_fc1")}, {wide, e.s.offloads("moe_act")}, {inner, e.s.recomputes("moe_act")}} {
		if part.goes {
			passing += 2 * extra * part.elements
		} else {
			stays += 2 * extra * part.elements
		}
	}
	return stays, passing
}

// passingLayers is of how many layers rows of experts are there that do not wait for
// backward: of one at work, one that comes back before it, and one that is kept.
const passingLayers = 3

// imbalance is the bound of what uneven routing adds over all micro-batches in flight.
func (r *run) imbalance() {
	layers, stays, passing := int64(0), int64(0), int64(0)
	for _, c := range r.chunks {
		for _, l := range c.layers {
			if l != nil && l.experts != nil {
				layers++
				one, once := l.experts.uneven(r.te, r.te.s.resident())
				stays, passing = max(stays, one), max(passing, once)
			}
		}
	}
	if stays+passing == 0 {
		return
	}
	flights := int64(inFlight(r.te.s.order(int64(r.stage))))
	waiting, fits := bytesize.Mul(stays, layers, flights)
	moved, also := bytesize.Mul(passing, layers, flights)
	p := requested(expertFormula)
	f := account.Between(0, waiting/int64(len(r.chunks))+passingLayers*passing, p)
	if !fits || !also {
		f = account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	if r.captured > 1 { // no experts run there
		r.tl.Hold(account.TermActivations, account.CategoryActivation, 1, int32(r.captured-1), f)
	}
	r.tl.Hold(account.TermActivations, account.CategoryActivation, r.captured+1, timeline.ToEnd, f)
	if r.te.offloaded != nil && moved > 0 && also { // page-locked, in powers of two
		p.Scope = account.Host
		r.tl.Hold(account.TermOffloadedActivations, account.CategoryActivation, 1, timeline.ToEnd, account.Between(0, 2*moved, p))
	}
}

// inFlight is the most passes that wait for their backward.
func inFlight(list []parallel.Pass) (n int) {
	level := 0
	for _, p := range list {
		if level++; p.Backward {
			level -= 2
		}
		n = max(n, level)
	}
	return n
}
