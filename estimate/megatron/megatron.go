package megatron

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// Engine is Megatron-LM: mcore's GPTModel of TransformerEngine's modules, under its
// pipeline schedules and its optimizer.
type Engine struct{}

// Name is "megatron".
func (Engine) Name() string { return "megatron" }

// Formulas lists the rules that the figures of this engine name.
func (Engine) Formulas() []account.Formula { return Formulas() }

// Rules is how Megatron-LM divides a model for a workload.
func Rules(w *workload.Workload) (parallel.Rules, error) {
	r := parallel.Megatron()
	if w.Training == nil {
		return r, nil
	}
	r.Chunks = int(w.Training.Schedule.Chunks)
	m := w.Training.Megatron
	if m == nil {
		return r, nil
	}
	if m.VocabularyMultiple > 0 {
		r.VocabularyMultiple = m.VocabularyMultiple
	}
	r.ExpertTensor = m.ExpertTensor == 0 || m.ExpertTensor == max(1, w.Mesh.TensorParallel)
	switch r.Layers = division(w.Mesh.PipelineParallel, max(1, r.Chunks), *m); {
	case r.Layers != nil && w.Mesh.PipelineParallel < 2:
		return r, refuse("layers are said to be divided over stages otherwise, and there is one stage (layout.pipeline_parallel)")
	}
	return r, nil
}

// refuse is work that cannot run as it was declared.
func refuse(format string, args ...any) error {
	return &parallel.NotSupportedError{Rule: fmt.Sprintf(format, args...)}
}

// countedSteps is how many steps are laid out: the moments are made in the first.
const countedSteps = 2

// Estimate lays out the timeline of one rank.
func (Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	if err := check(in); err != nil {
		return estimate.Result{}, err
	}
	r := newRun(in)
	r.phase("load", 0)
	why := r.build(in)
	if said := cmp.Or(unmodelled(in, r.te.s), r.te.s.unexchanged(r.chunks), r.te.s.unmodelledGraphs(slices.ContainsFunc(in.Model.Tensors, routed))); said != "" {
		why = said
	}
	if why != "" {
		r.te.s.Graphs, r.te.s.graphsAttention, r.te.s.graphsNetwork = nil, false, false // what is least then has none
	}
	r.states.masters()
	if r.te.m.Err() == nil && r.programmed {
		r.steps()
	} else {
		r.phase("forward", 1)
		r.phase("optimizer", 1)
		r.states.step()
	}
	tl, err := r.te.m.Timeline()
	if err != nil {
		return estimate.Result{}, parallel.NotModelled("the program of this model does not run: %v", err)
	}
	if why != "" { // from the first forward pass on: what it leaves in the allocator stays
		r.tl.Hold(account.TermActivations, account.CategoryActivation, 1, timeline.ToEnd, account.Unknown(why, requested(operatorFormula)))
	}
	r.imbalance()
	r.somewhere()
	r.surroundings(in)
	tl.Close()
	return estimate.Result{Timeline: tl}, nil
}

// mostTokens bounds a micro-batch, and mostFlights the micro-batches that GPipe holds
// at once: more than anybody runs.
const (
	mostTokens  = int64(1) << 40
	mostFlights = 1024
)

// check refuses work that nobody could run or count.
func check(in estimate.Input) error {
	w := in.Workload
	switch {
	case w.Training == nil:
		return workload.Contradiction("Megatron-LM trains: the workload says nothing of training")
	case w.Operation != workload.Training && w.Operation != workload.FineTuning:
		return parallel.NotModelled("%s by Megatron-LM is not modelled, only its steps of training", w.Operation)
	}
	for _, d := range []workload.Dimension{workload.Context, workload.MicroBatch} {
		if n, has := w.Dimension(d); !has || n < 1 {
			return workload.Contradiction("the workload does not say the %s", d)
		}
	}
	s := settingsOf(in)
	if w.Training.Recompute != nil && (s.granularity == "" || s.granularity == workload.NoCheckpointing) {
		return workload.Contradiction("training.recompute says what is computed again, and training.checkpointing is none: say full or selective")
	}
	if s.schedule.Chunks > 1 && s.pipeline == 1 {
		return workload.Contradiction("training.schedule has %d pieces a stage, and there is one stage: Megatron-LM expects 2 or more (layout.pipeline_parallel)", s.schedule.Chunks)
	}
	if why := s.cannotQuantise(in.Memory.Arch); why != "" {
		return refuse("%s", why)
	}
	if n := int64(s.ExpertTensor); n != 1 && n != max(1, s.tensor) && slices.ContainsFunc(in.Model.Tensors, routed) {
		return parallel.NotModelled("experts over %d ranks beside tensor parallelism of %d are not modelled", n, s.tensor)
	}
	if why := s.localRefuses(in.Model); why != "" {
		return refuse("%s", why)
	}
	if s.lora != nil && int64(s.lora.Rank)%max(1, s.tensor) != 0 {
		return refuse("an adapter of rank %d is not divided over %d ranks", s.lora.Rank, s.tensor)
	}
	if s.uneven {
		return refuse("%d instances of the optimizer do not divide its ranks", s.OptimizerInstances)
	}
	if n, fits := bytesize.Mul(s.positions, s.batch); !fits || n > mostTokens {
		return parallel.NotModelled("a micro-batch of more than %s positions is not laid out", bytesize.Group(mostTokens))
	}
	if s.schedule.Kind == workload.GPipe && s.micro > mostFlights {
		return parallel.NotModelled("GPipe with more than %d micro-batches is not laid out", mostFlights)
	}
	if s.positions%(s.context*max(1, s.tensor)) != 0 {
		return refuse("%d positions are not a multiple of %d ranks that divide them", s.positions, s.context*s.tensor)
	}
	return s.groups()
}

// groups refuses what an interleaved schedule does not run: of the micro-batches that
// go through a piece one after another there are at least as many as stages, the last
// ones too (forward_backward_pipelining_with_interleaving of
// megatron/core/pipeline_parallel/schedules.py).
func (s *settings) groups() error {
	if s.pipeline == 1 || s.schedule.Chunks < 2 {
		return nil
	}
	switch n := s.group(); {
	case n < s.pipeline || n > s.micro:
		return refuse("an interleaved schedule runs groups of %d to %d micro-batches, from its stages to all, and not %d", s.pipeline, s.micro, n)
	case s.micro%n > 0 && s.micro%n < s.pipeline:
		return refuse("%d micro-batches in groups of %d leave %d, which an interleaved schedule of %d stages does not run", s.micro, n, s.micro%n, s.pipeline)
	}
	return nil
}

// routed reports a tensor of a mixture of experts: a model without one has nothing
// that expert parallelism could divide.
func routed(t model.Tensor) bool { return t.Role == model.RoleRouter }

// newRun is a process that holds nothing yet.
func newRun(in estimate.Input) *run {
	s := settingsOf(in)
	release, _ := torch.ParseRelease(in.Workload.Engine.PyTorch) // the newest where none is said
	device := torch.CardOf(cmp.Or(in.Memory.Arch, "Hopper"), release)
	own := int64(4 << 20)
	if device.Major >= 9 {
		own = 32 << 20
	}
	if s.CublasWorkspace > 0 {
		device.Workspace = s.CublasWorkspace
	}
	return runOn(in, s, device, release, own)
}

// runOn is a process on a device, whose library of products takes a workspace.
func runOn(in estimate.Input, s settings, device torch.Device, release torch.Release, own int64) *run {
	m := torch.New(torch.Options{Device: device, Release: release, Provenance: requested(operatorFormula)})
	r := &run{te: &te{m: m, s: s, workspace: own, either: device.Major == 10, dummies: map[[2]int64]torch.Tensor{}}, arch: in.Memory.Arch, stage: in.Plan.Coord.Pipeline}
	r.states = &states{m: m, s: s}
	r.tl, _ = m.Timeline() // nothing has run: there is no fault
	r.tl.Ranks = in.Plan.Ranks
	for i, t := range r.tl.Terms {
		if id := ruleOf(t.ID); id != "" {
			r.tl.Terms[i].Provenance = requested(id)
		}
	}
	if len(s.OffloadModules) > 0 {
		r.te.offloaded = &offloads{m: m, names: s.OffloadModules, least: cmp.Or(s.OffloadLeast, 1<<20)}
		p := requested(offloadFormula)
		p.Scope = account.Host
		r.tl.Term(account.TermOffloadedActivations, account.CategoryActivation, p)
	}
	for _, t := range in.Model.Tensors {
		r.latentNorms = r.latentNorms || t.Role == model.RoleLatentNorm
		r.projectionBias = r.projectionBias || t.Role == model.RoleAttentionOutputBias
	}
	for _, stack := range in.Model.Stacks {
		if stack.Kind == model.Decoder {
			r.hidden = int64(stack.Width)
		}
	}
	return r
}

// build makes the parameters chunk by chunk, their buffers when all are there, and
// says why the model has no program; empty where it has.
func (r *run) build(in estimate.Input) (why string) {
	chunks := int(max(1, r.te.s.schedule.Chunks))
	for c := range chunks {
		piece := &chunk{first: in.Plan.First && c == 0, last: in.Plan.Last && c == chunks-1}
		from := len(r.states.parameters)
		if piece.first {
			r.entrance(in)
		}
		for i, ref := range in.Plan.Layers {
			if in.Plan.Chunk[i] != c {
				continue
			}
			if kind := in.Model.Stacks[ref.Stack].Kind; kind != model.Decoder && why == "" {
				why = fmt.Sprintf("layers of a %s are not modelled for Megatron-LM", kind)
			}
			r.quantised = r.te.s.quantises(int(ref.Layer), len(in.Model.Stacks[ref.Stack].Layers))
			l, reason := r.newLayer(in.Plan.Layer(in.Model, ref), in.Model.Stacks[ref.Stack].Layers[ref.Layer], r.hidden)
			if reason != "" && why == "" {
				why = reason
			}
			piece.layers = append(piece.layers, l)
		}
		if len(piece.layers) == 0 && !piece.first && !piece.last && why == "" {
			why = "pieces of a pipeline without layers are not modelled for Megatron-LM"
		}
		if piece.last {
			r.exit(in)
		}
		r.chunks = append(r.chunks, piece)
		r.pieces = append(r.pieces, r.states.parameters[from:])
	}
	r.programmed = why == "" && !r.te.s.divided
	if held, made := r.elements(in), r.states.elements(); held != made {
		if why == "" {
			why = fmt.Sprintf("Megatron-LM's modules have %d parameters on this rank and the model has %d", made, held)
		}
		if held > made {
			r.states.add(false, held-made)
			r.pieces[0] = r.states.parameters[:len(r.pieces[0])]
			r.pieces = append(r.pieces, r.states.parameters[len(r.states.parameters)-1:])
		}
	}
	r.held = make([]torch.Tensor, len(r.chunks))
	for _, piece := range r.pieces {
		r.states.buffers(piece)
	}
	return why
}

// entrance is the embeddings.
func (r *run) entrance(in estimate.Input) {
	for i, t := range in.Plan.Tensors {
		switch in.Model.Tensors[t.Tensor].Role {
		case model.RoleTokenEmbedding:
			r.embedding = r.states.add(false, in.Plan.Tensors[i].Shape...)
			r.states.last().shared = tied(in.Model) && !in.Plan.Last
		case model.RolePositionEmbedding:
			r.position = r.states.add(false, in.Plan.Tensors[i].Shape...)
		}
	}
}

// exit is the last norm and the output layer, which may share the embedding's
// table: a stage that has both has it once.
func (r *run) exit(in estimate.Input) {
	for _, t := range in.Plan.Tensors {
		whole := in.Model.Tensors[t.Tensor]
		if bias := whole.Role == model.RoleNormBias && whole.Layer == model.NoLayer; whole.Role != model.RoleFinalNorm && !bias {
			continue
		}
		w := r.states.add(false, t.Shape...)
		if !r.final.normW.Defined() {
			r.final.normW = w
		} else {
			r.final.normB = w
		}
	}
	if r.head = r.embedding; tied(in.Model) && r.head.Defined() {
		return
	}
	r.head = r.states.add(false, int64(in.Plan.Vocab), r.hidden)
	r.states.last().shared = tied(in.Model)
}

// tied reports that the output layer uses the embedding's table.
func tied(m *model.Model) bool {
	for _, t := range m.Tensors {
		if t.Role == model.RoleHead {
			return t.TiedTo != model.NotTied
		}
	}
	return true
}

// elements is what the plan says that the rank holds.
func (r *run) elements(in estimate.Input) (n int64) {
	for _, t := range in.Plan.Tensors {
		if in.Model.Tensors[t.Tensor].Role.Category() == account.CategoryParameter {
			size := int64(1)
			for _, s := range t.Shape {
				size *= s
			}
			n += size
		}
	}
	return n
}

func (st *states) elements() (n int64) {
	for _, p := range st.parameters {
		if !p.adapter {
			n += p.elements
		}
	}
	return n
}

func (st *states) last() *parameter { return st.parameters[len(st.parameters)-1] }
