package vllm

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/workload"
)

// step is the prompts of one step, as many positions as a step works on, or as
// the workload has. A prompt that is longer than a step fills whole steps.
func (l *layout) step() account.Figure {
	f := l.r.profile.forward
	context, declared := l.in.Workload.Dimension(workload.Context)
	sequences, _ := l.in.Workload.Dimension(workload.Sequences)
	positions, fits := bytesize.Mul(context, max(1, sequences))
	high, known := f.High()
	switch {
	case known && declared && context >= l.o.BatchedTokens:
		return f
	case !known || !declared || !fits || positions >= l.o.BatchedTokens:
		return account.Between(0, high, f.Provenance)
	}
	return account.Between(0, high/l.o.BatchedTokens*max(1, positions), f.Provenance)
}

// promptLogits is the probabilities of prompts, where requests may ask for them:
// of every position of a step, logits and one copy in 32 bits
// (https://github.com/vllm-project/vllm/pull/52054). Worked number: 8,192 ×
// 152,064 × 6 bytes are 7,474,249,728.
func (l *layout) promptLogits() account.Figure {
	p := provenance(promptFormula, "https://github.com/vllm-project/vllm/pull/52054", account.Requested)
	answers := l.answers()
	high, known := answers.High()
	if !l.o.PromptLogprobs || !known {
		return answers
	}
	positions := l.o.BatchedTokens
	if context, declared := l.in.Workload.Dimension(workload.Context); declared {
		positions = min(positions, max(1, context))
	}
	n, fits := bytesize.Mul(positions, int64(l.in.Model.Vocab), l.o.width+4)
	if !fits {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return account.Between(max(answers.Low(), n), max(high, 2*n), p)
}

// longPrompt tells what is alive while a prompt that is longer than a step is
// processed: the cache was taken whole before, so that what can still run out is
// what a step makes. Worked number: 245,000 positions of a cache of 2,076,272 are
// 11.8 % of it (https://github.com/wtdcode/vllm-backport/issues/94, which ran out
// of memory there).
func (l *layout) longPrompt(c *estimate.Capacity) (account.Warning, bool) {
	context, declared := l.in.Workload.Dimension(workload.Context)
	least, most := c.Tokens.Low(), high(c.Tokens)
	made := account.Sum(l.step().Provenance, l.step(), l.promptLogits())
	if !declared || context <= l.o.BatchedTokens || least <= 0 || most <= 0 || !made.Known() {
		return account.Warning{}, false
	}
	part := func(tokens int64) float64 { return 100 * float64(context) / float64(tokens) }
	filled := fmt.Sprintf("%.1f %%", part(most))
	if low, high := fmt.Sprintf("%.1f", part(most)), fmt.Sprintf("%.1f", part(least)); low != high {
		filled = low + " to " + high + " %"
	}
	return account.Warning{Code: "long_prompt", Text: fmt.Sprintf(
		"a prompt of %s positions fills %s of the cache when its last step of %s positions is at work: the cache was taken whole at the start, and what can still run out of memory is what such a step makes, %s, which --max-num-batched-tokens divides",
		bytesize.Group(context), filled, bytesize.Group(l.o.BatchedTokens), span(made))}, true
}
