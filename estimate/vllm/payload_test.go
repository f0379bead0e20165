package vllm

import (
	"context"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/state"
	"floodmark/model"
	"floodmark/workload"
)

// Payload and reservation of gpt-oss-20b, 32 sequences of 8,192 positions: 6.09
// and 12.00 GiB (https://github.com/alvarobartt/hf-mem/pull/70).
func TestPayload(t *testing.T) {
	m := facts(t, "openai/gpt-oss-20b")
	w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16},
		Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{}},
		Inputs:  []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 8192, workload.Sequences: 32}}}}
	plans, err := Rules(w).Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()})
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range r.Timeline.Warnings {
		if note.Code == "cache_payload" {
			if !strings.Contains(note.Text, "32 × 8,192 positions is 6.09 GiB") || !strings.Contains(note.Text, "reserves 12.01 GiB") {
				t.Error(note.Text)
			}
			return
		}
	}
	t.Error("payload and reservation are not told")
}

// A prompt beyond the longest length is refused, however much the cache holds.
func TestLongestPrompt(t *testing.T) {
	m := facts(t, "openai/gpt-oss-20b")
	for prompt, refused := range map[int64]bool{8191: false, 8192: false, 8193: true, 16384: true, 1<<63 - 1: true} {
		w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16},
			Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{}},
			Inputs:  []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: prompt, workload.Sequences: 1}}}}
		plans, err := Rules(w).Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Engine{}.Estimate(context.Background(), estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()})
		if err != nil {
			t.Fatal(err)
		}
		said := false
		for _, c := range r.Checks {
			have, _ := c.Have.High()
			said = said || strings.HasPrefix(c.Rule, "the engine refuses a prompt") && c.Need.Low() > have
		}
		if said != refused {
			t.Errorf("a prompt of %d positions: refused %t", prompt, said)
		}
	}
}

// Where layers choose what they attend to, a cache of 8 bits has a layout of its
// own, 656 bytes a position and layer beside 132 of the indexer; elsewhere it has
// where it is asked for.
func TestPackedLatent(t *testing.T) {
	latent := model.LatentAttention{QueryHeads: 64, KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
	sparse := latent
	sparse.Indexer = &model.Indexer{Heads: 32, KeyDim: 128, TopK: 2048}
	for _, c := range []struct {
		mixer  model.Mixer
		cache  dtype.Format
		packed bool
		want   int64
	}{
		{sparse, dtype.F8E4M3, false, 656 + 132},
		{sparse, dtype.Unknown, false, 1152 + 132},
		{latent, dtype.F8E4M3, false, 576},
		{latent, dtype.F8E4M3, true, 656},
	} {
		m := &model.Model{Stacks: []model.Stack{{Kind: model.Decoder, Width: 64, Layers: []model.Layer{{Mixers: []model.Mixer{c.mixer}}}}}}
		w := &workload.Workload{Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16, Cache: c.cache},
			Serving: &workload.Serving{MaxLength: 128, Budget: &workload.Budget{PackedLatent: c.packed}}}
		plans, err := Rules(w).Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		in := estimate.Input{Model: m, Plan: plans[0], Workload: w}
		o := resolve(in)
		if got := state.PerPosition(m, plans[0], o.cacheOptions(in)).Low(); got != c.want {
			t.Errorf("%+v: %d bytes a position, want %d", c, got, c.want)
		}
	}
}
