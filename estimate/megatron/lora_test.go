package megatron_test

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate/megatron"
	"floodmark/internal/checklist"
	"floodmark/model/megatronmodel"
	"floodmark/timeline"
	"floodmark/workload"
)

// qwen3 is Qwen3-8B with fewer layers than its 36.
func qwen3(layers string) megatronmodel.Arguments {
	return megatronmodel.Arguments{
		"num-layers": layers, "hidden-size": "4096", "ffn-hidden-size": "12288", "num-attention-heads": "32", "group-query-attention": "true",
		"num-query-groups": "8", "kv-channels": "128", "vocab-size": "151936", "swiglu": "true", "disable-bias-linear": "true", "normalization": "RMSNorm",
		"position-embedding-type": "rope", "qk-layernorm": "true", "untie-embeddings-and-output-weights": "true", "max-position-embeddings": "40960",
	}
}

const everyTarget = "adapter: {rank: 32, targets: [linear_qkv, linear_proj, linear_fc1, linear_fc2]}"

// tuned is a workload over 8,192 positions on two tensor ranks.
func tuned(sharding, adapter, settings string) string {
	return "inputs: {only: {context: 8192, micro_batch: 1}}\nlayout: {tensor_parallel: 2, data_parallel: 4}\ntraining: {optimizer: adamw, sequence_parallel: true, sharding: {kind: " +
		sharding + "}, " + adapter + ", megatron: {hidden_dropout: false, attention_dropout: false, attention_mask_in_dataloader: false, vocabulary_multiple: 64" + settings + "}}\n"
}

// Rank 32 beside all four modules of Qwen3-8B, by hand: 32 · (4,096 + 6,144) beside
// linear_qkv, 32 · 8,192 beside linear_proj, 32 · (4,096 + 24,576) beside linear_fc1 and
// 32 · (12,288 + 4,096) beside linear_fc2 are 2,031,616 a layer. Two tensor ranks have a
// half each, with gradients in 32 bits and 12 bytes of the optimizer's; the frozen
// weights have neither.
func TestLoRA(t *testing.T) {
	checklist.Covers(t, 212)
	const layers, layer = 4, 32*(4096+6144) + 32*(4096+4096) + 32*(4096+24576) + 32*(12288+4096)
	m, err := megatronmodel.New("qwen3", qwen3("4"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := megatron.Tune(m, workload.Tuning{Rank: 32, Targets: []string{"all-linear"}}, workload.Mesh{})
	if err != nil {
		t.Fatal(err)
	}
	whole := int64(0)
	for _, module := range made.Modules {
		for _, shape := range module.Shapes {
			whole += shape[0] * shape[1]
		}
	}
	if whole != layers*layer || len(made.Modules) != 4*layers {
		t.Errorf("%d parameters of %d modules, want %d of %d", whole, len(made.Modules), layers*layer, 4*layers)
	}
	const own = layers * layer / 2
	base := int64(0)
	for _, tensor := range m.Tensors {
		n, _ := tensor.Parameters()
		if len(tensor.Shape) > 1 {
			n /= 2
		}
		base += n
	}
	for _, kind := range []string{"ddp", "distributed"} {
		tl := run(t, qwen3("4"), tuned(kind, everyTarget, ""))[0]
		updated := int64(own)
		if kind == "distributed" {
			updated /= 4
		}
		for id, want := range map[account.TermID]int64{
			account.TermWeights: 2 * base, account.TermAdapters: 2 * own, account.TermGradients: 4 * own, account.TermMasterCopy: 4 * updated, account.TermOptimizerState: 8 * updated,
		} {
			if got := alive(tl, id); got < want || got > want+want/1000 {
				t.Errorf("%s, %s: %d bytes, want %d and padding", kind, id, got, want)
			}
		}
	}
}

// Adapters that gather their input again keep what their rank has of it, which
// TransformerEngine keeps in any case, but for the first layer, whose input wants no
// gradient; the gathered input stands once in a buffer. Worked number: of 2·n adapters
// over 8,192 positions of 4,096 columns, 2·n·64 MiB less the buffer's 64 and the 32 of
// the first layer. With n = 36 that is 4,731,174,912 bytes: Megatron-Bridge publishes
// 4.731 GB (skills/nemo-mbridge-perf-memory-tuning).
func TestInputRegather(t *testing.T) {
	const layers, gathered = 3, int64(8192 * 4096 * 2)
	native := ", cross_entropy: native"
	kept := replayed(t, run(t, qwen3("3"), tuned("distributed", everyTarget, native)))[0]
	again := replayed(t, run(t, qwen3("3"), tuned("distributed", everyTarget, native+", input_regather: true")))[0]
	if want := 2*layers*gathered - gathered - gathered/2; kept-again != want {
		t.Errorf("%d bytes less, want %d", kept-again, want)
	}
	recomputed := strings.Replace(tuned("distributed", everyTarget, native+", input_regather: true"), "training: {", "training: {checkpointing: full, recompute: {method: uniform, layers: 1}, ", 1)
	plain := strings.Replace(recomputed, ", input_regather: true", "", 1)
	if a, b := replayed(t, run(t, qwen3("3"), recomputed))[0], replayed(t, run(t, qwen3("3"), plain))[0]; a != b {
		t.Errorf("layers that are computed again peak at %d with it and at %d without", a, b)
	}
}

// Of a frozen matrix nothing is kept for its gradient: with adapters beside linear_qkv
// alone a layer keeps neither what linear_fc1 nor what linear_fc2 reads, 2 bytes for
// each of 4,096 positions of 4,096 and for each of 8,192 of 6,144; trained it keeps both.
func TestFrozenKeepsNoInput(t *testing.T) {
	alone := "adapter: {rank: 32, targets: [linear_qkv]}"
	one, two := run(t, qwen3("2"), tuned("ddp", alone, ""))[0], run(t, qwen3("3"), tuned("ddp", alone, ""))[0]
	both, three := run(t, qwen3("2"), tuned("ddp", "checkpointing: none", ""))[0], run(t, qwen3("3"), tuned("ddp", "checkpointing: none", ""))[0]
	frozen, trained := mostActive(two)-mostActive(one), mostActive(three)-mostActive(both)
	const norms, activations, gathered, middle = 4096 * 4096 * 2, 8192 * 6144 * 2, 8192 * 4096 * 2, 8192 * 32 * 2
	const projection = 8192 * 2048 * 2 // attention keeps its result itself
	if want := trained - norms - activations + gathered + middle; frozen != want {
		t.Errorf("a layer keeps %d bytes, want %d (trained %d; linear_proj reads %d)", frozen, want, trained, projection)
	}
}

// mostActive is the most that is kept for backward at one moment.
func mostActive(tl *timeline.Timeline) (most int64) {
	now := int64(0)
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.Born, timeline.FreeCompleted:
			a := tl.Allocs[e.Alloc]
			if tl.Terms[a.Term].ID != account.TermActivations {
				continue
			}
			if e.Kind == timeline.Born {
				now += a.Requested
			} else {
				now -= a.Requested
			}
			most = max(most, now)
		}
	}
	return most
}

// A gated activation in operators of its own keeps two halves beside what comes in, and
// positions cosines and sines of queries and of keys: for each layer 2 · 8,192 · 6,144 · 2
// and 4 · 8,192 · 128 · 2 bytes.
func TestWithoutFusion(t *testing.T) {
	kept := func(layers, settings string) int64 {
		return mostActive(run(t, qwen3(layers), tuned("ddp", everyTarget, settings))[0])
	}
	fused := kept("3", "") - kept("2", "")
	for settings, want := range map[string]int64{
		", unfused: [bias_activation]": 2 * 8192 * 6144 * 2,
		", unfused: [rope]":            4 * 8192 * 128 * 2,
	} {
		if got := kept("3", settings) - kept("2", settings) - fused; got != want {
			t.Errorf("%s: a layer keeps %d bytes more, want %d", settings, got, want)
		}
	}
}

// The compiled loss makes its gradient in a copy of 32 bits: golden values of
// gpt3_mcore_te_tp2_pp2_cross_entropy_loss_fusion (mem-max-allocated-bytes, Megatron-LM @
// d98e8a64), of the last stage. Sabotage: without the copy they are missed.
func TestCompiledLoss(t *testing.T) {
	const want = 1_837_640_192 // on H100
	for _, loss := range []string{"native", "unfused"} {
		list := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 4}}\nlayout: {tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2}\n"+
			"training: {optimizer: adamw, accumulation: 4, sharding: {kind: ddp}, schedule: {kind: 1f1b}, megatron: {gradient_accumulation_fusion: false, cross_entropy: "+loss+"}}\n")
		got := replayed(t, list[1:])[0]
		if within := abs(got-want)*50 <= want; within != (loss == "native") {
			t.Errorf("%s loss: peak of %d, the run's %d", loss, got, want)
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// An adapter that Megatron-Bridge has no module for is refused, and so is a rank that
// tensor ranks do not divide; other kinds are unknown, never a guess.
func TestOtherAdapters(t *testing.T) {
	m, err := megatronmodel.New("qwen3", qwen3("2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := megatron.Tune(m, workload.Tuning{Rank: 8, Targets: []string{"q_proj"}}, workload.Mesh{}); err == nil || !strings.Contains(err.Error(), "linear_qkv") {
		t.Errorf("q_proj: %v", err)
	}
	if _, err := laid(qwen3("2"), tuned("ddp", "adapter: {rank: 3, targets: [linear_qkv]}", "")); err == nil || !strings.Contains(err.Error(), "rank 3") {
		t.Errorf("rank 3 over two ranks: %v", err)
	}
	for _, adapter := range []string{"adapter: {kind: dora, rank: 8, targets: [linear_qkv]}", "adapter: {rank: 8, targets: [linear_qkv], base: nf4}"} {
		tl := run(t, qwen3("2"), tuned("ddp", adapter, ""))[0]
		if !slices.ContainsFunc(tl.Bounds, func(b timeline.Bound) bool {
			return !b.Figure.Known() && strings.Contains(b.Figure.Reason(), "other than LoRA")
		}) {
			t.Errorf("%s: nothing is unknown", adapter)
		}
	}
}
