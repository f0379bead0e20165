package imagetokens

import (
	"fmt"
	"slices"

	"floodmark/model"
)

// Processor is how images of one model become positions: a family's rule with
// the sizes of this model.
type Processor struct {
	Family     string             // the family's name: "Qwen2-VL"
	Patch      int64              // pixels of a patch's edge
	Merge      int64              // patches of an edge that become one position
	MinPixels  int64              // of the resized image, where the family bounds pixels
	MaxPixels  int64              //
	Edge       int64              // pixels of the edge of what the tower sees at once
	MinTiles   int64              // crops that an image is cut into
	MaxTiles   int64              //
	Tokens     int64              // positions of one crop
	Grids      []model.ImageShape // resolutions that the processor chooses from
	PanAndScan bool               // Gemma 3: long images are cut; off where a caller does not ask for it
	Source     string             // the rule's public source
	Assumed    []string           // settings that no file of the model states, and so are the family's published defaults

	oneSize bool // the rule gives every image the same positions, unless it pans and scans
	rule    rule
}

// rule counts one image of a processor whose sizes are checked.
type rule func(Processor, model.ImageShape) (Count, error)

// Count is what one image becomes.
type Count struct {
	Resized model.ImageShape // pixels after the resize, padding included
	Tiles   int64            // images that run through the tower
	Patches int64            // of all tiles
	Tokens  int64            // positions of the text, rows' separators included, without the markers that a prompt puts around an image
	Cross   int64            // positions that cross-attention reads instead
}

// UnknownError says that nobody can tell how many positions an image takes.
type UnknownError struct{ Why string }

// Error is the reason.
func (e *UnknownError) Error() string { return e.Why }

func unknown(format string, a ...any) error { return &UnknownError{fmt.Sprintf(format, a...)} }

// maxEdge bounds the edge of an image in pixels, and of every size that a
// processor states: products of three of them stay within 63 bits.
const maxEdge = 1 << 20

// maxTiles bounds how many crops are looked at; processors use 4 to 40.
const maxTiles = 256

// For is the processor of a model: its family's row with the sizes that the
// model's files state. A family that has no row is an [*UnknownError].
func For(m *model.Model) (Processor, error) {
	var stated model.ImageProcessing
	if m.Images != nil {
		stated = *m.Images
	}
	for _, f := range families() {
		if slices.Contains(f.types, m.Type) || stated.Class != "" && slices.Contains(f.classes, stated.Class) {
			p := f.with(stated, patchOf(m))
			return p, p.check()
		}
	}
	name := m.Type
	if name == "" {
		name = "this model"
	}
	return Processor{}, unknown("how %s turns an image into positions is not modelled", name)
}

// patchOf is the edge of a patch as the weights of the tower have it; 0 where
// they do not say.
func patchOf(m *model.Model) int64 {
	for _, t := range m.Tensors {
		n := len(t.Shape)
		if t.Role == model.RolePatchEmbedding && n >= 4 && t.Shape[n-1] == t.Shape[n-2] {
			return t.Shape[n-1]
		}
	}
	return 0
}

// Count is what an image of a shape becomes. It fails with an [*UnknownError] on
// a shape that the family's own code refuses.
func (p Processor) Count(image model.ImageShape) (Count, error) {
	if image.Width < 1 || image.Height < 1 || image.Width > maxEdge || image.Height > maxEdge {
		return Count{}, unknown("an image of %d × %d pixels is beyond what is looked at: 1 to %d along each side", image.Width, image.Height, maxEdge)
	}
	if p.rule == nil {
		return Count{}, unknown("no family was chosen for the images")
	}
	if err := p.check(); err != nil {
		return Count{}, err
	}
	return p.rule(p, image)
}

// check refuses sizes by which nothing can be divided, or beyond every model.
func (p Processor) check() error {
	for _, s := range []struct {
		name            string
		value, from, to int64
	}{
		{"the edge of a patch", p.Patch, 1, maxEdge}, {"the merged patches", p.Merge, 1, maxEdge / max(1, p.Patch)},
		{"the edge of a tile", p.Edge, 0, maxEdge}, {"the fewest tiles", p.MinTiles, 0, maxTiles}, {"the most tiles", p.MaxTiles, 0, maxTiles},
		{"the positions of a tile", p.Tokens, 0, maxEdge}, {"the fewest pixels", p.MinPixels, 0, maxEdge * maxEdge},
		{"the most pixels", p.MaxPixels, 0, maxEdge * maxEdge},
	} {
		if s.value < s.from || s.value > s.to {
			return unknown("%s: %s is %d, expected %d to %d", p.Family, s.name, s.value, s.from, s.to)
		}
	}
	for _, g := range p.Grids {
		if g.Width < 1 || g.Height < 1 || g.Width > maxEdge || g.Height > maxEdge {
			return unknown("%s: a grid of %d × %d pixels", p.Family, g.Height, g.Width)
		}
	}
	return nil
}

// OneSize reports that every image takes the same positions, so that nobody needs
// to say how large images are.
func (p Processor) OneSize() bool { return p.oneSize && !p.PanAndScan }

// square is the patches of one tile.
func (p Processor) square() int64 {
	side := p.Edge / p.Patch
	return side * side
}
