package megatron_test

import (
	"testing"

	"floodmark/account"
	"floodmark/timeline"
)

// latentMixture lays out 8 layers of latent attention and experts.
func latentMixture(t *testing.T, modules, more string) []*timeline.Timeline {
	t.Helper()
	return run(t, small("num-layers", "8", "num-experts", "8", "moe-router-topk", "2", "moe-ffn-hidden-size", "512", "swiglu", "true", "disable-bias-linear", "true", "normalization", "RMSNorm",
		"position-embedding-type", "rope", "multi-latent-attention", "true", "q-lora-rank", "512", "kv-lora-rank", "512", "qk-head-dim", "64", "qk-pos-emb-head-dim", "32", "v-head-dim", "64"),
		"inputs: {only: {context: 2048, micro_batch: 2}}\nlayout: {pipeline_parallel: 2}\ntraining: {optimizer: adamw, accumulation: 4, schedule: {kind: interleaved, chunks: 4}, megatron: {attention: unfused, hidden_dropout: false, attention_dropout: false, pipeline_layout: Ett|t|t|t|t|t|t|L, imbalance: 1, offload_modules: ["+modules+"]}"+more+"}\n")
}

// What modules save leaves the device and lies in main memory, which is needed once for
// all steps; of attention that makes scores these are most of what waits for backward.
func TestOffload(t *testing.T) {
	host := func(tl *timeline.Timeline) (n int64) {
		for _, a := range tl.Allocs {
			if a.Space == timeline.Pinned {
				n += a.Requested
			}
		}
		return n
	}
	device := func(tl *timeline.Timeline) (peak int64) {
		level := tl.Start()
		for _, e := range tl.Events {
			if e.Kind != timeline.Mark && tl.Allocs[e.Alloc].Space == timeline.Caching {
				level += tl.Delta(e)
				peak = max(peak, level)
			}
		}
		return peak
	}
	none := latentMixture(t, "", "")
	scores := latentMixture(t, "core_attn", "")
	all := latentMixture(t, "attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act", "")
	for stage := range none {
		a, b, c := device(none[stage]), device(scores[stage]), device(all[stage])
		if !(a > b && b > c) {
			t.Errorf("stage %d: peaks of %d, %d without scores, %d without more", stage, a, b, c)
		}
		if h, more := host(scores[stage]), host(all[stage]); host(none[stage]) != 0 || h == 0 || more <= h {
			t.Errorf("stage %d: %d bytes of main memory for scores, %d for all", stage, h, more)
		}
		if left := alive(all[stage], account.TermActivations); left > alive(none[stage], account.TermActivations) {
			t.Errorf("stage %d: %d bytes of activations are left after a step", stage, left)
		}
	}
}

// Layers whose modules are given back and computed again end a step with what they
// would have without, and hold less in between.
func TestOutputless(t *testing.T) {
	plain := latentMixture(t, "", "")
	for _, module := range []string{"layernorm", "mla_up_proj", "moe_act"} {
		again := latentMixture(t, "", ", checkpointing: selective, recompute: {modules: ["+module+"]}")
		for stage := range plain {
			before, _ := plain[stage].PeakRequested()
			now, _ := again[stage].PeakRequested()
			if end := again[stage].EndRequested(); now >= before || end != plain[stage].EndRequested() {
				t.Errorf("%s, stage %d: peak %d, %d before; at the end %d, %d before", module, stage, now, before, end, plain[stage].EndRequested())
			}
		}
	}
}
