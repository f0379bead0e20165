package imagetokens

import (
	"floodmark/bytesize"
	"floodmark/model"
	"floodmark/workload"
)

// Total is what the images of one sequence become together.
type Total struct {
	Images    int64
	Each      Count // of one image
	Processor Processor
	Patches   int64 // that run through the tower
	Tokens    int64 // positions of the text
	Cross     int64 // positions that cross-attention reads
}

// Sees reports whether a model has a tower over image patches.
func Sees(m *model.Model) bool {
	for _, s := range m.Stacks {
		if s.Kind == model.Vision {
			return true
		}
	}
	return false
}

// OfInput is what the images of an input become: square ones, because a
// workload's resolution is one side. Images that are 0, or of a model without a
// tower, become nothing. An [*UnknownError] says which dimension is missing, or
// that the family is not known.
func OfInput(m *model.Model, in workload.Input) (Total, error) {
	images, declared := in.Dimensions[workload.Images]
	switch {
	case !Sees(m) && images > 0:
		return Total{}, unknown("the workload has images, and the model has no tower for them")
	case !Sees(m) || declared && images == 0:
		return Total{}, nil
	case !declared:
		return Total{}, unknown("the model sees images, and the workload does not say how many (images; 0 for none)")
	}
	p, err := For(m)
	side, declared := in.Dimensions[workload.Resolution]
	switch {
	case !declared && err == nil && p.OneSize():
		side = p.Edge
	case !declared:
		return Total{}, unknown("the workload has images and does not say of which resolution")
	case err != nil:
		return Total{}, err
	}
	each, err := p.Count(model.ImageShape{Height: side, Width: side})
	if err != nil {
		return Total{}, err
	}
	t := Total{Images: images, Each: each, Processor: p}
	for _, s := range []struct {
		into *int64
		one  int64
	}{{&t.Patches, each.Patches}, {&t.Tokens, each.Tokens}, {&t.Cross, each.Cross}} {
		n, fits := bytesize.Mul(images, s.one)
		if !fits {
			return Total{}, unknown("the positions of %d images are beyond what 63 bits count", images)
		}
		*s.into = n
	}
	return t, nil
}
