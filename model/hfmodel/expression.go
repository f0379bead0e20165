package hfmodel

import (
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
)

// sections is the objects that an expression may name: "text.hidden" is the
// hidden size of the part called text, "hidden" that of the object itself.
type sections map[string]section

// common is the spellings behind the short names of expressions.
func common(name string) string {
	switch name {
	case "hidden":
		return keyHidden
	case "layers":
		return keyLayers
	case "heads":
		return keyHeads
	case "head_dim":
		return keyHeadDim
	case "ffn":
		return keyFFN
	case "vocab":
		return keyVocab
	case "positions":
		return keyPositions
	}
	return name
}

// eval is the value of an expression: sums and differences of products of whole numbers and
// keys, as "hidden*spatial_merge_size^2", "patches+1" or "2*window_size-1". A quotient is rounded
// down. 0 stands for a missing key, which is then noted.
func (e sections) eval(expression string) int64 {
	var sum int64
	for term := range strings.SplitSeq(strings.ReplaceAll(expression, "-", "+-"), "+") {
		positive, negative := strings.CutPrefix(term, "-")
		n := e.product(positive)
		if negative {
			n = -n
		}
		var fits bool
		if sum, fits = bytesize.Add(sum, n); !fits {
			return 0
		}
	}
	return sum
}

func (e sections) product(term string) int64 {
	product := int64(1)
	for rest := term; rest != ""; {
		op := byte('*')
		if strings.IndexByte("*/", rest[0]) >= 0 {
			op, rest = rest[0], rest[1:]
		}
		end := strings.IndexAny(rest, "*/")
		if end < 0 {
			end = len(rest)
		}
		name, squared := strings.CutSuffix(rest[:end], "^2")
		n := e.factor(name)
		if squared {
			n = e.times(n, n, term)
		}
		if op == '*' {
			product = e.times(product, n, term)
		} else if n > 0 {
			product /= n
		}
		rest = rest[end:]
	}
	return product
}

// times multiplies, and refuses what no tensor's dimension can be.
func (e sections) times(a, b int64, term string) int64 {
	n, fits := bytesize.Mul(a, b)
	if !fits || n > 1<<48 {
		s := e[""]
		s.fail(source.InField(s.file, term, "makes a tensor of more elements than any model has"))
		return 0
	}
	return n
}

// factor is a whole number, the value of a key, one item of a list
// ("channels@0"), how many it has ("#channels"), or one of the derived sizes
// "labels" and "patches".
func (e sections) factor(name string) int64 {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil {
		return n
	}
	s := e[""]
	if part, key, dotted := strings.Cut(name, "."); dotted {
		if of, ok := e[part]; ok {
			s, name = of, key
		}
	}
	switch name {
	case "labels":
		return s.labels()
	case "patches":
		return e.times(s.side("image_size", 0)/max(1, s.side("patch_size", 0)), s.side("image_size", 1)/max(1, s.side("patch_size", 1)), name)
	}
	if list, counted := strings.CutPrefix(name, "#"); counted {
		return int64(len(s.list(list)))
	}
	key := common(name)
	if v, field := s.find(key); v != nil && v.kind == isList && s.layer < 0 {
		s.doubt(field, v.String(), "one number is expected here")
		return 0
	}
	return s.need(key)
}

// side is a size that a configuration states once, or for each of two axes.
func (s section) side(key string, axis int) int64 {
	if v, field := s.find(key); v != nil && v.kind == isList && axis < len(v.items) {
		n, whole := s.whole(v.items[axis], field)
		if whole && n == 0 {
			s.doubt(field, "0", "sizes depend on it")
		}
		return n
	}
	return s.need(key)
}

// piece is a tensor, or a module of a weight and a bias, whose sizes are
// expressions: what stands around the layers.
type piece struct {
	name  string
	role  model.Role
	class class
	shape string // sizes apart by blanks
	bias  flag
	bare  bool // the name is the tensor's, not its module's
	when  flag
	f32   bool   // stored in 32 bits whatever the model's format
	i64   bool   // stored as 64-bit integers
	each  string // key of a list: one such module for each item, its index in place of the name's "*"
}

// pieces adds modules that are there by their flags.
func (c scope) pieces(e sections, list []*piece) {
	for _, p := range list {
		switch {
		case p.when != "" && !e[""].is(p.when):
			e.touch(p.shape)
		case p.each == "":
			c.piece(e, p)
		default:
			for i := range e[""].list(p.each) {
				each := *p
				each.name = strings.Replace(p.name, "*", strconv.Itoa(i), 1)
				c.piece(e, &each)
			}
		}
	}
}

// touch accounts for the keys of a module that is not there: they mean
// nothing then.
func (e sections) touch(shape string) {
	for _, name := range strings.FieldsFunc(shape, func(r rune) bool { return strings.ContainsRune(" +*/", r) }) {
		e[""].has(common(strings.TrimSuffix(name, "^2")))
	}
}

func (c scope) piece(e sections, p *piece) {
	var shape []int64
	for size := range strings.FieldsSeq(p.shape) {
		shape = append(shape, e.eval(size))
	}
	name := p.name
	if !p.bare {
		name += ".weight"
	}
	at := c.add(p.role, p.class, name, shape...)
	if p.f32 {
		c.store(at, dtype.F32)
	}
	if p.i64 {
		c.store(at, dtype.I64)
	}
	if !p.bare && e[""].is(p.bias) {
		c.add(biasOf(p.role), parameter, p.name+".bias", shape[0])
	}
}
