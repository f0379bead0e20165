package eager_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/model"
	"floodmark/workload"
)

// Small models of each recurrent form, as their classes write them.
const (
	mambaConfig  = `{"architectures":["MambaForCausalLM"],"model_type":"mamba","hidden_size":64,"intermediate_size":128,"state_size":16,"time_step_rank":4,"conv_kernel":4,"num_hidden_layers":2,"vocab_size":128,"torch_dtype":"bfloat16"}`
	mamba2Config = `{"architectures":["Mamba2ForCausalLM"],"model_type":"mamba2","hidden_size":64,"expand":2,"head_dim":16,"num_heads":8,"n_groups":1,"state_size":32,"conv_kernel":4,"num_hidden_layers":2,"vocab_size":128,"torch_dtype":"bfloat16"}`
	deltaConfig  = `{"architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"linear_num_key_heads":4,"linear_num_value_heads":8,"linear_key_head_dim":16,"linear_value_head_dim":16,"linear_conv_kernel_dim":4,"full_attention_interval":4,"intermediate_size":128,"moe_intermediate_size":32,"shared_expert_intermediate_size":32,"num_experts":4,"num_experts_per_tok":2,"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":128,"max_position_embeddings":2048,"torch_dtype":"bfloat16","tie_word_embeddings":false}`
)

// Recurrent layers have an interval: kernels where the workload or the engine has
// them, up to the reference code of the class where it may run.
func TestRecurrentLayersAreBounded(t *testing.T) {
	for name, config := range map[string]string{"mamba": mambaConfig, "mamba2": mamba2Config, "gated delta": deltaConfig} {
		m := read(t, config)
		high := func(e estimate.Engine, features ...workload.Feature) int64 {
			w := generation(512, 8, 2)
			w.Features = features
			f := in(t, accounts(t, e, m, w, "Hopper")[0], account.PhasePrefill, account.TermActivations)
			n, known := f.High()
			if !known || f.Low() >= n {
				t.Fatalf("%s: %d to %d (%v): %s", name, f.Low(), n, known, f.Reason())
			}
			return n
		}
		reference, kernels, serving := high(eager.Engine{}), high(eager.Engine{}, workload.RecurrentKernels), high(eager.Serving{})
		if kernels >= reference || serving > kernels {
			t.Errorf("%s: serving %d, kernels %d, reference %d", name, serving, kernels, reference)
		}
	}
}

// Worked number: the reference code of Mamba holds three tensors of inner × state
// elements in 32 bits for each position: 3 × 128 × 16 × 4 = 24,576 bytes, and two
// of the inner width.
func TestReferenceOfMamba(t *testing.T) {
	m := read(t, mambaConfig)
	of := func(features ...workload.Feature) int64 {
		w := generation(512, 8, 1)
		w.Features = features
		n, _ := in(t, accounts(t, eager.Engine{}, m, w, "Hopper")[0], account.PhasePrefill, account.TermActivations).High()
		return n
	}
	if got, want := of()-of(workload.RecurrentKernels), int64(512*(3*128*16*4+2*128*4)); got != want {
		t.Errorf("the reference makes %d bytes more, want %d", got, want)
	}
}

// What a class of linear attention makes that nobody has read stays unknown.
func TestLinearAttentionIsUnknown(t *testing.T) {
	m := read(t, tiny)
	for i := range m.Stacks[0].Layers {
		m.Stacks[0].Layers[i].Mixers = []model.Mixer{model.LinearAttention{Heads: 4, KeyDim: 16, ValueDim: 16}}
	}
	f := in(t, accounts(t, eager.Serving{}, m, generation(64, 8, 1), "Hopper")[0], account.PhasePrefill, account.TermActivations)
	if f.Known() || !strings.Contains(f.Reason(), "linear attention") {
		t.Errorf("%s: %s", f.Status(), f.Reason())
	}
}
