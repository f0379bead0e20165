package state_test

import (
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/state"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/workload"
)

// stackOf is a model of layers with these mixers, each repeated.
func stackOf(times int, mixers ...model.Mixer) *model.Model {
	s := model.Stack{Kind: model.Decoder, Width: 1024}
	for range times {
		for _, m := range mixers {
			s.Layers = append(s.Layers, model.Layer{Index: len(s.Layers), Mixers: []model.Mixer{m}})
		}
	}
	return &model.Model{Compute: dtype.BF16, Stacks: []model.Stack{s}}
}

func attention(kv, dim int) model.Attention {
	return model.Attention{QueryHeads: max(kv, 64), KVHeads: kv, KeyDim: dim, ValueDim: dim, Causal: true, CacheOf: -1}
}

func on(t testing.TB, m *model.Model, mesh workload.Mesh) parallel.RankPlan {
	t.Helper()
	plans, err := parallel.Plan(m, mesh)
	if err != nil {
		t.Fatal(err)
	}
	return plans[0]
}

func exact(t testing.TB, what string, f account.Figure, want int64) {
	t.Helper()
	if got, ok := f.IsExact(); !ok || got != want {
		t.Errorf("%s: %d, exact %v, %q; want %d", what, f.Low(), ok, f.Reason(), want)
	}
}

func bf16() state.Options { return state.Options{Compute: dtype.BF16} }

// Each kind of layer, with the number that its formula states.
func TestKinds(t *testing.T) {
	checklist.Covers(t, 48, 50)
	window, shared, cross := attention(8, 64), attention(8, 64), attention(8, 128)
	window.Window, shared.CacheOf, cross.Cross = 128, 0, true
	latent := model.LatentAttention{QueryHeads: 128, KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
	sparse := latent
	sparse.Indexer = &model.Indexer{Heads: 64, KeyDim: 128, TopK: 2048}
	fp8, naive, layout, q8 := bf16(), bf16(), bf16(), bf16()
	fp8.Keys, naive.PerHead, layout.Layout, q8.Keys = dtype.F8E4M3, true, state.FP8Latent, dtype.Q8_0
	mixed := state.Options{Keys: dtype.IQ4_NL, Values: dtype.F16}
	for _, c := range []struct {
		name      string
		layers    int
		mixer     model.Mixer
		o         state.Options
		positions int64
		want      int64
	}{
		{"GQA", 32, attention(8, 128), bf16(), 8192, 1_073_741_824},
		{"query heads instead of KV heads are the classic error", 32, attention(32, 128), bf16(), 8192, 4 << 30},
		{"MQA", 32, attention(1, 64), bf16(), 1, 8192},
		{"window", 1, window, bf16(), 8192, 262_144},
		{"window that is not full", 1, window, bf16(), 100, 204_800},
		{"cache of another layer", 4, shared, bf16(), 8192, 0},
		{"cross-attention", 1, cross, bf16(), 8192, 6_557_696},
		{"latent", 61, latent, bf16(), 4096, 287_834_112},
		{"latent in FP8", 61, latent, fp8, 163_840, 35_136 * 163_840},
		{"latent per head", 61, latent, naive, 512, 2_558_525_440},
		{"latent in Q8_0", 61, latent, q8, 32_768, 1_223_294_976},
		{"indexer", 61, sparse, bf16(), 1, 78_324},
		{"fp8_ds_mla", 61, sparse, layout, 1, 48_068},
		{"K and V of two formats", 32, attention(8, 128), mixed, 1024, 82 << 20},
	} {
		m := stackOf(c.layers, c.mixer)
		s := state.Of(m, on(t, m, workload.Single()), c.o, state.Lengths{Sequences: 1, Positions: c.positions, Encoder: 1601})
		exact(t, c.name, s.Payload, c.want)
		exact(t, c.name+" keeps no recurrent state", s.Recurrent, 0)
	}
}

// An encoder caches nothing, and a decoder its positions, causal or not.
func TestEncoder(t *testing.T) {
	a := attention(8, 64)
	a.Causal = false
	m := stackOf(4, a)
	at := state.Lengths{Sequences: 1, Positions: 8192}
	exact(t, "decoder", state.Of(m, on(t, m, workload.Single()), bf16(), at).Payload, 4*8192*2048)
	m.Stacks[0].Kind = model.Encoder
	exact(t, "encoder", state.Of(m, on(t, m, workload.Single()), bf16(), at).Payload, 0)
}

// States of recurrent layers do not grow. llama.cpp keeps them in 32 bits;
// vLLM the gated delta rule's state alone, and its convolution in 16.
func TestRecurrent(t *testing.T) {
	whole := state.Options{Compute: dtype.F32}
	half := state.Options{Compute: dtype.BF16, Recurrent: dtype.BF16}
	columns := half
	columns.ConvWhole = true
	for _, c := range []struct {
		name   string
		layers int
		mixer  model.Mixer
		o      state.Options
		want   int64
	}{
		{"Nemotron-H-8B, Mamba 2", 24, model.Mamba{Version: 2, Inner: 8192, Heads: 128, HeadDim: 64, State: 128, Groups: 8, Conv: 4}, half, 51_806_208},
		{"the same as transformers keeps it", 24, model.Mamba{Version: 2, Inner: 8192, Heads: 128, HeadDim: 64, State: 128, Groups: 8, Conv: 4}, columns, 51_806_208 + 24*10240*2},
		{"Mamba-2.8B in llama.cpp", 64, model.Mamba{Version: 1, Inner: 5120, State: 16, Conv: 4}, whole, 64 * 5120 * (16 + 3) * 4},
		{"Qwen3.6-27B in llama.cpp", 48, model.GatedDelta{KeyHeads: 16, ValueHeads: 48, KeyDim: 128, ValueDim: 128, Conv: 4}, whole, 48 * 3_268_608},
		{"the same in vLLM", 48, model.GatedDelta{KeyHeads: 16, ValueHeads: 48, KeyDim: 128, ValueDim: 128, Conv: 4}, half, 48 * (48*128*128*4 + 3*10240*2)},
		{"RWKV", 1, model.LinearAttention{Heads: 16, KeyDim: 64, ValueDim: 64, TokenShift: 2}, whole, (16*64*64 + 2*1024) * 4},
		{"LFM2", 10, model.ShortConv{Width: 2048, Kernel: 3}, half, 10 * 2 * 2048 * 2},
	} {
		m := stackOf(c.layers, c.mixer)
		for _, positions := range []int64{1, 1 << 20} {
			s := state.Of(m, on(t, m, workload.Single()), c.o, state.Lengths{Sequences: 1, Positions: positions})
			exact(t, c.name, s.Recurrent, c.want)
			exact(t, c.name+" caches no keys", s.Payload, 0)
		}
	}
	m := stackOf(1, model.Mamba{Version: 2, Inner: 128, Heads: 2, HeadDim: 64, State: 16, Groups: 1, Conv: 4})
	f := state.Of(m, on(t, m, workload.Single()), bf16(), state.Lengths{Sequences: 1}).Recurrent
	if high, ok := f.High(); f.Low() != 2*2048+2*3*160 || !ok || high != 4*2048+2*3*160 {
		t.Errorf("a state of which nobody said the format: %d to %d", f.Low(), high)
	}
}

// Payload and reservation are two figures.
func TestReservation(t *testing.T) {
	checklist.Covers(t, 48, 49, 188)
	window := attention(8, 64)
	window.Window = 128
	for _, c := range []struct {
		name              string
		mixer             model.Mixer
		change            func(*state.Options)
		positions         int64
		sequences         int64
		payload, reserved int64 // positions
	}{
		{"as many as there are", attention(8, 64), func(*state.Options) {}, 100, 3, 300, 300},
		{"blocks", attention(8, 64), func(o *state.Options) { o.Block = 16 }, 100, 3, 300, 336},
		{"static", attention(8, 64), func(o *state.Options) { o.Static = 4096 }, 100, 1, 100, 4096},
		{"a window", window, func(*state.Options) {}, 1000, 1, 128, 128},
		{"a window and what a step adds", window, func(o *state.Options) { o.Ahead, o.Block = 511, 256 }, 10_000, 1, 128, 768},
		{"an engine that keeps whole windows", window, func(o *state.Options) { o.WholeWindows = true }, 1000, 1, 128, 1000},
		{"a static window", window, func(o *state.Options) { o.Static = 4096 }, 100, 1, 100, 128},
	} {
		o := bf16()
		c.change(&o)
		m := stackOf(1, c.mixer)
		s := state.Of(m, on(t, m, workload.Single()), o, state.Lengths{Sequences: c.sequences, Positions: c.positions})
		exact(t, c.name+", payload", s.Payload, c.payload*2048)
		exact(t, c.name+", reserved", s.Reserved, c.reserved*2048)
	}
}

// What the workload declares as common is kept once, and nothing else is.
func TestSharedPrefix(t *testing.T) {
	m := stackOf(1, attention(8, 64))
	plan := on(t, m, workload.Single())
	at := state.Lengths{Sequences: 10, Positions: 1000}
	exact(t, "nothing is shared", state.Of(m, plan, bf16(), at).Payload, 10_000*2048)
	at.SharedPrefix = 900
	exact(t, "900 of 1,000", state.Of(m, plan, bf16(), at).Payload, (900+10*100)*2048)
	o := bf16()
	o.Block = 64
	exact(t, "only whole blocks are shared", state.Of(m, plan, o, at).Reserved, (10*1024-9*896)*2048)
}

// An offloaded cache has one or two layers on the device and the rest in main
// memory.
func TestOffloaded(t *testing.T) {
	checklist.Covers(t, 51)
	m := stackOf(10, attention(8, 64))
	o := bf16()
	o.Offloaded = true
	s := state.Of(m, on(t, m, workload.Single()), o, state.Lengths{Sequences: 1, Positions: 1000})
	const layer = 1000 * 2048
	most, _ := s.Reserved.High()
	host, _ := s.Host.High()
	if s.Reserved.Low() != layer || most != 2*layer || s.Host.Low() != 8*layer || host != 10*layer || s.Host.Scope != account.Host {
		t.Errorf("device %d to %d, host %d to %d", s.Reserved.Low(), most, s.Host.Low(), host)
	}
}

// Llama-3.1-70B on eight ranks: 320 MiB a sequence of 8,192 on each, of which
// 38 GiB hold 121 whole ones and 192 MiB are left; the rank with the least room
// decides. With 1,024 positions to generate, 108.
func TestSequencesThatFit(t *testing.T) {
	checklist.Covers(t, 44, 46, 185, 186, 187, 189, 191, 192, 193, 194, 195, 196)
	m, err := load.Open("../../testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	exact(t, "one position", state.PerPosition(m, on(t, m, workload.Single()), bf16()), 327_680)
	all := state.Of(m, on(t, m, workload.Single()), bf16(), state.Lengths{Sequences: 32, Positions: 8192})
	exact(t, "32 sequences are 80 GiB, which is more than 80 GB", all.Payload, 80<<30)
	eighth := on(t, m, workload.Mesh{TensorParallel: 8})
	one := state.Of(m, eighth, bf16(), state.Lengths{Sequences: 1, Positions: 8192}).Payload
	exact(t, "a rank of eight", one, 320<<20)
	longer := state.Of(m, eighth, bf16(), state.Lengths{Sequences: 1, Positions: 8192 + 1024}).Payload
	exact(t, "with room to generate", longer, 360<<20)
	room := min(38<<30, 40<<30)
	if n, left := int64(room)/one.Low(), int64(room)%one.Low(); n != 121 || left != 192<<20 {
		t.Errorf("38 GiB hold %d with %d left", n, left)
	}
	if n := int64(room) / longer.Low(); n != 108 {
		t.Errorf("38 GiB hold %d that generate", n)
	}
	sixteenth := state.Of(m, on(t, m, workload.Mesh{TensorParallel: 16}), bf16(), state.Lengths{Sequences: 1, Positions: 8192}).Payload
	exact(t, "16 ranks share 8 heads: a head is not halved", sixteenth, 320<<20)
}

// A compressed vector is on every rank; heads are divided.
func TestRanks(t *testing.T) {
	latent := stackOf(1, model.LatentAttention{QueryHeads: 64, KVRank: 512, RopeDim: 64})
	hybrid := stackOf(1, model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4})
	at := state.Lengths{Sequences: 1, Positions: 1}
	for _, tensor := range []int{1, 2, 8} {
		mesh := workload.Mesh{TensorParallel: tensor}
		exact(t, "latent", state.Of(latent, on(t, latent, mesh), bf16(), at).Payload, 1152)
		exact(t, "gated delta", state.Of(hybrid, on(t, hybrid, mesh), bf16(), at).Recurrent, (32*128*128*4+3*8192*2)/int64(tensor))
	}
	exact(t, "positions divided over context ranks",
		state.Of(latent, on(t, latent, workload.Mesh{ContextParallel: 4}), bf16(), state.Lengths{Sequences: 1, Positions: 1002}).Payload, 251*1152)
}

// What nobody said or knows is unknown, and an overflow too.
func TestUnknown(t *testing.T) {
	cross := attention(8, 64)
	cross.Cross = true
	every := model.LatentAttention{QueryHeads: 64, KVRank: 512, RopeDim: 64, CompressedEvery: 4}
	for name, c := range map[string]struct {
		mixer model.Mixer
		o     state.Options
		at    state.Lengths
	}{
		"no format":          {attention(8, 64), state.Options{}, state.Lengths{Sequences: 1, Positions: 1}},
		"no encoder length":  {cross, bf16(), state.Lengths{Sequences: 1, Positions: 1, Encoder: -1}},
		"compressed entries": {every, bf16(), state.Lengths{Sequences: 1, Positions: 1}},
		"overflow":           {attention(8, 64), bf16(), state.Lengths{Sequences: 1 << 40, Positions: 1 << 40}},
	} {
		m := stackOf(1, c.mixer)
		s := state.Of(m, on(t, m, workload.Single()), c.o, c.at)
		if s.Payload.Known() || s.Payload.Reason() == "" || s.Reserved.Known() {
			t.Errorf("%s: %d because %q", name, s.Payload.Low(), s.Payload.Reason())
		}
	}
}

// Payload grows with every length and never exceeds the reservation.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := attention(1<<rapid.IntRange(0, 5).Draw(r, "kv"), 64)
		a.Window = rapid.IntRange(0, 300).Draw(r, "window")
		m := stackOf(1, a, attention(8, 64))
		o := bf16()
		o.Block = rapid.Int64Range(0, 64).Draw(r, "block")
		o.Ahead = rapid.Int64Range(0, 64).Draw(r, "ahead")
		o.WholeWindows = rapid.Bool().Draw(r, "whole")
		at := state.Lengths{Sequences: rapid.Int64Range(0, 9).Draw(r, "sequences"), Positions: rapid.Int64Range(0, 1000).Draw(r, "positions")}
		at.SharedPrefix = rapid.Int64Range(0, at.Positions).Draw(r, "shared")
		plan := on(t, m, workload.Single())
		now := state.Of(m, plan, o, at)
		longer, more := at, at
		longer.Positions++
		more.Sequences++
		for _, grown := range []state.Lengths{longer, more} {
			if next := state.Of(m, plan, o, grown); next.Payload.Low() < now.Payload.Low() || next.Reserved.Low() < now.Reserved.Low() {
				r.Fatalf("%+v keeps less than %+v", grown, at)
			}
		}
		if now.Payload.Low() > now.Reserved.Low() {
			r.Fatalf("payload %d above the reservation of %d", now.Payload.Low(), now.Reserved.Low())
		}
	})
}

// Every rule has a source and a worked number.
func TestFormulas(t *testing.T) {
	for _, f := range state.Formulas() {
		if f.Source == "" || f.Worked == "" || f.Rule == "" {
			t.Errorf("%+v", f)
		}
	}
}
