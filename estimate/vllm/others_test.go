package vllm

import (
	"os"
	"path/filepath"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// tinyLlama is TinyLlama-1.1B by its published configuration.
func tinyLlama(t *testing.T) *model.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	text := `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5632,
 "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := load.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Two instances on one A10 with a fifth of it each: the first needs 3,099,983,872
// bytes of its budget and has 4,499 blocks; the second finds what the first holds
// on the card, is charged for it, and has less than none
// (https://github.com/vllm-project/vllm/issues/4242).
func TestSecondInstance(t *testing.T) {
	const total, own, held = 23_609_475_072, 3_099_983_872, 7_538_868_224 - 3_099_983_872
	m := tinyLlama(t)
	spend := func(version string, free int64) (options, rank) {
		w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: version}, Mesh: workload.Single(), Precision: workload.Precision{Compute: dtype.BF16},
			Serving: &workload.Serving{MaxLength: 128, Budget: &workload.Budget{Utilization: 0.2, Eager: true}}}
		plans, err := Rules(w).Plan(m, w.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		in := estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: estimate.Memory{
			Total: account.Exact(total, account.Provenance{}), Free: account.Exact(free, account.Provenance{}), Name: "A10", Arch: "Ampere"}}
		o := resolve(in)
		return o, o.spend(in, plans[0])
	}
	_, first := spend("0.4.0", total)
	if got := (first.requested.Low() - own) / first.pool.blockBytes; first.pool.blockBytes != 360_448 || got != 4_499 {
		t.Errorf("%d blocks of %d bytes, want 4,499 of 360,448", got, first.pool.blockBytes)
	}
	asked, _ := first.requested.IsExact()
	if spent := asked - own; first.available.Low() > spent || high(first.available) < spent {
		t.Errorf("the first has %s left, measured %d bytes", span(first.available), spent)
	}
	o, second := spend("0.4.0", total-held)
	if high(second.available) >= 0 || high(o.blocks([]rank{second})) != 0 {
		t.Errorf("the second has %s left", span(second.available))
	}
	// Later versions look at what came into use since they started.
	for _, version := range []string{"0.4.2", "0.6.3", "0.7.3", "0.11.0", "0.19.0"} {
		if _, r := spend(version, total-held); r.others.Status() != account.StatusZero {
			t.Errorf("%s is charged %s of others", version, span(r.others))
		}
	}
	for _, version := range []string{"0.3.3", "0.6.4.post1", "0.8.5"} {
		if _, r := spend(version, total-held); r.others.Low() != held {
			t.Errorf("%s is charged %s of others", version, span(r.others))
		}
	}
}
