package eager

import (
	"context"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// Engine is PyTorch's plain generation: transformers' generate, with the cache
// that grows at every step.
type Engine struct{}

// Name is "eager".
func (Engine) Name() string { return "eager" }

// Formulas lists the rules that the figures of this engine name.
func (Engine) Formulas() []account.Formula { return formulas() }

// Estimate lays out the timeline of one rank.
func (Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	r := lay(in, plain(in))
	r.Timeline.Warnings = append(r.Timeline.Warnings, plainNotes(in)...)
	return r, nil
}

// Serving is a view of serving that no engine's own rules are in: the cache of
// the declared sequences in whole, the compressed vector of latent attention,
// fused attention over the positions of all sequences in one row.
type Serving struct{}

// Name is "serving".
func (Serving) Name() string { return "serving" }

// Formulas lists the rules that the figures of this engine name.
func (Serving) Formulas() []account.Formula { return formulas() }

// Estimate lays out the timeline of one rank.
func (Serving) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	r := lay(in, serving())
	r.Timeline.Warnings = append(r.Timeline.Warnings, servingNotes(in)...)
	return r, nil
}

// The spans of a generation, after model_load.
const (
	loadSpan    = 0
	prefillSpan = 1
	decodeSpan  = 2
)

// lay writes the timeline. Terms are in the order in which they come to be.
func lay(in estimate.Input, how manner) estimate.Result {
	b := &builder{in: in, how: how, tl: &timeline.Timeline{Ranks: in.Plan.Ranks, Device: -1, Streams: []string{"default"}}}
	b.context()
	b.load()
	switch in.Workload.Operation {
	case workload.Load:
	case workload.Generation:
		b.tl.Span(account.PhasePrefill)
		b.tl.Span(account.PhaseDecode)
		b.generation()
	default:
		b.tl.Span(account.PhaseForward)
		b.unmodelled()
	}
	b.cachedLoading()
	b.surroundings()
	b.tl.Close()
	return estimate.Result{Timeline: b.tl}
}

// generation is what prefill and decode hold beside the weights.
func (b *builder) generation() {
	s := b.sizes()
	work := newWork(b, s)
	b.cache(s)
	b.steps(work)
	b.rounding(work)
	b.cached(work)
	b.warnBeyond()
}

// unmodelled is the operations of which only the weights are predicted.
func (b *builder) unmodelled() {
	for _, t := range []struct {
		id account.TermID
		c  account.Category
	}{{account.TermActivations, account.CategoryActivation}, {account.TermLogits, account.CategoryLogits}} {
		b.tl.Hold(t.id, t.c, 1, timeline.ToEnd, account.Unknown(string(t.id)+" of "+string(b.in.Workload.Operation)+" are not predicted by this version", b.requested("")))
	}
	b.tl.Hold(account.TermAllocatorCache, account.CategoryAllocatorCache, 1, timeline.ToEnd, account.Unknown(
		"what the allocator caches depends on activations, which are not predicted", account.Provenance{Origin: account.Calculated, Scope: account.Reserved}))
}

// builder writes one timeline.
type builder struct {
	in  estimate.Input
	how manner
	tl  *timeline.Timeline
}

// requested is the provenance of bytes that a rule of this package calculates.
func (b *builder) requested(formula string) account.Provenance {
	return account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: formula, Source: sourceOf(formula)}
}

// arch is the architecture under the rank; empty when no card is named.
func (b *builder) arch() string { return b.in.Memory.Arch }

// workspaces are those of matrix libraries.
func (b *builder) workspaces() account.Figure {
	if b.how.warm {
		return account.Exact(0, b.requested(temporaryFormula))
	}
	release, _ := torch.ParseRelease(b.in.Workload.Engine.Torch()) // any where none is said
	return outside.Workspaces(b.arch(), release)
}

// has reports a feature that the workload names.
func (b *builder) has(f workload.Feature) bool {
	for _, named := range b.in.Workload.Features {
		if named == f {
			return true
		}
	}
	return false
}

// compute is the format in which the model computes.
func (b *builder) compute() dtype.Format {
	if f := b.in.Workload.Precision.Compute; f != dtype.Unknown {
		return f
	}
	return b.in.Model.Compute
}

// context is the process before it holds anything of the model.
func (b *builder) context() {
	b.tl.Hold(account.TermContext, account.CategoryContext, loadSpan, timeline.ToEnd, outside.Context(b.arch()))
	b.tl.Hold(account.TermCommunication, account.CategoryCommunication, loadSpan, timeline.ToEnd, b.communication())
}

func (b *builder) communication() account.Figure {
	experts := false
	for _, s := range b.in.Model.Stacks {
		for _, l := range s.Layers {
			if _, ok := l.FeedForward.(model.Experts); ok {
				experts = true
			}
		}
	}
	return outside.CommunicatorsOver(b.arch(), outside.LinkOf(b.arch(), b.in.Memory.Name), b.in.Plan.Mesh, experts)
}

// surroundings is what else the process can hold.
func (b *builder) surroundings() {
	graphs := account.Zero("no CUDA graph is captured: none was declared", account.Provenance{Origin: account.Calculated, Scope: account.Process})
	switch {
	case b.has(workload.TorchCompile):
		graphs = account.Unknown("what torch.compile captures is not modelled", graphs.Provenance)
	case b.has(workload.CUDAGraphs):
		graphs = outside.Graphs(b.arch())
	}
	b.tl.Hold(account.TermGraphPools, account.CategoryGraphPool, loadSpan, timeline.ToEnd, graphs)
	for _, r := range b.in.Workload.Resident {
		id, category, held := estimate.Resident(r)
		b.tl.Hold(id, category, loadSpan, timeline.ToEnd, held)
	}
}

// stateOptions are how this manner keeps the state of sequences.
func (b *builder) stateOptions(d dimensions) state.Options {
	o := state.Options{Compute: b.compute(), Keys: b.in.Workload.Precision.Cache, PerHead: b.how.perHead, ConvWhole: b.how.convWhole, WholeWindows: b.how.wholeWindows}
	if b.how.stateInCompute {
		o.Recurrent = b.compute()
	}
	switch b.in.Workload.Cache {
	case workload.Static:
		o.Static, _ = d.total()
		if s := b.in.Workload.Serving; s != nil {
			o.Static = max(o.Static, s.MaxLength)
		}
	case workload.Offloaded:
		o.Offloaded = true
	}
	return o
}
