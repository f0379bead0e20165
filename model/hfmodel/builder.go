package hfmodel

import (
	"strings"

	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
)

// Limits far above every model that exists; a configuration beyond them is
// damaged, and building it would take memory without end.
const (
	maxLayers  = 4096
	maxTensors = 1 << 20
)

// class is what module of PyTorch holds a tensor. Which tensors a quantisation
// packs follows from it.
type class uint8

const (
	parameter    class = iota // norms, biases and bare parameters
	linear                    // nn.Linear, [out, in]
	linearSpared              // an nn.Linear that conversions to 8-bit floating point leave alone
	conv1D                    // GPT-2's Conv1D: a linear layer stored [in, out]
	embedding                 // nn.Embedding
	convolution
	expertLinear  // one nn.Linear an expert, [experts, out, in]
	expertFused   // one parameter for all experts, [experts, in, out]
	expertStacked // the same, [experts, out, in]
)

// draft is a tensor before quantisation.
type draft struct {
	model.Tensor
	class class
}

// module is the name of what holds the tensor, by which quantisation
// configurations list what they leave alone.
func (d draft) module() string {
	if i := strings.LastIndexByte(d.Name, '.'); i >= 0 && d.class != expertFused && d.class != expertStacked {
		return d.Name[:i]
	}
	return d.Name
}

// builder collects what blocks add.
type builder struct {
	*ledger
	model     *model.Model
	drafts    []draft
	embedding int32 // the last token embedding, which later stacks may share
	blocks    []int // where the tensors begin of blocks that several layers use
}

// scope is where a block adds tensors: in a layer of a stack, or outside.
type scope struct {
	*builder
	stack, layer int32
	prefix       string // "model.layers.3."
	strip        string // what names begin with that this place leaves out
}

func (b *builder) outside(at site) scope {
	return scope{builder: b, stack: model.NoLayer, layer: model.NoLayer, prefix: at.prefix, strip: at.strip}
}

func (c scope) under(name string) scope {
	c.prefix += name + "."
	return c
}

// add puts a tensor into the model and returns its index. A shape that has a
// missing dimension adds nothing: the missing field is already noted.
func (c scope) add(role model.Role, kind class, name string, shape ...int64) int32 {
	for _, n := range shape {
		if n <= 0 {
			return model.NotTied
		}
	}
	if len(c.drafts) >= maxTensors {
		c.fail(source.InField(c.file, "", "describes more than %d tensors", maxTensors))
		return model.NotTied
	}
	c.drafts = append(c.drafts, draft{class: kind, Tensor: model.Tensor{
		Name: c.prefix + strings.TrimPrefix(name, c.strip), Role: role, Stack: c.stack, Layer: c.layer,
		Shape: shape, Stored: c.model.Compute, TiedTo: model.NotTied,
	}})
	return int32(len(c.drafts) - 1)
}

// store gives the last tensor a format that does not follow the
// configuration's.
func (c scope) store(at int32, f dtype.Format) {
	if at != model.NotTied {
		c.drafts[at].Stored = f
	}
}

// linear adds a linear layer, its bias where it has one.
func (c scope) linear(role model.Role, name string, in, out int64, biasRole model.Role, bias bool) {
	c.add(role, linear, name+".weight", out, in)
	if bias {
		c.add(biasRole, parameter, name+".bias", out)
	}
}

// norm adds a normalisation of that width over some stream.
func (c scope) norm(role model.Role, name string, n model.Norm) {
	c.add(role, parameter, name+".weight", int64(n.Width))
	if n.Bias {
		bias := role
		if role == model.RoleNorm || role == model.RoleFinalNorm {
			bias = model.RoleNormBias
		}
		c.add(bias, parameter, name+".bias", int64(n.Width))
	}
}

// stackOf opens a stack and returns its index.
func (b *builder) stackOf(name string, kind model.StackKind, width, layers int64) int32 {
	b.model.Stacks = append(b.model.Stacks, model.Stack{
		Name: name, Kind: kind, Width: int(width), Layers: make([]model.Layer, 0, layers),
	})
	return int32(len(b.model.Stacks) - 1)
}

// layers is how many layers a stack has, within bounds.
func (b *builder) layers(s section, key string) int64 {
	n, stated := s.number(key)
	if !stated {
		n = int64(len(s.list("layers_block_type|layer_types")))
	}
	if n == 0 {
		n = s.need(key)
	}
	if !b.bounded(s, key, n) {
		return 0
	}
	return n
}

// bounded refuses more layers than a model may have.
func (b *builder) bounded(s section, key string, n int64) bool {
	if n <= maxLayers {
		return true
	}
	b.fail(source.InField(b.file, s.path+s.spellings(key)[0], "is %d, more layers than the %d that a model may have", n, maxLayers).
		WithHint("no model has such a size; the file may be damaged"))
	return false
}
