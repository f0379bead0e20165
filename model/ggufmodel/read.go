package ggufmodel

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/gguf"
	"floodmark/internal/source"
	"floodmark/model"
)

// Bounds far above every model that exists.
const (
	maxLayers = 4096
	maxSize   = 1 << 40
)

// Read makes the model of a GGUF file, or of its parts in their order, the
// first of which has the metadata. Parameters and bytes are those of the
// tensors in the files, as llama.cpp prints them ("model params", "model
// size"). A file without general.architecture is a [source.FormatError].
func Read(files []*gguf.File) (*model.Model, error) {
	if len(files) == 0 {
		return nil, source.InField("", "", "no GGUF file is given")
	}
	first := files[0]
	architecture, ok := first.Value("general.architecture").Text()
	if !ok || architecture == "" {
		return nil, source.InField(first.Name, "general.architecture", "is absent, so what its tensors are for is not known").
			WithHint("it may be an adapter or a file of importances: name the model")
	}
	if kind, _ := first.Value("general.type").Text(); kind == "adapter" {
		return nil, source.InField(first.Name, "general.type", "is adapter: the file holds what is added to a model, not the model").
			WithHint("name the base model; adapters in GGUF are not counted")
	}
	b := &builder{
		metadata: &metadata{file: first, architecture: architecture, used: map[string]bool{}, odd: map[string]string{}},
		model:    &model.Model{Type: architecture, Architectures: []string{architecture}, Listed: true, FormatOrigin: account.Observed, Compute: dtype.F16},
		stacks:   map[string]int32{}, doubted: map[string]bool{},
	}
	if !known(architecture) {
		b.model.Unknown = append(b.model.Unknown, model.Unknown{Field: "general.architecture", Value: architecture,
			Why: "no architecture of that name is known here, so its layers may do more than their tensors tell"})
	}
	b.general()
	for _, f := range files {
		if err := b.tensors(f); err != nil {
			return nil, err
		}
	}
	b.layers()
	b.complete()
	b.tie()
	b.model.Unknown = append(b.model.Unknown, b.leftOver()...)
	return b.model, nil
}

// builder collects a model.
type builder struct {
	*metadata
	model   *model.Model
	stacks  map[string]int32 // by the beginning of names
	drawn   [][]drawn        // by stack, by layer
	width   int              // of the residual stream
	blocks  int              // layers of the text stack, without prediction layers
	encoder bool             // no layer looks back only
	doubted map[string]bool
}

// general reads what holds for the whole model. Its cache and its activations
// have 16 bits in llama.cpp unless somebody asks for less.
func (b *builder) general() {
	name, _ := b.file.Value("general.name").Text()
	b.model.Name = name
	b.width = b.number("embedding_length")
	b.blocks = b.number("block_count") - b.number("nextn_predict_layers")
	b.model.MaxPosition = b.number("context_length")
	causal, stated := b.find("attention.causal").Bool()
	b.encoder = stated && !causal || strings.Contains(b.architecture, "bert")
	if _, ok := b.file.Value("general.file_type").Int(); ok {
		b.model.Quantised = &model.Quantisation{Method: "gguf"}
	}
	for _, key := range []string{"feed_forward_length", "expert_feed_forward_length", "expert_shared_feed_forward_length", "attention.head_count_kv", "expert_count", "expert_used_count", "expert_shared_count"} {
		b.find(key)
	}
	b.model.Vocab = b.number("vocab_size")
}

// tensors adds the tensors of one file.
func (b *builder) tensors(f *gguf.File) error {
	for _, t := range f.Tensors {
		p := parse(t.Name)
		out := model.Tensor{Name: t.Name, Role: role(p), Stack: model.NoLayer, Layer: model.NoLayer, Shape: t.Shape, Stored: t.Format, TiedTo: model.NotTied}
		if p.layer >= 0 {
			out.Stack, out.Layer = b.stand(p)
			b.draw(out, p)
		}
		if out.Role == model.RoleTokenEmbedding && len(t.Shape) == 2 {
			b.model.Vocab = int(min(t.Shape[0], maxSize))
		}
		b.model.Tensors = append(b.model.Tensors, out)
	}
	b.model.Sources = append(b.model.Sources, model.Source{Name: f.Name, Kind: "gguf"})
	var fits bool
	if b.model.FileBytes, fits = bytesize.Add(b.model.FileBytes, f.Data); !fits {
		return source.InField(f.Name, "", "%v", bytesize.ErrOverflow)
	}
	return nil
}

// stand finds stack and layer. Blocks after the last that generates are
// prediction layers, a stack of their own.
func (b *builder) stand(p place) (stack, layer int32) {
	name, index := p.stack, p.layer
	if name == "blk" && b.blocks > 0 && index >= b.blocks && b.number("nextn_predict_layers") > 0 {
		name, index = "nextn", index-b.blocks
	}
	at, known := b.stacks[name]
	if !known {
		at = int32(len(b.model.Stacks))
		b.stacks[name] = at
		s := model.Stack{Name: name, Kind: kind(name, b.encoder), Width: b.width}
		if name == "nextn" {
			s.Kind = model.Predictor
		}
		if name == "v.blk" || name == "a.blk" {
			s.Width = b.number(map[bool]string{true: "vision.", false: "audio."}[name == "v.blk"] + "embedding_length")
		}
		b.model.Stacks = append(b.model.Stacks, s)
		b.drawn = append(b.drawn, nil)
	}
	for len(b.drawn[at]) <= index {
		b.drawn[at] = append(b.drawn[at], drawn{index: len(b.drawn[at]), shapes: map[string][]int64{}, biases: map[string]bool{}})
	}
	return at, int32(index)
}

// draw notes what a layer has.
func (b *builder) draw(t model.Tensor, p place) {
	d := b.drawn[t.Stack][t.Layer]
	switch {
	case p.bias && p.module != "exp_probs_b":
		d.biases[p.module] = true
	case !d.has(p.module):
		d.shapes[p.module] = append([]int64{}, t.Shape...)
	}
}

// layers makes the layers of what was drawn. Those of towers state their sizes
// under keys of their own and are not taken apart.
func (b *builder) layers() {
	for i := range b.model.Stacks {
		s := &b.model.Stacks[i]
		for _, d := range b.drawn[i] {
			l := model.Layer{Index: d.index}
			if s.Kind != model.Vision && s.Kind != model.Audio {
				l = b.layer(d)
			}
			s.Layers = append(s.Layers, l)
		}
	}
}

// complete holds the layers that are stored against those that the metadata
// counts. Where some lack, the weights are more than the files hold.
func (b *builder) complete() {
	stored, total := 0, 0
	for i, s := range b.model.Stacks {
		switch s.Kind {
		case model.Vision, model.Audio:
		case model.Predictor:
			total += len(b.drawn[i])
		default: // an encoder and a decoder have as many layers each
			there := slices.DeleteFunc(slices.Clone(b.drawn[i]), func(d drawn) bool { return len(d.shapes) == 0 })
			stored, total = max(stored, len(there)), max(total, len(b.drawn[i]))
		}
	}
	counted := b.number("block_count")
	why := ""
	switch {
	case total > 0 && counted == 0:
		why = "is absent or 0, and the files hold layers"
	case total > counted && counted > 0:
		why = fmt.Sprintf("is %d, and the files hold %d layers", counted, total)
	case stored < b.blocks:
		why = fmt.Sprintf("says %d layers, and the files hold %d", b.blocks, stored)
		b.model.Listed = false
	}
	if why != "" {
		b.doubt("block_count", why)
	}
}

// tie adds the head of a model whose file has none: llama.cpp uses the token
// embedding again. A head that is stored is its own, even where it is the same.
func (b *builder) tie() {
	table := model.NotTied
	for i, t := range b.model.Tensors {
		switch t.Role {
		case model.RoleHead, model.RoleClassifier:
			return
		case model.RoleTokenEmbedding:
			table = int32(i)
		}
	}
	if table == model.NotTied || b.encoder {
		return
	}
	t := b.model.Tensors[table]
	t.Name, t.Role, t.TiedTo = "output.weight", model.RoleHead, table
	b.model.Tensors = append(b.model.Tensors, t)
}

// float is a number that need not be whole; 0 where there is none.
func (b *builder) float(key string) float64 {
	f, _ := b.find(key).Float()
	return f
}

// require notes the keys of a layer that are absent or 0, on which the size of
// its state depends.
func (b *builder) require(layer int, keys ...string) {
	for _, key := range keys {
		if b.at(key, layer, 0) == 0 {
			b.doubt(key, "is absent or 0, and what the layers keep depends on it")
		}
	}
}

// doubt notes once what is not understood.
func (b *builder) doubt(key, why string) {
	if !b.doubted[key] {
		b.doubted[key] = true
		b.model.Unknown = append(b.model.Unknown, model.Unknown{Field: b.architecture + "." + key, Value: b.architecture, Why: why})
	}
}
