package model

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
)

// NotTied is the TiedTo of a tensor with storage of its own.
const NotTied int32 = -1

// NoLayer is the Layer of a tensor outside every layer, and the Stack of one
// outside every stack.
const NoLayer int32 = -1

// Tensor is one stored tensor. Its bytes are Stored.Size(Shape), or of Packed.
type Tensor struct {
	Name   string
	Role   Role
	Stack  int32   // index into Model.Stacks, or NoLayer
	Layer  int32   // index within the stack, or NoLayer
	Shape  []int64 // logical shape in elements; experts of one layer may share a tensor, [experts, out, in]
	Stored dtype.Format
	Packed []int64 // shape of the stored words where Stored of Shape does not give their bytes; nil elsewhere
	TiedTo int32   // index of the tensor whose storage this one shares, or NotTied
	Opaque bool    // the file names a format that is not known here: its bytes are Packed, and Stored is only how they are counted
}

// Parameters is how many elements the tensor has; false on overflow.
func (t Tensor) Parameters() (int64, bool) { return bytesize.Mul(t.Shape...) }

// Bytes is what the tensor takes in its stored format; false when the format
// is unknown or the count overflows.
func (t Tensor) Bytes() (int64, bool) {
	if t.Packed != nil {
		return t.Stored.Size(t.Packed)
	}
	return t.Stored.Size(t.Shape)
}

// Unknown is something that a reader met and did not understand. One that
// bears on sizes makes the figures that depend on it unknown.
type Unknown struct {
	Field string // as its file spells it: "text_config.moe_latent_size"
	Value string // shortened
	Why   string // a sentence
	// FormatOnly says that shapes are known all the same: parameters can be
	// counted, and stored bytes cannot.
	FormatOnly bool
}

// Source is a file that a model was read from.
type Source struct {
	Name string // as a person would look for it
	Kind string // "config", "safetensors", "safetensors index", "gguf", "torch", "catalogue"
}

// Quantisation is how the weights of a checkpoint are packed, as its own
// configuration says.
type Quantisation struct {
	Method string // bitsandbytes, gptq, awq, fp8, compressed-tensors, …
	Bits   int
	Group  int // elements along the input dimension that share a scale; 0 for none
	// Ordered says that the inputs of a group stand in an order of their own (desc_act
	// of GPTQ), and not side by side.
	Ordered bool
	Kept    []string // modules that stay in the checkpoint's own format, as written
}

// Model is what memory depends on.
type Model struct {
	Name          string
	Architectures []string
	Type          string // model_type of config.json, general.architecture of GGUF
	Vocab         int    // rows of the token embedding, padding included
	MaxPosition   int    // longest context that the configuration declares; 0 when it declares none
	// RotaryPositions is for how many positions sines and cosines are tabulated
	// where the longest context is stretched; 0 for as many as MaxPosition.
	RotaryPositions int64
	RotaryScaling   string // rope_type of config.json: how rotary positions are stretched; empty where they are not
	Compute         dtype.Format
	Quantised       *Quantisation
	Stacks          []Stack
	Tensors         []Tensor
	FormatOrigin    account.Origin   // of the tensors' formats: observed in a file's header, or assumed from a configuration
	Loose           int64            // stored bytes beyond the tensors' sum that the source does not fix: texts of unknown length
	Listed          bool             // Tensors are those that weight files list, and all that the model needs: what is unknown of the configuration does not bear on them
	FileBytes       int64            // tensor data in the weight files, copies of shared tensors included; 0 where none was read
	Images          *ImageProcessing // of the processor beside the model; nil where none was read
	Unknown         []Unknown
	Warnings        []account.Warning // what the files say that does not agree, and which of them counts here
	Sources         []Source
}

// Parameters is the number of parameters with storage of their own: tied
// tensors count once. Buffers and quantisation metadata are not parameters. It
// is a lower bound when something about the model is unknown.
func (m *Model) Parameters() account.Figure {
	p := account.Provenance{Origin: account.Calculated, Counter: "model.parameters"}
	return m.total(p, Unknown.shapes, func(t Tensor) (int64, bool) {
		switch t.Role.Category() {
		case account.CategoryBuffer, account.CategoryQuantisationMetadata:
			return 0, true
		}
		return t.Parameters()
	})
}

// WeightsBytes is the bytes of every stored tensor, shared storage once: what
// the checkpoint holds, before an engine pads, casts, drops or copies.
func (m *Model) WeightsBytes() account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: "model.weights"}
	switch {
	case m.FormatOrigin == account.Assumed:
		p.Origin = account.Assumed
	case m.Listed:
		p.Origin = account.Observed
	}
	f := m.total(p, Unknown.any, Tensor.Bytes)
	if sum, exact := f.IsExact(); exact && m.Loose > 0 {
		return account.Between(sum, sum+m.Loose, p)
	}
	return f
}

// shapes reports whether what is unknown bears on shapes.
func (u Unknown) shapes() bool { return !u.FormatOnly }

func (u Unknown) any() bool { return true }

// total adds up a count over the tensors with storage of their own. It is a
// lower bound when something that matters is unknown.
func (m *Model) total(p account.Provenance, matters func(Unknown) bool, count func(Tensor) (int64, bool)) account.Figure {
	reason := ""
	for _, u := range m.Unknown {
		if matters(u) && !m.Listed {
			reason = "not understood: " + u.Field
			break
		}
	}
	var sum int64
	for _, t := range m.Tensors {
		if t.TiedTo != NotTied {
			continue
		}
		n, fits := count(t)
		if !fits {
			if reason == "" {
				reason = "the size of " + t.Name + " is not known"
			}
			continue
		}
		if sum, fits = bytesize.Add(sum, n); !fits {
			return account.Unknown(bytesize.ErrOverflow.Error(), p)
		}
	}
	if reason != "" {
		return account.AtLeast(sum, reason, p)
	}
	return account.Exact(sum, p)
}

// Formats counts the stored bytes by format, shared storage once. Those in a
// format that is not known here stand under [dtype.Unknown].
func (m *Model) Formats() map[dtype.Format]int64 {
	formats := map[dtype.Format]int64{}
	for _, t := range m.Tensors {
		n, fits := t.Bytes()
		switch {
		case !fits || t.TiedTo != NotTied:
		case t.Opaque:
			formats[dtype.Unknown] += n
		default:
			formats[t.Stored] += n
		}
	}
	return formats
}

// WhyNoBytes says why [Tensor.Bytes] has no answer.
func WhyNoBytes(t Tensor) string {
	if t.Stored == dtype.Unknown {
		return "the model's configuration does not say in which format the weights are stored (torch_dtype)"
	}
	return "the shape of " + t.Name + " is beyond what 63 bits count"
}
