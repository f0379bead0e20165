package vllm

import (
	"fmt"
	"math"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/estimate/outside"
	"floodmark/timeline"
	"floodmark/workload"
)

// layout writes the timeline of one rank.
type layout struct {
	o      *options
	in     estimate.Input
	r      rank
	blocks account.Figure
	tl     *timeline.Timeline
}

// write lays out the phases of a start, in the engine's order, and then a step
// of prompts and one of answers.
func (l *layout) write() {
	load := l.tl.Span(account.PhaseModelLoad)
	forward := l.tl.Span(account.PhaseProfileForward)
	sampler := l.tl.Span(account.PhaseProfileSampler)
	pool := l.tl.Span(account.PhaseKVAllocation)
	graphs := l.tl.Span(account.PhaseGraphCapture)
	warm := l.tl.Span(account.PhaseSamplerWarmup)
	prefill := l.tl.Span(account.PhasePrefill)
	decode := l.tl.Span(account.PhaseDecode)

	w, pr := l.r.weights, l.r.profile
	hold := l.tl.Hold
	hold(account.TermContext, account.CategoryContext, load, timeline.ToEnd, l.r.initial)
	hold(account.TermWeights, account.CategoryParameter, load, timeline.ToEnd, w.stored)
	hold(account.TermWeights, account.CategoryParameter, load, timeline.ToEnd, w.relaid)
	hold(account.TermQuantisationMetadata, account.CategoryQuantisationMetadata, load, timeline.ToEnd, w.metadata)
	hold(account.TermBuffers, account.CategoryBuffer, load, timeline.ToEnd, w.buffers)
	hold(account.TermAllocatorRounding, account.CategoryAllocatorRounding, load, timeline.ToEnd, w.rounding)
	hold(account.TermAdapters, account.CategoryParameter, load, timeline.ToEnd, w.adapters)
	hold(account.TermTemporaries, account.CategoryTemporary, load, int32(load), w.loading)
	hold(account.TermCommunication, account.CategoryCommunication, forward, timeline.ToEnd, l.r.nonTorch)
	hold(account.TermWorkspace, account.CategoryWorkspace, forward, timeline.ToEnd, pr.stays)
	hold(account.TermInput, account.CategoryInput, forward, int32(sampler), pr.media)
	hold(account.TermActivations, account.CategoryActivation, forward, int32(forward), pr.forward)
	hold(account.TermActivations, account.CategoryActivation, sampler, int32(sampler), pr.stream)
	hold(account.TermLogits, account.CategoryLogits, sampler, int32(sampler), pr.sampler)
	hold(account.TermAllocatorCache, account.CategoryAllocatorCache, forward, int32(sampler), l.cached())
	hold(account.TermKVCache, account.CategoryKVCache, pool, timeline.ToEnd, l.r.cache(l.blocks))
	hold(account.TermAllocatorCache, account.CategoryAllocatorCache, pool, timeline.ToEnd, l.r.held)
	hold(account.TermActivations, account.CategoryActivation, graphs, int32(graphs), l.captured())
	hold(account.TermGraphPools, account.CategoryGraphPool, graphs, timeline.ToEnd, l.r.graphs)
	hold(account.TermActivations, account.CategoryActivation, warm, int32(warm), l.warmStream())
	hold(account.TermLogits, account.CategoryLogits, warm, int32(warm), pr.sampler)
	hold(account.TermActivations, account.CategoryActivation, prefill, int32(prefill), l.step())
	hold(account.TermLogits, account.CategoryLogits, prefill, int32(prefill), l.promptLogits())
	hold(account.TermActivations, account.CategoryActivation, decode, int32(decode), l.warmStream())
	hold(account.TermLogits, account.CategoryLogits, decode, int32(decode), l.answers())
	l.tl.Close()
}

// cached is what the allocator keeps while the trial run goes on: up to the
// other of its two moments.
func (l *layout) cached() account.Figure {
	p := provenance(heldFormula, outside.WorkspaceFormula, account.Reserved)
	p.Source = startups
	high, known := account.Sum(p, l.r.profile.forward, l.r.profile.sampler, l.r.held).High()
	if !known {
		return account.Unknown("what the trial run makes is not known", p)
	}
	return account.Between(0, high, p)
}

// captured is the activations while graphs are captured: those of the largest
// batch at most.
func (l *layout) captured() account.Figure {
	p := l.r.profile.forward.Provenance
	_, largest := l.o.graphSizes(l.in.Model)
	high, known := l.r.profile.forward.High()
	if !known || l.o.BatchedTokens < 1 {
		return account.Unknown(l.r.profile.forward.Reason(), p)
	}
	return account.Between(0, high/l.o.BatchedTokens*max(largest, 1), p)
}

// warmStream is the hidden states of one position of each request.
func (l *layout) warmStream() account.Figure {
	p := l.r.profile.forward.Provenance
	n, fits := bytesize.Mul(3, l.o.rows(), int64(width(l.in.Model)), l.o.width)
	return account.Checked(n, fits, p)
}

// answers is what sampling one step makes: up to the trial run's.
func (l *layout) answers() account.Figure {
	f := l.r.profile.sampler
	high, known := f.High()
	if !known {
		return f
	}
	return account.Between(0, high, f.Provenance)
}

// totals are the phases from the cache on, which the budget decides better than
// the sum of its parts.
func (l *layout) totals() []estimate.Total {
	if !l.r.fills(l.o) {
		return nil
	}
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	rest := l.r.atRest(l.blocks, l.o)
	withGraphs := account.Sum(p, rest, l.r.graphs)
	work := func(f ...account.Figure) account.Figure { return account.Sum(p, append(f, withGraphs)...) }
	prefill := account.Highest(p, l.step(), account.Sum(p, l.warmStream(), l.promptLogits()))
	return []estimate.Total{
		{Phase: account.PhaseKVAllocation, Figure: rest},
		{Phase: account.PhaseGraphCapture, Figure: work(l.captured())},
		{Phase: account.PhaseSamplerWarmup, Figure: l.warm()},
		{Phase: account.PhasePrefill, Figure: l.within(work(prefill))},
		{Phase: account.PhaseDecode, Figure: l.within(work(l.warmStream(), l.answers()))},
	}
}

// warm is the warm-up of the sampler behind the capture: the budget and what
// stands beside it.
func (l *layout) warm() account.Figure {
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	rest := l.r.requested.Minus(account.Between(0, l.r.pool.blockBytes, p), p)
	most, known := account.Sum(p, rest, l.beside()).High()
	if l.r.plan.Mesh.PipelineParallel > 1 && known {
		return account.Between(0, most, p) // another stage decides; the sum of the terms is the least
	}
	return account.Sum(p, rest, l.beside())
}

// beside is what the process holds at the warm-up that its budget does not pay
// for: what was in use before, what the allocator holds beyond the tensors, and
// graphs that were not charged. What is sampled then was reserved by the trial
// run, which held hidden states of more positions.
func (l *layout) beside() account.Figure {
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	pr := l.r.profile
	transient := account.Highest(p, pr.forward, account.Sum(p, pr.stream, pr.sampler))
	again := account.Sum(p, l.warmStream(), pr.sampler)
	most, a := transient.High()
	some, b := again.High()
	if !a || !b {
		return account.Unknown(pr.sampler.Reason(), p)
	}
	// Both are made by the same rules, so what is uncertain of one is of the other.
	less := account.Between(max(0, transient.Low()-again.Low()), max(0, most-some), p)
	return account.Sum(p, l.r.initial, l.r.held, l.r.graphs).Minus(account.Sum(p, less, pr.media, l.r.charged), p)
}

// within bounds a step by the trial run: what it reserved for, work at the
// limits takes no more of.
func (l *layout) within(f account.Figure) account.Figure {
	if l.o.PromptLogprobs {
		return f
	}
	p := f.Provenance
	most, known := account.Sum(p, l.r.initial, l.r.held, l.r.graphs, l.r.requested).High()
	high, also := f.High()
	if !known || !also || most >= high {
		return f
	}
	return account.Between(min(f.Low(), most), most, p)
}

// checks are the rules that stop the engine.
func (l *layout) checks() []account.Check {
	checks := []account.Check{l.free()}
	high, known := l.blocks.High()
	if !known || l.r.pool.blockBytes == 0 {
		return checks
	}
	p := l.blocks.Provenance
	each := l.r.pool.blockBytes
	have := l.blocks.Times(each)
	checks = append(checks, l.single(each))
	need := l.r.pool.perRequest(l.o, l.o.maxLength)
	checks = append(checks, account.Check{Phase: account.PhaseKVAllocation, Term: account.TermKVCache,
		Need: account.Exact(need, p).Times(each), Have: have,
		Rule: fmt.Sprintf("one request of %s positions takes %s of the cache, and it has %s to %s", bytesize.Group(l.o.maxLength),
			show(need*l.r.pool.blockBytes), show(l.blocks.Low()*l.r.pool.blockBytes), show(high*l.r.pool.blockBytes)),
		Remedy: "the longest that fits is " + l.longest(high)})
	return append(append(append(checks, l.room()...), l.admitted()...), l.declared()...)
}

// admitted is the prompt that the workload declares, where the engine refuses it
// for its length: no room in the cache changes that. Worked: a prompt of 16,384
// positions is refused under --max-model-len 8192 (the length of the prompt is
// checked against max_model_len in vllm/v1/engine/processor.py, and by the scheduler
// of V0). An answer that runs over that length is cut and is no fault of memory.
func (l *layout) admitted() []account.Check {
	context, declared := l.in.Workload.Dimension(workload.Context)
	if !declared || l.o.maxLength <= 0 || context <= l.o.maxLength {
		return nil
	}
	p := l.blocks.Provenance
	most := l.r.pool.perRequest(l.o, l.o.maxLength)
	// A pool of windows or states holds no more for a longer prompt: it is refused too.
	need := account.Exact(max(l.r.pool.perRequest(l.o, context), most+1), p).Times(l.r.pool.blockBytes)
	if !need.Known() {
		need = account.AtLeast(account.Exact(most+1, p).Times(l.r.pool.blockBytes).Low(), need.Reason(), p)
	}
	return []account.Check{{Phase: account.PhasePrefill, Term: account.TermKVCache,
		Need: need, Have: account.Exact(most, p).Times(l.r.pool.blockBytes),
		Rule: fmt.Sprintf("the engine refuses a prompt of %s positions: the longest sequence that it takes is %s positions (--max-model-len)",
			bytesize.Group(context), bytesize.Group(l.o.maxLength)),
		Remedy: "raise --max-model-len, as far as the model was made for it, or shorten the prompt"}}
}

// single is the room for one block of the cache, beside all that the budget pays
// for.
func (l *layout) single(each int64) account.Check {
	p := l.blocks.Provenance
	c := account.Check{Phase: account.PhaseKVAllocation, Term: account.TermKVCache, Need: account.Exact(each, p), Have: l.blocks.Times(each),
		Rule: "the budget leaves no room for a single block of the cache: " + l.sumOf()}
	if l.o.CacheBytes == 0 && l.o.Blocks == 0 && l.r.plan.Mesh.PipelineParallel <= 1 { // else other ranks, or nobody, decide
		c.Need, c.Have = account.Sum(p, l.r.spent, c.Need), l.r.requested
	}
	c.Remedy = l.roomier(c.Need)
	return c
}

// roomier is what makes room for bytes of the budget: a larger share, while the card
// has them.
func (l *layout) roomier(need account.Figure) string {
	const less = "take less for weights (another format, more ranks) and for one step (--max-num-seqs, --max-num-batched-tokens)"
	total, most := l.in.Memory.Total.Low(), high(need)
	switch {
	case total <= 0 || most <= 0:
		return "raise the utilization, or " + less
	case need.Low() > high(l.in.Memory.Total):
		return "no utilization is enough, for it takes more than the whole card: " + less
	case most > total:
		return "perhaps no utilization is enough: " + less
	}
	return fmt.Sprintf("raise the utilization: %.3f is enough for it; or %s", math.Ceil(1000*float64(most)/float64(total))/1000, less)
}

// longest is the longest request that the blocks hold, for both ends of them.
func (l *layout) longest(most int64) string {
	a, b := l.r.pool.longest(l.o, l.blocks.Low(), l.o.maxLength), l.r.pool.longest(l.o, most, l.o.maxLength)
	if a == b {
		return bytesize.Group(a) + " positions"
	}
	return bytesize.Group(a) + " to " + bytesize.Group(b) + " positions"
}

// room is what the share leaves of the card for what the engine holds beside it.
func (l *layout) room() []account.Check {
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/gpu_worker.py"), account.Device)
	total := l.in.Memory.Total
	most, known := total.High()
	if !known || !l.r.fills(l.o) || l.r.plan.Mesh.PipelineParallel > 1 {
		return nil
	}
	left := func(card int64) int64 { return card - int64(math.Ceil(float64(card)*l.o.Utilization)) }
	have, need := account.Between(left(total.Low()), left(most), p), l.beside()
	return []account.Check{{Phase: account.PhaseSamplerWarmup, Term: account.TermGraphPools, Need: need, Have: have,
		Rule: fmt.Sprintf("beside its share the engine holds %s when it warms its sampler up (before the model %s, graphs %s, segments of which a part is in use %s), and %g of the card leaves %s",
			span(need), span(l.r.initial), span(l.r.graphs), span(l.r.held), l.o.Utilization, span(have)),
		Remedy: "lower the utilization: the cache shrinks by as much"}}
}

// free is what must be free when the engine first looks.
func (l *layout) free() account.Check {
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/utils.py"), account.Device)
	free := l.in.Memory.Free
	if !free.Known() {
		free = l.in.Memory.Total
	}
	have := free.Minus(account.Between(0, high(l.r.initial), p), p)
	need := l.r.requested
	if l.o.wholeCard || l.o.CacheBytes > 0 {
		need = account.Zero("this engine does not look at what is free before it loads", p)
	}
	return account.Check{Phase: account.PhaseModelLoad, Term: account.TermReserve, Need: need, Have: have,
		Rule:   fmt.Sprintf("the engine refuses to start unless %g of the card is free: it needs %s and finds at most %s", l.o.Utilization, show(need.Low()), show(high(free))),
		Remedy: fmt.Sprintf("the largest utilization that can start now is %.3f", ratio(high(free), high(l.in.Memory.Total)))}
}

// declared is the sequences that the workload declares, where it wants them
// together.
func (l *layout) declared() []account.Check {
	sequences, a := l.in.Workload.Dimension(workload.Sequences)
	if _, b := l.in.Workload.Dimension(workload.Context); !a || !b {
		return nil
	}
	if s := l.in.Workload.Serving; s != nil && (s.Policy == workload.Queue || s.Policy == workload.Preempt) {
		return nil
	}
	p := l.blocks.Provenance
	length := l.o.length(l.in)
	each := l.r.pool.perRequest(l.o, length)
	need, fits := bytesize.Mul(each, sequences)
	return []account.Check{{Phase: account.PhaseDecode, Term: account.TermKVCache,
		Need: account.Checked(need, fits, p).Times(l.r.pool.blockBytes), Have: l.blocks.Times(l.r.pool.blockBytes),
		Rule: fmt.Sprintf("%s sequences of %s positions take %s blocks and the cache has %s to %s: the engine would let some wait or compute them again",
			bytesize.Group(sequences), bytesize.Group(length), bytesize.Group(need), bytesize.Group(l.blocks.Low()), bytesize.Group(high(l.blocks))),
		Remedy: fmt.Sprintf("%s sequences of that length fit together", bytesize.Group(l.blocks.Low()/max(1, each)))}}
}

// sumOf is the budget in a sentence.
func (l *layout) sumOf() string {
	r := l.r
	text := fmt.Sprintf("%s asked for, less weights %s, trial run %s, outside the allocator %s", span(r.requested), span(r.weights.all), span(r.profile.peak), span(r.nonTorch))
	if r.charged.Status() != account.StatusZero {
		text += ", graphs " + span(r.charged)
	}
	if r.others.Status() != account.StatusZero {
		text += ", what other processes hold of the card, which this version charges to itself, " + span(r.others)
	}
	return text + " leaves " + span(r.available)
}

func span(f account.Figure) string { return f.In(bytesize.GiB) }

func high(f account.Figure) int64 {
	n, _ := f.High()
	return n
}

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a/1000*1000) / float64(b)
}

func show(bytes int64) string { return bytesize.Format(bytes, bytesize.GiB) }
