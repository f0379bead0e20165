package eager

import (
	"floodmark/account"
	"floodmark/estimate"
	"floodmark/timeline"
)

// Beside is what a generation holds in a process that has the weights already, as bounds
// of its two moments: prompts at work, and the last of the positions that are generated.
// What has no upper end leaves the moment without one. It is empty of what the process
// holds anyway: context, weights, communication.
func Beside(in estimate.Input) (terms []account.Term, prefill, decode []timeline.Bound) {
	b := &builder{in: in, how: plain(in), tl: &timeline.Timeline{}}
	b.how.warm = true
	b.tl.Span(account.PhaseModelLoad)
	b.tl.Span(account.PhasePrefill)
	b.tl.Span(account.PhaseDecode)
	b.generation()
	for _, x := range b.tl.Bounds {
		if x.From <= prefillSpan && (x.To >= prefillSpan || x.To == timeline.ToEnd) {
			prefill = append(prefill, x)
		}
		if x.From <= decodeSpan && (x.To >= decodeSpan || x.To == timeline.ToEnd) {
			decode = append(decode, x)
		}
	}
	return b.tl.Terms, prefill, decode
}
