package imagetokens

import (
	"math"

	"floodmark/model"
)

// smartResize is Qwen's: both sides become multiples of patch × merge, the area
// is brought between the two bounds, and the sides keep their ratio as well as
// they can. Worked number: 1,300 × 876 pixels in steps of 28 are 46 × 31 = 1,426
// positions.
func smartResize(p Processor, image model.ImageShape) (Count, error) {
	const longest = 200 // times the shorter side, as the family's code has it
	if max(image.Height, image.Width) > longest*min(image.Height, image.Width) {
		return Count{}, unknown("%s refuses images more than %d times as long as wide", p.Family, longest)
	}
	step := p.Patch * p.Merge
	h, w := float64(image.Height), float64(image.Width)
	rows, columns := math.RoundToEven(h/float64(step)), math.RoundToEven(w/float64(step))
	area := rows * columns * float64(step*step)
	switch {
	case area > float64(p.MaxPixels):
		beta := math.Sqrt(h * w / float64(p.MaxPixels))
		rows, columns = max(1, math.Floor(h/beta/float64(step))), max(1, math.Floor(w/beta/float64(step)))
	case area < float64(p.MinPixels):
		beta := math.Sqrt(float64(p.MinPixels) / (h * w))
		rows, columns = math.Ceil(h*beta/float64(step)), math.Ceil(w*beta/float64(step))
	}
	// A side below half a step would vanish; later versions of the class keep one.
	r, c := max(1, int64(rows)), max(1, int64(columns))
	return Count{Resized: model.ImageShape{Height: r * step, Width: c * step}, Tiles: 1, Patches: r * c * p.Merge * p.Merge, Tokens: r * c}, nil
}

// fixed is a square of one size whatever the image: LLaVA at 336 pixels is
// 24 × 24 = 576 positions, PaliGemma at 224 is 16 × 16 = 256.
func fixed(p Processor, _ model.ImageShape) (Count, error) {
	side := p.Edge / p.Patch / p.Merge
	return Count{Resized: model.ImageShape{Height: p.Edge, Width: p.Edge}, Tiles: 1, Patches: p.square(), Tokens: side * side}, nil
}

// anyResolution is LLaVA-NeXT's: the grid that keeps most of the image, its
// padding cut off again, one separator for each row, and the whole image in
// front. Worked number: 316 × 500 pixels (width × height) on 336 × 672 leave
// 38 rows of 24, so 576 + 912 + 38 = 1,526.
func anyResolution(p Processor, image model.ImageShape) (Count, error) {
	grid := bestGrid(p.Grids, image)
	if grid.Height < p.Edge || grid.Width < p.Edge {
		return Count{}, unknown("%s has no grid of at least one tile of %d pixels", p.Family, p.Edge)
	}
	side := p.Edge / p.Patch
	down, across := grid.Height/p.Edge, grid.Width/p.Edge
	rows, columns := side*down, side*across
	// What padding added is taken off in whole rows on both sides.
	if image.Width*rows > columns*image.Height {
		kept := image.Height * columns / image.Width
		rows -= (rows - kept) / 2 * 2
	} else {
		kept := image.Width * rows / image.Height
		columns -= (columns - kept) / 2 * 2
	}
	tiles := 1 + down*across
	return Count{Resized: grid, Tiles: tiles, Patches: tiles * p.square(), Tokens: side*side + rows*columns + rows}, nil
}

// bestGrid keeps most pixels of the image, and of equals wastes fewest.
func bestGrid(grids []model.ImageShape, image model.ImageShape) model.ImageShape {
	var best model.ImageShape
	most, least := int64(-1), int64(math.MaxInt64)
	for _, g := range grids {
		scale := min(float64(g.Width)/float64(image.Width), float64(g.Height)/float64(image.Height))
		kept := min(int64(float64(image.Width)*scale)*int64(float64(image.Height)*scale), image.Width*image.Height)
		if waste := g.Width*g.Height - kept; kept > most || kept == most && waste < least {
			best, most, least = g, kept, waste
		}
	}
	return best
}

// dynamicTiles is InternVL's: of all arrangements of tiles the one whose ratio
// is closest to the image's, of equals one with more tiles as long as the image
// covers half of them; and a thumbnail of the whole beside more than one tile.
// Worked number: 896 × 896 with at most four tiles are 5 × 256 = 1,280.
func dynamicTiles(p Processor, image model.ImageShape) (Count, error) {
	across, down := int64(1), int64(1)
	closest := math.Inf(1)
	ratio, area := float64(image.Width)/float64(image.Height), float64(image.Width*image.Height)
	// In order of tiles and then of width, as the family's code sorts them.
	for n := max(1, p.MinTiles); n <= p.MaxTiles; n++ {
		for w := int64(1); w <= n; w++ {
			if n%w != 0 {
				continue
			}
			h := n / w
			apart := math.Abs(ratio - float64(w)/float64(h))
			if apart < closest || apart == closest && area > 0.5*float64(p.Edge*p.Edge*n) {
				closest, across, down = apart, w, h
			}
		}
	}
	tiles := across * down
	if tiles > 1 {
		tiles++
	}
	side := p.Edge / p.Patch / p.Merge
	return Count{Resized: model.ImageShape{Height: down * p.Edge, Width: across * p.Edge}, Tiles: tiles, Patches: tiles * p.square(), Tokens: tiles * side * side}, nil
}

// panAndScan is Gemma 3's: 256 positions for the image and, where pan and scan
// is asked for and the image is long, for each crop along its longer side.
// Worked number: 1,024 × 512 with pan and scan are 3 × 256 = 768.
func panAndScan(p Processor, image model.ImageShape) (Count, error) {
	const (
		longer   = 1.2 // pan_and_scan_min_ratio_to_activate, the class's default
		smallest = 256 // pan_and_scan_min_crop_size
	)
	tiles := int64(1)
	long, short := max(image.Width, image.Height), min(image.Width, image.Height)
	if ratio := float64(long) / float64(short); p.PanAndScan && ratio >= longer {
		crops := min(p.MaxTiles, max(2, min(long/smallest, int64(math.Floor(ratio+0.5)))))
		if crops > 0 && min((long+crops-1)/crops, short) >= smallest {
			tiles += crops
		}
	}
	return Count{Resized: model.ImageShape{Height: p.Edge, Width: p.Edge}, Tiles: tiles, Patches: tiles * p.square(), Tokens: tiles * p.Tokens}, nil
}

// highDefinition is Phi-3.5-vision's: the image is scaled to as many tiles
// across as the budget of crops allows, its height padded to whole tiles; each
// tile is 144 positions, and each row of 12 of them and the break between both
// views add one. Worked number: 1,300 × 876 with four crops are
// (2×2 + 1) × 144 + 1 + 3 × 12 = 757; with sixteen 1,921.
func highDefinition(p Processor, image model.ImageShape) (Count, error) {
	// A tall image is turned, so that the long side runs across.
	long, short := max(image.Width, image.Height), min(image.Width, image.Height)
	ratio := float64(long) / float64(short)
	across := int64(1)
	for n := int64(1); n <= p.MaxTiles && n*int64(math.Ceil(float64(n)/ratio)) <= p.MaxTiles; n++ {
		across = n
	}
	height := int64(float64(across*p.Edge) / ratio)
	down := max(1, (height+p.Edge-1)/p.Edge)
	if image.Height > image.Width {
		across, down = down, across
	}
	side := p.Edge / p.Patch / p.Merge
	tiles := 1 + across*down
	return Count{Resized: model.ImageShape{Height: down * p.Edge, Width: across * p.Edge}, Tiles: tiles,
		Patches: tiles * p.square(), Tokens: tiles*side*side + 1 + (down+1)*side}, nil
}

// canvas is Llama 3.2 Vision's: the canvas of tiles that enlarges the image
// least, or shrinks it least. The tower and cross-attention run over the most
// tiles all the same, because the processor pads to them; the text has one
// position. Worked number: 4 × (40 × 40 + 1) = 6,404 positions of
// cross-attention.
func canvas(p Processor, image model.ImageShape) (Count, error) {
	var across, down int64
	chosen := 0.0
	for w := int64(1); w <= p.MaxTiles; w++ {
		for h := int64(1); w*h <= p.MaxTiles; h++ {
			scale := min(float64(w*p.Edge)/float64(image.Width), float64(h*p.Edge)/float64(image.Height))
			switch {
			case across == 0, chosen < 1 && scale > chosen, chosen >= 1 && scale >= 1 && scale < chosen,
				scale == chosen && w*h < across*down:
				chosen, across, down = scale, w, h
			}
		}
	}
	positions := p.MaxTiles * (p.square() + 1)
	return Count{Resized: model.ImageShape{Height: down * p.Edge, Width: across * p.Edge}, Tiles: p.MaxTiles, Patches: positions, Tokens: 1, Cross: positions}, nil
}
