package outside_test

import (
	"testing"

	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/internal/checklist"
	"floodmark/internal/torch"
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
		{"H100, two ranks, less one rank's context and kernels", outside.CommunicatorsOver("Hopper", outside.NVLink, two, false), 1.99 - 0.51 + 2.11 - 0.25},
		{"H100, four ranks", outside.CommunicatorsOver("Hopper", outside.NVLink, four, false), 2.05 - 0.51 + 2.21 - 0.24},
		{"H100, stages", outside.CommunicatorsOver("Hopper", outside.NVLink, workload.Mesh{PipelineParallel: 2}, false), 1.43 - 0.51 + 0.07},
		{"A100 over NVLink (nccl 964)", outside.CommunicatorsOver("Ampere", outside.NVLink, four, false), 688e6 / (1 << 30)},
		{"two RTX 4090 (vllm 13061), with kernels", outside.CommunicatorsOver("Ada", outside.Bus, two, false), 0.25},
		{"16 cards of 24 GB over PCIe (vllm 14447), with kernels", outside.CommunicatorsOver("Ampere", outside.Bus, workload.Mesh{TensorParallel: 16}, false), 0.20},
		{"no card named", outside.Communicators("", two, false), 0.20},
		{"H100, graphs of vLLM 0.19", outside.Graphs("Hopper"), 1.85},
		{"H100, graphs of an early stage", outside.Graphs("Hopper"), 0.51},
		{"cuBLAS workspace in recordings", outside.Workspaces("Ampere", torch.Release{}), 8519680. / (1 << 30)},
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
		"communicators": outside.Communicators("RDNA3", two, false),
		"switches":      outside.CommunicatorsOver("Blackwell", outside.NVLink, two, false),
		"stages":        outside.Communicators("CDNA3", workload.Mesh{PipelineParallel: 2}, false),
		"experts":       outside.Communicators("Blackwell", workload.Mesh{ExpertParallel: 2}, true),
		"graphs":        outside.Graphs("Turing"),
		"workspaces":    outside.Workspaces("CDNA3", torch.Release{}),
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

// A link is read from the driver's name of a card; nothing is taken for switches
// that was not said to have them.
func TestLinkOf(t *testing.T) {
	for _, c := range []struct {
		arch, name string
		want       outside.Link
	}{
		{"Hopper", "NVIDIA H100 80GB HBM3", outside.NVLink},
		{"Hopper", "NVIDIA H100 PCIe", outside.PCIe},
		{"Hopper", "", outside.UnknownLink},
		{"Ampere", "NVIDIA A100-SXM4-80GB", outside.NVLink},
		{"Ampere", "NVIDIA GeForce RTX 3090", outside.Bus},
		{"Ampere", "NVIDIA A40", outside.UnknownLink},
		{"Ada", "NVIDIA L40S", outside.Bus},
		{"Turing", "Tesla T4", outside.Bus},
		{"Blackwell", "NVIDIA GeForce RTX 5090", outside.Bus},
		{"Blackwell", "NVIDIA RTX PRO 6000 Blackwell Server Edition", outside.Bus},
		{"Blackwell", "NVIDIA B200", outside.UnknownLink},
		{"Volta", "Tesla V100-SXM2-32GB", outside.NVLink},
	} {
		if got := outside.LinkOf(c.arch, c.name); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.arch, c.name, got, c.want)
		}
	}
}

// The workspaces follow the card and the release of PyTorch; what nobody said is
// spanned.
func TestWorkspaces(t *testing.T) {
	const small, large, mib = 8_519_680, 33_554_432, 1 << 20
	for _, c := range []struct {
		arch      string
		release   torch.Release
		low, high int64
	}{
		{"Ampere", torch.Release{}, small, 2*small + 4*mib},
		{"Hopper", torch.Release{Major: 2, Minor: 4}, large, 3 * large},
		{"Blackwell", torch.Release{Major: 2, Minor: 11}, small, 2*small + 32*mib},
		{"Blackwell", torch.Release{Major: 2, Minor: 12}, large, 3 * large},
		{"Blackwell", torch.Release{}, small, 3 * large},
		{"", torch.Release{}, small, 3 * large},
	} {
		f := outside.Workspaces(c.arch, c.release)
		if high, _ := f.High(); f.Low() != c.low || high != c.high {
			t.Errorf("%s under %v: %d to %d, want %d to %d", c.arch, c.release, f.Low(), high, c.low, c.high)
		}
	}
}
