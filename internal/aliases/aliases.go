package aliases

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Most is how many values a text may stand for once its aliases are written out.
const Most = 100_000

// mostColons bounds the keys of a text before it is parsed, which takes the longer the
// more it has, by their square.
const mostColons = 10_000

// Check is an error for a text whose aliases, written out, are more than [Most]
// values, for one with more keys than anybody writes, and for one whose tags make other
// values than plain ones (!!binary, !!python/object), which safe readers refuse. A text
// that is no YAML is for its decoder to refuse.
func Check(text []byte) error {
	if n := bytes.Count(text, []byte{':'}); n > mostColons {
		return fmt.Errorf("it has %d colons, and so perhaps as many keys, more than the %d that are read", n, mostColons)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil
	}
	c := counter{anchors: map[string]int64{}}
	var values int64
	for _, document := range file.Docs {
		values = plus(values, c.values(document.Body))
	}
	if c.tag != "" {
		return fmt.Errorf("its tag %.40s makes another kind of value, which is not read", c.tag)
	}
	if c.used && values > Most {
		return fmt.Errorf("its aliases stand for more than %d values", Most)
	}
	return nil
}

// counter counts values; anchors has how many each anchor stands for.
type counter struct {
	anchors map[string]int64
	used    bool   // there was an alias
	tag     string // the first that is no plain value's
}

func (c *counter) values(node ast.Node) int64 {
	switch n := node.(type) {
	case *ast.AnchorNode:
		many := c.values(n.Value)
		if n.Name != nil {
			c.anchors[n.Name.GetToken().Value] = many
		}
		return many
	case *ast.AliasNode:
		c.used = true
		if n.Value == nil {
			return 1
		}
		return plus(1, c.anchors[n.Value.GetToken().Value])
	case *ast.TagNode:
		if tag := n.Start.Value; c.tag == "" && !strings.Contains(" !!str !!int !!float !!bool !!null !!seq !!map ", " "+tag+" ") {
			c.tag = tag
		}
		return c.values(n.Value)
	case *ast.SequenceNode:
		many := int64(1)
		for _, v := range n.Values {
			many = plus(many, c.values(v))
		}
		return many
	case *ast.MappingNode:
		many := int64(1)
		for _, v := range n.Values {
			many = plus(many, c.values(v))
		}
		return many
	case *ast.MappingValueNode:
		return plus(c.values(n.Key), c.values(n.Value))
	case *ast.MappingKeyNode:
		return c.values(n.Value)
	}
	return 1
}

// plus is a sum that stops at the largest number.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Depth bounds how deep a YAML or JSON text can nest: by indentation and by brackets.
func Depth(text []byte) int {
	deepest, brackets := 0, 0
	for line := range bytes.Lines(text) {
		indent := len(line) - len(bytes.TrimLeft(line, " -\t"))
		for _, c := range line {
			switch c {
			case '[', '{':
				brackets++
				deepest = max(deepest, brackets)
			case ']', '}':
				brackets = max(0, brackets-1)
			}
		}
		deepest = max(deepest, indent/2)
	}
	return deepest
}
