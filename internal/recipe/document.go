package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"floodmark/internal/aliases"
	"floodmark/internal/source"
)

// setting is one key of a document, or one flag of a command.
type setting struct {
	key      string // with dots between: zero_optimization.stage
	value    any    // nil, bool, int64, float64, string, []any
	file     string // empty for a command
	written  string // of a command: the flag as it was written
	of       string // the software that it is of, as it calls itself
	strength strength
}

// decode reads a text as the tree of its keys: JSON, TOML by its name, else YAML.
func decode(name string, text []byte) (map[string]any, error) {
	if len(text) > mostBytes {
		return nil, source.InField(name, "", "has %d bytes, more than the %d that a configuration may have", len(text), mostBytes)
	}
	text = bytes.TrimPrefix(text, []byte(source.ByteOrderMark))
	if d := aliases.Depth(text); d > mostNesting {
		return nil, source.InField(name, "", "nests %d levels deep, more than the %d that are read", d, mostNesting)
	}
	read := decodeYAML
	switch trimmed := bytes.TrimSpace(text); {
	case strings.HasSuffix(strings.ToLower(name), ".toml"):
		read = decodeTOML
	case len(trimmed) > 0 && trimmed[0] == '{':
		read = decodeJSON
	}
	tree, err := read(name, text)
	if err == nil {
		err = bounded(name, tree)
	}
	return tree, err
}

// bounded refuses what no configuration has: each key and text is carried to the end
// of an answer, and through every change that is tried.
func bounded(name string, tree map[string]any) error {
	list := flatten(tree)
	if len(list) > mostKeys {
		return source.InField(name, "", "has %d keys, more than the %d that a configuration may have", len(list), mostKeys)
	}
	for _, set := range list {
		if text, is := set.value.(string); is && len(text) > mostText {
			return source.InField(name, set.key, "has %d bytes, more than the %d that a value may have", len(text), mostText)
		}
	}
	return nil
}

func decodeJSON(name string, text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, source.AtByte(name, syntax.Offset, "is no JSON: %v", err)
		}
		return nil, source.InField(name, "", "is no JSON object: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, source.AtByte(name, d.InputOffset(), "goes on behind its JSON object")
	}
	if err := source.OneOfEachKey(name, text); err != nil {
		return nil, err
	}
	return normal(tree).(map[string]any), nil
}

func decodeYAML(name string, text []byte) (map[string]any, error) {
	if err := aliases.Check(text); err != nil {
		return nil, source.InField(name, "", "is not read: %v", err)
	}
	var tree map[string]any
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&tree); err != nil && !errors.Is(err, io.EOF) {
		return nil, source.InField(name, "", "is no YAML of keys: %s", strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	var second any
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, source.InField(name, "", "holds a second document after ---").WithHint("write one configuration a file")
	}
	if tree == nil {
		return nil, source.InField(name, "", "is empty")
	}
	return normal(tree).(map[string]any), nil
}

// normal brings values of the decoders to few types. Nesting is bounded before.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		return scalar(v.String())
	case uint64:
		if v <= 1<<62 {
			return int64(v)
		}
		return float64(v)
	case int:
		return int64(v)
	case map[string]any:
		for k, inner := range v {
			v[k] = normal(inner)
		}
		return v
	case []any:
		for i, inner := range v {
			v[i] = normal(inner)
		}
		return v
	case float64:
		return whole(v)
	case nil, bool, int64:
		return v
	case string:
		// YAML 1.1, which PyYAML reads, has 5e-5 as a text; the software converts it.
		if f, err := strconv.ParseFloat(v, 64); err == nil && strings.ContainsAny(v, "eE") && strings.ContainsAny(v, "0123456789") {
			return whole(f)
		}
		return v
	}
	return nil // dates and the like, which no size hangs on
}

// scalar reads a value of a command line: true, 3, 1e9, a JSON list, or a text.
func scalar(text string) any {
	switch text {
	case "true", "True":
		return true
	case "false", "False":
		return false
	case "null", "None", "none":
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return whole(f)
	}
	return text
}

// argument is a scalar as argparse has it, to which 2.0 and 1e9 are no whole numbers.
func argument(text string) any {
	v := scalar(text)
	if n, is := v.(int64); is && strings.ContainsAny(text, ".eE") {
		return float64(n)
	}
	return v
}

// whole is a number as an integer where it is one: 5e8 is.
func whole(f float64) any {
	if f > -1<<53 && f < 1<<53 && f == float64(int64(f)) {
		return int64(f)
	}
	return f
}

// flatten lists the keys of a tree, the outer ones first and each level in order, the
// inner ones with dots between. A table that is empty, and a list, is a value.
func flatten(tree map[string]any) []setting {
	type open struct {
		prefix string
		tree   map[string]any
	}
	var list []setting
	left := []open{{"", tree}}
	for len(left) > 0 {
		top := left[0]
		left = left[1:]
		for _, k := range slices.Sorted(maps.Keys(top.tree)) {
			if inner, is := top.tree[k].(map[string]any); is && len(inner) > 0 {
				left = append(left, open{top.prefix + k + ".", inner})
				continue
			}
			list = append(list, setting{key: top.prefix + k, value: top.tree[k]})
		}
	}
	return list
}
