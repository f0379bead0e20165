package load_test

import (
	"testing"

	"floodmark/internal/source"
	"floodmark/model/load"
)

// FuzzSettings: the small files beside a model give a value or an error.
func FuzzSettings(f *testing.F) {
	m, err := load.Model(f.Context(), "gpt2", load.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"size": {"shortest_edge": 224}, "do_center_crop": true, "crop_size": 224, "image_grid_pinpoints": [[1, 2]]}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "target_modules": "h.*attn", "rank_pattern": {"c_attn": 4}, "layers_to_transform": [1, 2], "modules_to_save": ["wte"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		load.Preprocessor(source.Bytes("preprocessor_config.json", data))
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", data))
		if err != nil {
			return
		}
		a, err := config.On(m)
		if err == nil && a.Parameters.Low() < 0 {
			t.Errorf("%d parameters", a.Parameters.Low())
		}
	})
}
