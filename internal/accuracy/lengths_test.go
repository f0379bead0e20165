package accuracy

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"floodmark"
	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/workload"
)

// reservedBy is what fine-tuning of one of Qwen's models of 2023 reserves, as ms-swift
// runs it: LoRA on c_attn, in autocast.
func reservedBy(t *testing.T, name string, context, batch int, checkpointing, lengths string) account.Figure {
	t.Helper()
	declared, err := workload.ReadFile(source.Bytes(name, fmt.Appendf(nil, `
engine: {name: transformers, version: "4.35"}
operation: fine-tuning
inputs: {only: {context: %d, micro_batch: %d}}
precision: bf16-params
training:
  optimizer: adamw
  checkpointing: %s
  accumulation: 16
  autocast: bf16
  attention: flash_attention_2
  adapter: {rank: 8, targets: [c_attn], format: fp32, dropout: true}
%s`, context, batch, checkpointing, lengths)))
	if err != nil {
		t.Fatal(err)
	}
	card, err := floodmark.FindCard("a100-sxm4-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p, err := floodmark.Estimate(t.Context(), floodmark.Request{ModelPath: filepath.Join(trainingModels, name+".json"), Workload: declared.Workload, Card: &card})
	if err != nil {
		t.Fatal(err)
	}
	var peaks []account.Figure
	for _, phase := range p.Accounts()[0].Phases {
		peaks = append(peaks, phase.Peak(account.Reserved).Figure)
	}
	return account.Highest(account.Provenance{Scope: account.Reserved}, peaks...)
}

// Where most sequences are cut to one length, what is reserved is that of steps of
// that length: the table of ms-swift 1.5.0, in MiB (docs/source/LLM/Benchmark.md of
// v1.5.0, truncation_left). Batches reserve less there than here, by up to a tenth.
func TestSequencesCutToOneLength(t *testing.T) {
	for _, c := range []struct {
		model          string
		context, batch int
		checkpointing  string
		published      float64
		within         float64
	}{
		{"qwen-1.8b", 512, 1, "full", 4610, 0.08},
		{"qwen-1.8b", 1024, 1, "full", 5576, 0.08},
		{"qwen-1.8b", 2048, 1, "full", 7624, 0.08},
		{"qwen-7b", 512, 1, "full", 15926, 0.08},
		{"qwen-7b", 2048, 1, "full", 19362, 0.08},
		{"qwen-7b", 2048, 1, "none", 30316, 0.08},
		{"qwen-7b", 2048, 2, "full", 24842, 0.08},
		{"qwen-7b", 2048, 8, "full", 54844, 0.12},
		{"qwen-14b", 2048, 1, "full", 32186, 0.08},
	} {
		f := reservedBy(t, c.model, c.context, c.batch, c.checkpointing, "")
		if off := float64(f.Low())/(c.published*(1<<20)) - 1; math.Abs(off) > c.within || !f.Known() {
			t.Errorf("%s at %d × %d, %s: %v reserved, %+.1f %% of the published", c.model, c.batch, c.context, c.checkpointing, f, 100*off)
		} else {
			t.Logf("%s at %d × %d, checkpointing %s: %+.1f %%", c.model, c.batch, c.context, c.checkpointing, 100*off)
		}
	}
}

// Where longer sequences are left out, those that remain differ, and what is
// reserved is within what orders of them reserve: the table of ms-swift 2.6, in GiB
// (docs/source_en/LLM/Benchmark.md of v2.6.1), twice as much and more.
func TestSequencesThatDiffer(t *testing.T) {
	for context, c := range map[int]struct {
		sequences int
		published float64
	}{512: {4959, 6.99}, 1024: {4959, 10.71}, 2048: {4959, 16.35}, 4096: {1000, 23.80}} {
		f := reservedBy(t, "qwen-1.8b", context, 1, "full", fmt.Sprintf("  lengths: {mean: 3234, deviation: 2547, shortest: 91, longest: 19548, longer: drop, sequences: %d}\n", c.sequences))
		high, known := f.High()
		if want := int64(c.published * (1 << 30)); !known || f.Low() > want || high < want {
			t.Errorf("at %d: %v reserved, published %.2f GiB", context, f, c.published)
		}
		t.Logf("at %d: %v, published %.2f GiB", context, f, c.published)
	}
}
