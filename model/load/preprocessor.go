package load

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"floodmark/internal/source"
	"floodmark/model"
)

const (
	preprocessorName = "preprocessor_config.json"
	maxPreprocessor  = 4 << 20
	maxGrids         = 1024
)

// images reads the preprocessor_config.json of a folder; nil without one.
func images(ctx context.Context, folder source.Folder) (*model.ImageProcessing, error) {
	src, err := folder.Open(ctx, preprocessorName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return Preprocessor(src)
}

// Preprocessor reads a preprocessor_config.json. One that describes no images,
// as those of speech do, is nil. A field of the wrong type is a
// [source.FormatError].
func Preprocessor(src source.Source) (*model.ImageProcessing, error) {
	if err := source.RefusePointer(src); err != nil {
		return nil, err
	}
	data, err := source.ReadAll(src, maxPreprocessor)
	if err != nil {
		return nil, err
	}
	f := fields{file: src.Name()}
	if err := json.Unmarshal(data, &f.object); err != nil {
		return nil, malformed(src.Name(), err)
	}
	if err := source.OneOfEachKey(src.Name(), data); err != nil {
		return nil, err
	}
	p := &model.ImageProcessing{
		Class:  f.text("image_processor_type", "feature_extractor_type"),
		Resize: f.flag("do_resize", true), Size: f.size("size"),
		PatchSize: f.count("patch_size"), TemporalPatchSize: f.count("temporal_patch_size"), MergeSize: f.count("merge_size"),
		MinPixels: f.number("min_pixels"), MaxPixels: f.number("max_pixels"),
		MinTiles: f.count("min_patches", "min_tiles"), MaxTiles: f.count("max_patches", "max_image_tiles", "max_tiles", "max_slice_nums"),
		Tokens: f.count("image_seq_length"), Grids: f.grids("image_grid_pinpoints"),
	}
	if f.flag("do_center_crop", false) {
		p.Crop = f.size("crop_size")
	}
	if f.err != nil {
		return nil, f.err
	}
	if p.Size == (model.ImageSize{}) && p.PatchSize == 0 && p.MaxPixels == 0 && p.MaxTiles == 0 && p.Grids == nil {
		return nil, nil
	}
	return p, nil
}

// malformed is the error about a text that is no JSON.
func malformed(file string, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return source.AtByte(file, syntax.Offset, "is not valid JSON: %v", err)
	}
	return source.InField(file, "", "is not a JSON object: %v", err)
}

// fields reads an object whose fields have one type each. The first that has
// another is the error.
type fields struct {
	file   string
	object map[string]json.RawMessage
	err    error
}

// read decodes the first of several spellings that the object has; it is false
// where it has none, or null.
func (f *fields) read(into any, expected string, keys ...string) bool {
	for _, key := range keys {
		raw, has := f.object[key]
		if !has || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			f.fail(key, expected)
			return false
		}
		return true
	}
	return false
}

func (f *fields) fail(key, expected string) {
	if f.err == nil {
		f.err = source.InField(f.file, key, "is %s, expected %s", quote(string(f.object[key])), expected)
	}
}

func (f *fields) text(keys ...string) (s string) {
	f.read(&s, "a text", keys...)
	return s
}

func (f *fields) flag(key string, otherwise bool) bool {
	b := otherwise
	f.read(&b, "true or false", key)
	return b
}

// number is a size that is not negative.
func (f *fields) number(keys ...string) (n int64) {
	const expected = "a whole number from 0 to 2⁶³−1"
	if f.read(&n, expected, keys...) && n < 0 {
		f.fail(keys[0], expected)
		return 0
	}
	return n
}

// count is a number of things, of which there are never a billion.
func (f *fields) count(keys ...string) int { return int(min(f.number(keys...), 1<<30)) }

// size reads a size: a number is the shortest edge, as older processors mean
// it, and an object names its edges.
func (f *fields) size(key string) (s model.ImageSize) {
	raw, has := f.object[key]
	if !has || string(raw) == "null" {
		return s
	}
	if json.Unmarshal(raw, &s.ShortestEdge) == nil && s.ShortestEdge >= 0 {
		return s
	}
	var object struct {
		Height   int64 `json:"height"`
		Width    int64 `json:"width"`
		Shortest int64 `json:"shortest_edge"`
		Longest  int64 `json:"longest_edge"`
	}
	if !f.read(&object, "a number, or an object with height and width or with edges", key) {
		return model.ImageSize{}
	}
	s = model.ImageSize{Height: object.Height, Width: object.Width, ShortestEdge: object.Shortest, LongestEdge: object.Longest}
	if min(s.Height, s.Width, s.ShortestEdge, s.LongestEdge) < 0 {
		f.fail(key, "sizes that are not negative")
	}
	return s
}

// grids reads a list of resolutions.
func (f *fields) grids(key string) []model.ImageShape {
	const expected = "a list of heights and widths"
	var pairs [][]int64
	if !f.read(&pairs, expected, key) {
		return nil
	}
	if len(pairs) > maxGrids {
		f.fail(key, expected)
		return nil
	}
	var shapes []model.ImageShape
	for _, p := range pairs {
		if len(p) != 2 || p[0] <= 0 || p[1] <= 0 {
			f.fail(key, expected)
			return nil
		}
		shapes = append(shapes, model.ImageShape{Height: p[0], Width: p[1]})
	}
	return shapes
}
