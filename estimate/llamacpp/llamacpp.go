package llamacpp

import (
	"context"
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
	"floodmark/timeline"
)

// Engine is llama.cpp on CUDA cards, with every layer on a card.
type Engine struct {
	// Ollama says that its server starts it, with that server's defaults.
	Ollama bool
}

// Name is "llama.cpp", or "ollama".
func (e Engine) Name() string {
	if e.Ollama {
		return "ollama"
	}
	return "llama.cpp"
}

// Formulas lists the rules that its figures name.
func (Engine) Formulas() []account.Formula { return formulas() }

// Estimate lays out the reservation of one device.
func (e Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	l := &layout{in: in, o: resolve(in, e.Ollama), tl: &timeline.Timeline{Ranks: in.Plan.Ranks, Device: -1, Streams: []string{"default"}}}
	l.write()
	return estimate.Result{Timeline: l.tl}, nil
}

// layout writes the timeline of one device.
type layout struct {
	in estimate.Input
	o  options
	tl *timeline.Timeline
}

// write lays out the phases: what is loaded stays, and from the reservation on
// everything is there.
func (l *layout) write() {
	load := l.tl.Span(account.PhaseModelLoad)
	reserve := l.tl.Span(account.PhaseKVAllocation)
	l.tl.Span(account.PhasePrefill)
	l.tl.Span(account.PhaseDecode)
	hold := l.tl.Hold
	hold(account.TermContext, account.CategoryContext, load, timeline.ToEnd, outside.Context(l.in.Memory.Arch))
	hold(account.TermWeights, account.CategoryParameter, load, timeline.ToEnd, l.weights())
	kept := l.cache()
	hold(account.TermKVCache, account.CategoryKVCache, reserve, timeline.ToEnd, kept.Reserved)
	hold(account.TermRecurrentState, account.CategoryRecurrentState, reserve, timeline.ToEnd, kept.Recurrent)
	hold(account.TermActivations, account.CategoryActivation, reserve, timeline.ToEnd, l.compute())
	l.tl.Close()
	l.tl.Warnings = append(l.o.notes, l.notes(kept)...)
}

// notes tell what was assumed, and payload and reservation as two numbers.
func (l *layout) notes(kept state.State) []account.Warning {
	var list []account.Warning
	if slots := l.o.slots; slots > 0 && l.o.length > 0 {
		list = append(list, account.Warning{Code: "cache_payload", Text: state.Two(kept.Payload, kept.Reserved, slots, l.o.length)})
	}
	if scores := l.scores(); l.o.assumesFlash && scores > 0 {
		list = append(list, account.Warning{Code: "flash_attention_assumed", Text: fmt.Sprintf(
			"flash attention is assumed, the default since build b%d: without it the scores of a micro-batch take %s more", flashBuild, bytesize.Format(scores, bytesize.GiB))})
	}
	if l.in.Workload.Precision.Cache == dtype.Unknown {
		list = append(list, account.Warning{Code: "cache_format_default", Text: "the cache is kept in F16, the engine's default whatever the weights are"})
	}
	return list
}
