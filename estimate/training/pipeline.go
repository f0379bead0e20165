package training

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/workload"
)

// Rules is how the software of a workload divides a model: torchtitan gives layers that
// do not divide evenly to the second stage and those behind it (pipelining_utils.py,
// generate_split_points), and a rank of an interleaved schedule two pieces. Worked number:
// 126 layers over 8 stages are 15, six times 16, and 15.
func Rules(w *workload.Workload) parallel.Rules {
	r := parallel.Plain()
	if w.Training == nil || w.Engine.Name != string(modules.TorchTitan) {
		return r
	}
	r.Chunks = int(chunksOf(w.Training.Schedule))
	pieces := max(1, w.Mesh.PipelineParallel) * r.Chunks
	r.Layers = func(layers int) ([]int, error) {
		if layers < pieces {
			return nil, refuse("%d layers cannot be divided into %d pieces of a pipeline: each has one at least", layers, pieces)
		}
		counts := make([]int, pieces)
		for i := range counts {
			if counts[i] = layers / pieces; 0 < i && i <= layers%pieces {
				counts[i]++
			}
		}
		return counts, nil
	}
	return r
}

// chunksOf is how many pieces each stage of a pipeline has.
func chunksOf(s workload.Schedule) int64 {
	if s.Kind != workload.Interleaved1F1B {
		return 1
	}
	return max(2, s.Chunks)
}

// stage is one rank of a pipeline of torch.distributed.pipelining, as PyTorch 2.5 to 2.8
// run it: buffers for what all micro-batches of a step receive are made before the
// first, outputs of all stay until the next step, and so do the gradients of what was
// received (PipelineStage of torch/distributed/pipelining/stage.py).
type stage struct {
	pieces []piecePart
	order  []parallel.Pass
}

// piecePart is a piece of a stage and what goes in and out of it, by micro-batch.
type piecePart struct {
	modules.Piece
	received, gradients []torch.Tensor // made once
	outputs, losses     []torch.Tensor // of this step
	reducing            []torch.Tensor // what the last reduction of the step before read
	forwards, backwards int
}

// micro is the micro-batches of a step.
func (j *job) micro() int64 { return max(1, j.train.Accumulation) }

// newStage is the stage of the rank, with nothing received.
func (j *job) newStage() *stage {
	chunks := chunksOf(j.train.Schedule)
	s := &stage{pieces: make([]piecePart, chunks)}
	for i, chunk := range j.in.Plan.Chunk {
		p := &s.pieces[chunk]
		if p.To == 0 {
			p.From = i
		}
		p.To = i + 1
	}
	s.pieces[0].First = j.in.Plan.First
	s.pieces[chunks-1].Last = j.in.Plan.Last
	n := j.micro()
	rounds := max(1, n/j.stages())
	s.order = parallel.Pipeline{Kind: j.train.Schedule.Kind, Stages: j.stages(), Micro: n, Chunks: chunks, Group: n / rounds}.Order(int64(j.in.Plan.Coord.Pipeline))
	return s
}

// receives makes the buffers of all micro-batches: what is sent is the rank's part of
// the positions, in the format of the computation.
func (j *job) receives(s *stage) {
	batch, _ := j.in.Workload.Dimension(workload.MicroBatch)
	length, _ := j.in.Workload.Dimension(workload.Context)
	made := func() torch.Tensor {
		return j.machine.Sent(j.sentFormat(), batch, length/j.across(), int64(j.in.Model.Stacks[0].Width))
	}
	for i := range s.pieces {
		p := &s.pieces[i]
		for range j.micro() {
			if !p.First {
				p.received = append(p.received, j.machine.RequireGrad(made()))
			}
			if !p.Last {
				p.gradients = append(p.gradients, made())
			}
		}
	}
}

// sentFormat is the format of hidden states.
func (j *job) sentFormat() dtype.Format {
	for _, t := range j.in.Model.Tensors {
		if t.Role.Category() == account.CategoryParameter {
			return j.gatheredFormat(model.RoleNorm, t.Stored)
		}
	}
	return dtype.F32
}

// pipelineStep is the passes of one step: a phase to the first backward, and one from
// there on.
func (j *job) pipelineStep(n int) {
	if n == 1 {
		j.stage = j.newStage()
	}
	s := j.stage
	j.begin(account.PhaseForward, n, 0)
	if n == 1 {
		j.receives(s)
	}
	for i := range s.pieces {
		s.pieces[i].clear(j.machine)
	}
	turned := false
	for _, pass := range s.order {
		if pass.Backward && !turned {
			turned = true
			j.finish()
			j.begin(account.PhaseBackward, n, 0)
		}
		if p := &s.pieces[pass.Chunk]; pass.Backward {
			j.back(p)
		} else {
			j.through(p)
		}
	}
	j.merged(&s.pieces[len(s.pieces)-1])
	j.finish()
	if last := len(j.tl.Phases) - 1; j.compilesLayers() { // micro-batches run blocks from the beginning on
		j.reordered(int32(last), j.tl.Phases[last].First)
	}
}

// clear is what a step begins with (clear_runtime_states).
func (p *piecePart) clear(m *torch.Machine) {
	m.Drop(p.outputs...)
	m.Drop(p.losses...)
	for _, r := range p.received {
		m.ZeroGrad(r, true)
	}
	p.outputs, p.losses, p.forwards, p.backwards = nil, nil, 0, 0
}

// through is one micro-batch forward through a piece, and its loss behind the last.
func (j *job) through(p *piecePart) {
	m, at := j.machine, p.forwards
	p.forwards++
	batch, _ := j.in.Workload.Dimension(workload.MicroBatch)
	own := func(of torch.Tensor) torch.Tensor { return m.Slice(of, 0, int64(at)*batch, int64(at+1)*batch) }
	var in torch.Tensor
	if p.First {
		in = own(j.ops.batch.IDs)
	} else {
		in = p.received[at]
	}
	out := j.ops.net.Forward(p.Piece, in)
	p.outputs = append(p.outputs, out)
	if p.Last {
		p.losses = append(p.losses, j.ops.net.LossOf(out, own(j.ops.batch.Labels)))
	}
}

// back is one micro-batch backward through a piece.
func (j *job) back(p *piecePart) {
	at := p.backwards
	p.backwards++
	if j.division != nil {
		j.division.backwardBegins()
	}
	if p.Last {
		j.machine.Backward(p.losses[at])
	} else {
		j.machine.BackwardWith(p.outputs[at], p.gradients[at])
	}
	if j.division != nil {
		j.division.backwardEnds()
	}
	if d, divides := j.division.(*fullySharded); divides && int64(p.backwards) == j.micro() {
		d.pieceEnds(p)
	}
}

// merged is the logits of all micro-batches, joined for a loop that drops them at once
// (_merge_outputs).
func (j *job) merged(p *piecePart) {
	if !p.Last || len(p.outputs) == 0 {
		return
	}
	var elements int64
	for _, out := range p.outputs {
		elements += out.Elements()
	}
	j.machine.Drop(j.machine.AsLogits(j.machine.Bucket("cat", p.outputs[0].Dtype(), elements)))
}

// pipelineLacks is why the passes of a pipeline are not known.
func (j *job) pipelineLacks() string {
	switch {
	case j.stages() == 1:
	case j.train.Accumulation < 1:
		return "the workload does not say how many micro-batches a step has (training.accumulation), nor so how long they are"
	}
	return ""
}

// checkPipeline refuses what torch.distributed.pipelining does.
func (j *job) checkPipeline() error {
	if j.stages() == 1 {
		return nil
	}
	if j.tiedHead() {
		return refuse("torchtitan's pipeline has the embedding and the head on different ranks, and this model ties them")
	}
	n := j.micro()
	if rounds := max(1, n/j.stages()); chunksOf(j.train.Schedule) > 1 && n%rounds != 0 {
		return refuse("%d micro-batches are not a multiple of %d rounds, which an interleaved schedule over %d stages runs", n, rounds, j.stages())
	}
	return nil
}

func (j *job) tiedHead() bool {
	for _, t := range j.in.Model.Tensors {
		if t.Role == model.RoleHead {
			return t.TiedTo != model.NotTied
		}
	}
	return false
}
