package megatron_test

import (
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/model/megatronmodel"
	"floodmark/timeline"
)

// most is the most blocks of so many bytes that are alive together before a phase.
func most(tl *timeline.Timeline, bytes int64, before account.PhaseID) (n int) {
	end := slices.IndexFunc(tl.Events, func(e timeline.Event) bool {
		return e.Kind == timeline.Mark && tl.Phases[e.Alloc].Phase == before
	})
	alive := 0
	for _, e := range tl.Events[:end] {
		if e.Kind == timeline.Mark || tl.Allocs[e.Alloc].Requested != bytes {
			continue
		}
		switch e.Kind {
		case timeline.Born:
			alive++
		case timeline.FreeCompleted:
			alive--
		}
		n = max(n, alive)
	}
	return n
}

// While rows are on their way back from the experts, those that were sent, those that
// arrived, those that go back and those that come back live together, beside the ones
// that the experts keep: five times 2 rows a position. One rank alone sends nothing.
func TestRowsOnTheirWay(t *testing.T) {
	a := small("num-layers", "1", "num-experts", "4", "moe-router-topk", "2", "disable-bias-linear", "")
	const rows = 2 * 3 * 1024 * 512 * 2
	for layout, want := range map[string]int{"{data_parallel: 2, expert_parallel: 2}": 5, "{data_parallel: 2}": 4} {
		tl := run(t, a, "inputs: {only: {context: 1024, micro_batch: 3}}\nlayout: "+layout+"\ntraining: {optimizer: adamw, megatron: {attention: fused, hidden_dropout: false, attention_dropout: false, grouped_gemm: true, dispatcher: alltoall, imbalance: 1}}\n")[0]
		if got := most(tl, rows, account.PhaseBackward); got != want {
			t.Errorf("%s: %d times the rows are alive together, want %d", layout, got, want)
		}
	}
}

// To the fullest rank come more rows than it sends: a quarter more are what its
// experts read and make, and what goes back to others, beside what it sends and gets back.
func TestFullestRank(t *testing.T) {
	a := small("num-layers", "1", "num-experts", "4", "moe-router-topk", "2", "disable-bias-linear", "")
	const rows = 2 * 3 * 1024 * 512 * 2
	tl := run(t, a, "inputs: {only: {context: 1024, micro_batch: 3}}\nlayout: {data_parallel: 2, expert_parallel: 2}\ntraining: {optimizer: adamw, megatron: {attention: fused, hidden_dropout: false, attention_dropout: false, grouped_gemm: true, dispatcher: alltoall, imbalance: 1.25}}\n")[0]
	if sent, arrived := most(tl, rows, account.PhaseBackward), most(tl, rows*5/4, account.PhaseBackward); sent != 2 || arrived != 4 {
		t.Errorf("%d times the rows that are sent and %d times those that arrive, want 2 and 4", sent, arrived)
	}
}

// Without a way to send each row alone every rank gathers the positions of all into the
// buffer that stays: those of two ranks here; their own rows are kept, and what experts
// made is added up in a tensor of all positions.
func TestPositionsOfAllRanks(t *testing.T) {
	a := small("num-layers", "1", "num-experts", "4", "moe-router-topk", "1", "disable-bias-linear", "")
	const all = 2 * 3 * 1024 * 512 * 2
	tl := run(t, a, "inputs: {only: {context: 1024, micro_batch: 3}}\nlayout: {data_parallel: 2, expert_parallel: 2}\ntraining: {optimizer: adamw, megatron: {attention: fused, hidden_dropout: false, attention_dropout: false, grouped_gemm: true, imbalance: 1}}\n")[0]
	if got := most(tl, all, account.PhaseBackward); got != 2 {
		t.Errorf("%d times the positions of all ranks, want the buffer and the sum", got)
	}
}

// Where each row belongs is kept for each layer until the next micro-batch: 8 bytes a
// row, or with TransformerEngine's kernels 4 bytes for each position and twice the
// experts and one.
func TestPlacesOfRows(t *testing.T) {
	a := small("num-layers", "1", "num-experts", "4", "moe-router-topk", "2", "disable-bias-linear", "")
	for more, want := range map[string]int64{"": 2 * 1024 * 8, ", permute_fusion: true": 1024 * 9 * 4} {
		tl := run(t, a, "inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, megatron: {attention: fused, dispatcher: alltoall"+more+"}}\n")[0]
		n := 0
		for _, x := range tl.AliveAt(len(tl.Events) - 1) {
			if tl.Allocs[x].Requested == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q: %d blocks of %d bytes stay, want one", more, n, want)
		}
	}
}

// oss is two layers of gpt-oss' kind, the first of which attends within a window.
func oss(more ...string) megatronmodel.Arguments {
	return small(append([]string{
		"num-layers", "2", "num-attention-heads", "8", "num-experts", "4", "moe-router-topk", "2", "moe-ffn-hidden-size", "512", "quick-geglu", "true", "activation-func-clamp-value", "7.0",
		"softmax-type", "learnable", "window-size", "127,0", "window-attn-skip-freq", "2", "position-embedding-type", "rope",
	}, more...)...)
}

const ossLayout = "inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, sharding: {kind: ddp}, megatron: {hidden_dropout: false, grouped_gemm: true, dispatcher: alltoall, unfused: [bias_dropout], imbalance: 1"

// Without kernels for sinks a layer writes its scores: with their column of sinks and in
// 32 bits 8 · 1,024 · 1,025 · 4 bytes, once as what is softmaxed and once as its result.
// cuDNN writes none.
func TestScoresOfSinks(t *testing.T) {
	const wide = 8 * 1024 * 1025 * 4
	for settings, want := range map[string]int{", attention_dropout: false": 0, ", attention_dropout: false, deterministic: true": 3, "": 2} {
		tl := run(t, oss(), ossLayout+settings+"}}\n")[0]
		if got := most(tl, wide, account.PhaseBackward); got != want {
			t.Errorf("%q: %d times the scores in 32 bits, want %d", settings, got, want)
		}
	}
}

// The halves of each row are clamped before the fused activation reads them: a layer keeps
// them beside what came in, 2 · 1,024 rows of 2 · 512. Biases leave what is kept as it is,
// and make a parameter of each expert's columns: 4 · (1,024 + 512) and the router's 4, the
// attention's 1,536 + 512 beside.
func TestClampedExperts(t *testing.T) {
	const rows = 2 * 1024
	kept := func(a megatronmodel.Arguments) int64 {
		return mostActive(run(t, a, ossLayout+", attention_dropout: false}}\n")[0])
	}
	plain := oss()
	delete(plain, "activation-func-clamp-value")
	if got, want := kept(oss())-kept(plain), int64(2*rows*1024*2); got != want {
		t.Errorf("%d bytes more are kept, want %d", got, want)
	}
	biased, bare := run(t, oss(), ossLayout+"}}\n")[0], run(t, oss("disable-bias-linear", "true"), ossLayout+"}}\n")[0]
	if got, want := alive(biased, account.TermWeights)-alive(bare, account.TermWeights), int64(2*2*(4*(1024+512)+4+1536+512)); got != want {
		t.Errorf("biases have %d bytes, want %d", got, want)
	}
}
