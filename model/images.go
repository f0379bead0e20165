package model

// ImageProcessing is how the image processor beside a model makes its input:
// the fields of preprocessor_config.json that decide how many patches an image
// becomes. A size that the file does not state is 0.
type ImageProcessing struct {
	Class             string // image_processor_type: "Qwen2VLImageProcessor"
	Resize            bool   // do_resize; true where the file does not say
	Size              ImageSize
	Crop              ImageSize // of the middle, after the resize; zero without a crop
	PatchSize         int       // pixels of a patch's edge
	TemporalPatchSize int       // frames that share a patch
	MergeSize         int       // patches of an edge that become one token
	MinPixels         int64     // of the resized image
	MaxPixels         int64
	MinTiles          int // crops that a large image is cut into
	MaxTiles          int
	Tokens            int          // of an image, where the processor fixes them
	Grids             []ImageShape // resolutions that a processor chooses from (LLaVA-NeXT)
}

// ImageSize is a size in one of the ways that processors state it. Zero fields
// are not stated.
type ImageSize struct {
	Height, Width             int64
	ShortestEdge, LongestEdge int64 // Qwen2-VL counts pixels here, not edges
}

// ImageShape is a resolution in pixels.
type ImageShape struct{ Height, Width int64 }
