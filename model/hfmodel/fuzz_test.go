package hfmodel_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// FuzzConfig looks for a text that makes the reader panic, take memory without
// end, or describe a model that contradicts itself.
func FuzzConfig(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(small("gemma2", "Gemma2ForCausalLM", `,"layer_types":["full_attention"],"sliding_window":-1`)))
	f.Add([]byte(small("llama", "LlamaForCausalLM", `,"quantization_config":{"quant_method":"compressed-tensors","ignore":["re:(","["],"config_groups":{"a":{"weights":{"block_structure":[0,0],"strategy":"block"},"format":"float-quantized"}}}`)))
	for _, packed := range []string{
		`{"quant_method":"hqq","quant_config":{"a.b":{"weight_quant_params":{"nbits":3,"group_size":1e300,"axis":0}},"weight_quant_params":null}}`,
		`{"quant_method":"torchao","quant_type":{"default":{"_type":"Int4WeightOnlyConfig","_version":2,"_data":{"group_size":1,"int4_packing_format":{"_data":"TILE_PACKED_TO_4D"}}}}}`,
		`{"quant_method":"quanto","weights":"int2"}`, `{"quant_method":"awq","bits":4,"group_size":32,"version":"gemv_fast"}`, `{"bits":3,"group_size":0,"mode":"mxfp8"}`,
		`{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"model.layers.0.mlp":{"quant_algo":"MXFP8"}}}`,
	} {
		f.Add([]byte(small("llama", "LlamaForCausalLM", `,"quantization_config":`+packed)))
	}
	f.Add([]byte(small("zamba2", "Zamba2ForCausalLM", `,"layers_block_type":["hybrid","hybrid"],"num_mem_blocks":9,"attention_head_dim":0,"per_layer_config":{"00":{"hidden_size":1}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := hfmodel.Read(source.Bytes("config.json", data))
		if err != nil {
			var broken *source.FormatError
			if !errors.As(err, &broken) && !errors.Is(err, source.ErrNotThisFormat) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		consistent(t, m)
	})
}

// consistent checks what holds for every model that is read.
func consistent(t *testing.T, m *model.Model) {
	if len(m.Tensors) == 0 && len(m.Unknown) == 0 {
		t.Error("nothing is known, and nothing is said to be unknown")
	}
	for i, x := range m.Tensors {
		for _, n := range x.Shape {
			if n <= 0 {
				t.Fatalf("%s has the shape %v", x.Name, x.Shape)
			}
		}
		if x.TiedTo != model.NotTied && (int(x.TiedTo) >= i || m.Tensors[x.TiedTo].TiedTo != model.NotTied) {
			t.Fatalf("%s shares the storage of tensor %d", x.Name, x.TiedTo)
		}
		if x.Stack != model.NoLayer && (int(x.Stack) >= len(m.Stacks) || int(x.Layer) >= len(m.Stacks[x.Stack].Layers)) {
			t.Fatalf("%s is in layer %d of stack %d", x.Name, x.Layer, x.Stack)
		}
	}
	if f := m.WeightsBytes(); f.Low() < 0 {
		t.Errorf("%d bytes", f.Low())
	}
}
