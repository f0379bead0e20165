package state_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/state"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// cache is one KV cache whose size llama.cpp printed.
type cache struct {
	layers, cells int
	mixer         model.Mixer
	keys, values  dtype.Format
	printed       string // MiB, two decimals
}

func (c cache) check(t *testing.T, name string) {
	t.Helper()
	m := stackOf(c.layers, c.mixer)
	f := state.Of(m, on(t, m, workload.Single()), state.Options{Keys: c.keys, Values: c.values}, state.Lengths{Sequences: 1, Positions: int64(c.cells)}).Payload
	if got := fmt.Sprintf("%.2f", float64(f.Low())/(1<<20)); !f.Known() || got != c.printed {
		t.Errorf("%s: %s MiB (%s), printed %s", name, got, f.Reason(), c.printed)
	}
}

func gqa(kv, key, value int) model.Attention {
	return model.Attention{QueryHeads: kv, KVHeads: kv, KeyDim: key, ValueDim: value, Causal: true, CacheOf: -1}
}

// Sizes that were printed, from the geometry beside them.
func TestLlamaCPPCaches(t *testing.T) {
	data, err := os.ReadFile("testdata/llama_cpp_caches.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		c := cache{layers: number(t, f[2]), cells: number(t, f[6]), printed: f[7]}
		c.keys, _ = dtype.Parse(f[4])
		c.values, _ = dtype.Parse(f[5])
		switch g := strings.Fields(f[3]); g[0] {
		case "gqa":
			c.mixer = gqa(number(t, g[1]), number(t, g[2]), number(t, g[3]))
		case "latent":
			c.mixer = model.LatentAttention{QueryHeads: 1, KVRank: number(t, g[1]), RopeDim: number(t, g[2])}
		}
		rows += number(t, f[0])
		c.check(t, strings.TrimSpace(line))
	}
	if rows != 70 {
		t.Errorf("%d printed sizes are committed, want 70", rows)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// perToken are published bytes a position, with the geometry of the public
// configuration.
func perToken() map[string]struct {
	layers int
	mixer  model.Mixer
	want   int64
} {
	latent := model.LatentAttention{QueryHeads: 128, KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
	return map[string]struct {
		layers int
		mixer  model.Mixer
		want   int64
	}{
		"microsoft/Phi-4-mini-instruct":                {32, gqa(8, 128, 128), 131_072},
		"mistralai/Mistral-Large-3-675B-Instruct-2512": {61, latent, 70_272},
		"tiiuae/falcon-7b-instruct":                    {32, gqa(1, 64, 64), 8_192},
		"mistralai/Ministral-3-8B-Instruct-2512":       {34, gqa(8, 128, 128), 139_264},
		"Qwen/Qwen3-8B":                                {36, gqa(8, 128, 128), 147_456},
		"deepseek-ai/DeepSeek-V3":                      {61, latent, 70_272},
		"openai-community/gpt2-xl":                     {48, gqa(25, 64, 64), 300 << 10},
		"Llama-3-8B":                                   {32, gqa(8, 128, 128), 128 << 10},
	}
}

func TestPerToken(t *testing.T) {
	for name, c := range perToken() {
		m := stackOf(c.layers, c.mixer)
		exact(t, name, state.PerPosition(m, on(t, m, workload.Single()), bf16()), c.want)
	}
}

// fact is one line of kv_facts.jsonl.
type fact struct {
	Model      string  `json:"model"`
	Kind       string  `json:"kind"`
	Value      float64 `json:"value"`
	Cells      int     `json:"n_ctx"`
	Layers     int     `json:"n_layer"`
	MiB        float64 `json:"kv_total_MiB"`
	Detail     string  `json:"detail"`
	Formula    string  `json:"formula"`
	Consistent *bool   `json:"consistent"`
}

// TestOracleKVFacts holds every published KV fact against the geometry that
// stands beside it.
func TestOracleKVFacts(t *testing.T) {
	file, err := os.Open(filepath.Join(oracle.Dir(t), "zoo", "kv_facts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	count := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f fact
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatal(err)
		}
		count[f.check(t)]++
	}
	t.Logf("%v", count)
	if count["llama.cpp"] != 70 || count["per token"] != 8 || count["bytes"] != 3 || count["reported"] != 4 || count["not scored"] != 12 {
		t.Errorf("rows: %v", count)
	}
}

// check holds one fact against what this package says, and names its group.
func (f fact) check(t *testing.T) string {
	t.Helper()
	switch f.Kind {
	case "llama.cpp_kv_alloc":
		switch {
		case f.Consistent == nil:
			return "reported"
		case !*f.Consistent:
			return "not scored"
		}
		f.llama(t)
		return "llama.cpp"
	case "kv_bytes_per_token", "kv_KiB_per_token":
		want := int64(f.Value)
		if f.Kind == "kv_KiB_per_token" {
			want <<= 10
		}
		if c := perToken()[f.Model]; c.want != want {
			t.Errorf("%s: %d is committed, published %d", f.Model, c.want, want)
		}
		return "per token"
	case "kv_GiB":
		t.Logf("reported, not scored: %s %v GiB", f.Model, f.Value)
		return "reported"
	}
	if c := stated()[f.Kind]; c != int64(f.Value) {
		t.Errorf("%s %s: %d is tested, published %v", f.Model, f.Kind, c, f.Value)
	}
	return "bytes"
}

// stated is the totals that TestKinds, TestRecurrent and TestHybrid check.
func stated() map[string]int64 {
	return map[string]int64{"kv_bytes": 287_834_112, "kv_bytes_attention_part": 134_217_728, "mamba2_state_bytes": 51_806_208}
}

// Nemotron-H-8B: 4 of 52 layers cache, 24 keep a state.
func TestHybrid(t *testing.T) {
	m := stackOf(4, gqa(8, 128, 128))
	mamba := stackOf(24, model.Mamba{Version: 2, Inner: 8192, Heads: 128, HeadDim: 64, State: 128, Groups: 8, Conv: 4}).Stacks[0]
	m.Stacks[0].Layers = append(m.Stacks[0].Layers, mamba.Layers...)
	s := state.Of(m, on(t, m, workload.Single()), state.Options{Compute: dtype.BF16, Recurrent: dtype.BF16}, state.Lengths{Sequences: 1, Positions: 8192})
	exact(t, "attention", s.Payload, stated()["kv_bytes_attention_part"])
	exact(t, "Mamba 2", s.Recurrent, stated()["mamba2_state_bytes"])
}

// llama builds the cache that a row of llama.cpp describes.
func (f fact) llama(t *testing.T) {
	t.Helper()
	c := cache{layers: f.Layers, cells: f.Cells, printed: fmt.Sprintf("%.2f", f.MiB)}
	formats := regexp.MustCompile(`\((\w+)\)`).FindAllStringSubmatch(f.Detail, -1)
	c.keys, _ = dtype.Parse(formats[0][1])
	c.values = c.keys
	if len(formats) > 1 {
		c.values, _ = dtype.Parse(formats[1][1])
	}
	var kv, key, value int
	if _, err := fmt.Sscanf(f.Formula, "n_kv_heads %d * n_layer * n_ctx * (%d*b_K + %d*b_V)", &kv, &key, &value); err == nil {
		c.mixer = gqa(kv, key, value)
	} else if _, err := fmt.Sscanf(f.Formula, "(kv_lora_rank %d + qk_rope_head_dim %d)", &key, &value); err == nil {
		c.mixer = model.LatentAttention{QueryHeads: 1, KVRank: key, RopeDim: value}
	}
	c.check(t, f.Model+" "+f.Detail)
}

// Published and logged sizes at full context, to the digits that they have.
func TestLongContexts(t *testing.T) {
	delta := model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4}
	latent := model.LatentAttention{QueryHeads: 128, KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
	sparse, window := latent, gqa(4, 256, 256)
	sparse.Indexer = &model.Indexer{Heads: 64, KeyDim: 128, TopK: 2048}
	window.Window = 1024
	step := state.Options{Compute: dtype.F16, Ahead: 512, Block: 256} // llama.cpp: window and micro-batch, in multiples of 256 cells
	f16, fp8 := state.Options{Compute: dtype.F16, Conv: dtype.F32}, state.Options{Compute: dtype.F16, Keys: dtype.F8E4M3}
	for _, c := range []struct {
		name      string
		layers    int
		mixer     model.Mixer
		o         state.Options
		positions int64
		want      string // GiB, three decimals
	}{
		{"Llama-3.1-8B", 32, gqa(8, 128, 128), f16, 131_072, "16.000"},
		{"Llama-3.1-70B", 80, gqa(8, 128, 128), f16, 131_072, "40.000"},
		{"DeepSeek-V3", 61, latent, f16, 163_840, "10.723"},
		{"DeepSeek-V3, FP8", 61, latent, fp8, 163_840, "5.361"},
		{"DeepSeek-V3.2, fp8_ds_mla", 61, sparse, state.Options{Layout: state.FP8Latent}, 163_840, "7.335"},
		{"DeepSeek-V3.2", 61, sparse, f16, 163_840, "11.951"},
		{"Gemma-3-4B in llama.cpp, 5 full layers", 5, gqa(4, 256, 256), step, 131_072, "2.500"},
		{"Gemma-3-4B in llama.cpp, 29 windows of 1,536 cells", 29, window, step, 131_072, "0.170"},
		{"LFM2-1.2B, 6 full layers", 6, gqa(8, 64, 64), f16, 32_768, "0.375"},
		{"Qwen3.6-27B, 16 full layers", 16, gqa(4, 256, 256), f16, 262_144, "16.000"},
		{"Qwen3-Next-80B, 12 full layers", 12, gqa(2, 256, 256), f16, 262_144, "6.000"},
		{"Qwen3-Next-80B, 36 layers of state", 36, delta, f16, 262_144, "0.074"},
	} {
		m := stackOf(c.layers, c.mixer)
		s := state.Of(m, on(t, m, workload.Single()), c.o, state.Lengths{Sequences: 1, Positions: c.positions})
		all := account.Sum(s.Reserved.Provenance, s.Reserved, s.Recurrent)
		if got := bytesize.Fixed(all.Low(), bytesize.GiB, 3); got != c.want || !all.Known() {
			t.Errorf("%s: %s GiB, want %s", c.name, got, c.want)
		}
	}
}

// TestOracleConfigurations reads the geometry from published configurations.
func TestOracleConfigurations(t *testing.T) {
	zoo := filepath.Join(oracle.Dir(t), "zoo")
	for dir, want := range map[string]int64{
		"microsoft__Phi-4-mini-instruct":      131_072,
		"deepseek-ai__DeepSeek-V3":            70_272,
		"openai-community__gpt2-xl":           300 << 10,
		"meta-llama__Llama-3.1-70B-Instruct":  327_680,
		"meta-llama__Llama-3.2-1B":            32_768,
		"Qwen__Qwen3-0.6B":                    114_688,
		"nvidia__Nemotron-H-56B-Base-8K":      10 * 8 * 256 * 2,
		"tiiuae__falcon-mamba-7b":             0,
		"mistralai__Mamba-Codestral-7B-v0.1":  0,
		"LiquidAI__LFM2-1.2B":                 6 * 8 * 128 * 2,
		"google__gemma-4-E2B-it":              12*1*512*2 + 3*1*1024*2,
		"deepseek-ai__DeepSeek-V2-Lite":       31_104,
		"nvidia__DeepSeek-V3.1-NVFP4":         70_272,
		"zai-org__GLM-5.1":                    78 * (1152 + 132),
		"facebook__bart-base":                 6 * 12 * 128 * 2,
		"Snowflake__snowflake-arctic-embed-m": 0,
	} {
		m, err := load.Open(filepath.Join(zoo, dir))
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		f := state.Of(m, on(t, m, workload.Single()), bf16(), state.Lengths{Sequences: 1, Positions: 1}).Payload
		if n, ok := f.IsExact(); !ok || n != want {
			t.Errorf("%s: %d bytes a position, exact %v (%s), want %d", dir, n, ok, f.Reason(), want)
		}
	}
}
