package hfmodel_test

import (
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// qwen2VL is Qwen2-VL with 2 billion parameters.
const qwen2VL = `{"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 1536, "intermediate_size": 8960,
	"num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
	"vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16, "mlp_ratio": 4, "in_chans": 3, "patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2}}`

// The components of a model are the whole: a tower is what its class holds under one
// module, with the projector within it (Qwen2-VL) or beside it (LLaVA, whose CLIP has
// 303,507,456 parameters).
//
// Worked numbers of Qwen2-VL: a layer of text has 2 · 1536² + 1536 + 2 · (256 · 1536 + 256)
// + 3 · 1536 · 8960 + 2 · 1536 = 46,797,824, and 28 of them, 151,936 · 1536 for table and
// head, and a norm are 1,543,714,304. A layer of the tower has 4 · 1280² + 4 · 1280 +
// 2 · 1280 · 5120 + 5120 + 1280 + 4 · 1280 = 19,677,440, and 32 of them and the patches,
// 3 · 2 · 14² · 1280, are 631,183,360. The projector is 2 · 1280 + 5120² + 5120 +
// 1536 · 5120 + 1536 = 34,087,936. Together 2,208,985,600, as the hub counts them.
func TestComponents(t *testing.T) {
	for name, want := range map[string][3]int64{
		"qwen2_vl":    {631_183_360, 34_087_936, 1_543_714_304},
		"llava_1.5":   {303_507_456, 20_979_712, 6_738_939_904},
		"qwen2_7b":    {0, 0, 7_615_616_512},
		"mllama_11b":  {863_567_379, 7680*4096 + 4096, 9_775_192_080},
		"paligemma":   {412_442_352, 1152*2048 + 2048, 2_508_662_784},
		"qwen3_vl_8b": {415_891_440, 2*1152 + 3*2*4608 + 4*(4608*4608+4608+4096*4608+4096), 8_190_735_360}, // four mergers
	} {
		text := []byte(qwen2VL)
		if name != "qwen2_vl" {
			var err error
			if text, err = os.ReadFile(filepath.Join("testdata", name+".json")); err != nil {
				t.Fatal(err)
			}
		}
		m, err := hfmodel.Read(source.Bytes(name, text))
		if err != nil {
			t.Fatal(err)
		}
		sums := map[model.Component]int64{}
		for i, c := range m.Components() {
			if n, _ := m.Tensors[i].Parameters(); m.Tensors[i].TiedTo == model.NotTied {
				sums[c] += n
			}
		}
		if got := [3]int64{sums[model.VisionTower], sums[model.Projector], sums[model.LanguageModel]}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
