package imagetokens

import "floodmark/model"

// family is one row: which models it is for, its rule, and the defaults that its
// own code publishes.
type family struct {
	types    []string // model_type of the configuration
	classes  []string // image_processor_type of the processor's file
	defaults Processor
}

// transformers is the library whose processors most rules are of, at one commit.
const transformers = "https://github.com/huggingface/transformers/blob/cb0fc56f3caccab77d00d44051a67d4b0980cbd2/src/transformers/models/"

// families lists every family whose rule is known.
func families() []family {
	const qwenMin, qwenMax = 56 * 56, 28 * 28 * 1280
	return []family{
		// The minimum and maximum of Qwen3-VL's class are those of its published
		// preprocessor_config.json: 65,536 and 16,777,216 pixels.
		{types: []string{"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}, defaults: Processor{Family: "Qwen3-VL", Patch: 16, Merge: 2, MinPixels: 65_536, MaxPixels: 16_777_216, rule: smartResize,
			Source: "https://huggingface.co/Qwen/Qwen3-VL-4B-Instruct/blob/main/preprocessor_config.json"}},
		{types: []string{"qwen2_vl", "qwen2_5_vl"}, classes: []string{"Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast"},
			defaults: Processor{Family: "Qwen2-VL", Patch: 14, Merge: 2, MinPixels: qwenMin, MaxPixels: qwenMax, rule: smartResize,
				Source: transformers + "qwen2_vl/image_processing_qwen2_vl.py"}},
		{types: []string{"llava"}, defaults: Processor{Family: "LLaVA", Patch: 14, Merge: 1, Edge: 336, oneSize: true, rule: fixed,
			Source: transformers + "llava/processing_llava.py"}},
		{types: []string{"llava_next"}, classes: []string{"LlavaNextImageProcessor", "LlavaNextImageProcessorFast"},
			defaults: Processor{Family: "LLaVA-NeXT", Patch: 14, Merge: 1, Edge: 336, Grids: pinpoints(), rule: anyResolution,
				Source: transformers + "llava_next/processing_llava_next.py"}},
		{types: []string{"internvl_chat", "internvl"}, classes: []string{"GotOcr2ImageProcessor", "GotOcr2ImageProcessorFast"},
			defaults: Processor{Family: "InternVL", Patch: 14, Merge: 2, Edge: 448, MinTiles: 1, MaxTiles: 12, rule: dynamicTiles,
				Source: transformers + "got_ocr2/image_processing_got_ocr2.py"}},
		{types: []string{"gemma3"}, classes: []string{"Gemma3ImageProcessor", "Gemma3ImageProcessorFast"},
			defaults: Processor{Family: "Gemma 3", Patch: 14, Merge: 4, Edge: 896, Tokens: 256, MaxTiles: 4, oneSize: true, rule: panAndScan,
				Source: transformers + "gemma3/image_processing_gemma3.py"}},
		{types: []string{"paligemma"}, defaults: Processor{Family: "PaliGemma", Patch: 14, Merge: 1, Edge: 224, oneSize: true, rule: fixed,
			Source: transformers + "paligemma/processing_paligemma.py"}},
		{types: []string{"phi3_v"}, classes: []string{"Phi3VImageProcessor"},
			defaults: Processor{Family: "Phi-3.5-vision", Patch: 14, Merge: 2, Edge: 336, MaxTiles: 4, rule: highDefinition,
				Source: "https://huggingface.co/microsoft/Phi-3.5-vision-instruct/blob/main/processing_phi3_v.py"}},
		{types: []string{"mllama"}, classes: []string{"MllamaImageProcessor"},
			defaults: Processor{Family: "Llama 3.2 Vision", Patch: 14, Merge: 1, Edge: 560, MaxTiles: 4, rule: canvas,
				Source: transformers + "mllama/image_processing_mllama.py"}},
	}
}

// pinpoints are the resolutions of LLaVA-NeXT's own class.
func pinpoints() []model.ImageShape {
	return []model.ImageShape{{Height: 336, Width: 672}, {Height: 672, Width: 336}, {Height: 672, Width: 672},
		{Height: 1008, Width: 336}, {Height: 336, Width: 1008}}
}

// with is the row with what the model's files state in place of its defaults.
// What they do not state and the rule asks for is listed as assumed.
func (f family) with(stated model.ImageProcessing, patch int64) Processor {
	p := f.defaults
	take := func(name string, into *int64, values ...int64) {
		if *into == 0 {
			return // the rule has no such size
		}
		for _, v := range values {
			if v > 0 {
				*into = v
				return
			}
		}
		p.Assumed = append(p.Assumed, name)
	}
	take("patch_size", &p.Patch, int64(stated.PatchSize), patch)
	if p.MaxPixels > 0 {
		take("merge_size", &p.Merge, int64(stated.MergeSize))
		take("min_pixels", &p.MinPixels, stated.MinPixels, stated.Size.ShortestEdge)
		take("max_pixels", &p.MaxPixels, stated.MaxPixels, stated.Size.LongestEdge)
	} else {
		take("size", &p.Edge, stated.Crop.Height, stated.Size.Height, stated.Size.ShortestEdge)
		take("tiles", &p.MaxTiles, int64(stated.MaxTiles))
		take("min_tiles", &p.MinTiles, int64(stated.MinTiles))
		take("image_seq_length", &p.Tokens, int64(stated.Tokens))
	}
	if p.Grids != nil {
		if stated.Grids != nil {
			p.Grids = stated.Grids
		} else {
			p.Assumed = append(p.Assumed, "image_grid_pinpoints")
		}
	}
	return p
}
