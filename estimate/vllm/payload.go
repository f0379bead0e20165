package vllm

import (
	"floodmark/account"
	"floodmark/estimate/state"
	"floodmark/workload"
)

// payload says what the positions of the declared sequences take on the rank, and
// what their blocks reserve, where windows make two numbers of it. Worked number:
// 32 sequences of 8,192 positions of gpt-oss-20b retain 12 × 2,048 × (8,192 + 128)
// bytes each, 6.09 GiB, and 12 GiB of blocks, for a window is given the positions
// of a whole step (https://github.com/alvarobartt/hf-mem/pull/70).
func (l *layout) payload() (account.Warning, bool) {
	_, a := l.in.Workload.Dimension(workload.Context)
	sequences, b := l.in.Workload.Dimension(workload.Sequences)
	if !a || !b || l.r.pool.blockBytes == 0 || l.r.unknown != "" {
		return account.Warning{}, false
	}
	length := l.o.length(l.in)
	kept := state.Of(l.in.Model, l.r.plan, l.o.cacheOptions(l.in), state.Lengths{Sequences: sequences, Positions: length, Encoder: -1}).Payload
	p := l.blocks.Provenance
	reserved := account.Exact(l.r.pool.blockBytes, p).Times(l.r.pool.perRequest(l.o, length)).Times(sequences)
	if l.r.pool.merged || !kept.Known() || !reserved.Known() {
		return account.Warning{}, false
	}
	return account.Warning{Code: "cache_payload", Text: state.Two(kept, reserved, sequences, length)}, true
}
