package hfmodel

import (
	"strconv"
	"strings"

	"floodmark/bytesize"
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

// eval is the value of an expression: sums of products of whole numbers and
// keys, as "image_size/patch_size^2+1", where ^2 squares what stands before it
// in the product. A quotient is rounded down. 0 stands for a missing key,
// which is then noted.
func (e sections) eval(expression string) int64 {
	var sum int64
	for _, term := range strings.Split(expression, "+") {
		n := e.product(term)
		var fits bool
		if sum, fits = bytesize.Add(sum, n); !fits {
			return 0
		}
	}
	return sum
}

func (e sections) product(term string) int64 {
	product := int64(1)
	for term != "" {
		op, rest := byte('*'), term
		if strings.IndexByte("*/", term[0]) >= 0 {
			op, rest = term[0], term[1:]
		}
		end := strings.IndexAny(rest, "*/")
		if end < 0 {
			end = len(rest)
		}
		factor, squared := strings.CutSuffix(rest[:end], "^2")
		n := e.factor(factor)
		if op == '*' {
			product = e.times(product, n, term)
		} else if n > 0 {
			product /= n
		}
		if squared {
			product = e.times(product, product, term)
		}
		term = rest[end:]
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

func (e sections) factor(name string) int64 {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil {
		return n
	}
	if name == "labels" {
		return e[""].labels()
	}
	part, key, dotted := strings.Cut(name, ".")
	if s, ok := e[part]; ok && dotted {
		return s.need(common(key))
	}
	return e[""].need(common(name))
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
	each  string // key of a list: one such module for each item, its index in place of the name's "*"
}

// pieces adds modules that are there by their flags.
func (c scope) pieces(e sections, list []piece) {
	for _, p := range list {
		switch {
		case p.when != "" && !e[""].is(p.when):
		case p.each == "":
			c.piece(e, p)
		default:
			for i := range e[""].list(p.each) {
				each := p
				each.name = strings.Replace(p.name, "*", strconv.Itoa(i), 1)
				c.piece(e, each)
			}
		}
	}
}

func (c scope) piece(e sections, p piece) {
	var shape []int64
	for size := range strings.FieldsSeq(p.shape) {
		shape = append(shape, e.eval(size))
	}
	if p.bare {
		c.add(p.role, p.class, p.name, shape...)
		return
	}
	c.add(p.role, p.class, p.name+".weight", shape...)
	if e[""].is(p.bias) {
		c.add(biasOf(p.role), parameter, p.name+".bias", shape[0])
	}
}
