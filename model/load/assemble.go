package load

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// group is tensors of the files that are one tensor of a model: one, or the
// same one of every expert.
type group struct {
	name  string // with a star for the number of an expert
	first int    // its place in weights.tensors
	count int64
	bytes int64
}

// groups gathers the tensors of experts. Those that differ in format or shape
// stand alone, and so do those that share their storage.
func (w *weights) groups() []group {
	shared := map[int]bool{}
	for _, t := range w.tensors {
		if t.twin >= 0 {
			shared[t.twin] = true
		}
	}
	var list []group
	known := map[string]int{}
	for i, t := range w.tensors {
		name := star(t.name)
		if t.twin >= 0 || shared[i] {
			list = append(list, group{name: name, first: i, count: 1, bytes: t.bytes})
			continue
		}
		if g, has := known[name]; has {
			first := w.tensors[list[g].first]
			if first.format == t.format && slices.Equal(first.shape, t.shape) && first.bytes == t.bytes {
				list[g].count++
				list[g].bytes += t.bytes
				continue
			}
		} else if !has {
			known[name] = len(list)
		}
		list = append(list, group{name: name, first: i, count: 1, bytes: t.bytes})
	}
	return list
}

// assembly puts a model together from what files list and what a configuration
// says that they are for.
type assembly struct {
	config  *model.Model
	weights *weights
	byName  map[string]int32 // tensors of the configuration
	placed  []int32          // where each of them is in the model; NotTied while it is nowhere
	held    []int64          // how many of the experts that each of them joins are in the files
	stacks  map[string]int32
	made    []model.Tensor
	at      []int32 // where each tensor of the files is in the model
	matched int64   // bytes that the configuration explains
	strange []string
	opaque  []tensor
	differs []string

	respellings []respelling
	companions  []companion
	callings    []calling
}

// assemble is the model of a configuration with the tensors of its weight
// files.
func assemble(config *model.Model, w *weights) *model.Model {
	a := &assembly{config: config, weights: w, byName: map[string]int32{}, stacks: map[string]int32{},
		placed: make([]int32, len(config.Tensors)), held: make([]int64, len(config.Tensors)), at: make([]int32, len(w.tensors)),
		respellings: respellings(), companions: companions(), callings: callings()}
	for i, t := range config.Tensors {
		a.byName[t.Name] = int32(i)
		a.placed[i] = model.NotTied
	}
	for i, s := range config.Stacks {
		a.stacks[s.Name] = int32(i)
	}
	for _, g := range w.groups() {
		a.place(g)
	}
	a.tie()
	m := *config
	m.Tensors, m.Listed, m.FormatOrigin, m.FileBytes, m.Loose = a.made, true, account.Observed, w.data, 0
	m.Warnings = append(slices.Clone(config.Warnings), w.warnings...)
	a.report(&m)
	return &m
}

// place adds the tensors of one group to the model.
func (a *assembly) place(g group) {
	t := a.weights.tensors[g.first]
	a.at[g.first] = int32(len(a.made))
	out := model.Tensor{Name: g.name, Stack: model.NoLayer, Layer: model.NoLayer, TiedTo: model.NotTied}
	out.Shape, out.Stored, out.Packed = stored(t, g.count)
	if out.Opaque = t.format == dtype.Unknown; out.Opaque {
		a.opaque = append(a.opaque, t)
	}
	if t.twin >= 0 {
		out.TiedTo = a.at[t.twin]
	}
	if c, known := a.find(g.name); known {
		a.describe(&out, c, g)
	} else if c, known := a.unpacked(g.name); known {
		a.describe(&out, c, g)
	} else if !a.accompany(&out, g) {
		a.guess(&out)
	}
	a.made = append(a.made, out)
}

// stored is how one tensor of a file, or so many alike, is stored. Where a
// format is not known, or bytes are not those of the shape, the bytes of the
// file count.
func stored(t tensor, count int64) (shape []int64, f dtype.Format, words []int64) {
	shape, f = t.shape, t.format
	n, fits := f.Size(t.shape)
	switch {
	case f == dtype.Unknown:
		f, words = dtype.U8, []int64{t.bytes}
	case !fits || n != t.bytes:
		elements, bytes := f.Block()
		words = []int64{t.bytes / bytes * elements}
	}
	if count > 1 {
		shape = append([]int64{count}, shape...)
		if words != nil {
			words = append([]int64{count}, words...)
		}
	}
	return shape, f, words
}

// find looks a name up in the configuration.
func (a *assembly) find(name string) (at int32, known bool) {
	known = spellings(name, a.respellings, func(n string) bool {
		i, has := a.byName[n]
		if has {
			at = i
		}
		return has
	})
	return at, known
}

// unpacked looks up a weight that the configuration says is packed, and that the
// files hold as it is: the module stands in no list of those that are left alone.
func (a *assembly) unpacked(name string) (at int32, known bool) {
	module, is := strings.CutSuffix(name, ".weight")
	if !is {
		return 0, false
	}
	for _, ending := range []string{".qweight", ".weight_packed"} {
		if at, known = a.find(module + ending); known {
			return at, true
		}
	}
	return 0, false
}

// describe takes role, place and logical shape from the configuration.
func (a *assembly) describe(out *model.Tensor, at int32, g group) {
	c := a.config.Tensors[at]
	out.Role, out.Stack, out.Layer = c.Role, c.Stack, c.Layer
	if a.placed[at] == model.NotTied {
		a.placed[at] = int32(len(a.made))
	}
	a.matched += g.bytes
	a.held[at] += g.count
	logical, _ := c.Parameters()
	here, fits := bytesize.Mul(out.Shape...)
	if !fits || here == logical {
		return
	}
	if bytes, known := c.Bytes(); known && bytes == g.bytes {
		out.Shape, out.Stored, out.Packed = c.Shape, c.Stored, c.Packed
		return
	}
	// Of the experts of a layer some may be stored otherwise than the rest.
	shape := c.Shape
	if strings.Contains(c.Name, "*") && len(shape) > 1 && g.count != shape[0] {
		if shape = shape[1:]; g.count > 1 {
			shape = append([]int64{g.count}, shape...)
		}
		if logical, _ = bytesize.Mul(shape...); logical == here {
			return
		}
	}
	if !unpack(out, shape, logical) {
		a.differs = append(a.differs, out.Name)
	}
}

// unpack gives words of integers the shape of what is packed in them: from one
// bit to eight an element.
func unpack(out *model.Tensor, shape []int64, logical int64) bool {
	n, fits := out.Bytes()
	if !fits || logical <= 0 || n*8 < logical || n > logical {
		return false
	}
	switch out.Stored {
	case dtype.I32, dtype.U32, dtype.U8, dtype.I8, dtype.I64, dtype.I16:
	default:
		return false
	}
	if out.Packed == nil {
		out.Packed = out.Shape
	}
	out.Shape = shape
	return true
}

// accompany recognises what belongs to a weight that the configuration did not
// say is packed.
func (a *assembly) accompany(out *model.Tensor, g group) bool {
	c, weight, is := packed(g.name, a.companions)
	if !is {
		return false
	}
	at, known := a.find(weight)
	switch {
	case c.role == model.RoleOther && known:
		a.describe(out, at, g)
	case c.role == model.RoleOther:
		out.Name = weight
		a.guess(out)
		out.Name = g.name
		return true
	case known:
		like := a.config.Tensors[at]
		out.Role, out.Stack, out.Layer = c.role, like.Stack, like.Layer
		a.matched += g.bytes
	default:
		a.stand(out)
		out.Role = c.role
	}
	return true
}

// guess is for a name that the configuration does not have.
func (a *assembly) guess(out *model.Tensor) {
	a.stand(out)
	out.Role = called(out.Name, a.callings)
	if out.Role == model.RoleOther {
		a.strange = append(a.strange, out.Name)
	}
}

// stand finds stack and layer by the name. Without a configuration the names
// are all there is, and open the stacks.
func (a *assembly) stand(out *model.Tensor) {
	name, layer, ok := layerOf(out.Name)
	if !ok {
		return
	}
	at, known := a.stacks[name]
	if !known {
		if len(a.config.Tensors) > 0 || len(a.stacks) >= maxStacks {
			return
		}
		at = int32(len(a.config.Stacks))
		a.stacks[name] = at
		a.config.Stacks = append(a.config.Stacks, model.Stack{Name: name})
	}
	s := &a.config.Stacks[at]
	for len(a.config.Tensors) == 0 && len(s.Layers) <= layer && layer < maxLayers {
		s.Layers = append(s.Layers, model.Layer{Index: len(s.Layers)})
	}
	if layer < len(s.Layers) {
		out.Stack, out.Layer = at, int32(layer)
	}
}

// Bounds of what names may open where there is no configuration.
const (
	maxStacks = 64
	maxLayers = 4096
)

// tie joins what the configuration says is one: a tensor that the files leave
// out because it is another, and one that they store again although it is.
func (a *assembly) tie() {
	var copies []string
	var bytes int64
	for i, c := range a.config.Tensors {
		if c.TiedTo == model.NotTied {
			continue
		}
		own, root := a.placed[i], a.placed[c.TiedTo]
		switch {
		case own == model.NotTied && root == model.NotTied:
		case own == model.NotTied:
			a.placed[i] = a.again(c, root)
		case root == model.NotTied:
			a.placed[c.TiedTo] = a.again(a.config.Tensors[c.TiedTo], own)
		case own != root && a.made[own].TiedTo == model.NotTied && a.made[root].TiedTo == model.NotTied:
			n, _ := a.made[own].Bytes()
			bytes += n
			a.made[own].TiedTo = root
			copies = append(copies, a.made[own].Name)
		}
	}
	if copies != nil {
		a.weights.warnings = append(a.weights.warnings, warning("tied_tensor_stored",
			"the files store %s again, %d bytes, though the configuration ties it: it is loaded once", several(copies), bytes))
	}
}

// again is a tensor without storage of its own.
func (a *assembly) again(c model.Tensor, to int32) int32 {
	if root := a.made[to].TiedTo; root != model.NotTied {
		to = root
	}
	c.TiedTo = to
	c.Stored, c.Packed = a.made[to].Stored, nil
	if c.Opaque = a.made[to].Opaque; c.Opaque {
		c.Packed = a.made[to].Packed
	}
	a.made = append(a.made, c)
	return int32(len(a.made) - 1)
}

// report says what configuration and files do not agree on.
func (a *assembly) report(m *model.Model) {
	say := func(w account.Warning) { m.Warnings = append(m.Warnings, w) }
	if len(a.opaque) > 0 {
		t := a.opaque[0]
		say(warning("format_not_known", "%d tensors are stored in a format that is not known here, first %s as %s; the bytes in the file count", len(a.opaque), quote(t.name), quote(t.dtype)))
	}
	if len(a.config.Tensors) == 0 {
		m.Unknown = append(m.Unknown, model.Unknown{Field: "config.json", Why: "without a configuration that is understood, what the layers compute is not known"})
		return
	}
	if lacking, needed := a.lacking(); len(lacking) > 0 {
		say(warning("tensors_not_stored", "the weight files lack %d tensors that the configuration describes: %s", len(lacking), several(lacking)))
		a.doubt(m, needed)
	}
	if len(a.strange) > 0 {
		say(warning("tensors_not_described", "the weight files have %d tensors of which the configuration says nothing: %s", len(a.strange), several(a.strange)))
	}
	if len(a.differs) > 0 {
		say(warning("shapes_differ", "%d tensors have another number of elements than the configuration says: %s; those of the files count", len(a.differs), several(a.differs)))
	}
	if a.matched < a.weights.data/2 {
		say(warning("configuration_of_another_model", "the configuration explains %d of the %d bytes in the weight files: it may belong to another model", a.matched, a.weights.data))
		m.Unknown = append(m.Unknown, model.Unknown{Field: "config.json", Why: "it explains less than half of what the weight files hold, so the layers may be others"})
	}
}

// lacking is the parameters of the configuration that the files do not have,
// and those of them without which the model does not generate: layers that only
// predict further tokens are often left out.
func (a *assembly) lacking() (all, needed []string) {
	for i, c := range a.config.Tensors {
		there := a.placed[i] != model.NotTied
		if strings.Contains(c.Name, "*") && len(c.Shape) > 1 && a.held[i] > 0 {
			there = a.held[i] >= c.Shape[0]
		}
		if there || c.TiedTo != model.NotTied || c.Role.Category() != account.CategoryParameter {
			continue
		}
		all = append(all, c.Name)
		if c.Stack == model.NoLayer || a.config.Stacks[c.Stack].Kind != model.Predictor {
			needed = append(needed, c.Name)
		}
	}
	return all, needed
}

// doubt makes the weights a lower bound where files lack what the model needs:
// it is somewhere else, or made when the model is loaded, and takes its bytes
// then. The entry stands first, as it bears on more than what a configuration
// leaves open.
func (a *assembly) doubt(m *model.Model, needed []string) {
	if len(needed) == 0 {
		return
	}
	m.Listed = false
	m.Unknown = append([]model.Unknown{{Field: shortened(needed[0]), Value: "absent",
		Why: fmt.Sprintf("of the tensors that the configuration describes the weight files lack %d, this one first, so the weights are more than the files hold", len(needed))}}, m.Unknown...)
}
