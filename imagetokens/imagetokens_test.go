package imagetokens

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/workload"
)

const vllmTests = "https://github.com/vllm-project/vllm/blob/061d97b2c6d03ee51c9ef420d3b9b9e77b5909d6/tests/models/multimodal/processing/"

// stopSign is the shape of the picture that vLLM's tests use.
func stopSign() model.ImageShape { return model.ImageShape{Width: 1300, Height: 876} }

func square(side int64) model.ImageShape { return model.ImageShape{Width: side, Height: side} }

// Each count was published by somebody else: a test of vLLM or of transformers,
// or a model's own configuration.
func TestPublishedCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		typ    string
		stated model.ImageProcessing
		image  model.ImageShape
		want   int64
		source string
	}{
		{"Qwen2-VL", "qwen2_vl", model.ImageProcessing{MinPixels: 3136, MaxPixels: 12_845_056}, stopSign(), 1426, vllmTests + "test_qwen2_vl.py"},
		{"Qwen2-VL between 64² and 512² pixels", "qwen2_vl", model.ImageProcessing{MinPixels: 64 * 64, MaxPixels: 512 * 512}, stopSign(), 330, vllmTests + "test_qwen2_vl.py"},
		{"the same as shortest and longest edge", "qwen2_vl", model.ImageProcessing{Size: model.ImageSize{ShortestEdge: 64 * 64, LongestEdge: 512 * 512}}, stopSign(), 330, vllmTests + "test_qwen2_vl.py"},
		{"Phi-3.5-vision with four crops", "phi3_v", model.ImageProcessing{}, stopSign(), 757, vllmTests + "test_phi3v.py"},
		{"Phi-3.5-vision with sixteen crops", "phi3_v", model.ImageProcessing{MaxTiles: 16}, stopSign(), 1921, vllmTests + "test_phi3v.py"},
		{"InternVL2 with four tiles and a thumbnail", "internvl_chat", model.ImageProcessing{MaxTiles: 4}, square(896), 5 * 256, vllmTests + "test_internvl.py"},
		{"InternVL2 with one tile", "internvl_chat", model.ImageProcessing{MaxTiles: 1}, square(896), 256, vllmTests + "test_internvl.py"},
		{"LLaVA-NeXT, an image that is not square", "llava_next", model.ImageProcessing{}, model.ImageShape{Height: 500, Width: 316}, 1526,
			"https://github.com/huggingface/transformers/blob/11065c9bcada6946a73b0d9aace4828b8051a0d1/tests/models/llava_next/test_processor_llava_next.py"},
		{"LLaVA-1.5", "llava", model.ImageProcessing{Crop: model.ImageSize{Height: 336, Width: 336}}, square(1000), 576, "https://arxiv.org/abs/2310.03744"},
		{"PaliGemma at 224", "paligemma", model.ImageProcessing{}, square(700), 256, "https://huggingface.co/google/paligemma-3b-pt-224/blob/main/config.json (num_image_tokens)"},
		{"PaliGemma at 448", "paligemma", model.ImageProcessing{Size: model.ImageSize{Height: 448, Width: 448}}, square(700), 1024, "https://huggingface.co/google/paligemma-3b-pt-448/blob/main/config.json (num_image_tokens)"},
		{"Gemma 3", "gemma3", model.ImageProcessing{}, stopSign(), 256, "https://huggingface.co/google/gemma-3-4b-it/blob/main/config.json (mm_tokens_per_image)"},
	} {
		p, err := For(&model.Model{Type: c.typ, Images: &c.stated})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := p.Count(c.image); err != nil || got.Tokens != c.want {
			t.Errorf("%s: %+v, %v; want %d by %s", c.name, got, err, c.want, c.source)
		}
	}
}

// Shapes, tiles and patches beside the positions: worked by hand from the rules.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   string
		scan  bool
		image model.ImageShape
		want  Count
	}{
		{"Qwen3-VL in steps of 32", "qwen3_vl", false, square(1024), Count{square(1024), 1, 4096, 1024, 0}},
		{"Qwen2.5-VL enlarges what is small", "qwen2_5_vl", false, square(28), Count{square(56), 1, 16, 4, 0}},
		{"LLaVA-NeXT at its largest", "llava_next", false, square(672), Count{square(672), 5, 5 * 576, 2928, 0}},
		{"InternVL, one tile has no thumbnail", "internvl_chat", false, square(448), Count{square(448), 1, 1024, 256, 0}},
		{"InternVL, two to one", "internvl_chat", false, model.ImageShape{Width: 896, Height: 448}, Count{model.ImageShape{Width: 896, Height: 448}, 3, 3072, 768, 0}},
		{"Gemma 3 with pan and scan", "gemma3", true, model.ImageShape{Width: 1024, Height: 512}, Count{square(896), 3, 3 * 4096, 768, 0}},
		{"Gemma 3, too small to cut", "gemma3", true, model.ImageShape{Width: 400, Height: 200}, Count{square(896), 1, 4096, 256, 0}},
		{"Phi-3.5-vision, tall", "phi3_v", false, model.ImageShape{Width: 336, Height: 1344}, Count{model.ImageShape{Width: 336, Height: 1344}, 5, 5 * 576, 5*144 + 1 + 5*12, 0}},
		{"Llama 3.2 pads to four tiles", "mllama", false, square(560), Count{square(560), 4, 6404, 1, 6404}},
		{"Llama 3.2, a wide image", "mllama", false, model.ImageShape{Width: 1120, Height: 500}, Count{model.ImageShape{Width: 1120, Height: 560}, 4, 6404, 1, 6404}},
	} {
		p, err := For(&model.Model{Type: c.typ})
		if err != nil {
			t.Fatal(err)
		}
		p.PanAndScan = c.scan
		if got, err := p.Count(c.image); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

// What the model's files state is taken; what they leave out is named.
func TestAssumedSettingsAreNamed(t *testing.T) {
	p, err := For(&model.Model{Type: "qwen2_vl", Images: &model.ImageProcessing{PatchSize: 14, MergeSize: 2, MinPixels: 3136}})
	if err != nil || len(p.Assumed) != 1 || p.Assumed[0] != "max_pixels" {
		t.Errorf("assumed %q, %v", p.Assumed, err)
	}
	tower := model.Tensor{Role: model.RolePatchEmbedding, Shape: []int64{1152, 3, 16, 16}}
	p, err = For(&model.Model{Type: "llava", Tensors: []model.Tensor{tower}, Images: &model.ImageProcessing{Size: model.ImageSize{ShortestEdge: 384}}})
	if err != nil || p.Patch != 16 || p.Edge != 384 || len(p.Assumed) != 0 {
		t.Errorf("a patch of the weights: %+v, %v", p, err)
	}
}

func TestRefusals(t *testing.T) {
	refused := func(name string, err error) {
		t.Helper()
		var u *UnknownError
		if !errors.As(err, &u) || u.Why == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := For(&model.Model{Type: "a_new_family"})
	refused("a family without a row", err)
	_, err = For(&model.Model{Type: "qwen2_vl", Images: &model.ImageProcessing{PatchSize: 1 << 30}})
	refused("a patch of 2³⁰ pixels", err)
	_, err = Processor{}.Count(square(10))
	refused("no family", err)
	p, err := For(&model.Model{Type: "qwen2_vl"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Count(model.ImageShape{Width: 3000, Height: 10})
	refused("300 times as long as wide", err)
	_, err = p.Count(square(0))
	refused("no pixels", err)
	p, err = For(&model.Model{Type: "llava_next", Images: &model.ImageProcessing{Grids: []model.ImageShape{{Height: 10, Width: 10}}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Count(square(10))
	refused("a grid smaller than a tile", err)
}

// A model with a tower needs text and vision dimensions both.
func TestOfInput(t *testing.T) {
	checklist.Covers(t, 8, 9)
	seeing := &model.Model{Type: "gemma3", Stacks: []model.Stack{{Kind: model.Vision}, {Kind: model.Decoder}}}
	tiled := &model.Model{Type: "llava_next", Stacks: seeing.Stacks}
	blind := &model.Model{Type: "llama", Stacks: []model.Stack{{Kind: model.Decoder}}}
	type dimensions = map[workload.Dimension]int64
	for _, c := range []struct {
		name  string
		model *model.Model
		in    dimensions
		want  int64
		fails bool
	}{
		{"two images", seeing, dimensions{workload.Images: 2, workload.Resolution: 448}, 512, false},
		{"no images, as declared", seeing, dimensions{workload.Images: 0}, 0, false},
		{"text alone", seeing, dimensions{workload.Context: 10}, 0, true},
		{"images of no resolution", tiled, dimensions{workload.Images: 2}, 0, true},
		{"a model of text", blind, dimensions{workload.Context: 10}, 0, false},
		{"images for a model of text", blind, dimensions{workload.Images: 1, workload.Resolution: 10}, 0, true},
		{"more images than can be counted", seeing, dimensions{workload.Images: 1 << 62, workload.Resolution: 10}, 0, true},
	} {
		got, err := OfInput(c.model, workload.Input{Dimensions: c.in})
		if got.Tokens != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %d positions, %v", c.name, got.Tokens, err)
		}
	}
}

// Whatever the shape and the settings, a count is positive and bounded.
func TestCountsAreSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := families()
		f := rows[rapid.IntRange(0, len(rows)-1).Draw(t, "family")]
		stated := model.ImageProcessing{
			PatchSize: rapid.IntRange(0, 1<<21).Draw(t, "patch"), MergeSize: rapid.IntRange(0, 8).Draw(t, "merge"),
			MaxTiles: rapid.IntRange(0, 300).Draw(t, "tiles"), MinTiles: rapid.IntRange(0, 300).Draw(t, "least"),
			MaxPixels: rapid.Int64().Draw(t, "most pixels"), MinPixels: rapid.Int64Range(0, 1<<41).Draw(t, "fewest pixels"),
		}
		p, err := For(&model.Model{Type: f.types[0], Images: &stated})
		if err != nil {
			return
		}
		p.PanAndScan = rapid.Bool().Draw(t, "pan and scan")
		edge := rapid.Int64Range(-1, maxEdge+1)
		got, err := p.Count(model.ImageShape{Width: edge.Draw(t, "width"), Height: edge.Draw(t, "height")})
		if err == nil && (got.Tokens < 0 || got.Patches < 0 || got.Tiles < 1 || got.Cross < 0) {
			t.Fatalf("%+v", got)
		}
	})
}
