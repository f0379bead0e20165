package eager

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate/state"
	"floodmark/timeline"
	"floodmark/workload"
)

// cache is the state of sequences: after prefill it holds the context, and by
// the end of decode what was generated too. What is allocated counts; where that
// is more than the payload, a warning says both. The last generated position is
// never fed back, but its place is charged: engines reserve it, and one position
// is far below any margin.
func (b *builder) cache(d dimensions) {
	options := b.stateOptions(d)
	at := func(positions int64, fits bool) state.State {
		if !fits {
			positions = -1
		}
		shared := int64(0)
		if b.how.sharesPrefix {
			shared, _ = b.in.Workload.Dimension(workload.SharedPrefix)
		}
		return state.Of(b.in.Model, b.in.Plan, options, state.Lengths{
			Sequences: d.sequences, Positions: positions, SharedPrefix: min(shared, d.context), Encoder: d.encoder})
	}
	before, after := at(d.context, true), at(d.total())
	keys := b.tl.Term(account.TermKVCache, account.CategoryKVCache, after.Reserved.Provenance)
	b.tl.Bound(keys, prefillSpan, prefillSpan, d.bounded(zeroWithoutLayers(before.Reserved)))
	b.tl.Bound(keys, decodeSpan, decodeSpan, d.bounded(zeroWithoutLayers(after.Reserved)))
	recurrent := d.bounded(after.Recurrent)
	if n, exact := after.Recurrent.IsExact(); exact && n == 0 {
		recurrent = account.Zero("the rank runs no recurrent layer", after.Recurrent.Provenance)
	}
	b.tl.Hold(account.TermRecurrentState, account.CategoryRecurrentState, prefillSpan, timeline.ToEnd, recurrent)
	if options.Offloaded {
		b.tl.Bound(keys, prefillSpan, prefillSpan, d.bounded(before.Host))
		b.tl.Bound(keys, decodeSpan, decodeSpan, d.bounded(after.Host))
	}
	b.warnReserved(after)
}

func zeroWithoutLayers(f account.Figure) account.Figure {
	if n, exact := f.IsExact(); exact && n == 0 {
		return account.Zero("no layer of the rank caches a position, or there is none", f.Provenance)
	}
	return f
}

func (b *builder) warnReserved(s state.State) {
	payload, exact := s.Payload.IsExact()
	reserved, also := s.Reserved.IsExact()
	if exact && also && reserved > payload {
		b.tl.Warnings = append(b.tl.Warnings, account.Warning{Code: "cache_reserved_beyond_payload", Text: fmt.Sprintf(
			"the cache reserves %s bytes; the positions that are retained by the end take %s of them", bytesize.Group(reserved), bytesize.Group(payload))})
	}
}

// warnBeyond says so when the lengths go beyond what the model declares.
func (b *builder) warnBeyond() {
	context, _ := b.in.Workload.Dimension(workload.Context)
	generated, _ := b.in.Workload.Dimension(workload.Generated)
	most := int64(b.in.Model.MaxPosition)
	if total, fits := bytesize.Add(context, generated); most > 0 && (!fits || total > most) {
		b.tl.Warnings = append(b.tl.Warnings, account.Warning{Code: "beyond_max_position",
			Text: fmt.Sprintf("the workload's positions go beyond the %d that the model's configuration declares", most)})
	}
}
