package training_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model/load"
	"floodmark/workload"
)

//go:embed testdata/generated.tsv
var generated string

// generations reads what oracle/generating.py recorded of PyTorch on a CPU.
func generations(t *testing.T) []recordedGeneration {
	t.Helper()
	var list []recordedGeneration
	for line := range strings.Lines(generated) {
		var g recordedGeneration
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &g.family, &g.adapter, &g.format, &g.sequences, &g.context, &g.generated, &g.peak, &g.cache); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, g)
	}
	return list
}

type recordedGeneration struct {
	family, adapter, format       string
	sequences, context, generated int64
	peak, cache                   int64 // bytes over those at the start of generate; of the cache at its end
}

// over is between what generate stands over what training left, by the estimate.
func (g recordedGeneration) over(t *testing.T) (low, high int64) {
	t.Helper()
	m, err := load.Open("../../testdata/eager/" + g.family)
	if err != nil {
		t.Fatal(err)
	}
	layout := map[string]string{"fp32": "fp32-params", "bf16": "bf16-params", "autocast": "fp32-params"}[g.format]
	w := work(t, layout, "adamw", "foreach")
	if g.format == "autocast" {
		w.Training.Autocast = dtype.BF16
	}
	if g.adapter == "lora" {
		base := w.Precision.Parameters
		tune(t, m, &w, workload.Tuning{Rank: 8, Targets: []string{"all-linear"}})
		w.Precision.Parameters = base
	}
	w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 2, workload.Context: g.context, workload.Generated: g.generated, workload.Sequences: g.sequences}
	w.Phases = []account.PhaseID{account.PhaseGenerate}
	a := accountOf(t, m, w)
	left := a.Phases[len(a.Phases)-3].End.Requested.Low()
	for _, p := range a.Phases[len(a.Phases)-2:] {
		f := p.Peak(account.Requested).Figure
		most, known := f.High()
		if !known {
			t.Fatalf("%s %s %s: %s is not known: %s", g.family, g.adapter, g.format, p.ID, f.Reason())
		}
		low, high = max(low, f.Low()-left), max(high, most-left)
	}
	return low, high
}

// What a generation holds between the steps of a training is within the estimate, the
// states still there: plain and by an adapter, in 32 and 16 bits and under autocast, which
// keeps copies of the matrices that are trained. At most it is three times what was
// recorded.
func TestGenerationBesideTraining(t *testing.T) {
	for _, g := range generations(t) {
		if low, high := g.over(t); low > g.peak || high < g.peak || high > 3*g.peak || low < g.cache/2 {
			t.Errorf("%s %s %s: %d to %d bytes, recorded %d, of them %d of the cache", g.family, g.adapter, g.format, low, high, g.peak, g.cache)
		}
	}
}

// Without the copies that autocast keeps of what is trained the table must fail.
func TestSabotagedGeneration(t *testing.T) {
	for _, g := range generations(t) {
		if g.format != "autocast" || g.adapter != "none" {
			continue
		}
		g.format = "fp32"
		if _, high := g.over(t); high >= g.peak {
			t.Errorf("%s: without the copies of autocast %d bytes hold the %d that were recorded", g.family, high, g.peak)
		}
	}
}
