package vllm

import (
	"testing"

	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/workload"
)

// Weights that are brought to 8 bits while they are loaded stand there in 16 bits
// before, up to all of them; with 4 bits each is packed as it comes.
func TestQuantisedWhileLoading(t *testing.T) {
	const matrices, embedding = 6_979_321_856, 128_256 * 4096 * 2
	for way, want := range map[string]int64{"fp8": matrices + embedding, "nf4": embedding} {
		m, err := facts(t, "meta-llama/Llama-3.1-8B-Instruct").WithFormat(way)
		if err != nil {
			t.Fatal(err)
		}
		w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16},
			Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{Quantise: map[string]string{"fp8": "fp8", "nf4": "bitsandbytes"}[way]}}}
		plans, err := Rules(w).Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		in := estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()}
		o := resolve(in)
		if got := high(o.weightsOf(in, plans[0]).loading); got != want {
			t.Errorf("%s: up to %d bytes more while loading, want %d", way, got, want)
		}
	}
}
