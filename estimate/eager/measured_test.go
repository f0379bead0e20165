package eager_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/replay"
	"floodmark/timeline"
	"floodmark/workload"
)

// measured is one published measurement of plain generation. Configurations are
// the facts of the models' public config.json files.
type measured struct {
	id, field string // of the published row
	config    string
	engine    workload.Engine
	arch      string
	mesh      workload.Mesh
	context   int64
	generated int64
	sequences int64
	images    int64 // of a sequence
	side      int64 // pixels along one side of an image
	processor string
	cache     workload.CacheKind
	scope     account.Scope
	value     float64 // of the unit
	unit      int64
}

const (
	gib = int64(1) << 30
	mib = int64(1) << 20
)

const (
	qwen3 = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","head_dim":128,"num_key_value_heads":8,"vocab_size":151936,"torch_dtype":"bfloat16","max_position_embeddings":40960,"hidden_act":"silu",`

	qwen3Small  = qwen3 + `"hidden_size":1024,"num_hidden_layers":28,"num_attention_heads":16,"intermediate_size":3072,"tie_word_embeddings":true}`
	qwen3Eight  = qwen3 + `"hidden_size":4096,"num_hidden_layers":36,"num_attention_heads":32,"intermediate_size":12288,"tie_word_embeddings":false}`
	qwen3Large  = qwen3 + `"hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,"intermediate_size":17408,"tie_word_embeddings":false}`
	qwen3Sparse = `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","head_dim":128,"num_key_value_heads":4,"vocab_size":151936,"torch_dtype":"bfloat16","max_position_embeddings":40960,"hidden_act":"silu",` +
		`"hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1,"mlp_only_layers":[],"norm_topk_prob":true,"tie_word_embeddings":false,` +
		`"quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128],"modules_to_not_convert":["lm_head","mlp.gate"]}}`

	octocoder = `{"architectures":["GPTBigCodeForCausalLM"],"model_type":"gpt_bigcode","multi_query":true,"n_embd":6144,"n_head":48,"n_inner":24576,"n_layer":40,"n_positions":8192,"vocab_size":49152,"torch_dtype":"bfloat16","activation_function":"gelu"`
	int8      = `,"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true}}`
	fp4       = `,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"fp4","bnb_4bit_use_double_quant":false}}`

	awq     = `"quantization_config":{"quant_method":"awq","bits":4,"group_size":128,"version":"gemm","zero_point":true`
	mistral = `{"architectures":["MistralForCausalLM"],"model_type":"mistral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,"torch_dtype":"float16","max_position_embeddings":32768,"hidden_act":"silu","tie_word_embeddings":false,` + awq + `}}`
	mixtral = `{"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"torch_dtype":"float16","max_position_embeddings":32768,"hidden_act":"silu","tie_word_embeddings":false,` + awq + `,"modules_to_not_convert":["gate"]}}`

	phi4 = `{"architectures":["Phi3ForCausalLM"],"model_type":"phi3","hidden_size":3072,"num_hidden_layers":32,"num_attention_heads":24,"num_key_value_heads":8,"intermediate_size":8192,"vocab_size":200064,"torch_dtype":"bfloat16","max_position_embeddings":131072,"hidden_act":"silu","tie_word_embeddings":true,"partial_rotary_factor":0.75`
	rows = `,"quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false}}}}}`

	qwenVL = `{"architectures":["Qwen2_5_VLForConditionalGeneration"],"model_type":"qwen2_5_vl","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,"num_hidden_layers":28,"num_key_value_heads":4,"vocab_size":152064,"torch_dtype":"bfloat16","tie_word_embeddings":false,"hidden_act":"silu","max_position_embeddings":128000,` +
		`"vision_config":{"depth":32,"hidden_size":1280,"intermediate_size":3420,"num_heads":16,"in_chans":3,"out_hidden_size":3584,"patch_size":14,"spatial_merge_size":2,"temporal_patch_size":2,"hidden_act":"silu"}`
)

// qwenProcessor bounds images as the harness of the row does.
const qwenProcessor = `{"image_processor_type":"Qwen2VLImageProcessor","patch_size":14,"merge_size":2,"temporal_patch_size":2,"min_pixels":3136,"max_pixels":12845056}`

// measurements is the scored rows of transformers and what is built on it. The
// documentation of the second group is of 2023, when 4.35 was current; the
// harness of AutoAWQ makes its cache as long as prompt and answer.
func measurements() []measured {
	h20 := measured{engine: workload.Engine{Name: "transformers", Version: "4.51.3"}, arch: "Hopper", generated: 2048, sequences: 1, scope: account.Allocated, unit: mib}
	doc := measured{engine: workload.Engine{Name: "transformers", Version: "4.35.0"}, arch: "Ampere", context: 20, generated: 60, sequences: 1, scope: account.Allocated, unit: gib}
	autoawq := measured{engine: workload.Engine{Name: "autoawq", Version: "4.35.0"}, arch: "Ada", sequences: 1, scope: account.Allocated, unit: gib, cache: workload.Static}
	torchao := measured{engine: workload.Engine{Name: "transformers", Version: "4.51.3"}, arch: "Hopper", context: 20, generated: 128, sequences: 1, scope: account.Reserved, unit: 1e9}
	vision := measured{engine: workload.Engine{Name: "transformers", Version: "4.51.3"}, arch: "Ada", context: 1, generated: 1, sequences: 1, images: 1, side: 3584, processor: qwenProcessor, scope: account.Allocated, unit: gib}
	with := func(base measured, id, field, config string, value float64, change func(*measured)) measured {
		base.id, base.field, base.config, base.value = id, field, config, value
		if change != nil {
			change(&base)
		}
		return base
	}
	prompt := func(context int64) func(*measured) { return func(m *measured) { m.context = context } }
	both := func(length, sequences int64) func(*measured) {
		return func(m *measured) { m.context, m.generated, m.sequences = length, length, sequences }
	}
	two := func(length int64) func(*measured) {
		return func(m *measured) {
			both(length, 1)(m)
			m.mesh.PipelineParallel = 2
		}
	}
	return []measured{
		with(h20, "hf-qwen3-06b-bf16-in1", "gpu_memory", qwen3Small, 1394, prompt(1)),
		with(h20, "hf-qwen3-06b-bf16-in30720", "gpu_memory", qwen3Small, 4755, prompt(30720)),
		with(h20, "hf-qwen3-8b-bf16-in30720", "gpu_memory", qwen3Eight, 20267, prompt(30720)),
		with(h20, "hf-qwen3-14b-bf16-in14336", "gpu_memory", qwen3Large, 30775, prompt(14336)),
		with(h20, "hf-qwen3-30b-a3b-fp8-in1", "gpu_memory", qwen3Sparse, 30296, prompt(1)),
		with(doc, "hf-octocoder-int8", "peak", octocoder+int8, 15.219234466552734, nil),
		with(doc, "hf-octocoder-nf4", "peak", octocoder+fp4, 9.543574333190918, nil),
		// Ten copies of the prompt are 5,000 to 7,000 positions.
		with(doc, "hf-octocoder-longprompt-noflash-vs-flash", "peak_eager", octocoder+"}", 37.668193340301514, prompt(7000)),
		with(doc, "hf-octocoder-longprompt-noflash-vs-flash", "peak_flash", octocoder+"}", 32.617331981658936, prompt(7000)),
		with(autoawq, "autoawq-mistral7b-gemm", "bs1_64", mistral, 4.35, both(64, 1)),
		with(autoawq, "autoawq-mistral7b-gemm", "bs1_2048", mistral, 5.55, both(2048, 1)),
		with(autoawq, "autoawq-mistral7b-gemm", "bs8_64", mistral, 4.35, both(64, 8)),
		with(autoawq, "autoawq-mistral7b-gemm", "bs8_2048", mistral, 16.82, both(2048, 8)),
		with(autoawq, "autoawq-mixtral-2x4090", "32", mixtral, 25.28, two(32)),
		with(autoawq, "autoawq-mixtral-2x4090", "1024", mixtral, 25.75, two(1024)),
		with(autoawq, "autoawq-mixtral-2x4090", "2048", mixtral, 27.98, two(2048)),
		with(autoawq, "autoawq-mixtral-2x4090", "4096", mixtral, 34.65, two(4096)),
		with(torchao, "torchao-phi4mini-bf16-fp8", "bf16_peak", phi4+"}", 8.91, nil),
		with(torchao, "torchao-phi4mini-bf16-fp8", "fp8_peak", phi4+rows, 5.7, nil),
		with(vision, "oom-vlmevalkit1021-qwen25vl7b-eager", "allocated", qwenVL+"}", 24.89, nil),
	}
}

func read(t testing.TB, config string, processor ...string) *model.Model {
	t.Helper()
	dir := t.TempDir()
	for i, text := range append([]string{config}, processor...) {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, []string{"config.json", "preprocessor_config.json"}[i]), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := load.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// accounts is what an engine predicts for each class of ranks, without the
// terms that are dropped.
func accounts(t testing.TB, e estimate.Engine, m *model.Model, w workload.Workload, arch string, dropped ...account.TermID) []account.Account {
	t.Helper()
	plans, err := parallel.Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	var list []account.Account
	for _, plan := range plans {
		r, err := e.Estimate(context.Background(), estimate.Input{Model: m, Plan: plan, Workload: &w, Memory: estimate.Memory{Arch: arch}})
		if err != nil {
			t.Fatal(err)
		}
		drop(r.Timeline, dropped)
		run, err := replay.Simulate(context.Background(), r.Timeline, replay.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, replay.Account(r.Timeline, run, account.Calculated))
	}
	return list
}

// drop empties the terms of a timeline.
func drop(tl *timeline.Timeline, ids []account.TermID) {
	gone := func(term uint32) bool { return slices.Contains(ids, tl.Terms[term].ID) }
	for i := range tl.Allocs {
		if gone(tl.Allocs[i].Term) {
			tl.Allocs[i].Requested = 0
		}
	}
	tl.Bounds = slices.DeleteFunc(tl.Bounds, func(b timeline.Bound) bool { return gone(b.Term) })
}

func generation(context, generated, sequences int64) workload.Workload {
	return workload.Workload{Operation: workload.Generation, Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{
		workload.Context: context, workload.Generated: generated, workload.Sequences: sequences}}}}
}

// peak is the interval of the row's counter, summed over its ranks.
func (r measured) peak(t testing.TB, dropped ...account.TermID) account.Figure {
	t.Helper()
	w := generation(r.context, r.generated, r.sequences)
	w.Mesh, w.Engine, w.Cache = r.mesh, r.engine, r.cache
	w.Inputs[0].Dimensions[workload.Images], w.Inputs[0].Dimensions[workload.Resolution] = r.images, r.side
	p := account.Provenance{Scope: r.scope}
	sum := account.Exact(0, p)
	for _, a := range accounts(t, eager.Engine{}, read(t, r.config, r.processor), w, r.arch, dropped...) {
		var phases []account.Figure
		for _, phase := range a.Phases {
			phases = append(phases, phase.Peak(r.scope).Figure)
		}
		sum = account.Sum(p, sum, account.Highest(p, phases...))
	}
	return sum
}

// Each measurement lies in the interval at its own counter.
func TestMeasured(t *testing.T) {
	for _, r := range measurements() {
		f := r.peak(t)
		high, known := f.High()
		got := int64(r.value * float64(r.unit))
		t.Logf("%-45s %-10s measured %8.3f, predicted %8.3f to %8.3f GiB, known %v", r.id, r.field,
			float64(got)/float64(gib), float64(f.Low())/float64(gib), float64(high)/float64(gib), known)
		if got < f.Low() || !known || got > high {
			t.Errorf("%s %s: %.3f GiB is outside %.3f to %.3f GiB (%s)", r.id, r.field,
				float64(got)/float64(gib), float64(f.Low())/float64(gib), float64(high)/float64(gib), f.Reason())
		}
	}
}

// A table that no term could miss would prove nothing: without one of these
// terms some measurement lies outside.
func TestMeasuredMissesATerm(t *testing.T) {
	for _, id := range []account.TermID{account.TermWeights, account.TermKVCache, account.TermActivations, account.TermTemporaries, account.TermQuantisationMetadata} {
		outside := 0
		for _, r := range measurements() {
			high, known := r.peak(t, id).High()
			if known && int64(r.value*float64(r.unit)) > high {
				outside++
			}
		}
		if outside == 0 {
			t.Errorf("every measurement lies inside without %s", id)
		}
		t.Logf("without %s: %d outside", id, outside)
	}
}

// TestOracleMeasured holds the table above against the published rows.
func TestOracleMeasured(t *testing.T) {
	file, err := os.Open(filepath.Join(oracle.Dir(t), "groundtruth", "inference.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mine := map[string]float64{}
	for _, r := range measurements() {
		mine[r.id+" "+r.field] = r.value
	}
	rows := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	// The row of a V100 split over four cards does not say how.
	const split = "oom-vlmevalkit1183-qwen25vl-v100"
	for lines.Scan() {
		var r struct {
			ID, Engine string
			Score      bool
			Reported   map[string]struct{ Value any }
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if !r.Score || !strings.Contains(r.Engine, "transformers") {
			continue
		}
		rows++
		for field, v := range r.Reported {
			want, ok := mine[r.ID+" "+field]
			delete(mine, r.ID+" "+field)
			if !ok {
				t.Logf("not predicted: %s %s %v", r.ID, field, v.Value)
				if field == "allocated" && r.ID != split {
					t.Errorf("%s has no prediction", r.ID)
				}
			} else if v.Value != want {
				t.Errorf("%s %s: the table has %v, published %v", r.ID, field, want, v.Value)
			}
		}
	}
	if rows != 13 || len(mine) != 0 {
		t.Errorf("%d rows; not found: %v", rows, mine)
	}
}
