package llamacpp

import (
	"context"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/workload"
)

// served is gpt-oss-20b under Ollama with a context of 131,072 for each slot.
func served(t *testing.T, slots int64, features ...workload.Feature) *layout {
	t.Helper()
	m, err := load.Open("../vllm/testdata/models/openai__gpt-oss-20b.json")
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "ollama", Version: "0.11.7"}, Mesh: workload.Single(), Features: features,
		Inputs: []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 131_072, workload.Sequences: slots}}}}
	plans, err := parallel.Plain().Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	return &layout{in: estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: estimate.Memory{Arch: "Hopper"}}, o: resolve(estimate.Input{Model: m, Workload: w}, true)}
}

// What Ollama required for gpt-oss-20b with one to four slots on an H100 NVL
// (https://github.com/ollama/ollama/issues/12097), and what 12 layers × 8 heads ×
// 128 elements × 2 bytes × 131,072 positions and 131,072 × 512 × 64 × 4 bytes of
// scores a slot make of it.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		slots                int64
		calculated, reported float64
	}{{1, 31.6, 31.7}, {2, 50.6, 50.8}, {3, 69.6, 70.0}, {4, 88.6, 89.1}} {
		l := served(t, c.slots)
		r, err := Engine{Ollama: true}.Estimate(context.Background(), l.in)
		if err != nil {
			t.Fatal(err)
		}
		all := account.Exact(0, account.Provenance{})
		for _, b := range r.Timeline.Bounds {
			all = account.Sum(all.Provenance, all, b.Figure)
		}
		most, known := all.High()
		low, high := float64(all.Low())/(1<<30), float64(most)/(1<<30)
		if !known || c.calculated < low || c.calculated > high || c.reported < low || c.reported > high {
			t.Errorf("%d slots: %.1f and %.1f are outside %s", c.slots, c.calculated, c.reported, all.In(bytesize.GiB))
		}
		if got := l.compute().Low(); got != c.slots*16<<30 {
			t.Errorf("%d slots: scores of %d bytes, want %d", c.slots, got, c.slots*16<<30)
		}
		if got := l.cache(); got.Payload.Low() != c.slots*12*2048*(131_072+128) || got.Reserved.Low() < got.Payload.Low() {
			t.Errorf("%d slots: a payload of %d bytes", c.slots, got.Payload.Low())
		}
	}
	// Flash attention makes no scores.
	if high, _ := served(t, 4, workload.FlashAttention).compute().High(); high > 2<<30 {
		t.Errorf("with flash attention the buffer takes up to %d bytes", high)
	}
}

// The table of token embeddings stays in main memory; a head that is tied to it
// is on the device.
func TestEmbeddings(t *testing.T) {
	embedding := model.Tensor{Name: "token_embd", Role: model.RoleTokenEmbedding, Shape: []int64{1000, 8}, Stored: dtype.F16, TiedTo: model.NotTied, Stack: model.NoLayer, Layer: model.NoLayer}
	head := model.Tensor{Name: "output", Role: model.RoleHead, Shape: []int64{1000, 8}, Stored: dtype.F16, TiedTo: model.NotTied, Stack: model.NoLayer, Layer: model.NoLayer}
	norm := model.Tensor{Name: "output_norm", Role: model.RoleFinalNorm, Shape: []int64{8}, Stored: dtype.F32, TiedTo: model.NotTied, Stack: model.NoLayer, Layer: model.NoLayer}
	for name, c := range map[string]struct {
		tensors []model.Tensor
		want    int64
	}{
		"a head of its own": {[]model.Tensor{embedding, head, norm}, 16_000 + 32},
		"tied":              {[]model.Tensor{embedding, norm}, 16_000 + 32},
		"nothing else":      {[]model.Tensor{head, norm}, 16_000 + 32},
	} {
		m := &model.Model{Tensors: c.tensors, Stacks: []model.Stack{{Kind: model.Decoder, Width: 8}}}
		plans, err := parallel.Plain().Plan(m, workload.Single())
		if err != nil {
			t.Fatal(err)
		}
		l := &layout{in: estimate.Input{Model: m, Plan: plans[0], Workload: &workload.Workload{}}}
		if got, exact := l.weights().IsExact(); !exact || got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// What builds decide.
func TestBuilds(t *testing.T) {
	for version, want := range map[string]string{
		"":       "flash assumed capped",
		"b9000":  "flash capped",
		"b7000":  "flash",
		"b6000":  "scored",
		"b5000":  "scored whole",
		"latest": "flash assumed capped",
	} {
		var o options
		o.version(version)
		var got []string
		got = append(got, []string{"flash", "either", "scored"}[o.scoring])
		for name, is := range map[string]bool{"assumed": o.assumesFlash} {
			if is {
				got = append(got, name)
			}
		}
		if o.capped {
			got = append(got, "capped")
		}
		if o.wholeWindows {
			got = append(got, "whole")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", version, got, want)
		}
	}
	for version, want := range map[string]scoring{"0.11.7": scored, "0.13.0": either, "": either, "x.y": either} {
		o := options{ollama: true}
		if o.version(version); o.scoring != want {
			t.Errorf("ollama %q: %d, want %d", version, o.scoring, want)
		}
	}
}

// Every rule has a source and a worked number.
func TestFormulas(t *testing.T) {
	for _, f := range (Engine{}).Formulas() {
		if f.Source == "" || f.Worked == "" || f.Rule == "" {
			t.Errorf("%+v", f)
		}
	}
}
