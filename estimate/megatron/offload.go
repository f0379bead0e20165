package megatron

import (
	"slices"

	"floodmark/internal/torch"
	"floodmark/parallel"
)

// offloads is fine-grained offloading of activations on one rank: what modules save
// for backward moves to main memory when they are done, and comes back when backward
// has left the group that stands one layer behind it
// (megatron/core/pipeline_parallel/fine_grained_activation_offload.py).
type offloads struct {
	m     *torch.Machine
	names []string // --offload-modules
	least int64    // elements of a tensor that moves
	steps int      // the first one moves everything

	order    []*flown // of the step's passes forward, in the order in which they go back
	forward  *flown   // that runs
	backward int      // how many of order have begun to go back
}

// flown is a micro-batch through a piece of the model.
type flown struct {
	o         *offloads
	has       []string // the groups of the piece, each once for every layer, in their order
	begun     int      // of them
	moved     []*group // that wait in main memory, the last one on top
	goingBack bool
}

// group is what one module saves.
type group struct {
	f        *flown // nil where nothing moves
	name     string
	input    torch.Tensor // of the module, as it is to be read
	at       int          // its place among the groups of the piece
	saved    *torch.Saved
	released []torch.Tensor // beside the input: references
}

// offload begins a group with what its module reads.
func (e *te) offload(name string, x torch.Tensor) *group {
	o := e.offloaded
	if o == nil || !e.s.offloads(name) || o.m.InBackward() {
		return &group{input: x}
	}
	f := o.forward
	g := &group{f: f, name: name, at: f.begun}
	f.begun++
	g.input = e.m.Keep(g.marked("FineGrainedOffloadingGroupStart", x, f.next))
	return g
}

// of is the group over another name of its input.
func (g *group) of(x torch.Tensor) *group {
	if g.f == nil {
		return &group{input: x}
	}
	return g
}

// marked is a tensor whose gradient tells something on its way.
func (g *group) marked(name string, x torch.Tensor, then func()) torch.Tensor {
	shape := slices.Clone(x.Shape())
	return g.f.o.m.Apply1(torch.Function{
		Name:    name,
		Forward: func(c *torch.Call) []torch.Tensor { return []torch.Tensor{c.Alias(x, shape...)} },
		Backward: func(b *torch.Gradients) {
			b.Give(0, b.Grad(0))
			then()
		},
	}, x)
}

// watch runs a part of the module whose saved tensors are the group's.
func (g *group) watch(run func()) {
	if g.f == nil {
		run()
		return
	}
	g.saved = g.f.o.m.Watch(run)
}

// release says what else the group gives back by force.
func (g *group) release(list ...torch.Tensor) {
	if g.f != nil {
		for _, t := range list {
			g.released = append(g.released, g.f.o.m.Hold(t))
		}
	}
}

// commit ends the group with what its module made: what was saved moves, unless the
// policy keeps it, and what the module read is given back, whoever has it.
func (g *group) commit(out torch.Tensor) torch.Tensor {
	if g.f == nil {
		return out
	}
	m := g.f.o.m
	out = g.marked("FineGrainedOffloadingGroupCommit", out, g.f.goesBack)
	g.released = append(g.released, g.input)
	if !g.f.o.keeps(g) {
		g.saved.Offload(g.f.o.least)
		for _, t := range g.released {
			if t.Elements() >= g.f.o.least {
				m.Discard(t)
			}
		}
		g.f.moved = append(g.f.moved, g)
	}
	m.Drop(g.released...)
	return out
}

// keeps reports a group that stays on the device: in the first micro-batch that goes
// back the last one of each name, so that nothing waits for it (post_warmup_callback),
// and the last one of a piece that goes back next (should_bulk_offload).
func (o *offloads) keeps(g *group) bool {
	if o.steps < 2 || slices.Contains(g.f.has[g.at+1:], g.name) {
		return false
	}
	having := func(f *flown) bool { return slices.Contains(f.has, g.name) }
	first := slices.IndexFunc(o.order, having)
	next := slices.IndexFunc(o.order[o.backward:], having)
	return first >= 0 && o.order[first] == g.f || next >= 0 && o.order[o.backward+next] == g.f
}

// goesBack notes the first group of a micro-batch that backward reaches.
func (f *flown) goesBack() {
	if !f.goingBack {
		f.goingBack = true
		f.o.backward = max(f.o.backward, slices.Index(f.o.order, f)+1)
	}
}

// next brings back the group that backward reaches next: of the same micro-batch, else
// the last one of the next that went forward to its end (bulk_reload).
func (f *flown) next() {
	if f.pop() {
		return
	}
	for _, other := range f.o.order[f.o.backward:] {
		if len(other.has) > 0 {
			if other.begun == len(other.has) {
				other.pop()
			}
			return
		}
	}
}

func (f *flown) pop() bool {
	n := len(f.moved) - 1
	if n < 0 {
		return false
	}
	f.moved[n].saved.Reload()
	f.moved = f.moved[:n]
	return true
}

// begin is a step: its passes, of which those forward will come in this order.
func (o *offloads) begin(passes []parallel.Pass, chunks []*chunk) (forward []*flown) {
	if o == nil {
		return nil
	}
	o.steps++
	o.order, o.backward = nil, 0
	waiting := make([][]*flown, len(chunks))
	for _, p := range passes {
		if !p.Backward {
			f := &flown{o: o, has: o.groups(chunks[p.Chunk])}
			forward = append(forward, f)
			waiting[p.Chunk] = append(waiting[p.Chunk], f)
			continue
		}
		o.order = append(o.order, waiting[p.Chunk][0])
		waiting[p.Chunk] = waiting[p.Chunk][1:]
	}
	return forward
}

// groups is the groups of a piece in the order in which they begin.
func (o *offloads) groups(c *chunk) (list []string) {
	for _, l := range c.layers {
		for _, name := range []string{"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"} {
			mixture := name == "mlp_norm" || name == "expert_fc1" || name == "moe_act"
			if slices.Contains(o.names, name) && (!mixture || l.experts != nil) {
				list = append(list, name)
			}
		}
	}
	return list
}
