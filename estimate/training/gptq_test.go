package training_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
	"floodmark/workload"
)

// gptqLlama is the small Llama of the recordings with its linear layers packed.
func gptqLlama(t *testing.T, bits, group int, ordered bool) *model.Model {
	t.Helper()
	const path = "../../testdata/eager/llama/config.json"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	config["torch_dtype"] = "float16"
	config["quantization_config"] = map[string]any{"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": ordered, "sym": true}
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	m, err := hfmodel.Read(source.Bytes(path, data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// gptqWork trains adapters beside it, as transformers of a release does.
func gptqWork(t *testing.T, m *model.Model, release string) workload.Workload {
	t.Helper()
	w := work(t, "bf16-params", "adamw", "fused")
	w.Operation, w.Engine = workload.FineTuning, workload.Engine{Name: "transformers", Version: release}
	tune(t, m, &w, workload.Tuning{Rank: 16, Targets: []string{"q_proj", "v_proj"}, Format: dtype.F16})
	w.Precision.Compute = dtype.F16
	return w
}

// TestGPTQ: what is beside the words is the checkpoint's, and how far they are shifted; a
// bias of zeros is made beside transformers before 4.42. Worked number: the seven
// layers of 384 × 384, twice 384 × 128, 384 × 384, and three of 384 × 1024 have, in groups of
// 64, 2.5 bytes for each group and output, 4 for each input, 2 for each output, and 32.
func TestGPTQ(t *testing.T) {
	beside := func(bias int64) (bytes int64) {
		for _, l := range [][2]int64{{384, 384}, {384, 128}, {384, 128}, {384, 384}, {384, 1024}, {384, 1024}, {1024, 384}} {
			in, out := l[0], l[1]
			bytes += in/64*out*5/2 + 4*in + bias*out + 32
		}
		return 3 * bytes
	}
	m := gptqLlama(t, 4, 64, false)
	for _, c := range []struct {
		release string
		bytes   int64
	}{{"4.34", beside(2)}, {"4.41", beside(2)}, {"4.45", beside(0)}} {
		a := accountOf(t, m, gptqWork(t, m, c.release))
		step := phase(t, a, account.PhaseBackward, 2)
		if f := held(a, step, account.TermActivations); !f.Known() {
			t.Errorf("%s: activations are unknown: %s", c.release, f.Reason())
		}
		if got := bytesOf(a, step, account.TermQuantisationMetadata); got != c.bytes {
			t.Errorf("%s: beside the words are %d bytes, want %d", c.release, got, c.bytes)
		}
		const words, rest = (2*384*384 + 2*384*128 + 3*384*1024) / 2, 2*6000*384 + 7*384
		if got, want := bytesOf(a, step, account.TermWeights), int64(3*words+2*rest); got != want {
			t.Errorf("%s: weights are %d bytes, want %d", c.release, got, want)
		}
	}
}

// A checkpoint whose zero points have no group, as a damaged header can say, has no
// program.
func TestGPTQWithoutGroups(t *testing.T) {
	m := gptqLlama(t, 4, 64, false)
	for i, x := range m.Tensors {
		if strings.HasSuffix(x.Name, ".qzeros") {
			m.Tensors[i].Shape = []int64{0, x.Shape[1]}
		}
	}
	a := accountOf(t, m, gptqWork(t, m, "4.34"))
	if f := held(a, phase(t, a, account.PhaseBackward, 2), account.TermActivations); f.Known() || !strings.Contains(f.Reason(), "whole words and groups") {
		t.Errorf("activations are %+v", f)
	}
}

// TestGPTQOpen says by name of which there is no program.
func TestGPTQOpen(t *testing.T) {
	for _, c := range []struct {
		name        string
		bits, group int
		change      func(w *workload.Workload)
		why         string
	}{
		{"an index of groups", 4, 64, func(*workload.Workload) {}, ""},
		{"8 bits, one group", 8, -1, func(*workload.Workload) {}, ""},
		{"integers across words", 3, 64, func(*workload.Workload) {}, "other bits"},
		{"GPTQModel", 4, 64, func(w *workload.Workload) { w.Engine.Version = "4.49" }, "GPTQModel"},
		{"no release", 4, 64, func(w *workload.Workload) { w.Engine = workload.Engine{} }, "with its version"},
		{"few rows", 4, 64, func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.Context] = 32 }, "fewer than 128 rows"},
		{"divided", 4, 64, func(w *workload.Workload) {
			w.Mesh.DataParallel, w.Training.Sharding = 2, &workload.Sharding{Kind: workload.ZeRO3}
		}, "divide"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := gptqLlama(t, c.bits, c.group, c.name == "an index of groups")
			w := gptqWork(t, m, "4.34")
			c.change(&w)
			a := accountOf(t, m, w)
			f := held(a, phase(t, a, account.PhaseBackward, 2), account.TermActivations)
			if f.Known() != (c.why == "") || !strings.Contains(f.Reason(), c.why) {
				t.Errorf("activations are %+v, want %q", f, c.why)
			}
		})
	}
}
