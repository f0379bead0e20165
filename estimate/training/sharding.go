package training

import (
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/outside"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// division is how data-parallel ranks divide what training keeps, as one software
// does it. It is told of the parts of a forward pass, of the ends of passes and of
// steps, and writes what it gathers, reduces and frees in that order.
type division interface {
	modules.Around
	// hold makes what the rank keeps, when the program is on the machine; what it
	// returns is what the optimizer updates.
	hold() []*parameter
	backwardBegins()
	backwardEnds()
	// backwardUnseen ends a backward none of whose operators is known: what forward
	// gathered and kept for it goes.
	backwardUnseen()
	// step is the update of what the rank keeps, and reports that it has done all;
	// false leaves it to the optimizer of the loop.
	step(list []*parameter, first bool) bool
	// gathers reports that whole parameters are there only while they are used.
	gathers() bool
	// keepsGradients reports that gradients lie in what hold made, or in main memory:
	// backward leaves none beside the parameters.
	keepsGradients() bool
}

// newDivision is the division of a job; nil where one rank holds everything.
func (j *job) newDivision() division {
	s := j.sharing()
	if s == nil {
		return nil
	}
	base := divided{job: j, sharing: *s}
	switch s.Kind {
	case workload.ZeRO1, workload.ZeRO2:
		return &partitionedStates{divided: base}
	case workload.ZeRO3:
		return &partitionedParameters{divided: base}
	case workload.FSDP1, workload.FSDP2:
		return &fullySharded{divided: base}
	}
	return &replicated{divided: base}
}

// sharing is how a job's states are shared, with the defaults of its software.
type sharing struct {
	workload.Sharding
	ranks    int64 // that hold one copy together
	replicas int64 // of that copy
}

// sharing is nil where one rank holds everything, unless parts of it lie in main
// memory or DeepSpeed steps them, which have their buffers on one rank too. Ranks of
// context parallelism work on the same parameters, and divide the states too.
func (j *job) sharing() *sharing {
	mesh := j.in.Plan.Mesh
	ranks := int64(max(1, mesh.DataParallel)) * int64(max(1, mesh.ContextParallel))
	if declared := j.train.Sharding; ranks < 2 && (declared == nil || len(declared.Offload) == 0 && declared.Kind != workload.ZeRO1 && declared.Kind != workload.ZeRO2) || !j.trains() {
		return nil
	}
	s := &sharing{Sharding: workload.Sharding{Kind: workload.DDP}, ranks: ranks, replicas: 1}
	if j.train.Sharding != nil {
		s.Sharding = *j.train.Sharding
	}
	if s.Group > 0 {
		s.ranks = min(s.Group, ranks)
		s.replicas = ranks / s.ranks
	}
	if s.Secondary = min(s.Secondary, s.ranks); s.Secondary < 2 || s.ranks%s.Secondary != 0 {
		s.Secondary = 0
	}
	s.defaults()
	return s
}

// defaults are those of DeepSpeed
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/config.py)
// and of PyTorch (torch/nn/parallel/distributed.py, bucket_cap_mb).
func (s *sharing) defaults() {
	set := func(n *int64, to int64) {
		switch *n {
		case 0:
			*n = to
		case -1: // it was told 0
			*n = 0
		}
	}
	set(&s.BucketBytes, 25<<20)
	set(&s.ReduceBucket, 500_000_000)
	set(&s.GatherBucket, 500_000_000)
	set(&s.Prefetch, 50_000_000)
	set(&s.Persistence, 100_000)
	set(&s.MostLive, 1_000_000_000)
	if s.Overlap == nil {
		overlap := s.Kind == workload.ZeRO3
		s.Overlap = &overlap
	}
}

// offloads reports a part of the states that lives in main memory.
func (s sharing) offloads(o workload.OffloadedState) bool { return slices.Contains(s.Offload, o) }

// unshared is why a sharding has no rules here; empty where it has.
func (s *sharing) unshared() string {
	switch {
	case s == nil:
	case s.Kind == workload.Distributed:
		return "Megatron's distributed optimizer is not modelled by this engine"
	case s.offloads(workload.OffloadActivations):
		return "what of the activations is in main memory, and when, is not modelled"
	}
	return ""
}

// talks is the communicators of a job. DeepSpeed broadcasts the parameters on one rank
// too (_broadcast_model of
// https://github.com/deepspeedai/DeepSpeed/blob/v0.12.6/deepspeed/runtime/engine.py).
func (j *job) talks() account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Process}
	mesh := j.in.Plan.Mesh
	switch {
	case mesh.Ranks() <= 1 && j.deepSpeed():
		return outside.Alone(j.in.Memory.Arch)
	case mesh.Ranks() <= 1:
		return account.Zero("one rank has nobody to talk to", p)
	case j.across()*j.stages() > 1:
		return j.talksAcross()
	case mesh.DataParallel != mesh.Ranks():
		return account.Unknown("communicators of tensors, stages, experts and contexts are not modelled by this engine", p)
	}
	one := outside.Replicas(j.in.Memory.Arch, outside.LinkOf(j.in.Memory.Arch, j.in.Memory.Name))
	if s := j.sharing(); s == nil || s.replicas < 2 && s.Secondary == 0 {
		return one
	}
	// Those who share a second copy have a communicator beside that of all. Those who share a copy have one, and those who have the same part of it another,
	// which no faster link joins.
	if high, known := one.High(); known {
		return account.Sum(one.Provenance, one, account.Between(0, high, one.Provenance))
	}
	return one
}

// divided is what all divisions know.
type divided struct {
	*job
	sharing
}

func (*divided) Before(int, torch.Tensor)     {}
func (*divided) After(int, torch.Tensor)      {}
func (*divided) backwardBegins()              {}
func (*divided) backwardEnds()                {}
func (*divided) backwardUnseen()              {}
func (*divided) step([]*parameter, bool) bool { return false }
func (*divided) gathers() bool                { return false }

func (d *divided) keepsGradients() bool {
	return d.offloads(workload.OffloadOptimizer) || d.offloads(workload.OffloadParameters)
}

// gatheredFormat is the format in which a parameter is gathered: the declared one
// of the computation, where the software casts for it, and 8 bits of what computes in 8
// bits where that is asked for (fsdp_pre_all_gather of
// https://github.com/pytorch/ao/blob/v0.8.0/torchao/float8/fsdp_utils.py).
func (j *job) gatheredFormat(role model.Role, stored dtype.Format) dtype.Format {
	compute := j.in.Workload.Precision.Compute
	s := j.sharing()
	if s == nil || s.Kind != workload.FSDP1 && s.Kind != workload.FSDP2 || compute == dtype.Unknown || stored.Bits() < 16 {
		return stored
	}
	if j.has(workload.FP8Gather) && j.has(workload.FP8Compute) && j.compilesLayers() && modules.Multiplies(role) {
		return dtype.F8E4M3
	}
	return compute
}

// piece is a parameter as a whole: what ranks have parts of.
type piece struct {
	*parameter
	gathered dtype.Format // of the whole
}

// pieces are the parameters of the rank's program, or of its plan where it has
// none; words of packed weights among them.
func (j *job) pieces() []*piece {
	var list []*piece
	add := func(p *parameter) { list = append(list, &piece{p, j.gatheredFormat(p.role, p.format)}) }
	if j.ops == nil {
		for _, p := range j.held {
			if p.role.Category() == account.CategoryParameter {
				add(p)
			}
		}
		if j.train.Tuning != nil {
			for _, p := range j.adapter() {
				add(p)
			}
		}
		return list
	}
	stored := j.holding().stored
	for i, p := range j.ops.net.Parameters() {
		own := *j.held[i]
		own.format, own.part = j.storedFormat(p, stored), p.Part
		add(&own)
	}
	for _, p := range j.ops.net.PackedWeights() {
		t := j.ops.base.Tensors[p.Of[0]]
		own := newParameter(t.Name, t.Role, p.Shape(), dtype.U8, j.weightsTerm(account.CategoryParameter))
		own.tensor, own.packed, own.part = p.Tensor, true, p.Part
		add(own)
	}
	return list
}

// storedFormat is the format in which ranks hold their parts of a parameter.
func (j *job) storedFormat(p modules.Parameter, stored map[string]model.Tensor) dtype.Format {
	if len(p.Of) == 0 {
		return j.adapterFormat()
	}
	t := stored[j.ops.base.Tensors[p.Of[0]].Name]
	switch {
	case j.casts(t):
		return dtype.F32
	case j.packed(t):
		return p.Dtype()
	}
	return t.Stored
}

// partOf is the layer of one of the model's tensors.
func (j *job) partOf(tensor int) int {
	if t := j.in.Model.Tensors[tensor]; t.Stack >= 0 && t.Layer >= 0 {
		return int(t.Layer)
	}
	return modules.Outside
}

// place is a part of a parameter, or of a run of them, on the machine.
func (d *divided) place(name string, whole *piece, shape []int64, f dtype.Format) *parameter {
	p := newParameter(name, whole.role, shape, f, whole.term)
	p.trained, p.part = whole.trained, whole.part
	if d.offloads(workload.OffloadParameters) {
		d.away(d.stored(p))
		return p
	}
	if p.elements > 0 {
		p.tensor = d.machine.Parameter(f, whole.trained, shape...)
	}
	return p
}

// stored is the bytes of a parameter in its own format.
func (*divided) stored(p *parameter) int64 { return p.in(p.format) }

// deepSpeed reports a division whose optimizer updates copies in flat parts.
func (j *job) deepSpeed() bool {
	switch s := j.sharing(); {
	case s == nil:
		return false
	default:
		return s.Kind == workload.ZeRO1 || s.Kind == workload.ZeRO2 || s.Kind == workload.ZeRO3
	}
}

func (j *job) bucketTerm() uint32 {
	return j.term(account.TermBuckets, account.CategoryCommunication, requested(bucketFormula))
}

func (j *job) masterTerm() uint32 {
	return j.term(account.TermMasterCopy, account.CategoryMasterCopy, requested(masterFormula))
}

// away makes bytes in main memory, which stay.
func (j *job) away(bytes int64) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host, Counter: offloadFormula, Source: sourceOf(offloadFormula)}
	j.bornIn(timeline.Pinned, j.term(account.TermOffloadedStates, account.CategoryOptimizerState, p), bytes)
}

// gathers reports that whole parameters are there only while they are used.
func (j *job) gathers() bool { return j.division != nil && j.division.gathers() }

// around is who is told of the parts of a forward pass.
func (j *job) around() modules.Around {
	if j.division == nil {
		return nil
	}
	return j.division
}

// backward runs the backward pass of the loss.
func (j *job) backward() {
	if j.division != nil {
		j.division.backwardBegins()
	}
	j.machine.Backward(j.ops.loss)
	if j.division != nil {
		j.division.backwardEnds()
	}
	if !j.hasOwn() && !j.train.KeepsOutputs {
		// Trainer.training_step returns the loss over the micro-batches, detached: with
		// the loss goes what hangs on it, such as embeddings of which PEFT wants a
		// gradient, and that gradient.
		j.ops.rebind(j.machine.Keep(j.machine.Unary(torch.DivScalar, j.machine.Detach(j.ops.loss))))
	}
}

// passThrough gathers part after part as a forward pass does, where nothing of
// its operators is predicted.
func (j *job) passThrough() {
	if !j.gathers() {
		return
	}
	last := modules.Outside
	for _, p := range j.held {
		last = max(last, p.part)
	}
	j.division.Before(modules.Outside, torch.Tensor{})
	for part := range last + 1 {
		j.division.Before(part, torch.Tensor{})
		j.division.After(part, torch.Tensor{})
	}
	j.division.After(modules.Outside, torch.Tensor{})
}

// absent is a parameter of which the rank has a part. Packed words are divided as
// bytes.
func (j *job) absent(p *parameter, bytes int64, cast bool) {
	switch {
	case p.packed || p.format.Bits() < 16 || len(p.shape) > mostDimensions:
		whole := newParameter(p.name, p.role, []int64{bytes}, dtype.U8, p.term)
		whole.packed, whole.part, whole.trained = true, p.part, p.trained
		*p = *whole
	case cast:
		p.format = dtype.F32
	}
	p.tensor = j.machine.Absent(j.gatheredFormat(p.role, p.format), p.trained, p.shape...)
}
