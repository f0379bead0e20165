package megatron_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/timeline"
)

const in8 = "features: [fp8_compute]\ninputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: distributed}, megatron: {quantisation: RECIPE}}\n"

// Twelve layers of width 512 have 12 × 12 × 512² = 37,748,736 elements of matrices. In
// 8 bits a copy of them has the bytes by rows, and on Hopper as many by columns; as
// parameters in 8 bits they take the place of 2 bytes each. Scales are 4 bytes a
// tensor, or for 128 × 128 elements, or a byte for 32 in each direction.
func TestWeightsIn8Bits(t *testing.T) {
	checklist.Covers(t, 209)
	const n, all = 37_748_736, 64_109_568
	for _, c := range []struct {
		card, recipe    string
		weights, beside int64
	}{
		{"Hopper", "tensorwise", 2 * all, 2*n + 48*4},
		{"Blackwell", "tensorwise", 2 * all, n + 48*4},
		{"Hopper", "delayed, amax_history: 16", 2 * all, 2*n + 48*4 + 48*(16+1)*5*4},
		{"Hopper", "blockwise", 2 * all, 2*n + 2*n/128/128*4},
		{"Blackwell", "mxfp8", 2 * all, 2*n + 2*n/32},
		{"Hopper", "tensorwise, quantised_parameters: true", 2*all - n, n + 48*4},
		{"Blackwell", "tensorwise, quantised_parameters: true", 2*all - n, 48 * 4},
		{"Blackwell", "mxfp8, quantised_parameters: true", 2*all - n, n + 2*n/32},
		{"Hopper", "tensorwise, uncached_weights: true", 2 * all, 0},
		{"Hopper", "tensorwise, wide_layers_at_start: 1, wide_layers_at_end: 2", 2 * all, 2*n*9/12 + 36*4},
	} {
		list, err := laidOn(c.card, small(), strings.Replace(in8, "RECIPE", c.recipe, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := alive(list[0], account.TermWeights); got < c.weights || got > c.weights+c.weights/1000 {
			t.Errorf("%s on %s: parameters of %d bytes, want %d and padding", c.recipe, c.card, got, c.weights)
		}
		if got := alive(list[0], account.TermBuffers); got != c.beside {
			t.Errorf("%s on %s: %d bytes beside them, want %d", c.recipe, c.card, got, c.beside)
		}
	}
}

// What a card or the other settings lack is refused.
func TestNo8Bits(t *testing.T) {
	for _, c := range []struct{ card, recipe, want string }{
		{"Ampere", "tensorwise", "compute capability 8.9"},
		{"Turing", "tensorwise", "compute capability 8.9"},
		{"Hopper", "mxfp8", "compute capability 10.0"},
	} {
		if _, err := laidOn(c.card, small(), strings.Replace(in8, "RECIPE", c.recipe, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s: %v, want %q", c.recipe, c.card, err, c.want)
		}
	}
	text := strings.Replace(strings.Replace(in8, "RECIPE", "delayed, quantised_parameters: true", 1), "kind: distributed", "kind: ddp", 1)
	if _, err := laid(small(), text); err == nil || !strings.Contains(err.Error(), "distributed optimizer") {
		t.Errorf("parameters in 8 bits without the distributed optimizer: %v", err)
	}
}

// Products that run beside the exchanges of two ranks read 1,024 × 512 positions out of
// buffers outside the allocator: 16 bytes an element for twelve exchanges, of which
// eight gather bytes and four sum 2 bytes each. Three workspaces more are theirs.
func TestUserbuffers(t *testing.T) {
	const text = "features: [fp8_compute]\ninputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {tensor_parallel: 2}\ntraining: {optimizer: adamw, sequence_parallel: true, sharding: {kind: distributed}, megatron: {quantisation: tensorwise, userbuffers: "
	with, without := run(t, small(), text+"true}}\n")[0], run(t, small(), text+"false}}\n")[0]
	if got := alive(with, account.TermWorkspace) - alive(without, account.TermWorkspace); got != 3*32<<20 {
		t.Errorf("%d bytes of workspaces more, want three of 32 MiB", got)
	}
	held := func(tl *timeline.Timeline) int64 {
		for _, b := range tl.Bounds {
			if tl.Terms[b.Term].ID == account.TermCommunication {
				return b.Figure.Low()
			}
		}
		return 0
	}
	if got := held(with) - held(without); got != 16*1024*512 {
		t.Errorf("%d bytes outside the allocator more, want %d", got, 16*1024*512)
	}
	if len(with.Allocs) >= len(without.Allocs) {
		t.Errorf("%d allocations beside them and %d without: what is gathered lies in the allocator still", len(with.Allocs), len(without.Allocs))
	}
}

// Parameters in 8 bits are written from copies in 16 of all that the rank updates of
// them, an eighth of 37,748,736 elements, before the first is cast; with scales of 32
// they are gathered otherwise, and an optimizer that is aware of precision writes them
// itself, by delayed scaling alone.
func TestCopiesOfMasterWeights(t *testing.T) {
	checklist.Covers(t, 209)
	const n = 37_748_736
	for _, c := range []struct {
		card, recipe string
		copies       int64
	}{
		{"Hopper", "tensorwise, quantised_parameters: true", 2 * n / 8},
		{"Hopper", "blockwise, quantised_parameters: true", 2 * n / 8},
		{"Blackwell", "mxfp8, quantised_parameters: true", 0},
		{"Hopper", "tensorwise", 0},
		{"Hopper", "tensorwise, quantised_parameters: true, precision_aware_optimizer: true", 2 * n / 8},
		{"Hopper", "delayed, quantised_parameters: true, precision_aware_optimizer: true", 0},
	} {
		list, err := laidOn(c.card, small(), strings.Replace(in8, "RECIPE", c.recipe, 1))
		if err != nil {
			t.Fatal(err)
		}
		var copies int64
		for _, e := range list[0].Events {
			switch {
			case e.Kind == timeline.Mark: // of all phases the last is the optimizer's
				copies = 0
			case e.Kind == timeline.Born && list[0].Terms[list[0].Allocs[e.Alloc].Term].ID == account.TermTemporaries:
				copies += list[0].Allocs[e.Alloc].Requested
			}
		}
		if copies < c.copies || copies > c.copies+c.copies/100 {
			t.Errorf("%s on %s: %d bytes of copies, want %d", c.recipe, c.card, copies, c.copies)
		}
	}
}
