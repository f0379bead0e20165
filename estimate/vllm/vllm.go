package vllm

import (
	"context"
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// Engine is vLLM on CUDA cards.
type Engine struct{}

// Name is "vllm".
func (Engine) Name() string { return "vllm" }

// Formulas lists the rules that its figures name.
func (Engine) Formulas() []account.Formula { return formulas() }

// Rules is how the engine divides a model: its own, with the prediction layers
// where they guess ahead.
func Rules(w *workload.Workload) parallel.Rules {
	r := parallel.VLLM()
	if s := w.Serving; s != nil && s.Budget != nil {
		r.Predictors = s.Budget.Speculative > 0 && s.Budget.Drafter == ""
	}
	return r
}

// Estimate lays out the start of the engine on one rank, and a step at the
// limits of the workload.
func (Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	o := resolve(in)
	plans, err := Rules(in.Workload).Plan(in.Model, in.Workload.Mesh)
	if err != nil {
		return estimate.Result{}, err
	}
	ranks := make([]rank, len(plans))
	mine := 0
	for i, plan := range plans {
		ranks[i] = o.spend(in, plan)
		if plan.Ranks[0] == in.Plan.Ranks[0] {
			mine = i
		}
	}
	blocks := o.blocks(ranks)
	l := layout{o: &o, in: in, r: ranks[mine], blocks: blocks,
		tl: &timeline.Timeline{Ranks: in.Plan.Ranks, Device: -1, Streams: []string{"default"}}}
	l.write()
	holds := o.capacity(in, ranks, blocks)
	l.tl.Warnings = append(l.notes(), o.notes...)
	if note, long := l.longPrompt(holds); long {
		l.tl.Warnings = append(l.tl.Warnings, note)
	}
	if note, two := l.payload(); two {
		l.tl.Warnings = append(l.tl.Warnings, note)
	}
	return estimate.Result{Timeline: l.tl, Capacity: holds, Checks: l.checks(), Totals: l.totals(), Share: l.share()}, nil
}

// capacity is what the cache holds, of the rank that decides.
func (o *options) capacity(in estimate.Input, ranks []rank, blocks account.Figure) *estimate.Capacity {
	p := blocks.Provenance
	c := &estimate.Capacity{Blocks: blocks, Length: o.length(in)}
	var decisive pool
	for _, r := range ranks {
		if r.pool.blockBytes > decisive.blockBytes {
			decisive = r.pool
		}
	}
	high, known := blocks.High()
	if !known || len(decisive.groups) == 0 {
		c.Tokens, c.SequencesAtLength = account.Unknown(blocks.Reason(), p), account.Unknown(blocks.Reason(), p)
		c.BytesPerToken, c.FixedBytesPerSequence = account.Unknown(blocks.Reason(), p), account.Unknown(blocks.Reason(), p)
		return c
	}
	c.Tokens = account.Between(decisive.tokens(o, blocks.Low()), decisive.tokens(o, high), p)
	each := max(1, decisive.perRequest(o, c.Length))
	c.SequencesAtLength = account.Between(blocks.Low()/each, high/each, p)
	c.BytesPerToken, c.FixedBytesPerSequence = decisive.slope()
	return c
}

// slope is what one more position of a long sequence takes on the rank, in whole
// pages on average, and what a sequence takes whatever its length.
func (p pool) slope() (perToken, fixed account.Figure) {
	q := provenance(cacheFormula, "", account.Requested)
	var grows, stays int64
	for _, g := range p.groups {
		switch {
		case p.merged && g.kind == full:
			grows += p.blockBytes / g.block
		case g.kind == full:
			grows += p.blockBytes / g.block
		default:
			stays += p.blockBytes
		}
	}
	return account.Exact(grows, q), account.Exact(stays, q)
}

// length is the positions of one sequence that the workload speaks of, else the
// longest that the engine takes.
func (o *options) length(in estimate.Input) int64 {
	context, a := in.Workload.Dimension(workload.Context)
	generated, _ := in.Workload.Dimension(workload.Generated)
	if sum, fits := bytesize.Add(context, generated); a && fits {
		return sum
	}
	return o.maxLength
}

func hasLatent(in estimate.Input, plan parallel.RankPlan) bool {
	for _, ref := range plan.Layers {
		for _, m := range in.Model.Stacks[ref.Stack].Layers[ref.Layer].Mixers {
			if _, is := m.(model.LatentAttention); is {
				return true
			}
		}
	}
	return false
}

// notes tell what was assumed.
func (l *layout) notes() []account.Warning {
	var notes []account.Warning
	note := func(code, text string) { notes = append(notes, account.Warning{Code: code, Text: text}) }
	o := l.o
	switch {
	case o.assumed != "":
		note("version_assumed", o.assumed+"; figures that were measured on vLLM "+measuredVersion+" are wider here (extrapolated)")
	case o.extrapolated:
		note("version_extrapolated", "the trial run, graphs and what lies outside the allocator were measured on vLLM "+measuredVersion+"; for "+o.rules.name()+" they are wider (extrapolated)")
	}
	if arch := l.in.Memory.Arch; !measured(arch) && arch != "" {
		note("extrapolated", "what the engine holds outside the allocator and in graphs was measured on H100; on "+arch+" the intervals are wider")
	}
	if o.maxSeqs != 1024 && !o.wholeCard {
		note("requests_extrapolated", fmt.Sprintf("the trial run was measured with 1,024 requests; its rules are applied to %s", bytesize.Group(o.maxSeqs)))
	}
	if o.PromptLogprobs {
		note("prompt_logprobs", "probabilities of prompts are made for all positions of a step at once, which the trial run does not see")
	}
	return notes
}
