package megatron_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/megatron"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/megatronmodel"
	"floodmark/parallel"
	"floodmark/replay"
	"floodmark/timeline"
	"floodmark/workload"
)

// small is the model of Megatron-LM's functional tests: 12 layers of 512.
func small(more ...string) megatronmodel.Arguments {
	a := megatronmodel.Arguments{"num-layers": "12", "hidden-size": "512", "num-attention-heads": "8", "max-position-embeddings": "1024"}
	for i := 0; i+1 < len(more); i += 2 {
		a[more[i]] = more[i+1]
	}
	return a
}

// run lays out every stage of a workload.
func run(t testing.TB, a megatronmodel.Arguments, text string) []*timeline.Timeline {
	t.Helper()
	list, err := laid(a, text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func laid(a megatronmodel.Arguments, text string) ([]*timeline.Timeline, error) {
	return laidOn("Hopper", a, text)
}

func laidOn(arch string, a megatronmodel.Arguments, text string) ([]*timeline.Timeline, error) {
	return laidBy("", arch, a, text)
}

// laidBy is by a release of Megatron-LM.
func laidBy(version, arch string, a megatronmodel.Arguments, text string) ([]*timeline.Timeline, error) {
	m, err := megatronmodel.New("test", a)
	if err != nil {
		return nil, err
	}
	f, err := workload.ReadFile(source.Bytes("test", []byte("engine: {name: megatron}\noperation: training\nprecision: bf16-params-fp32-grads-fp32-master-fp32-moments\n"+text)))
	if err != nil {
		return nil, err
	}
	f.Workload.Engine.Version = version
	return stagesOn(arch, m, &f.Workload)
}

func stages(m *model.Model, w *workload.Workload) ([]*timeline.Timeline, error) {
	return stagesOn("Hopper", m, w)
}

func stagesOn(arch string, m *model.Model, w *workload.Workload) (list []*timeline.Timeline, err error) {
	rules, err := megatron.Rules(w)
	if err != nil {
		return nil, err
	}
	plans, err := rules.Plan(m, w.Mesh)
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		r, err := megatron.Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: p, Workload: w, Memory: estimate.Memory{Arch: arch}})
		if err != nil {
			return nil, err
		}
		list = append(list, r.Timeline)
	}
	return list, nil
}

// alive is the bytes of a term at the end.
func alive(tl *timeline.Timeline, id account.TermID) (n int64) {
	for _, a := range tl.AliveAt(len(tl.Events) - 1) {
		if tl.Terms[tl.Allocs[a].Term].ID == id {
			n += tl.Allocs[a].Requested
		}
	}
	return n
}

// The states of 64,109,568 parameters on one of 8 ranks: 2 bytes of parameters, 4 of
// gradients, and 12 of what the optimizer keeps, a ninth to an eighth of it with the
// distributed optimizer and all of it without.
func TestStates(t *testing.T) {
	checklist.Covers(t, 209)
	const n = 64_109_568
	for _, c := range []struct {
		kind   string
		master int64
	}{{"distributed", n / 8 * 4}, {"ddp", n * 4}} {
		tl := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: "+c.kind+"}}\n")[0]
		for id, want := range map[account.TermID]int64{
			account.TermWeights: 2 * n, account.TermGradients: 4 * n, account.TermMasterCopy: c.master, account.TermOptimizerState: 2 * c.master,
		} {
			if got := alive(tl, id); got < want || got > want+want/1000 {
				t.Errorf("%s, %s: %d bytes, want %d and padding", c.kind, id, got, want)
			}
		}
	}
}

// Gradients of 16 bits are copied into 32 for the optimizer, as much as the rank
// updates, and the copies stay until the next step; not where it is aware of precision.
func TestNarrowGradients(t *testing.T) {
	checklist.Covers(t, 209)
	const n = 64_109_568
	for _, c := range []struct {
		kind, more string
		copies     int64
	}{{"ddp", "", 4 * n}, {"distributed", "", 4 * n / 8}, {"distributed", ", megatron: {precision_aware_optimizer: true}", 0}} {
		m, err := megatronmodel.New("test", small())
		if err != nil {
			t.Fatal(err)
		}
		f, err := workload.ReadFile(source.Bytes("test", []byte("engine: {name: megatron}\noperation: training\nprecision: {parameters: bf16, gradients: bf16, master_copy: fp32}\n"+
			"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: "+c.kind+"}"+c.more+"}\n")))
		if err != nil {
			t.Fatal(err)
		}
		list, err := stages(m, &f.Workload)
		if err != nil {
			t.Fatal(err)
		}
		if got := alive(list[0], account.TermGradients); got < 2*n+c.copies || got > 2*n+c.copies+n/500 {
			t.Errorf("%s%s: %d bytes of gradients, want %d and padding", c.kind, c.more, got, 2*n+c.copies)
		}
	}
}

// Over all ranks that divide them, the optimizer's states are those of one copy, with
// at most the padding of a bucket: no stage of sharding changes the aggregate.
func TestAggregate(t *testing.T) {
	checklist.Covers(t, 206)
	const n = 64_109_568
	for _, data := range []string{"1", "2", "4", "8", "64"} {
		tl := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: "+data+"}\ntraining: {optimizer: adamw, sharding: {kind: distributed, overlap: true}}\n")[0]
		ranks := map[string]int64{"1": 1, "2": 2, "4": 4, "8": 8, "64": 64}[data]
		if all := alive(tl, account.TermOptimizerState) * ranks; all < 8*n || all > 8*n+8*200*64*ranks {
			t.Errorf("%s ranks keep %d bytes of moments together, want %d", data, all, 8*n)
		}
	}
}

// Instances of the optimizer each divide its states over their own ranks.
func TestInstances(t *testing.T) {
	const text = "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: distributed}, megatron: {optimizer_instances: %s}}\n"
	one, two := run(t, small(), strings.Replace(text, "%s", "1", 1))[0], run(t, small(), strings.Replace(text, "%s", "2", 1))[0]
	for _, id := range []account.TermID{account.TermMasterCopy, account.TermOptimizerState} {
		if a, b := alive(one, id), alive(two, id); b < 2*a-4096 || b > 2*a+4096 {
			t.Errorf("%s: %d bytes with one instance, %d with two", id, a, b)
		}
	}
	if a, b := alive(one, account.TermGradients), alive(two, account.TermGradients); a < b || b == 0 {
		t.Errorf("gradients of %d bytes with one instance, %d with two", a, b)
	}
	if _, err := laid(small(), strings.Replace(text, "%s", "3", 1)); err == nil {
		t.Error("three instances of eight ranks")
	}
}

// Where parameters are divided too, which has no program, no more is counted than a
// rank's share.
func TestDividedToo(t *testing.T) {
	tl := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: fsdp2}}\n")[0]
	const n = 64_109_568
	for id, most := range map[account.TermID]int64{account.TermWeights: 2 * n / 8, account.TermGradients: 4 * n / 8, account.TermMasterCopy: 4 * n / 8, account.TermOptimizerState: 8 * n / 8} {
		if got := alive(tl, id); got > most || got < most-most/100 {
			t.Errorf("%s: %d bytes, want %d", id, got, most)
		}
	}
}

// A table that the first and the last stage share is on both; the gradient buffer has
// it too.
func TestTiedTableOnBothEnds(t *testing.T) {
	checklist.Covers(t, 180)
	list := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, accumulation: 4, schedule: {kind: 1f1b}, sharding: {kind: ddp}}\n")
	const layer, table, positions, norm = 3_152_384, 50_304 * 512, 1024 * 512, 1024
	for stage, want := range []int64{3*layer + table + positions, 3 * layer, 3 * layer, 3*layer + table + norm} {
		if got := alive(list[stage], account.TermWeights); got != 2*want {
			t.Errorf("stage %d holds %d bytes of parameters, want %d", stage, got, 2*want)
		}
	}
}

// What the model was given last stays, with its gradient: 2 × positions × micro-batch
// × width × 2 bytes for each piece of a stage but the first of all.
func TestHeldInput(t *testing.T) {
	for chunks, text := range map[int64]string{1: "{kind: 1f1b}", 3: "{kind: interleaved, chunks: 3}"} {
		list := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 4}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, accumulation: 4, schedule: "+text+", sharding: {kind: ddp}}\n")
		const one = 2 * 1024 * 4 * 512 * 2
		for stage, tl := range list {
			want := chunks * one
			if stage == 0 {
				want -= one
			}
			got := alive(tl, account.TermActivations) + alive(tl, account.TermTemporaries) + alive(tl, account.TermGradients) - 2*alive(tl, account.TermWeights)
			if got != want {
				t.Errorf("%d pieces, stage %d: %d bytes stay, want %d", chunks, stage, got, want)
			}
		}
	}
}

// Whatever changes bytes and has no program makes the activations unknown, and names
// itself.
func TestUnknown(t *testing.T) {
	const base = "inputs: {only: {context: 1024, micro_batch: 1}}\n"
	for _, c := range []struct {
		name, text, want string
		more             []string
	}{
		{"fp8", "features: [fp8_compute]\ntraining: {optimizer: adamw}\n", "training.megatron.quantisation", nil},
		{"graphs", "features: [cuda_graphs]\ntraining: {optimizer: adamw}\n", "cuda_graphs", nil},
		{"whole graphs", "training: {optimizer: adamw, megatron: {cuda_graphs: [mamba]}}\n", "graphs of mamba", nil},
		{"graphs of experts", "training: {optimizer: adamw, megatron: {cuda_graphs: [attn, moe_router]}}\n", "graphs of moe_router", []string{"num-experts", "4", "moe-router-topk", "1", "disable-bias-linear", "true"}},
		{"graphs and recomputation", "training: {optimizer: adamw, checkpointing: full, megatron: {cuda_graphs: [attn]}}\n", "graphs beside", nil},
		{"local", "training: {optimizer: adamw, megatron: {implementation: local}}\n", "--transformer-impl local", []string{"multi-latent-attention", "true", "q-lora-rank", "192", "kv-lora-rank", "64", "qk-head-dim", "16", "qk-pos-emb-head-dim", "8", "v-head-dim", "16"}},
		{"offload", "training: {optimizer: adamw, sharding: {kind: distributed, offload: [optimizer]}}\n", "offloading", nil},
		{"fsdp", "layout: {data_parallel: 2}\ntraining: {optimizer: adamw, sharding: {kind: fsdp2}}\n", "fsdp2", nil},
		{"optimizer", "training: {optimizer: muon}\n", "muon", nil},
		{"recompute", "training: {optimizer: adamw, checkpointing: selective, recompute: {modules: [shared_experts]}}\n", "shared_experts", nil},
		{"prediction layers", "training: {optimizer: adamw}\n", "mtp-num-layers", []string{"mtp-num-layers", "1"}},
		{"evaluation", "training: {optimizer: adamw, evaluation: {batch: 1}}\n", "evaluation", nil},
		{"save", "training: {optimizer: adamw}\nphases: [save]\n", "save", nil},
	} {
		list, err := laid(small(c.more...), base+c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		named := slices.ContainsFunc(list[0].Bounds, func(b timeline.Bound) bool {
			return list[0].Terms[b.Term].ID == account.TermActivations && !b.Figure.Known() && strings.Contains(b.Figure.Reason(), c.want)
		})
		if !named {
			t.Errorf("%s: nothing says %q", c.name, c.want)
		}
	}
}

// What is run again in backward is not kept: of a layer the scores, the network, all
// but its input; a segment of several layers keeps one input.
func TestRecompute(t *testing.T) {
	const base = "inputs: {only: {context: 1024, micro_batch: 4}}\ntraining: {optimizer: adamw, megatron: {attention: unfused}"
	kept := func(more string) int64 {
		tl := run(t, small(), base+more+"}\n")[0]
		peak, _ := tl.PeakRequested()
		return peak
	}
	none, scores, network := kept(""), kept(", checkpointing: selective"), kept(", checkpointing: selective, recompute: {modules: [mlp]}")
	both, full, pairs := kept(", checkpointing: selective, recompute: {modules: [core_attn, mlp]}"), kept(", checkpointing: full, recompute: {method: uniform, layers: 1}"), kept(", checkpointing: full, recompute: {method: uniform, layers: 6}")
	half := kept(", checkpointing: full, recompute: {method: block, layers: 6}")
	// Scores are 160 MiB of each of 12 layers, less the copies of query, key and value.
	if saved := none - scores; saved < 11*160<<20 || saved > 12*164<<20 {
		t.Errorf("scores: %d bytes fewer", saved)
	}
	if !(none > network && scores > both && both > full && full < half && half < none && pairs > full) {
		t.Errorf("none %d, scores %d, network %d, both %d, full %d, six at once %d, half %d", none, scores, network, both, full, pairs, half)
	}
}

// What cannot run is refused with its rule.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"inputs: {only: {micro_batch: 1}}\ntraining: {optimizer: adamw}\n", "context"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, recompute: {modules: [mlp]}}\n", "training.checkpointing is none"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, schedule: {kind: interleaved, chunks: 3}}\n", "one stage"},
		{"inputs: {only: {context: 1000, micro_batch: 1}}\nlayout: {context_parallel: 3}\ntraining: {optimizer: adamw}\n", "1000 positions"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, accumulation: 6, schedule: {kind: interleaved, chunks: 3}}\n", "leave 2"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, accumulation: 6, schedule: {kind: interleaved, chunks: 3}, megatron: {micro_batch_group: 3}}\n", "4 to 6 micro-batches"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 5}\ntraining: {optimizer: adamw}\n", "12 layers"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, megatron: {pipeline_layout: Et*3|(tt|)*6L}}\n", "one stage"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 2}\ntraining: {optimizer: adamw, megatron: {pipeline_layout: Et*6|t*6|L}}\n", "3 pieces"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 2}\ntraining: {optimizer: adamw, megatron: {pipeline_layout: Et*6|t*5L}}\n", "12 layers"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 2}\ntraining: {optimizer: adamw, megatron: {pipeline_layout: Et*6|t*6mL}}\n", "predict ahead"},
		{"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, megatron: {last_stage_layers: 2}}\n", "10 layers"},
	} {
		_, err := laid(small(), c.text)
		var broken *parallel.NotSupportedError
		var settings *workload.SettingsError
		if !errors.As(err, &broken) && !errors.As(err, &settings) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Ranks for experts that a dense model has not change nothing; with experts, other
// ranks than one or those of tensor parallelism are refused.
func TestRanksOfExperts(t *testing.T) {
	const text = "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {tensor_parallel: 2}\ntraining: {optimizer: adamw, megatron: {expert_tensor_parallel: %s}}\n"
	plain, other := run(t, small(), strings.Replace(text, "%s", "2", 1)), run(t, small(), strings.Replace(text, "%s", "4", 1))
	if got, want := alive(other[0], account.TermGradients), alive(plain[0], account.TermGradients); got != want || want == 0 {
		t.Errorf("gradients of %d bytes, want %d", got, want)
	}
	_, err := laid(small("num-experts", "4", "moe-router-topk", "2", "disable-bias-linear", ""), strings.Replace(text, "%s", "4", 1))
	if err == nil || !strings.Contains(err.Error(), "experts over 4 ranks") {
		t.Errorf("%v", err)
	}
}

// Sizes beyond all bounds end in unknown or an error, not in a panic or for ever.
func TestHostile(t *testing.T) {
	for _, text := range []string{
		"inputs: {only: {context: 4611686018427387904, micro_batch: 4611686018427387904}}\ntraining: {optimizer: adamw}\n",
		"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 12}\ntraining: {optimizer: adamw, accumulation: 4611686018427387904, schedule: {kind: 1f1b}}\n",
		"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 4}\ntraining: {optimizer: adamw, accumulation: 4611686018427387904, schedule: {kind: gpipe}}\n",
		"inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 1048576}\ntraining: {optimizer: adamw, sharding: {kind: distributed, overlap: true}}\n",
	} {
		if list, err := laid(small(), text); err == nil && len(list) == 0 {
			t.Error("neither stages nor an error")
		}
	}
}

// seventy is Llama-3.1-70B over 64 stages of tensor, pipeline, context and data
// parallelism with 32 micro-batches.
const seventyLayout = "inputs: {only: {context: 8192, micro_batch: 1}}\nlayout: {tensor_parallel: 4, pipeline_parallel: 8, context_parallel: 2, data_parallel: 2}\ntraining: {optimizer: adamw, accumulation: 32, sequence_parallel: true, schedule: {kind: 1f1b}, sharding: {kind: distributed, overlap: true}, megatron: {hidden_dropout: false, attention_dropout: false}}\n"

func seventy() megatronmodel.Arguments {
	return megatronmodel.Arguments{
		"num-layers": "80", "hidden-size": "8192", "ffn-hidden-size": "28672", "num-attention-heads": "64", "num-query-groups": "8", "vocab-size": "128256",
		"swiglu": "true", "disable-bias-linear": "true", "normalization": "RMSNorm", "position-embedding-type": "rope", "untie-embeddings-and-output-weights": "true",
	}
}

// replayed is the peak of each stage through the allocator.
func replayed(t testing.TB, list []*timeline.Timeline) (peaks []int64) {
	for _, tl := range list {
		r, err := replay.Simulate(context.Background(), tl, replay.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		peaks = append(peaks, r.Peaks.Allocated.Bytes)
	}
	return peaks
}

// All stages of 70 billion parameters are laid out and replayed in few bytes: the
// first stage holds eight micro-batches and the last one, and is the highest.
func TestSeventyBillion(t *testing.T) {
	checklist.Covers(t, 224)
	list := run(t, seventy(), seventyLayout)
	peaks := replayed(t, list)
	if len(peaks) != 8 || slices.Max(peaks) != peaks[0] {
		t.Errorf("peaks by stage: %v", peaks)
	}
	for stage := 1; stage < 7; stage++ {
		if peaks[stage] >= peaks[stage-1] {
			t.Errorf("stage %d holds more than the one before it: %v", stage, peaks)
		}
	}
	bytes := testing.AllocsPerRun(1, func() { run(t, seventy(), seventyLayout) })
	if bytes > 800_000 {
		t.Errorf("%.0f allocations for the eight stages", bytes)
	}
}

func BenchmarkSeventyBillion(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		replayed(b, run(b, seventy(), seventyLayout))
	}
}
