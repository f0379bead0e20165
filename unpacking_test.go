package floodmark

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"floodmark/dtype"
	"floodmark/fit"
	"floodmark/workload"
)

// packedModel is a model of six billion parameters, most of them in layers, whose
// checkpoint is packed.
func packedModel(t *testing.T, quantisation string) string {
	t.Helper()
	const config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
"num_hidden_layers": 28, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "torch_dtype": "bfloat16",
"max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "quantization_config": `
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config+quantisation+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Below compute capability 8.9 transformers loads FP8 weights as bfloat16: what
// fits a card of Ada need not fit one of Ampere of the same size. Engines with
// kernels of their own keep them packed, and every card is judged as by itself.
func TestWeightsUnpacked(t *testing.T) {
	m, err := LoadModel(packedModel(t, `{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(card, engine string) *Prediction {
		r := Request{Model: m, Workload: workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: engine},
			Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{
				workload.Context: 128, workload.Generated: 16, workload.Sequences: 1}}}}}
		if card != "" {
			c, err := FindCard(card)
			if err != nil {
				t.Fatal(err)
			}
			r.Card = &c
		}
		return predicted(t, r)
	}
	stored := ask("", "").Request.Model.WeightsBytes().Low()
	for _, c := range []struct {
		card, engine string
		unpacked     bool
	}{{"rtx-4090", "", false}, {"h100-sxm5-80gb", "", false}, {"a100-sxm4-80gb", "", true}, {"rtx-3080-ti", "", true}, {"tesla-t4", "", true},
		{"a100-sxm4-80gb", "serving", false}, {"mi300x", "", false}} {
		p := ask(c.card, c.engine)
		weights := p.Request.Model.WeightsBytes().Low()
		if got := weights > stored*3/2; got != c.unpacked {
			t.Errorf("%s with %q: %d bytes of weights where %d are stored", c.card, c.engine, weights, stored)
		}
		for _, tensor := range p.Request.Model.Tensors {
			if c.unpacked && tensor.Stored == dtype.F8E4M3 {
				t.Fatalf("%s: %s is still packed", c.card, tensor.Name)
			}
		}
	}
	for card, want := range map[string]fit.Value{"rtx-4070-ti": fit.Fits, "rtx-3080-ti": fit.DoesNotFit} { // 12 GB each
		if v := ask(card, "").Verdict; v.Value != want {
			t.Errorf("%s: %s, want %s", card, v.Value, want)
		}
	}
	every, err := OnEveryCard(context.Background(), ask("", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range every {
		if alone := ask(row.ID, "").Verdict; row.Verdict.Value != string(alone.Value) {
			t.Errorf("%s: %s among all cards, and %s alone", row.ID, row.Verdict.Value, alone.Value)
		}
	}
}
