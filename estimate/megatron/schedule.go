package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/parallel"
	"floodmark/workload"
)

// order is the passes of one step on one stage. Micro-batches that repeat what others
// did before them are left out: after a pipeline is full its stages hold no more.
func (s *settings) order(stage int64) []parallel.Pass {
	p := parallel.Pipeline{Kind: s.schedule.Kind, Stages: s.pipeline, Micro: s.laid(), Chunks: max(1, s.schedule.Chunks), Group: s.group()}
	if s.pipeline == 1 {
		p.Kind, p.Chunks = workload.OneFOneB, 1
	}
	return p.Order(stage)
}

// laid is the micro-batches of a step that are laid out.
func (s *settings) laid() int64 {
	most := 2*s.pipeline + 2
	switch {
	case s.pipeline == 1:
		most = 2
	case s.schedule.Kind == workload.GPipe:
		most = s.micro
	case s.schedule.Chunks > 1:
		most = 3*s.group() + s.micro%s.group()
	}
	return min(s.micro, most)
}

// group is the micro-batches that run through one chunk before the next one's turn:
// as many as there are stages where nobody said.
func (s *settings) group() int64 {
	if s.MicroBatchGroup > 0 {
		return s.MicroBatchGroup
	}
	return s.pipeline
}

// flight is a micro-batch that went forward through a chunk and not back yet.
type flight struct {
	input, output torch.Tensor
}

// steps is the first steps, up to one that repeats what others did; with graphs those
// before they are captured, and one by them.
func (r *run) steps() {
	captured := 0
	if r.te.s.graphsAttention || r.te.s.graphsNetwork {
		captured = r.te.s.graphWarmup() + 1
	}
	for n := 1; n <= countedSteps; n++ {
		if n == captured {
			r.capture(n)
		}
		r.step(n)
	}
	if captured > countedSteps {
		r.capture(captured)
		r.step(captured)
	}
}

// step is one optimizer step.
func (r *run) step(n int) {
	s := r.te.s
	queues := make([][]flight, len(r.chunks))
	r.phase("forward", n)
	r.te.m.Drop(r.batches...)
	r.batches = nil
	r.states.zeroGrad()
	turned := false
	passes := s.order(int64(r.stage))
	flown := r.te.offloaded.begin(passes, r.chunks)
	for _, p := range passes {
		if p.Backward && !turned {
			turned = true
			r.phase("backward", n)
			r.keepOthers()
		}
		if !p.Backward {
			if flown != nil {
				r.te.offloaded.forward, flown = flown[0], flown[1:]
			}
			queues[p.Chunk] = append(queues[p.Chunk], r.forward(p.Chunk))
			continue
		}
		f := queues[p.Chunk][0]
		queues[p.Chunk] = queues[p.Chunk][1:]
		r.backward(f, p.Chunk)
	}
	r.phase("optimizer", n)
	r.states.step()
}

// forward is one micro-batch through a chunk. What the stage before sent is a leaf,
// and the model holds the newest (set_input_tensor).
func (r *run) forward(chunk int) flight {
	c, e := r.chunks[chunk], r.te
	ids, mask := r.batch(c)
	r.tabulate(c)
	var f flight
	var x torch.Tensor
	if c.first {
		x = e.m.Keep(r.embed(ids))
		if e.s.frozen() && e.s.granularity == workload.FullCheckpointing {
			// Layers are computed again only for an input that wants a gradient
			// (src/megatron/bridge/peft/recompute.py of Megatron-Bridge).
			e.m.RequireGrad(x)
		}
	} else {
		f.input = e.m.RequireGrad(e.m.Keep(e.m.Empty("recv", e.s.compute, e.s.resident(), r.hidden)))
		e.m.Drop(r.held[chunk])
		r.held[chunk] = e.m.Hold(f.input)
		x = e.m.Hold(f.input)
	}
	x = r.layers(c, x)
	if c.last {
		f.output = r.score(x, ids)
	} else {
		f.output = x
	}
	r.leave(ids, mask)
	if !c.last {
		e.m.Deallocate(f.output) // it was sent
	}
	return f
}

// layers runs the layers of a chunk, in segments of which some are run again in
// backward and keep only what they read
// (_checkpointed_forward of megatron/core/transformer/transformer_block.py).
func (r *run) layers(c *chunk, x torch.Tensor) torch.Tensor {
	for from := 0; from < len(c.layers); {
		size, again := r.te.s.segment(from, len(c.layers))
		part := c.layers[from : from+size]
		from += size
		run := func(args []torch.Tensor) torch.Tensor { return r.through(part, args[0]) }
		var out torch.Tensor
		if again {
			out = r.te.m.Keep(r.te.m.Checkpoint(true, run, x))
		} else {
			out = r.te.m.Keep(run([]torch.Tensor{x}))
		}
		r.te.m.Drop(x)
		x = out
	}
	return x
}

// through runs layers one after another; x stays with its holder.
func (r *run) through(layers []*layer, x torch.Tensor) torch.Tensor {
	out := layers[0].forward(x)
	for _, l := range layers[1:] {
		in := r.te.m.Keep(out)
		out = l.forward(in)
		r.te.m.Drop(in)
	}
	return out
}

// segment is how many layers from one on run together, and whether they run again
// in backward: with the method uniform all do, so many at once; with block the
// first so many of a chunk do, one at a time.
func (s *settings) segment(from, layers int) (size int, again bool) {
	n := int(max(1, s.recompute.Layers))
	switch {
	case s.granularity != workload.FullCheckpointing:
		return 1, false
	case s.recompute.Method == "block":
		return 1, from < int(s.recompute.Layers)
	}
	return min(n, layers-from), true
}

// score is the last norm, the logits and their loss.
func (r *run) score(x, ids torch.Tensor) torch.Tensor {
	e := r.te
	normed := e.lastNorm(x, &r.final)
	e.m.Drop(x)
	logits := e.m.Keep(r.logits(normed))
	losses := r.loss(logits, ids)
	e.m.Drop(logits)
	return e.m.Keep(e.m.Sum(losses, false, 0))
}

// backward is one micro-batch back through a chunk.
func (r *run) backward(f flight, chunk int) {
	m := r.te.m
	if r.chunks[chunk].last {
		m.Backward(f.output)
	} else {
		gradient := m.Keep(m.Empty("recv", r.te.s.compute, r.te.s.resident(), r.hidden))
		m.BackwardWith(f.output, gradient)
		m.Drop(gradient)
	}
	if f.input.Defined() {
		m.AsActivation(m.GradientOf(f.input))
	}
	m.Drop(f.output, f.input)
}

// tabulate makes the angles of positions once, in 32 bits: of the model for each of
// its pieces, of latent attention in every layer
// (megatron/core/models/common/embeddings/rotary_pos_embedding.py, whose forward is
// cached).
func (r *run) tabulate(c *chunk) {
	if c.tabulated {
		return
	}
	c.tabulated = true
	shared := false
	for _, l := range c.layers {
		switch {
		case l.latent != nil:
			r.te.m.Buffer(dtype.F32, r.te.s.positions/r.te.s.context, l.latent.rope)
		case l.turned > 0 && !shared:
			shared = true
			r.te.angles = r.te.m.Buffer(dtype.F32, r.te.s.positions/r.te.s.context, l.turned)
		}
	}
}
