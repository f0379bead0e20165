package parallel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"floodmark/dtype"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/workload"
)

// dims are the sizes of a decoder of Llama's form.
type dims struct {
	layers, hidden, heads, kv, head, width, vocab int
	tied                                          bool
	experts                                       int
}

// llama builds such a decoder.
func llama(d dims) *model.Model {
	m := &model.Model{Vocab: d.vocab, Compute: dtype.BF16, Stacks: []model.Stack{{Name: "model.layers", Kind: model.Decoder, Width: d.hidden}}}
	add := func(role model.Role, layer int, shape ...int) {
		t := model.Tensor{Role: role, Stack: 0, Layer: int32(layer), Stored: dtype.BF16, TiedTo: model.NotTied}
		if layer < 0 {
			t.Stack, t.Layer = model.NoLayer, model.NoLayer
		}
		for _, n := range shape {
			t.Shape = append(t.Shape, int64(n))
		}
		m.Tensors = append(m.Tensors, t)
	}
	add(model.RoleTokenEmbedding, -1, d.vocab, d.hidden)
	for i := range d.layers {
		l := model.Layer{Index: i, Mixers: []model.Mixer{model.Attention{QueryHeads: d.heads, KVHeads: d.kv, KeyDim: d.head, ValueDim: d.head, Causal: true, CacheOf: -1}}}
		add(model.RoleNorm, i, d.hidden)
		add(model.RoleQuery, i, d.heads*d.head, d.hidden)
		add(model.RoleKey, i, d.kv*d.head, d.hidden)
		add(model.RoleValue, i, d.kv*d.head, d.hidden)
		add(model.RoleAttentionOutput, i, d.hidden, d.heads*d.head)
		add(model.RoleAttentionOutputBias, i, d.hidden)
		if d.experts > 0 {
			l.FeedForward = model.Experts{Count: d.experts, Active: 1, Width: d.width, Gated: true}
			add(model.RoleRouter, i, d.experts, d.hidden)
			add(model.RoleExpertGateUp, i, d.experts, 2*d.width, d.hidden)
			add(model.RoleExpertDown, i, d.experts, d.hidden, d.width)
		} else {
			l.FeedForward = model.Dense{Width: d.width, Gated: true}
			add(model.RoleGate, i, d.width, d.hidden)
			add(model.RoleUp, i, d.width, d.hidden)
			add(model.RoleDown, i, d.hidden, d.width)
		}
		m.Stacks[0].Layers = append(m.Stacks[0].Layers, l)
	}
	add(model.RoleFinalNorm, -1, d.hidden)
	add(model.RoleHead, -1, d.vocab, d.hidden)
	if d.tied {
		m.Tensors[len(m.Tensors)-1].TiedTo = 0
	}
	return m
}

func seventyBillion() dims {
	return dims{layers: 80, hidden: 8192, heads: 64, kv: 8, head: 128, width: 28672, vocab: 128256}
}

// bytes is what one rank holds.
func bytes(t *testing.T, m *model.Model, p parallel.RankPlan) int64 {
	t.Helper()
	var sum int64
	for _, l := range p.Tensors {
		n, exact := l.Bytes(m.Tensors[l.Tensor]).IsExact()
		if !exact {
			t.Fatalf("tensor %d is not exact", l.Tensor)
		}
		sum += n
	}
	return sum
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return n
}

// Llama-3.1-70B: eight ranks hold an eighth of everything but the norms, and
// eight replicas hold eight whole copies.
func TestSeventyBillionOverRanks(t *testing.T) {
	checklist.Covers(t, 181, 183, 184, 190)
	m, err := load.Open("../testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	const whole, norms = 70_553_706_496 * 2, (160 + 1) * 8192 * 2
	for _, c := range []struct {
		mesh       workload.Mesh
		ranks      int
		first, end int64
	}{
		{workload.Mesh{}, 1, whole, whole},
		{workload.Mesh{TensorParallel: 8}, 8, (whole-norms)/8 + norms, (whole-norms)/8 + norms},
		{workload.Mesh{DataParallel: 8}, 8, whole, whole},
		// One layer is 1,711,308,800 bytes, the table 2,101,346,304.
		{workload.Mesh{PipelineParallel: 8}, 1, 10*1_711_308_800 + 2_101_346_304, 10*1_711_308_800 + 2_101_346_304 + 16384},
	} {
		plans, err := parallel.Plan(m, c.mesh)
		if err != nil {
			t.Errorf("%+v: %v", c.mesh, err)
			continue
		}
		first, last := plans[0], plans[len(plans)-1]
		if len(first.Ranks) != c.ranks || bytes(t, m, first) != c.first || bytes(t, m, last) != c.end {
			t.Errorf("%+v: %d ranks hold %d and %d bytes, want %d ranks, %d and %d", c.mesh,
				len(first.Ranks), bytes(t, m, first), bytes(t, m, last), c.ranks, c.first, c.end)
		}
	}
}

// With fewer KV heads than ranks, each rank caches one head, which is then held
// more than once: 16 ranks never make half of a head.
func TestKVHeadsFewerThanRanks(t *testing.T) {
	checklist.Covers(t, 192)
	for tensor, want := range map[int]int{1: 8, 2: 4, 8: 1, 16: 1, 64: 1} {
		plans, err := parallel.Plan(llama(seventyBillion()), workload.Mesh{TensorParallel: tensor})
		if err != nil {
			t.Errorf("%d ranks: %v", tensor, err)
			continue
		}
		if got := plans[0].KVHeads[0]; got != want {
			t.Errorf("%d ranks cache %d KV heads each, want %d", tensor, got, want)
		}
	}
}

// A tied table is one storage on one rank, and two when its two uses are on two
// stages.
func TestTiesBreakOverStages(t *testing.T) {
	checklist.Covers(t, 180)
	d := dims{layers: 4, hidden: 64, heads: 4, kv: 4, head: 16, width: 128, vocab: 256, tied: true}
	table := int64(d.vocab * d.hidden)
	count := func(stages int) (tables int64) {
		plans, err := parallel.Plan(llama(d), workload.Mesh{PipelineParallel: stages})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			for _, l := range p.Tensors {
				if elements(l.Shape) == table {
					tables++
				}
			}
		}
		return tables
	}
	if count(1) != 1 || count(2) != 2 || count(4) != 2 {
		t.Errorf("tables on 1, 2 and 4 stages: %d, %d, %d", count(1), count(2), count(4))
	}
}

// Each rule of a layout that is broken is named.
func TestBrokenRules(t *testing.T) {
	llamas := llama(seventyBillion())
	odd := seventyBillion()
	odd.vocab = 151936
	odd.heads, odd.kv, odd.width = 40, 5, 40
	sparse := dims{layers: 2, hidden: 64, heads: 8, kv: 8, head: 8, width: 64, vocab: 256, experts: 6}
	for _, c := range []struct {
		name  string
		rules parallel.Rules
		m     *model.Model
		mesh  workload.Mesh
		want  string
	}{
		{"heads", parallel.Plain(), llamas, workload.Mesh{TensorParallel: 7}, "query heads: 64 is not a multiple of 7"},
		{"KV heads", parallel.Plain(), llama(dims{layers: 1, hidden: 8, heads: 12, kv: 4, head: 8, width: 12, vocab: 12}), workload.Mesh{TensorParallel: 6}, "4 KV heads and 6"},
		{"vocabulary", parallel.VLLM(), llama(odd), workload.Mesh{TensorParallel: 5}, "vocabulary of 151936 rows"},
		{"layers", parallel.Plain(), llamas, workload.Mesh{PipelineParallel: 81}, "80 layers cannot be divided into 81"},
		{"even layers", parallel.Megatron(), llamas, workload.Mesh{PipelineParallel: 3}, "80 layers are not a multiple of 3"},
		{"experts", parallel.Plain(), llama(sparse), workload.Mesh{TensorParallel: 4, ExpertParallel: 4}, "6 experts are not a multiple of 4"},
		{"expert ranks", parallel.Plain(), llama(sparse), workload.Mesh{TensorParallel: 2, ExpertParallel: 3}, "expert parallelism of 3"},
		{"width", parallel.Plain(), llama(dims{layers: 1, hidden: 8, heads: 4, kv: 4, head: 8, width: 6, vocab: 12}), workload.Mesh{TensorParallel: 4}, "a feed-forward width: 6"},
		{"absurd", parallel.Plain(), llamas, workload.Mesh{TensorParallel: 1 << 40, DataParallel: 1 << 40}, "1048576 ranks"},
		{"no layers", parallel.Plain(), &model.Model{}, workload.Mesh{PipelineParallel: 2}, "without layers"},
	} {
		_, err := c.rules.Plan(c.m, c.mesh)
		var broken *parallel.NotSupportedError
		if !errors.As(err, &broken) || !strings.Contains(broken.Rule, c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The rest of layers that do not divide goes to the stages before the last.
func TestStages(t *testing.T) {
	d := dims{layers: 61, hidden: 8, heads: 2, kv: 2, head: 4, width: 8, vocab: 16}
	plans, err := parallel.Plan(llama(d), workload.Mesh{PipelineParallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, p := range plans {
		got = append(got, len(p.Layers))
	}
	if !slices.Equal(got, []int{15, 15, 16, 15}) || !plans[0].First || plans[0].Last || !plans[3].Last {
		t.Errorf("61 layers over 4 stages: %v", got)
	}
}

// GPT-3 of 175B as Megatron-LM's example divides it, over 8 tensor-parallel ranks and 16
// stages: the last norm and its bias stand in the last stage, beside the tied table.
// By hand, of width h = 12,288: a layer has 12h²/8 + 6.875h = 226,576,896 elements on a
// rank, the table 6,400h, the positions 2,048h, the last norm 2h.
func TestStagesOfGPT3(t *testing.T) {
	const config = `{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 96, "n_embd": 12288, "n_head": 96,
		"n_positions": 2048, "n_inner": 49152, "vocab_size": 51200, "tie_word_embeddings": true}`
	m, err := hfmodel.Read(source.Bytes("config.json", []byte(config)))
	if err != nil {
		t.Fatal(err)
	}
	plans, err := parallel.Megatron().Plan(m, workload.Mesh{TensorParallel: 8, PipelineParallel: 16})
	if err != nil {
		t.Fatal(err)
	}
	const h, layers = 12_288, 6 * 226_576_896
	for stage, want := range map[int]int64{0: 1_463_270_400, 7: layers, 15: layers + 6_400*h + 2*h} {
		got := int64(0)
		for _, l := range plans[len(plans)/16*stage].Tensors {
			if m.Tensors[l.Tensor].Role != model.RoleBuffer {
				got += elements(l.Shape)
			}
		}
		if got != want {
			t.Errorf("stage %d holds %d elements, want %d", stage, got, want)
		}
	}
}

// Ranks are numbered as each engine does, each exactly once.
func TestRanks(t *testing.T) {
	d := dims{layers: 2, hidden: 8, heads: 2, kv: 2, head: 4, width: 8, vocab: 256}
	mesh := workload.Mesh{TensorParallel: 2, PipelineParallel: 2, DataParallel: 2}
	for _, c := range []struct {
		rules parallel.Rules
		want  []int
	}{
		{parallel.VLLM(), []int{0, 1, 4, 5}},
		{parallel.Megatron(), []int{0, 1, 2, 3}},
	} {
		plans, err := c.rules.Plan(llama(d), mesh)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(plans[0].Ranks, c.want) {
			t.Errorf("%s: the first stage is on %v, want %v", c.rules.Name, plans[0].Ranks, c.want)
		}
		all := slices.Sorted(slices.Values(slices.Concat(plans[0].Ranks, plans[1].Ranks)))
		if !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("%s: %v", c.rules.Name, all)
		}
	}
}

// The sum over ranks of what is divided is one copy plus the stated padding;
// what is replicated is whole on each. Data replicas change nothing on a rank.
func TestRanksHoldOneCopy(t *testing.T) {
	checklist.Covers(t, 181)
	rapid.Check(t, func(r *rapid.T) {
		tensor := 1 << rapid.IntRange(0, 4).Draw(r, "tensor")
		expert := 1
		d := dims{
			layers: rapid.IntRange(2, 7).Draw(r, "layers"), hidden: 64, head: 8, kv: 1 << rapid.IntRange(0, 4).Draw(r, "kv"),
			width: 16 * rapid.IntRange(1, 5).Draw(r, "width"), vocab: rapid.IntRange(1, 5000).Draw(r, "vocab"), tied: rapid.Bool().Draw(r, "tied"),
		}
		d.heads = d.kv * 16
		if rapid.Bool().Draw(r, "sparse") {
			d.experts, expert = 16, 1<<rapid.IntRange(0, 1).Draw(r, "expert")
			expert = min(expert, tensor)
		}
		mesh := workload.Mesh{TensorParallel: tensor, PipelineParallel: rapid.IntRange(1, 2).Draw(r, "pipeline"), ExpertParallel: expert}
		m := llama(d)
		plans, err := parallel.VLLM().Plan(m, mesh)
		if err != nil {
			r.Fatal(err)
		}
		sums, padding := map[int]int64{}, map[int]int64{}
		for _, p := range plans {
			for _, l := range p.Tensors {
				sums[l.Tensor] += elements(l.Shape) * int64(len(p.Ranks))
				padding[l.Tensor] = l.Padding
			}
		}
		for i, sum := range sums {
			copies := copiesOf(m.Tensors[i].Role, d, tensor, expert)
			if n := elements(m.Tensors[i].Shape); sum != copies*(n+padding[i]) {
				r.Fatalf("%d: %d elements over %d ranks, want %d × (%d + %d)", m.Tensors[i].Role, sum, tensor, copies, n, padding[i])
			}
		}
		mesh.DataParallel = 3
		again, err := parallel.VLLM().Plan(m, mesh)
		if err != nil {
			r.Fatal(err)
		}
		for i := range plans {
			if fmt.Sprint(again[i].Tensors) != fmt.Sprint(plans[i].Tensors) || len(again[i].Ranks) != 3*len(plans[i].Ranks) {
				r.Fatal("replicas changed what a rank holds")
			}
		}
	})
}

// copiesOf is how many copies of a tensor the ranks hold together.
func copiesOf(role model.Role, d dims, tensor, expert int) int64 {
	switch role {
	case model.RoleNorm, model.RoleFinalNorm, model.RoleRouter, model.RoleAttentionOutputBias:
		return int64(tensor)
	case model.RoleKey, model.RoleValue:
		return int64(max(1, tensor/d.kv))
	case model.RoleExpertGateUp, model.RoleExpertDown:
		if expert > 1 {
			return int64(tensor / expert)
		}
	}
	return 1
}
