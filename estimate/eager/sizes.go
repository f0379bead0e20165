package eager

import (
	"errors"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/imagetokens"
	"floodmark/model"
	"floodmark/workload"
)

// dimensions of the work on this rank.
type dimensions struct {
	context, generated, sequences int64
	encoder                       int64 // positions that cross-attention reads; negative when nobody said
	patches                       int64 // that a sequence's images are cut into
	missing                       string
}

// sizes reads the dimensions. Of an encoder and a decoder of text, the context
// is the encoder's, and the decoder begins with one position. Positions of
// images are among those of the context.
func (b *builder) sizes() dimensions {
	w := b.in.Workload
	declared := func(d workload.Dimension) int64 {
		n, _ := w.Dimension(d)
		return n
	}
	d := dimensions{context: declared(workload.Context), generated: declared(workload.Generated), sequences: declared(workload.Sequences), encoder: -1}
	var beside []workload.Modality
	if imagetokens.Sees(b.in.Model) {
		beside = append(beside, workload.Vision)
	}
	missing := w.Missing(beside...)
	if p, err := imagetokens.For(b.in.Model); err == nil && p.OneSize() {
		missing = slices.DeleteFunc(missing, func(d workload.Dimension) bool { return d == workload.Resolution })
	}
	if len(missing) > 0 {
		d.missing = "the workload does not say: " + join(missing)
		if slices.Contains(missing, workload.Images) {
			d.missing += " (0 for none)"
		}
	}
	b.images(&d)
	if b.encoderStack() {
		d.encoder = d.context
		d.context = 1
	}
	if n, ok := w.Dimension(workload.EncoderLength); ok {
		d.encoder = n
	}
	return d
}

// images reads what the images of a sequence become.
func (b *builder) images(d *dimensions) {
	in := workload.Input{Dimensions: map[workload.Dimension]int64{}}
	for _, name := range []workload.Dimension{workload.Images, workload.Resolution} {
		if n, ok := b.in.Workload.Dimension(name); ok {
			in.Dimensions[name] = n
		}
	}
	if len(in.Dimensions) == 0 {
		return
	}
	total, err := imagetokens.OfInput(b.in.Model, in)
	var unknown *imagetokens.UnknownError
	if errors.As(err, &unknown) {
		if d.missing == "" {
			d.missing = unknown.Why
		}
		return
	}
	d.patches = total.Patches
	d.encoder = total.Cross
	if total.Tokens > d.context {
		b.tl.Warnings = append(b.tl.Warnings, account.Warning{Code: "images_beyond_context", Text: fmt.Sprintf(
			"the images of a sequence become %d positions, more than the context of %d, which is taken to hold them", total.Tokens, d.context)})
		d.context = total.Tokens
	}
}

// encoderStack reports an encoder of text beside a decoder.
func (b *builder) encoderStack() bool {
	var encoder, decoder bool
	for _, s := range b.in.Model.Stacks {
		encoder = encoder || s.Kind == model.Encoder
		decoder = decoder || s.Kind == model.Decoder
	}
	return encoder && decoder
}

// total is the positions of one sequence at the end; false on overflow.
func (d dimensions) total() (int64, bool) { return bytesize.Add(d.context, d.generated) }

// bounded is a figure of declared dimensions, or its low where some are missing.
func (d dimensions) bounded(f account.Figure) account.Figure {
	if d.missing != "" {
		return account.AtLeast(f.Low(), d.missing, f.Provenance)
	}
	return f
}

func join(dimensions []workload.Dimension) string {
	s := ""
	for i, d := range dimensions {
		if i > 0 {
			s += ", "
		}
		s += string(d)
	}
	return s
}
