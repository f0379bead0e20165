package eager_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

func seventy(t testing.TB) *model.Model {
	t.Helper()
	m, err := load.Open("../../testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tiny is a model of Llama's form that is quick to lay out.
const tiny = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":128,"intermediate_size":128,"max_position_embeddings":2048,"torch_dtype":"bfloat16","tie_word_embeddings":false}`

// in is what a term holds at the peak of a phase, in its own scope.
func in(t testing.TB, a account.Account, phase account.PhaseID, id account.TermID) account.Figure {
	t.Helper()
	for _, p := range a.Phases {
		if p.ID != phase {
			continue
		}
		for _, s := range p.AtPeak {
			if a.Terms[s.Term].ID == id && s.Bytes.Scope != account.Host {
				return s.Bytes
			}
		}
	}
	t.Fatalf("no %s in %s", id, phase)
	return account.Figure{}
}

func peak(a account.Account, phase account.PhaseID, s account.Scope) account.Figure {
	for _, p := range a.Phases {
		if p.ID == phase {
			return p.Peak(s).Figure
		}
	}
	return account.Figure{}
}

// Llama-3.1-70B with 32 sequences of 8,192 on eight H100: no term is open, in
// either view.
func TestSeventyBillionIsBounded(t *testing.T) {
	checklist.Covers(t, 163, 166)
	w := generation(8192, 1024, 32)
	w.Mesh.TensorParallel = 8
	for _, e := range []estimate.Engine{eager.Engine{}, eager.Serving{}} {
		a := accounts(t, e, seventy(t), w, "Hopper")[0]
		for _, p := range a.Phases {
			for _, s := range p.AtPeak {
				if !s.Bytes.Known() {
					t.Errorf("%s: %s in %s is open: %s", e.Name(), a.Terms[s.Term].ID, p.ID, s.Bytes.Reason())
				}
			}
			if high, known := p.Peak(account.Process).Figure.High(); !known || high > 79*gib {
				t.Errorf("%s: %s needs up to %d", e.Name(), p.ID, high)
			}
		}
	}
}

// Prefill and decode are two phases, each with its own peak; what one makes is
// not alive in the other, so no peak is a sum of both.
func TestPhases(t *testing.T) {
	checklist.Covers(t, 52, 53, 167, 168, 199)
	a := accounts(t, eager.Engine{}, seventy(t), generation(8192, 1024, 4), "Hopper")[0]
	var ids []account.PhaseID
	for _, p := range a.Phases {
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, []account.PhaseID{account.PhaseModelLoad, account.PhasePrefill, account.PhaseDecode}) {
		t.Fatalf("phases: %v", ids)
	}
	prefill, _ := in(t, a, account.PhasePrefill, account.TermActivations).High()
	decode, _ := in(t, a, account.PhaseDecode, account.TermActivations).High()
	if prefill <= decode || decode == 0 {
		t.Errorf("activations: up to %d in prefill and %d in decode", prefill, decode)
	}
	var sum int64
	for i := range a.Terms {
		var most int64
		for _, p := range a.Phases {
			for _, s := range p.AtPeak {
				if high, known := s.Bytes.High(); s.Term == i && known && s.Bytes.Scope == account.Allocated {
					most = max(most, high)
				}
			}
		}
		sum += most
	}
	for _, p := range a.Phases {
		if high, known := p.Peak(account.Allocated).Figure.High(); !known || high >= sum {
			t.Errorf("%s peaks at up to %d, which is no less than the sum of separate maxima, %d", p.ID, high, sum)
		}
	}
}

// The weights' format changes the weights, and nothing else: 141.2 GB and 80
// GiB of cache become 70.6 GB and 80 GiB.
func TestQuantisationChangesWeightsAlone(t *testing.T) {
	checklist.Covers(t, 220, 221, 225)
	m := seventy(t)
	half, err := m.WithFormat("fp8")
	if err != nil {
		t.Fatal(err)
	}
	w := generation(8192, 0, 32)
	before, after := accounts(t, eager.Engine{}, m, w, "Hopper")[0], accounts(t, eager.Engine{}, half, w, "Hopper")[0]
	for _, s := range before.Phases[2].AtPeak {
		id := before.Terms[s.Term].ID
		if id == account.TermWeights || id == account.TermAllocatorCache || id == account.TermAllocatorRounding || id == account.TermTemporaries {
			continue
		}
		got := in(t, after, account.PhaseDecode, id)
		high, _ := s.Bytes.High()
		now, _ := got.High()
		if got.Low() != s.Bytes.Low() || now != high {
			t.Errorf("%s moves from %d to %d", id, s.Bytes.Low(), got.Low())
		}
	}
	cache := in(t, after, account.PhaseDecode, account.TermKVCache)
	p := account.Provenance{Scope: account.Requested}
	full := account.Sum(p, account.Exact(70_600_000_000*2, p), cache).Low()
	less := account.Sum(p, account.Exact(70_600_000_000, p), cache).Low()
	if full != 227_099_345_920 || less != 156_499_345_920 || math.Round(1000*float64(less-full)/float64(full)) != -311 {
		t.Errorf("%d becomes %d", full, less)
	}
}

// Replicas change nothing on a rank; ranks of one layer share its tensors.
func TestReplicasAndRanks(t *testing.T) {
	checklist.Covers(t, 164, 183, 184, 224)
	one, eight, shared := generation(8192, 0, 4), generation(8192, 0, 4), generation(8192, 0, 4)
	eight.Mesh.DataParallel, shared.Mesh.TensorParallel = 8, 8
	m := seventy(t)
	a, b, c := accounts(t, eager.Engine{}, m, one, "Hopper")[0], accounts(t, eager.Engine{}, m, eight, "Hopper")[0], accounts(t, eager.Engine{}, m, shared, "Hopper")[0]
	if len(b.Ranks) != 8 || peak(a, account.PhasePrefill, account.Process) != peak(b, account.PhasePrefill, account.Process) {
		t.Errorf("replicas: %v, %v", peak(a, account.PhasePrefill, account.Process), peak(b, account.PhasePrefill, account.Process))
	}
	whole, part := in(t, a, account.PhaseDecode, account.TermKVCache).Low(), in(t, c, account.PhaseDecode, account.TermKVCache).Low()
	if whole != 8*part {
		t.Errorf("cache of %d is %d on a rank of eight", whole, part)
	}
	if in(t, c, account.PhaseDecode, account.TermCommunication).Status() != account.StatusCounted {
		t.Error("ranks that share layers tell each other nothing")
	}
}

// Only the last stage makes logits, and each stage has its layers' cache.
func TestStages(t *testing.T) {
	w := generation(1024, 1, 1)
	w.Mesh.PipelineParallel = 4
	list := accounts(t, eager.Engine{}, seventy(t), w, "Hopper")
	if len(list) != 4 {
		t.Fatalf("%d stages", len(list))
	}
	for i, a := range list {
		logits := in(t, a, account.PhasePrefill, account.TermLogits)
		if strings.Contains(logits.Reason(), "does not hold the output head") == (i == 3) {
			t.Errorf("stage %d: logits are %s: %q", i, logits.Status(), logits.Reason())
		}
		if n, _ := in(t, a, account.PhasePrefill, account.TermKVCache).IsExact(); n != 20*4096*1024 {
			t.Errorf("stage %d caches %d", i, n)
		}
	}
}

// A feature that the workload names and nobody has modelled leaves what it
// touches open, with that reason.
func TestFeatures(t *testing.T) {
	for feature, terms := range map[workload.Feature]map[account.TermID]string{
		workload.TorchCompile:  {account.TermActivations: "torch.compile", account.TermLogits: "torch.compile", account.TermTemporaries: "torch.compile", account.TermGraphPools: "torch.compile"},
		workload.FP8Compute:    {account.TermActivations: "FP8", account.TermTemporaries: "FP8"},
		workload.WeightOffload: {account.TermActivations: "weight offload", account.TermWeights: "offloaded"},
	} {
		w := generation(64, 8, 2)
		w.Features = []workload.Feature{feature}
		a := accounts(t, eager.Engine{}, read(t, tiny), w, "Hopper")[0]
		for id, why := range terms {
			if f := in(t, a, account.PhasePrefill, id); f.Known() || !strings.Contains(f.Reason(), why) {
				t.Errorf("%s: %s is %s: %q", feature, id, f.Status(), f.Reason())
			}
		}
	}
	w := generation(64, 8, 2)
	w.Features = []workload.Feature{workload.CUDAGraphs}
	if f := in(t, accounts(t, eager.Serving{}, read(t, tiny), w, "Hopper")[0], account.PhaseDecode, account.TermGraphPools); f.Low() == 0 || !f.Known() {
		t.Errorf("captured graphs: %d, %q", f.Low(), f.Reason())
	}
	w.Resident = []workload.Resident{{Name: "a reference model"}}
	w.Adapters = []workload.Adapter{{Kind: "lora"}}
	a := accounts(t, eager.Engine{}, read(t, tiny), w, "Hopper")[0]
	for _, id := range []account.TermID{account.TermOtherProcesses, account.TermAdapters} {
		if f := in(t, a, account.PhaseDecode, id); f.Known() {
			t.Errorf("%s is known beside what nobody measured", id)
		}
	}
}

// transformers caches the keys and values of each head of latent attention; a
// serving engine the compressed vector.
func TestLatentAttention(t *testing.T) {
	const config = `{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":128,"intermediate_size":128,"moe_intermediate_size":32,"n_routed_experts":4,"n_shared_experts":1,"num_experts_per_tok":2,"first_k_dense_replace":1,"kv_lora_rank":16,"q_lora_rank":32,"qk_nope_head_dim":8,"qk_rope_head_dim":4,"v_head_dim":8,"n_group":1,"topk_group":1,"max_position_embeddings":2048,"torch_dtype":"bfloat16","tie_word_embeddings":false}`
	m, w := read(t, config), generation(100, 0, 1)
	for _, c := range []struct {
		e    estimate.Engine
		want int64
	}{{eager.Engine{}, 100 * 2 * 4 * (12 + 8) * 2}, {eager.Serving{}, 100 * 2 * (16 + 4) * 2}} {
		if n, ok := in(t, accounts(t, c.e, m, w, "")[0], account.PhaseDecode, account.TermKVCache).IsExact(); !ok || n != c.want {
			t.Errorf("%s caches %d, want %d", c.e.Name(), n, c.want)
		}
	}
}

// A static cache is there from the start, as long as the longest request; an
// offloaded one has most of itself in main memory, which is no device's.
func TestCacheKinds(t *testing.T) {
	checklist.Covers(t, 45, 49, 51, 170, 200)
	const position = 2 * 2 * (16 + 16) * 2 // two layers of two heads
	w := generation(100, 28, 3)
	w.Cache, w.Serving = workload.Static, &workload.Serving{MaxLength: 1024}
	a := accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]
	if n, _ := in(t, a, account.PhasePrefill, account.TermKVCache).IsExact(); n != 3*1024*position {
		t.Errorf("a static cache holds %d", n)
	}
	if !slices.ContainsFunc(a.Warnings, func(w account.Warning) bool { return w.Code == "cache_reserved_beyond_payload" }) {
		t.Errorf("the reservation is not told from the payload: %v", a.Warnings)
	}
	w = generation(100, 28, 3)
	w.Cache = workload.Offloaded
	a = accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]
	host := peak(a, account.PhaseDecode, account.Host)
	if high, known := host.High(); !known || high != 3*128*position {
		t.Errorf("main memory holds up to %d", high)
	}
	for _, f := range (eager.Engine{}).Formulas() {
		if f.ID == "kv.attention" && !strings.Contains(f.Rule, "K and V combined") {
			t.Errorf("the rule does not say that K and V are combined: %s", f.Rule)
		}
	}
}

// What the workload does not say bounds from below, by name.
func TestMissingDimensions(t *testing.T) {
	w := generation(0, 0, 0)
	w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.Context: 100, workload.Sequences: 2}
	a := accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]
	f := in(t, a, account.PhaseDecode, account.TermKVCache)
	if f.Known() || f.Low() == 0 || !strings.Contains(f.Reason(), "generated") {
		t.Errorf("the cache is %d, %q", f.Low(), f.Reason())
	}
}

// An encoder's positions are the context; the decoder begins with one.
func TestEncoderAndDecoder(t *testing.T) {
	const config = `{"architectures":["T5ForConditionalGeneration"],"model_type":"t5","d_model":64,"d_kv":16,"d_ff":128,"num_layers":2,"num_decoder_layers":2,"num_heads":4,"vocab_size":128,"torch_dtype":"bfloat16","relative_attention_num_buckets":32,"feed_forward_proj":"relu","is_encoder_decoder":true}`
	a := accounts(t, eager.Engine{}, read(t, config), generation(100, 9, 2), "")[0]
	const position = 2 * 4 * 32 * 2 // two layers of four heads, 16 + 16 wide
	if n, ok := in(t, a, account.PhaseDecode, account.TermKVCache).IsExact(); !ok || n != 2*(100+10)*position {
		t.Errorf("self- and cross-attention cache %d, want %d", n, 2*(100+10)*position)
	}
	// The encoder runs over 2 × 100 positions, of which one makes 128 wide twice.
	if high, _ := in(t, a, account.PhasePrefill, account.TermActivations).High(); high < 2*100*2*128*2 {
		t.Errorf("activations are up to %d, less than the encoder's", high)
	}
}

// Three scopes are told apart, and none is added to another: reserved contains
// allocated, process contains reserved, main memory is apart.
func TestScopesNest(t *testing.T) {
	checklist.Covers(t, 217, 219)
	m := read(t, tiny)
	rapid.Check(t, func(r *rapid.T) {
		w := generation(rapid.Int64Range(1, 4096).Draw(r, "context"), rapid.Int64Range(0, 64).Draw(r, "generated"), rapid.Int64Range(1, 8).Draw(r, "sequences"))
		for _, e := range []estimate.Engine{eager.Engine{}, eager.Serving{}} {
			for _, p := range accounts(t, e, m, w, "Hopper")[0].Phases {
				inner := account.Exact(0, account.Provenance{})
				for _, s := range []account.Scope{account.Requested, account.Allocated, account.Active, account.Reserved, account.Process} {
					f := p.Peak(s).Figure
					high, _ := f.High()
					within, _ := inner.High()
					if f.Low() < inner.Low() || high < within {
						r.Fatalf("%s of %s: %d to %d is inside what it contains, %d to %d", s, p.ID, f.Low(), high, inner.Low(), within)
					}
					inner = f
				}
			}
		}
	})
}

// Absurd dimensions are unknown; nothing wraps and nothing panics.
func TestAbsurd(t *testing.T) {
	for _, n := range []int64{1 << 31, 1 << 62, math.MaxInt64} {
		for _, e := range []estimate.Engine{eager.Engine{}, eager.Serving{}} {
			a := accounts(t, e, read(t, tiny), generation(n, n, n), "")[0]
			for _, p := range a.Phases[1:] {
				if high, known := p.Peak(account.Process).Figure.High(); known || high < 0 {
					t.Errorf("%d: %s peaks at %d, known %v", n, p.ID, high, known)
				}
			}
		}
	}
}

// Each rule has a source and a worked number, and each figure names a rule.
func TestFormulas(t *testing.T) {
	known := map[string]bool{}
	for _, f := range (eager.Engine{}).Formulas() {
		if n := utf8.RuneCountInString(f.Short); f.Source == "" || f.Worked == "" || f.Rule == "" || n == 0 || n > 60 {
			t.Errorf("%+v", f)
		}
		known[f.ID] = true
	}
	a := accounts(t, eager.Engine{}, read(t, tiny), generation(64, 8, 2), "Hopper")[0]
	for _, term := range a.Terms {
		if term.Counter != "" && !known[term.Counter] {
			t.Errorf("%s names %q, which is no rule", term.ID, term.Counter)
		}
	}
}

// Training and evaluation are not predicted here, and say so.
func TestOtherOperations(t *testing.T) {
	w := workload.Workload{Operation: workload.Training}
	a := accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]
	if f := in(t, a, account.PhaseForward, account.TermActivations); f.Known() || !strings.Contains(f.Reason(), "training") {
		t.Errorf("activations of training are %s: %q", f.Status(), f.Reason())
	}
	w.Operation = workload.Load
	if a := accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]; len(a.Phases) != 1 || !peak(a, account.PhaseModelLoad, account.Process).Known() {
		t.Errorf("loading is %+v", a.Phases)
	}
}

// Images run through their tower in prefill, and their positions are among
// those of the context. A model that sees needs to be told how many there are.
func TestImages(t *testing.T) {
	m := read(t, qwenVL+"}", qwenProcessor)
	ask := func(dimensions map[workload.Dimension]int64) account.Account {
		w := generation(64, 0, 1)
		for d, n := range dimensions {
			w.Inputs[0].Dimensions[d] = n
		}
		return accounts(t, eager.Engine{}, m, w, "Ada")[0]
	}
	silent := in(t, ask(nil), account.PhasePrefill, account.TermActivations)
	if silent.Known() || !strings.Contains(silent.Reason(), "images") {
		t.Errorf("without a word of images activations are %s: %q", silent.Status(), silent.Reason())
	}
	text, seeing := ask(map[workload.Dimension]int64{workload.Images: 0}), ask(map[workload.Dimension]int64{workload.Images: 1, workload.Resolution: 3584})
	before, _ := in(t, text, account.PhasePrefill, account.TermActivations).High()
	after, known := in(t, seeing, account.PhasePrefill, account.TermActivations).High()
	if !known || before == 0 || after < 65536*4*1280*2 {
		t.Errorf("activations are up to %d without and %d with an image of 65,536 patches", before, after)
	}
	if n, _ := in(t, seeing, account.PhasePrefill, account.TermKVCache).IsExact(); n != 16384*28*4*256*2 {
		t.Errorf("16,384 positions of an image cache %d", n)
	}
	if !slices.ContainsFunc(seeing.Warnings, func(w account.Warning) bool { return w.Code == "images_beyond_context" }) {
		t.Errorf("nothing says that the image is longer than the context: %v", seeing.Warnings)
	}
}

// A class without fused attention makes the scores of all heads and pairs in
// plain generation: 64 heads × 8,192² × 2 bytes are 8 GiB a copy. Flash kernels
// that are declared, and serving, make none.
func TestScoresWithoutFusedAttention(t *testing.T) {
	m, err := load.Model(t.Context(), "openai/gpt-oss-120b", load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	copies := func(e estimate.Engine, m *model.Model, features ...workload.Feature) (low, high int64) {
		w := generation(8192, 0, 1)
		w.Features = features
		f := in(t, accounts(t, e, m, w, "Hopper")[0], account.PhasePrefill, account.TermActivations)
		high, _ = f.High()
		return f.Low(), high
	}
	if low, high := copies(eager.Engine{}, m); low < 16*gib || high < 32*gib {
		t.Errorf("activations with sinks are %d to %d", low, high)
	}
	if _, high := copies(eager.Engine{}, m, workload.FlashAttention); high > 8*gib {
		t.Errorf("with flash kernels activations are up to %d", high)
	}
	if _, high := copies(eager.Serving{}, m); high > 8*gib {
		t.Errorf("serving's activations are up to %d", high)
	}
	known := read(t, qwen3Small)
	_, fused := copies(eager.Engine{}, known)
	known.Type = "of_nobody"
	if low, high := copies(eager.Engine{}, known); high < fused+16*8192*8192*8 || low > gib {
		t.Errorf("a type that is not known makes %d to %d, a known one up to %d", low, high, fused)
	}
}

// Where a mask is made, booleans and the mask of them in the model's format are
// alive together, and a padded copy where rows end askew.
func TestMasksAreCopied(t *testing.T) {
	up := func(context int64) int64 {
		high, _ := in(t, accounts(t, eager.Engine{}, read(t, tiny), generation(context, 0, 2), "")[0], account.PhasePrefill, account.TermActivations).High()
		return high
	}
	if even, odd := up(8192), up(8193); even < 2*8192*8192*3 || odd < 2*8193*8208*5 {
		t.Errorf("activations with a mask are up to %d and %d", even, odd)
	}
}
