package hfmodel_test

import (
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/source"
	"floodmark/model/hfmodel"
)

// golden is a published total of a model whose configuration is in testdata;
// ORIGIN.md there says where the configuration is from.
type golden struct {
	file       string
	parameters int64
	bytes      int64  // 0 where the configuration does not say in which format weights are stored
	published  string // which of the two is published, and where
}

// Where the published total counts something else than parameters, the
// difference is named.
func goldens() []golden {
	const (
		hub   = "parameters: total of the hub's safetensors metadata"
		index = "bytes: total_size of the checkpoint's index"
		built = "parameters: of the modules that the class builds in PyTorch, transformers 5.24"
	)
	return []golden{
		{"llama_3.1_70b", 70_553_706_496, 141_107_412_992, hub},
		{"qwen2_7b", 7_615_616_512, 15_231_233_024, hub},
		{"gemma2_9b", 9_241_705_984, 18_483_411_968, hub},
		{"gemma4_e2b", 5_123_178_016, 10_246_357_958, hub + ", 5,123,178,051, which counts the 35 layer scalars"},
		{"gemma4_26b_compressed", 25_805_933_872, 17_186_571_212, index + ", 17,191,252,228, which adds 4,681,016 bytes that headers of its 35,743 names explain"},
		{"phi3_mini", 3_821_079_552, 7_642_159_104, hub},
		{"phimoe_mini", 7_647_632_704, 15_295_265_408, hub},
		{"gpt2", 124_439_808, 0, hub + ", 137,022,720, which counts 12 masks of 1024²"},
		{"santacoder", 1_124_886_528, 0, hub},
		{"bloom_560m", 559_214_592, 0, hub},
		{"stablelm2", 1_644_515_328, 3_289_030_656, hub},
		{"chatglm2", 6_243_584_000, 12_487_168_064, index},
		{"falcon_mamba", 7_272_665_088, 14_545_330_176, hub},
		{"nemotron_h_56b", 56_324_350_464, 112_648_783_872, "parameters: NVIDIA's model card"},
		{"nemotron_3_nano", 31_577_940_288, 63_155_895_296, hub + ", 31,577,937,344, which leaves out 23 corrections of 128"},
		{"nemotron_nas_49b", 49_867_145_216, 99_734_290_432, hub},
		{"lfm2_1.2b", 1_170_340_608, 2_340_681_216, index},
		{"qwen3_moe_235b", 235_093_634_560, 470_187_269_120, hub},
		{"qwen3.5_0.8b", 873_438_784, 1_746_883_328, hub},
		{"qwen3.5_122b", 125_086_497_008, 250_173_012_448, hub},
		{"deepseek_v2_lite", 15_706_484_224, 31_412_968_448, hub},
		{"deepseek_v3", 684_489_845_504, 688_574_839_360, hub + ", 684,531,386,000, which counts 41,540,496 scales"},
		{"glm_5.1", 753_864_139_008, 1_507_728_316_928, hub},
		{"granite_moe", 1_334_628_352, 5_338_513_408, index},
		{"gpt_oss_20b", 20_914_757_184, 13_761_264_768, "both: huggingface.js, parse-safetensors-metadata.spec.ts"},
		{"minimax_m2", 228_689_764_864, 230_024_081_408, hub + ", 228,703,644,928, which counts 13,880,064 scales"},
		{"albert", 11_685_891, 46_743_564, "bytes: size of model.safetensors, 46,746,988, less its header of 3,424"},
		{"vit", 85_890_936, 171_781_872, index},
		{"t5_xxl_encoder", 4_762_310_656, 9_524_621_312, index},
		{"bart_base", 139_420_416, 557_882_724, hub},
		{"llava_1.5", 7_063_427_072, 14_126_854_144, hub},
		{"paligemma", 2_923_466_480, 11_693_865_920, index},
		{"qwen3_vl_8b", 8_767_123_696, 17_534_247_392, hub},
		{"mllama_11b", 10_670_220_835, 21_340_441_670, hub},
		{"glm4v_9b", 10_292_777_472, 20_585_554_944, hub},
		{"internvl2_4b", 4_146_855_936, 8_293_711_872, hub},
		{"deepseek_v4_pro", 1_598_837_347_742, 864_704_792_696, "parameters: huggingface.js, parse-safetensors-metadata.spec.ts: 1,598,839,674,782 with 2,327,040 table entries in I64; and 49,150,268,416 scales"},
		{"kimi_k3", 2_779_931_837_184, 1_560_860_324_864, "parameters: huggingface.js, parse-safetensors-metadata.spec.ts: 11,122,432 in F32, 57,179,884,544 in BF16, 2,722,740,830,208 in 4 bits"},
		{"llama_bnb8", 8_030_261_248, 9_086_705_888, index},
		{"qwen3_mlx4", 14_768_307_200, 8_307_783_680, index},
		{"qwen_72b", 72_287_920_128, 144_575_840_256, index},
		{"flux1_dev", 11_901_408_320, 0, index + ", 23,802,816,640, in 16 bits"},
		{"mochi_1", 10_027_677_744, 0, index + ", 40,110,710,976, in 32 bits"},
		{"qwen_image", 20_430_401_088, 0, "parameters: huggingface.js, parse-safetensors-metadata.spec.ts"},
		{"wan_2.1_1.3b", 1_418_996_800, 0, "parameters: by hand, 30 layers of 46,440,704 and 25,775,680 around them"},
		{"zamba2_2.7b", 2_481_848_336, 4_963_696_672, built},
		{"zamba2_two_blocks", 7_428_314_960, 14_856_629_920, built},
		{"gemma3n_e4b_text", 6_866_696_688, 13_733_393_376, "parameters: general.parameter_count of Ollama's gemma3n:e4b"},
		{"wav2vec2_base", 94_396_320, 188_792_640, built},
		{"yolos_tiny", 6_488_736, 25_954_944, built},
		{"openpangu_7b", 8_030_887_936, 16_061_784_576, index},
		{"arcee", 4_022_766_080, 8_045_532_160, built},
		{"qwen_vl_gptq", 9_656_935_168, 9_731_786_240, index},
	}
}

// TestGolden reads real configurations, at least one for every kind of block,
// and expects their totals exactly.
func TestGolden(t *testing.T) {
	for _, g := range goldens() {
		data, err := os.ReadFile(filepath.Join("testdata", g.file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := hfmodel.Read(source.Bytes("config.json", data))
		if err != nil {
			t.Errorf("%s: %v", g.file, err)
			continue
		}
		if got, exact := m.Parameters().IsExact(); !exact || got != g.parameters {
			t.Errorf("%s: %d parameters, exact %v; want %d (%s; unknown: %s)", g.file, got, exact, g.parameters, g.published, doubts(m))
		}
		got, exact := m.WeightsBytes().IsExact()
		if exact != (g.bytes != 0) || exact && got != g.bytes {
			t.Errorf("%s: %d bytes, exact %v; want %d (%s)", g.file, got, exact, g.bytes, g.published)
		}
	}
}

// TestGoldenSabotage shows that the table would notice a term that is left out.
func TestGoldenSabotage(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "llama_3.1_70b.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := hfmodel.Read(source.Bytes("config.json", data))
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Tensors {
		short := *m
		short.Tensors = append(append(short.Tensors[:0:0], m.Tensors[:i]...), m.Tensors[i+1:]...)
		if got, _ := short.Parameters().IsExact(); got == 70_553_706_496 {
			t.Fatalf("without %s the total is the same", m.Tensors[i].Name)
		}
	}
}

// TestAllocations bounds the work of reading a large model: the number of
// allocations does not depend on the machine.
func TestAllocations(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "llama_3.1_70b.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(10, func() {
		if _, err := hfmodel.Read(source.Bytes("config.json", data)); err != nil {
			t.Fatal(err)
		}
	}); got > 12_000 {
		t.Errorf("%.0f allocations for 80 layers", got)
	}
}
