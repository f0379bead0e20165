package load_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/load"
)

// The fields of real processors, cut down to what bears on the number of
// patches: CLIP and ViT of transformers 4, Qwen2-VL before and after its size
// counted pixels, LLaVA-NeXT, InternVL, Whisper.
func TestPreprocessor(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       *model.ImageProcessing
	}{
		{"the shortest edge and a crop", `{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 224}, "do_center_crop": true, "crop_size": {"height": 224, "width": 224}}`,
			&model.ImageProcessing{Class: "CLIPImageProcessor", Resize: true, Size: model.ImageSize{ShortestEdge: 224}, Crop: model.ImageSize{Height: 224, Width: 224}}},
		{"a size as a number", `{"feature_extractor_type": "ViTFeatureExtractor", "size": 224, "do_resize": false, "crop_size": 224}`,
			&model.ImageProcessing{Class: "ViTFeatureExtractor", Size: model.ImageSize{ShortestEdge: 224}}},
		{"bounds of pixels", `{"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 3136, "max_pixels": 12845056}`,
			&model.ImageProcessing{Resize: true, PatchSize: 14, TemporalPatchSize: 2, MergeSize: 2, MinPixels: 3136, MaxPixels: 12845056}},
		{"a size that counts pixels", `{"size": {"shortest_edge": 3136, "longest_edge": 12845056}, "min_pixels": null}`,
			&model.ImageProcessing{Resize: true, Size: model.ImageSize{ShortestEdge: 3136, LongestEdge: 12845056}}},
		{"resolutions to choose from", `{"size": {"shortest_edge": 336}, "image_grid_pinpoints": [[336, 672], [672, 336]]}`,
			&model.ImageProcessing{Resize: true, Size: model.ImageSize{ShortestEdge: 336}, Grids: []model.ImageShape{{Height: 336, Width: 672}, {Height: 672, Width: 336}}}},
		{"tiles", `{"size": {"height": 448, "width": 448}, "min_patches": 1, "max_patches": 12, "image_seq_length": 256}`,
			&model.ImageProcessing{Resize: true, Size: model.ImageSize{Height: 448, Width: 448}, MinTiles: 1, MaxTiles: 12, Tokens: 256}},
		{"speech", `{"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80}`, nil},
	} {
		got, err := load.Preprocessor(source.Bytes("preprocessor_config.json", []byte(c.text)))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", c.name, err, diff)
		}
	}
	for text, want := range map[string]string{
		`{"size": "large"}`: "size: is", `{"size": {"height": -1}}`: "size: is", `{"patch_size": 1.5}`: "patch_size: is", `{"max_pixels": -3}`: "max_pixels: is",
		`{"max_pixels": 9223372036854775808}`: "max_pixels: is", `{"size": NaN}`: "is not valid JSON", `[1]`: "is not a JSON object", ``: "is not valid JSON",
		`{"image_grid_pinpoints": [[1]]}`: "image_grid_pinpoints: is", `{"do_resize": 1}`: "do_resize: is",
	} {
		_, err := load.Preprocessor(source.Bytes("preprocessor_config.json", []byte(text)))
		var f *source.FormatError
		if !errors.As(err, &f) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
