package vllm

import (
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// pooled is how a version cuts the cache of a model on the first of so many ranks.
func pooled(t *testing.T, m *model.Model, version string, tensor int, change func(*workload.Workload)) (options, pool) {
	t.Helper()
	w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: version}, Mesh: workload.Mesh{TensorParallel: tensor},
		Precision: workload.Precision{Compute: dtype.BF16}, Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{}}}
	if change != nil {
		change(w)
	}
	plans, err := Rules(w).Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	in := estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()}
	o := resolve(in)
	r := o.spend(in, plans[0])
	if r.unknown != "" {
		t.Fatal(r.unknown)
	}
	return o, r.pool
}

func facts(t *testing.T, name string) *model.Model {
	t.Helper()
	m, err := load.Open(filepath.Join("testdata/models", strings.ReplaceAll(name, "/", "__")+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Bytes of one token as the engine counts them, from the logs of start-ups: layers
// that do not divide into groups are padded, latent vectors are on every rank.
func TestBytesPerToken(t *testing.T) {
	for _, c := range []struct {
		model, version string
		tensor         int
		want           int64
	}{
		{"google/gemma-3-27b-it", "0.19.0", 1, 573_440}, // 10 global and 52 windowed layers: 7 groups of 10; 507,904 without padding
		{"google/gemma-3-12b-it", "0.19.0", 1, 393_216}, // 8 and 40 divide
		{"google/gemma-2-27b-it", "0.19.0", 1, 376_832},
		{"openai/gpt-oss-20b", "0.19.0", 2, 24_576},
		{"openai/gpt-oss-120b", "0.19.0", 1, 73_728},
		{"deepseek-ai/DeepSeek-V2-Lite-Chat", "0.19.0", 1, 31_104},
		{"moonshotai/Kimi-VL-A3B-Instruct", "0.19.0", 1, 31_104},
		{"moonshotai/Kimi-VL-A3B-Instruct", "0.19.0", 2, 31_104},
		{"meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 1, 131_072},
		{"meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 2, 65_536},
		{"meta-llama/Llama-4-Scout-17B-16E-Instruct", "0.19.0", 4, 49_152},
		{"google/gemma-3-27b-it", "0.8.5", 1, 507_904}, // one group: windows are given the whole length
	} {
		_, p := pooled(t, facts(t, c.model), c.version, c.tensor, nil)
		if got := p.blockBytes * int64(len(p.groups)) / p.smallest; got != c.want {
			t.Errorf("%s %s on %d: %d bytes a token, want %d (%d groups)", c.model, c.version, c.tensor, got, c.want, len(p.groups))
		}
	}
}

// hybrid is a decoder of 48 gated delta layers and 16 of attention, with one layer
// that predicts the next token.
func hybrid() *model.Model {
	delta := model.Layer{Mixers: []model.Mixer{model.GatedDelta{KeyHeads: 16, ValueHeads: 48, KeyDim: 128, ValueDim: 128, Conv: 4}}, FeedForward: model.Dense{Width: 17408, Gated: true}}
	full := model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 24, KVHeads: 4, KeyDim: 256, ValueDim: 256, RotaryDim: 64, Causal: true, CacheOf: -1}}, FeedForward: model.Dense{Width: 17408, Gated: true}}
	m := &model.Model{Type: "qwen3_5", Vocab: 248320, MaxPosition: 262144, Compute: dtype.F16, Stacks: []model.Stack{
		{Name: "layers", Kind: model.Decoder, Width: 5120}, {Name: "mtp", Kind: model.Predictor, Width: 5120, Layers: []model.Layer{full}}}}
	for range 16 {
		m.Stacks[0].Layers = append(m.Stacks[0].Layers, delta, delta, delta, full)
	}
	return m
}

// A hybrid on two ranks with three tokens guessed ahead: the block of attention is
// made as large as a state, and the tokens are those of public reports (club-3090
// 294 and 295).
func TestHybridPool(t *testing.T) {
	caching := true
	o, p := pooled(t, hybrid(), "0.27.1", 2, func(w *workload.Workload) {
		w.Precision = workload.Precision{Compute: dtype.F16, Cache: dtype.F8E4M3}
		w.Serving.MaxLength = 262144
		w.Serving.MaxRequests = 2
		w.Serving.Budget = &workload.Budget{BatchedTokens: 8192, Speculative: 3, PrefixCaching: &caching}
	})
	if p.smallest != 1600 || p.blockBytes != 17*1_638_400 || len(p.groups) != 4 {
		t.Errorf("a block of %d positions takes %d bytes in %d groups", p.smallest, p.blockBytes, len(p.groups))
	}
	if n := p.perRequest(&o, 262144); n != 179 {
		t.Errorf("a request takes %d blocks, want 164 + 3 × 5", n)
	}
	for blocks, tokens := range map[int64]int64{425: 622_408, 424: 620_944, 482: 705_884, 185: 270_930} {
		if got := p.tokens(&o, blocks); got != tokens && got != tokens-1 && got != tokens+1 {
			t.Errorf("%d blocks hold %d tokens, printed %d", blocks, got, tokens)
		}
	}
}

// Ranks that share the positions hold more tokens together.
func TestDecodeContext(t *testing.T) {
	m := facts(t, "deepseek-ai/DeepSeek-V2-Lite-Chat")
	plain, p := pooled(t, m, "0.19.0", 2, nil)
	shared, q := pooled(t, m, "0.19.0", 2, func(w *workload.Workload) { w.Serving.Budget.DecodeContext = 2 })
	if a, b := p.tokens(&plain, 1000), q.tokens(&shared, 1000); b != 2*a {
		t.Errorf("%d tokens, and %d with two ranks that share them", a, b)
	}
	if a, b := p.perRequest(&plain, 8192), q.perRequest(&shared, 8192); a != 2*b {
		t.Errorf("a request takes %d blocks, and %d where it is shared", a, b)
	}
}

// A version that was not read says which neighbour is assumed.
func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"0.19.0": "", "0.19": "", "v0.19.1rc2": "", "0.27.1": "", "0.8.5": "",
		"": "does not say which version", "latest": "is no version", "0.18.0": "its neighbour 0.17", "0.33.0": "its neighbour 0.27", "0.1.7": "older than any", "1.0": "its neighbour 0.27",
	} {
		_, assumed := of(version)
		if (want == "") != (assumed == "") || !strings.Contains(assumed, want) {
			t.Errorf("%q: %q, want %q", version, assumed, want)
		}
	}
	if r, _ := of("0.22.1"); r.utilization != 0.92 || !r.chargesGraphs {
		t.Errorf("0.22 takes %g and charges graphs: %v", r.utilization, r.chargesGraphs)
	}
	if r, _ := of("0.19.0"); r.utilization != 0.9 || r.chargesGraphs {
		t.Errorf("0.19 takes %g and charges graphs: %v", r.utilization, r.chargesGraphs)
	}
}

// The defaults go by card and use.
func TestDefaults(t *testing.T) {
	m := facts(t, "Qwen/Qwen3-8B")
	for _, c := range []struct {
		name         string
		gib          int64
		process      bool
		tokens, seqs int64
	}{
		{"NVIDIA H100 80GB HBM3", 79, false, 8192, 1024}, {"NVIDIA H100 80GB HBM3", 79, true, 16384, 1024},
		{"NVIDIA A100-SXM4-80GB", 79, false, 2048, 256}, {"NVIDIA GeForce RTX 4090", 23, false, 2048, 256}, {"NVIDIA GeForce RTX 4090", 23, true, 8192, 256},
	} {
		w := &workload.Workload{Engine: workload.Engine{Version: "0.19.0"}, Serving: &workload.Serving{Budget: &workload.Budget{InProcess: c.process}}}
		o := resolve(estimate.Input{Model: m, Workload: w, Memory: estimate.Memory{Name: c.name, Total: account.Exact(c.gib<<30, account.Provenance{})}})
		if o.BatchedTokens != c.tokens || o.maxSeqs != c.seqs {
			t.Errorf("%s, in process %v: %d tokens and %d requests, want %d and %d", c.name, c.process, o.BatchedTokens, o.maxSeqs, c.tokens, c.seqs)
		}
	}
}

// Sizes of batch that are captured.
func TestGraphSizes(t *testing.T) {
	for _, c := range []struct {
		kind           string
		seqs           int64
		sizes, largest int64
	}{{"qwen3", 1024, 51, 512}, {"gpt_oss", 1024, 83, 1024}, {"qwen3", 4, 4, 8}} {
		o := options{maxSeqs: c.seqs, Budget: workload.Budget{BatchedTokens: 8192}}
		if sizes, largest := o.graphSizes(&model.Model{Type: c.kind}); sizes != c.sizes || largest != c.largest {
			t.Errorf("%s with %d requests: %d sizes up to %d, want %d up to %d", c.kind, c.seqs, sizes, largest, c.sizes, c.largest)
		}
	}
}
