package outside_test

import (
	"testing"

	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/internal/checklist"
	"floodmark/workload"
)

func gib(f account.Figure) (low, high float64, known bool) {
	h, known := f.High()
	return float64(f.Low()) / (1 << 30), float64(h) / (1 << 30), known
}

// What was measured lies in the interval of its architecture. The readings are
// those of the sources in the package, none of which gave an end that it is
// checked against here except those of the start-ups.
func TestMeasured(t *testing.T) {
	checklist.Covers(t, 167)
	two, four := workload.Mesh{TensorParallel: 2}, workload.Mesh{TensorParallel: 4}
	for _, c := range []struct {
		name    string
		figure  account.Figure
		reading float64 // GiB
	}{
		{"H100, one rank of vLLM 0.19: context and forward", outside.Context("Hopper"), 0.51 + 0.24},
		{"the same, Granite", outside.Context("Hopper"), 0.51 + 0.46},
		{"RTX 6000 Ada, torch 2.10 (unsloth-zoo 1053)", outside.Context("Ada"), 426. / 1024},
		{"RTX PRO 6000 Blackwell, bare (llama.cpp 23604)", outside.Context("Blackwell"), 555. / 1024},
		{"no card named", outside.Context(""), 0.51},
		{"H100, two ranks, less one rank's context and kernels", outside.Communicators("Hopper", two, false), 1.99 - 0.51 + 2.11 - 0.25},
		{"H100, four ranks", outside.Communicators("Hopper", four, false), 2.05 - 0.51 + 2.21 - 0.24},
		{"H100, stages", outside.Communicators("Hopper", workload.Mesh{PipelineParallel: 2}, false), 1.43 - 0.51 + 0.07},
		{"A100 over NVLink (nccl 964)", outside.Communicators("Ampere", four, false), 688e6 / (1 << 30)},
		{"H100, graphs of vLLM 0.19", outside.Graphs("Hopper"), 1.85},
		{"H100, graphs of an early stage", outside.Graphs("Hopper"), 0.51},
		{"cuBLAS workspace in recordings", outside.Workspaces("Ampere"), 8519680. / (1 << 30)},
	} {
		low, high, known := gib(c.figure)
		if !known || c.reading < low-0.005 || c.reading > high+0.005 {
			t.Errorf("%s: %.3f GiB is outside %.3f to %.3f (known %v)", c.name, c.reading, low, high, known)
		}
	}
}

// An architecture that nobody measured is unknown; a rank that talks to nobody
// holds nothing for it, because of that.
func TestUnmeasured(t *testing.T) {
	two := workload.Mesh{TensorParallel: 2}
	for name, f := range map[string]account.Figure{
		"context":       outside.Context("RDNA3"),
		"communicators": outside.Communicators("Ada", two, false),
		"stages":        outside.Communicators("Ada", workload.Mesh{PipelineParallel: 2}, false),
		"experts":       outside.Communicators("Ampere", workload.Mesh{ExpertParallel: 2}, true),
		"graphs":        outside.Graphs("Turing"),
		"workspaces":    outside.Workspaces("CDNA3"),
	} {
		if f.Known() || f.Reason() == "" {
			t.Errorf("%s: %d, %q", name, f.Low(), f.Reason())
		}
	}
	for _, mesh := range []workload.Mesh{workload.Single(), {DataParallel: 8}} {
		if f := outside.Communicators("Hopper", mesh, true); f.Status() != account.StatusZero || f.Reason() == "" {
			t.Errorf("%+v: %s", mesh, f.Status())
		}
	}
}

func TestFormulas(t *testing.T) {
	for _, f := range outside.Formulas() {
		if f.Source == "" || f.Worked == "" || f.Rule == "" {
			t.Errorf("%+v", f)
		}
	}
}
