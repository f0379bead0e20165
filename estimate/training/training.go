package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/outside"
	"floodmark/internal/torch"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// Engine is PyTorch's plain loop: forward, loss, backward and an optimizer.
type Engine struct{}

// Name is "eager".
func (Engine) Name() string { return "eager" }

// Formulas lists the rules that the figures of this engine name.
func (Engine) Formulas() []account.Formula { return Formulas() }

// Estimate lays out the timeline of one rank. It fails where a format that the
// work needs is not declared, and where packed weights would be trained.
func (e Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	r, fault, err := e.estimate(in, "")
	switch {
	case fault != nil:
		// A program that does not run predicts nothing; what is declared still holds.
		r, fault, err = e.estimate(in, "the operators of this model are not predicted: "+fault.Error())
	case err == nil:
		if r.Course = course(in); r.Course == nil && in.Workload.Training != nil && in.Workload.Training.Lengths != nil {
			r.Timeline.Warn("lengths_not_followed", "what sequences of different lengths leave reserved is not followed: the model's operators have no program here, or fewer than two lengths are within the context")
		}
	}
	return r, errors.Join(err, fault)
}

// estimate lays out the timeline. A fault is one of the model's program; with a
// reason, none is run.
func (Engine) estimate(in estimate.Input, without string) (r estimate.Result, fault, err error) {
	j := newJob(in)
	j.without = without
	if err := j.check(); err != nil {
		return r, nil, err
	}
	j.ownModel()
	j.surroundings()
	if err := j.load(); err != nil {
		return r, err, nil
	}
	switch in.Workload.Operation {
	case workload.Evaluation:
		j.evaluation()
	case workload.Export:
		if j.declared(account.PhaseMerge) {
			j.workspaces()
			j.merge()
		}
		j.save()
		j.export()
	default:
		j.steps()
		// What one operator would keep lives to the end of backward, and what the
		// allocator caches of it longer: a program with a gap is no program.
		if why := j.machine.Unpredicted(); why != "" {
			return r, &programError{why}, nil
		}
		j.after()
	}
	j.convolutions()
	j.tl.Close()
	if _, err := j.machine.Timeline(); err != nil {
		return r, err, nil
	}
	j.prune()
	return estimate.Result{Timeline: j.tl}, nil, nil
}

// job is a timeline in the making.
type job struct {
	*tape
	in      estimate.Input
	train   workload.Train
	machine *torch.Machine // which writes the same timeline
	ops     *operators     // nil where the model has no program
	held    []*parameter   // the base model's tensors, in their order
	tuned   []*parameter   // those that are trained
	// computes is the span from which libraries of matrices hold workspaces.
	computes int
	// optimizers are those that the machine steps, by the first of their
	// parameters.
	optimizers map[*parameter]*torch.Optimizer
	without    string // why no operators are run, where that is known before
	tables     int    // of 8-bit states, which are made once
	// division is how ranks share the states; nil where one holds everything.
	division division
	frozen   []bool // by the model's tensors; empty where nothing is
	stage    *stage // of a pipeline; nil elsewhere
	// caches says that the allocator may cache what is not predicted.
	caches bool
}

func newJob(in estimate.Input) *job {
	j := &job{in: in, optimizers: map[*parameter]*torch.Optimizer{}}
	if in.Workload.Training != nil {
		j.train = *in.Workload.Training
	}
	if j.train.Frozen != nil {
		for _, c := range in.Model.Components() {
			j.frozen = append(j.frozen, j.train.Frozen.Has(string(c)))
		}
	}
	j.machine = j.newMachine()
	j.tape = newTape(j.machine, in.Plan.Ranks)
	j.division = j.newDivision()
	return j
}

// trains reports whether the workload makes steps.
func (j *job) trains() bool {
	return j.in.Workload.Operation != workload.Evaluation && j.in.Workload.Operation != workload.Export
}

// check refuses work that nobody could run or count.
func (j *job) check() error {
	if !j.trains() {
		return nil
	}
	if j.train.Optimizer.Name == "" {
		return workload.Contradiction("the workload does not say which optimizer it trains with: %s", strings.Join(workload.Optimizers(), ", "))
	}
	if err := j.in.Workload.CheckPairs(); err != nil {
		return workload.Contradiction("%v", err)
	}
	if err := cmp.Or(j.checkAcross(), j.checkPipeline()); err != nil {
		return err
	}
	if s := j.train.Sharding; s != nil {
		if err := s.Check(); err != nil {
			return workload.Contradiction("the sharding %v", err)
		}
		mesh := j.in.Workload.Mesh
		ranks := int64(max(1, mesh.DataParallel)) * int64(max(1, mesh.ContextParallel))
		if s.Group > 0 && ranks%s.Group != 0 && len(j.in.Workload.Assumed) == 0 { // where nobody said how many ranks there are, one is counted
			return refuse("the sharding has groups of %d ranks, which do not divide the %d that share the states: %d %% %d is not 0", s.Group, ranks, ranks, s.Group)
		}
		if s.Group > 0 {
			ranks = s.Group
		}
		if s.Secondary > 1 && ranks > s.Secondary && ranks%s.Secondary != 0 && len(j.in.Workload.Assumed) == 0 {
			return refuse("a second copy of the parameters is to be shared by %d ranks, which do not divide the %d that share the states", s.Secondary, ranks)
		}
		if s.ReshardsOver > 0 && ranks%s.ReshardsOver != 0 && len(j.in.Workload.Assumed) == 0 {
			return refuse("gathered parameters are to be kept in parts over %d ranks, which do not divide the %d that share one copy", s.ReshardsOver, ranks)
		}
	}
	if missing := j.in.Workload.Precision.Undeclared(j.train.Optimizer.Moments()); j.train.Tuning == nil && len(missing) > 0 {
		return workload.Contradiction("the workload does not say in which format these are kept: %s; declare each, or name a layout by them, as %s", strings.Join(missing, ", "), workload.Layouts()[0])
	}
	if err := j.moments(); err != nil || j.train.Tuning != nil {
		return err
	}
	for _, local := range j.in.Plan.Tensors {
		t := j.in.Model.Tensors[local.Tensor]
		if t.Role.Category() != account.CategoryParameter || j.isFrozen(local.Tensor) {
			continue
		}
		if packed := t.Packed != nil || t.Stored.Blocked() || t.Stored.Bits() < 16; packed && t.Stored != dtype.Unknown {
			return refuse("%s is stored as %s, which takes no gradient: train adapters beside it, or name 16 or 32 bits for the parameters", t.Name, t.Stored)
		}
	}
	return nil
}

// isFrozen reports a tensor of a component that is frozen.
func (j *job) isFrozen(tensor int) bool { return tensor < len(j.frozen) && j.frozen[tensor] }

// moments refuses formats of moments that the optimizer does not have, and warns
// of those that PyTorch would not give it.
func (j *job) moments() error {
	p, o := j.in.Workload.Precision, j.train.Optimizer
	switch first := p.FirstMoment; {
	case first.Blockwise && o.Bits != 8:
		return workload.Contradiction("moments of 8 bits are those of adamw_8bit, lion_8bit and their paged forms, and the optimizer is %s", o.Name)
	case o.Bits == 8 && first.Declared && !first.Blockwise:
		return workload.Contradiction("the moments are declared as %s, and the optimizer keeps them in 8 bits", first)
	case o.Moments() > 0 && first.None():
		return workload.Contradiction("the optimizer %s has moments, and they are declared as none", o.Name)
	}
	updated := p.Completed().MasterCopy
	if !updated.Declared || updated.None() {
		updated = workload.In(p.Parameters)
	}
	if j.train.Tuning == nil && o.Moments() > 0 && p.Completed().FirstMoment.Format != updated.Format {
		j.warn("moments_differ", "torch.optim keeps moments in the format of what it updates, "+updated.String()+"; they are counted in the declared one, "+p.Completed().FirstMoment.String())
	}
	return nil
}

// refuse is work that cannot run as it was declared.
func refuse(format string, args ...any) error {
	return &parallel.NotSupportedError{Rule: fmt.Sprintf(format, args...)}
}

// surroundings is the process before it holds anything of the model, and what
// stays beside it to the end.
func (j *job) surroundings() {
	arch := j.in.Memory.Arch
	j.keep(account.TermContext, account.CategoryContext, outside.Context(arch))
	j.keep(account.TermCommunication, account.CategoryCommunication, j.talks())
	graphs := account.Zero("no CUDA graph is captured: none was declared", account.Provenance{Origin: account.Calculated, Scope: account.Process})
	if j.has(workload.CUDAGraphs) || j.has(workload.TorchCompile) && !j.compilesLayers() {
		graphs = account.Unknown("what graphs of a training step hold in their pools is not modelled", graphs.Provenance)
	}
	j.keep(account.TermGraphPools, account.CategoryGraphPool, graphs)
	for _, r := range j.in.Workload.Resident {
		j.keep(estimate.Resident(r))
	}
	if o := j.objective(); o != nil && o.Reference == modules.AnotherModel && len(j.in.Workload.Resident) == 0 {
		p := requested("")
		j.keep(account.TermResidentModels, account.CategoryParameter, account.Unknown("the model that preferences are measured against is not among the residents", p))
	}
}

func (j *job) has(f workload.Feature) bool { return slices.Contains(j.in.Workload.Features, f) }

// declared reports a phase that the workload names.
func (j *job) declared(p account.PhaseID) bool { return slices.Contains(j.in.Workload.Phases, p) }

// compute is the format in which the model computes.
func (j *job) compute() dtype.Format { return j.in.Workload.ComputeFormat(j.in.Model.Compute) }

// requested is the provenance of bytes that a rule of this package calculates.
func requested(formula string) account.Provenance {
	return account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: formula, Source: sourceOf(formula)}
}

// last is the To of a bound that is held to the end.
const last = timeline.ToEnd

// span is a phase: the events that the work makes.
func (j *job) span(p account.PhaseID, step int, work func()) { j.microSpan(p, step, 0, work) }

// microSpan is a phase of one micro-batch of a step.
func (j *job) microSpan(p account.PhaseID, step, micro int, work func()) {
	j.begin(p, step, micro)
	work()
	j.finish()
}

// begin starts a phase where the events stand. What lies between two phases is of
// neither.
func (j *job) begin(p account.PhaseID, step, micro int) {
	i, ended := len(j.tl.Phases), 0
	if i > 0 {
		ended = j.tl.Phases[i-1].Last
	}
	j.machine.Phase(p, step)
	if i > 0 {
		j.tl.Phases[i-1].Last = ended
	}
	j.tl.Phases[i].Micro = micro
	j.tl.Events = append(j.tl.Events, timeline.Event{Kind: timeline.Mark, Alloc: uint32(i)})
}

// finish ends the phase that was begun last.
func (j *job) finish() { j.tl.Phases[len(j.tl.Phases)-1].Last = len(j.tl.Events) }
