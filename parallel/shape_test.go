package parallel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/workload"
)

// part is a tensor of one layer and what a rank of two holds of it; nil where
// nobody can say exactly.
type part struct {
	role  model.Role
	shape []int64
	want  []int64
}

// oneLayer is a model of one layer with these tensors.
func oneLayer(kind model.StackKind, l model.Layer, parts []part) *model.Model {
	m := &model.Model{Stacks: []model.Stack{{Name: "layers", Kind: kind, Width: 64, Layers: []model.Layer{l}}}}
	for _, p := range parts {
		m.Tensors = append(m.Tensors, model.Tensor{Role: p.role, Shape: p.shape, Stored: dtype.BF16, TiedTo: model.NotTied})
	}
	return m
}

// What a rank of two holds of each kind of mixer and network. The numbers are
// those of the layer's geometry, not of any model.
func TestHalves(t *testing.T) {
	mamba2 := model.Mamba{Version: 2, Inner: 128, Heads: 8, HeadDim: 16, State: 32, Groups: 2, Conv: 4}
	for _, c := range []struct {
		name  string
		kind  model.StackKind
		layer model.Layer
		parts []part
	}{
		{"fused query, key and value of grouped heads", model.Decoder,
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 4, KVHeads: 2, KeyDim: 16, ValueDim: 16}}}, []part{
				{model.RoleQKV, []int64{128, 64}, []int64{64, 64}}, {model.RoleQKVBias, []int64{128}, []int64{64}},
				{model.RoleQueryNorm, []int64{16}, []int64{16}}, {model.RoleKeyNorm, []int64{2, 16}, []int64{1, 16}},
				{model.RoleQueryNorm, []int64{64}, []int64{32}}, {model.RoleSinks, []int64{4}, []int64{2}},
				{model.RoleAttentionGate, []int64{1}, []int64{1}}, {model.RoleAttentionOutputBias, []int64{64}, []int64{64}},
			}},
		{"one KV head for all, held by both ranks", model.Decoder,
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 4, KVHeads: 1, KeyDim: 16, ValueDim: 16}}}, []part{
				{model.RoleQuery, []int64{64, 64}, []int64{32, 64}}, {model.RoleKey, []int64{16, 64}, []int64{16, 64}},
				{model.RoleQKV, []int64{96, 64}, []int64{64, 64}},
			}},
		{"a query that also makes a gate", model.Decoder,
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 4, KVHeads: 2, KeyDim: 8, ValueDim: 8}}}, []part{
				{model.RoleQuery, []int64{64, 48}, []int64{32, 48}},
			}},
		{"matrices that are stored [in, out], as GPT-2's", model.Decoder,
			model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 4, KVHeads: 4, KeyDim: 12, ValueDim: 12}}, FeedForward: model.Dense{Width: 192}}, []part{
				{model.RoleQKV, []int64{48, 144}, []int64{48, 72}}, {model.RoleUp, []int64{48, 192}, []int64{48, 96}},
				{model.RoleDown, []int64{192, 48}, []int64{96, 48}}, {model.RoleUpBias, []int64{192}, []int64{96}}, {model.RoleDownBias, []int64{48}, []int64{48}},
			}},
		{"latent attention", model.Decoder,
			model.Layer{Mixers: []model.Mixer{model.LatentAttention{QueryHeads: 4, QueryRank: 24, KVRank: 16, NopeDim: 8, RopeDim: 4, ValueDim: 8}}}, []part{
				{model.RoleQueryDown, []int64{24, 64}, []int64{24, 64}}, {model.RoleQueryUp, []int64{48, 24}, []int64{24, 24}},
				{model.RoleKVDown, []int64{20, 64}, []int64{20, 64}}, {model.RoleKVUp, []int64{64, 16}, []int64{32, 16}},
				{model.RoleAttentionOutput, []int64{64, 32}, []int64{64, 16}}, {model.RoleQueryBias, []int64{24}, []int64{24}},
				{model.RoleIndexer, []int64{128, 24}, []int64{128, 24}}, {model.RoleLatentNorm, []int64{16}, []int64{16}},
			}},
		{"Mamba of the second version", model.Decoder, model.Layer{Mixers: []model.Mixer{mamba2}}, []part{
			{model.RoleMixerIn, []int64{2*128 + 2*64 + 8, 64}, []int64{128 + 64 + 4, 64}}, {model.RoleMixerConv, []int64{256, 1, 4}, []int64{128, 1, 4}},
			{model.RoleMixerState, []int64{8}, []int64{4}}, {model.RoleMixerNorm, []int64{128}, []int64{64}}, {model.RoleMixerOut, []int64{64, 128}, []int64{64, 64}},
		}},
		{"Mamba of the first", model.Decoder, model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 1, Inner: 128, State: 16, Conv: 4, DTRank: 4}}}, []part{
			{model.RoleMixerIn, []int64{256, 64}, []int64{128, 64}}, {model.RoleMixerGate, []int64{36, 128}, []int64{36, 64}},
			{model.RoleMixerGate, []int64{128, 4}, []int64{64, 4}}, {model.RoleMixerState, []int64{128, 16}, []int64{64, 16}}, {model.RoleMixerNorm, []int64{16}, []int64{16}},
		}},
		{"gated delta rule", model.Decoder, model.Layer{Mixers: []model.Mixer{model.GatedDelta{KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 8, Conv: 4}}}, []part{
			{model.RoleMixerIn, []int64{96, 64}, []int64{48, 64}}, {model.RoleMixerGate, []int64{8, 64}, []int64{4, 64}},
			{model.RoleMixerConv, []int64{64, 1, 4}, []int64{32, 1, 4}}, {model.RoleMixerNorm, []int64{8}, []int64{8}}, {model.RoleMixerOut, []int64{64, 32}, []int64{64, 16}},
		}},
		{"linear attention", model.Decoder, model.Layer{Mixers: []model.Mixer{model.LinearAttention{Heads: 4, KeyDim: 8, ValueDim: 8}}}, []part{
			{model.RoleQKV, []int64{96, 64}, []int64{48, 64}}, {model.RoleMixerGate, []int64{32, 64}, []int64{16, 64}}, {model.RoleMixerOut, []int64{64, 32}, []int64{64, 16}},
		}},
		{"short convolution", model.Decoder, model.Layer{Mixers: []model.Mixer{model.ShortConv{Width: 64, Kernel: 3}}}, []part{
			{model.RoleMixerIn, []int64{192, 48}, []int64{96, 48}}, {model.RoleMixerConv, []int64{64, 1, 3}, []int64{32, 1, 3}},
		}},
		{"experts in one tensor, and shared ones", model.Decoder, model.Layer{FeedForward: model.Experts{Count: 4, Width: 32, Gated: true, SharedWidth: 48}}, []part{
			{model.RoleExpertGateUp, []int64{4, 48, 64}, []int64{4, 48, 32}}, {model.RoleExpertDown, []int64{4, 32, 48}, []int64{4, 16, 48}},
			{model.RoleExpertGateUpBias, []int64{4, 64}, []int64{4, 32}}, {model.RoleExpertDownBias, []int64{4, 48}, []int64{4, 48}},
			{model.RoleSharedExpertUp, []int64{48, 40}, []int64{24, 40}}, {model.RoleSharedExpertMix, []int64{1, 40}, []int64{1, 40}}, {model.RoleRouter, []int64{4, 40}, []int64{4, 40}},
		}},
		{"a tower whose heads do not divide is whole", model.Vision, model.Layer{Mixers: []model.Mixer{model.Attention{QueryHeads: 3, KVHeads: 3, KeyDim: 8, ValueDim: 8}}, FeedForward: model.Dense{Width: 32}}, []part{
			{model.RoleQuery, []int64{24, 24}, []int64{24, 24}}, {model.RoleUp, []int64{32, 24}, []int64{32, 24}},
		}},
		{"what a role does not tell", model.Decoder, model.Layer{FeedForward: model.Dense{Width: 32}}, []part{
			{model.RoleScale, []int64{32, 1}, nil}, {model.RoleProjector, []int64{64, 64}, nil}, {model.RoleOther, []int64{64}, nil}, {model.RoleUp, []int64{30, 66}, nil},
		}},
	} {
		m := oneLayer(c.kind, c.layer, c.parts)
		plans, err := parallel.Plan(m, workload.Mesh{TensorParallel: 2})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, l := range plans[0].Tensors {
			p := c.parts[i]
			if p.want == nil {
				f := l.Bytes(m.Tensors[l.Tensor])
				high, _ := f.High()
				if whole := 2 * elements(p.shape); f.Low() != whole/2 || high != whole {
					t.Errorf("%s: %v is %d to %d bytes, want a half to all of %d", c.name, p.shape, f.Low(), high, whole)
				}
				continue
			}
			if !slices.Equal(l.Shape, p.want) || l.AtLeast != 0 {
				t.Errorf("%s: role %d %v is %v on a rank, want %v", c.name, p.role, p.shape, l.Shape, p.want)
			}
		}
	}
}

// Biases of experts that stand in one tensor are with their experts, those of their last
// product too, which no rank of tensors divides.
func TestBiasesOfExperts(t *testing.T) {
	m := oneLayer(model.Decoder, model.Layer{FeedForward: model.Experts{Count: 4, Active: 1, Width: 32, Gated: true, Bias: true}},
		[]part{{role: model.RoleExpertGateUpBias, shape: []int64{4, 64}}, {role: model.RoleExpertDownBias, shape: []int64{4, 48}}})
	plans, err := parallel.VLLM().Plan(m, workload.Mesh{TensorParallel: 2, ExpertParallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int64{{2, 64}, {2, 48}} {
		if got := plans[0].Tensors[i].Shape; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// Experts that are stored one by one are on as many ranks as divide them.
func TestExpertsOneByOne(t *testing.T) {
	layer := model.Layer{FeedForward: model.Experts{Count: 4, Active: 1, Width: 32, Gated: true}}
	var parts []part
	for range 4 {
		parts = append(parts, part{role: model.RoleExpertUp, shape: []int64{32, 48}}, part{role: model.RoleExpertDown, shape: []int64{48, 32}})
	}
	m := oneLayer(model.Decoder, layer, parts)
	for _, c := range []struct {
		rules parallel.Rules
		mesh  workload.Mesh
		want  []int64
		count int
	}{
		{parallel.Plain(), workload.Mesh{TensorParallel: 2}, []int64{16, 48}, 8},
		{parallel.VLLM(), workload.Mesh{TensorParallel: 2, ExpertParallel: 2}, []int64{32, 48}, 4},
		{parallel.Megatron(), workload.Mesh{TensorParallel: 2, DataParallel: 2, ExpertParallel: 2}, []int64{16, 48}, 4},
	} {
		plans, err := c.rules.Plan(m, c.mesh)
		if err != nil {
			t.Fatal(err)
		}
		if l := plans[0].Tensors; len(l) != c.count || !slices.Equal(l[0].Shape, c.want) {
			t.Errorf("%s %+v: %d tensors of %v, want %d of %v", c.rules.Name, c.mesh, len(l), l[0].Shape, c.count, c.want)
		}
		if local := plans[0].Layer(m, plans[0].Layers[0]).FeedForward.(model.Experts); int64(local.Width) != c.want[0] || local.Count*c.count/8 == 0 {
			t.Errorf("%s: a rank runs %+v", c.rules.Name, local)
		}
	}
}

// Packed words are divided as their elements are; where they do not divide,
// the part is between a share and all.
func TestPacked(t *testing.T) {
	layer := model.Layer{FeedForward: model.Dense{Width: 32}}
	m := oneLayer(model.Decoder, layer, []part{{role: model.RoleUp, shape: []int64{32, 64}}, {role: model.RoleDown, shape: []int64{64, 32}}})
	m.Tensors[0].Stored, m.Tensors[0].Packed = dtype.I32, []int64{8, 32} // eight elements of 4 bits a word
	m.Tensors[1].Stored, m.Tensors[1].Packed = dtype.U8, []int64{1023, 1}
	plans, err := parallel.Plan(m, workload.Mesh{TensorParallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	up, down := plans[0].Tensors[0].Bytes(m.Tensors[0]), plans[0].Tensors[1].Bytes(m.Tensors[1])
	if n, ok := up.IsExact(); !ok || n != 8*32*4/2 {
		t.Errorf("half of 1,024 packed bytes is %d", n)
	}
	if high, _ := down.High(); down.Low() != 1023/2 || high != 1023 {
		t.Errorf("a half of 1,023 bytes is %d to %d", down.Low(), high)
	}
}

// Prediction layers stay away unless the engine keeps them; then they stand on
// the last stage. Towers stand on the first.
func TestStacksBesideTheText(t *testing.T) {
	d := dims{layers: 4, hidden: 64, heads: 4, kv: 4, head: 16, width: 128, vocab: 256}
	m := llama(d)
	layer := m.Stacks[0].Layers[0]
	for i, kind := range []model.StackKind{model.Vision, model.Predictor} {
		m.Stacks = append(m.Stacks, model.Stack{Name: string(kind), Kind: kind, Width: 64, Layers: []model.Layer{layer}})
		m.Tensors = append(m.Tensors, model.Tensor{Role: model.RoleNorm, Stack: int32(i + 1), Layer: 0, Shape: []int64{int64(1000 + i)}, Stored: dtype.BF16, TiedTo: model.NotTied})
	}
	m.Tensors = append(m.Tensors, model.Tensor{Role: model.RoleBuffer, Stack: model.NoLayer, Layer: model.NoLayer, Shape: []int64{2000}, Stored: dtype.F32, TiedTo: model.NotTied})
	where := func(r parallel.Rules, size int64) (stages []int) {
		plans, err := r.Plan(m, workload.Mesh{PipelineParallel: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range plans {
			for _, l := range p.Tensors {
				if elements(l.Shape) == size {
					stages = append(stages, i)
				}
			}
		}
		return stages
	}
	for _, c := range []struct {
		rules parallel.Rules
		size  int64
		want  []int
	}{
		{parallel.Plain(), 1000, []int{0}}, {parallel.Plain(), 1001, nil}, {parallel.Megatron(), 1001, []int{1}}, {parallel.Plain(), 2000, []int{0, 1}},
	} {
		if got := where(c.rules, c.size); !slices.Equal(got, c.want) {
			t.Errorf("%s: the tensor of %d elements is on %v, want %v", c.rules.Name, c.size, got, c.want)
		}
	}
}

// Each mixer's own rule is named when it is broken.
func TestBrokenMixers(t *testing.T) {
	for _, c := range []struct {
		layer model.Layer
		want  string
	}{
		{model.Layer{Mixers: []model.Mixer{model.LatentAttention{QueryHeads: 3}}}, "query heads: 3"},
		{model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 1, Inner: 7}}}, "inner width"},
		{model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 2, Heads: 7, Groups: 1}}}, "heads of a Mamba"},
		{model.Layer{Mixers: []model.Mixer{model.Mamba{Version: 2, Heads: 6, Groups: 3}}}, "3 groups"},
		{model.Layer{Mixers: []model.Mixer{model.GatedDelta{KeyHeads: 3, ValueHeads: 4}}}, "key heads"},
		{model.Layer{Mixers: []model.Mixer{model.GatedDelta{KeyHeads: 2, ValueHeads: 3}}}, "value heads"},
		{model.Layer{Mixers: []model.Mixer{model.LinearAttention{Heads: 5}}}, "linear attention: 5"},
		{model.Layer{Mixers: []model.Mixer{model.ShortConv{Width: 5}}}, "short convolution: 5"},
		{model.Layer{FeedForward: model.Experts{Count: 2, Width: 3}}, "width of an expert"},
		{model.Layer{FeedForward: model.Experts{Count: 2, Width: 4, SharedWidth: 3}}, "shared experts"},
	} {
		_, err := parallel.Plan(oneLayer(model.Decoder, c.layer, nil), workload.Mesh{TensorParallel: 2})
		var broken *parallel.NotSupportedError
		if !errors.As(err, &broken) || !strings.Contains(broken.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
