package hfmodel

import (
	"encoding/json"
	"strings"

	"floodmark/internal/source"
)

const (
	maxBytes = 16 << 20 // the largest configuration known, with a list of every unquantised module, has 3.1 MB
	maxDepth = 64
)

// kind is what a JSON value is.
type kind uint8

const (
	isNull kind = iota
	isBool
	isNumber
	isText
	isList
	isObject
)

func (k kind) String() string {
	return strings.Split("null,a boolean,a number,a text,a list,an object", ",")[k]
}

// value is one JSON value. Numbers keep the file's spelling, so that none is
// rounded and a non-finite one can be told apart.
type value struct {
	kind  kind
	text  string // a number's or a text's; "true" or "false"
	keys  []string
	items []*value
	index map[string]int // place of a key in items
}

// get is the member of that name; nil when there is none or it is null.
func (v *value) get(key string) *value {
	if v == nil || v.kind != isObject {
		return nil
	}
	if i, ok := v.index[key]; ok && v.items[i].kind != isNull {
		return v.items[i]
	}
	return nil
}

// parser reads JSON with an explicit stack. Beside the standard it takes
// Infinity, -Infinity and NaN, which Python writes and some published
// configurations contain.
type parser struct {
	file string
	data []byte
	at   int
	open []*value // the containers around the next value
	key  string   // of the next member of an object
	root *value
}

// parseJSON reads a whole text. What is not an object from its first byte on
// is another format.
func parseJSON(file string, data []byte) (*value, error) {
	p := &parser{file: file, data: data}
	if len(data) >= 3 && string(data[:3]) == "\xef\xbb\xbf" {
		p.at = 3
	}
	if p.space(); p.at >= len(data) || data[p.at] != '{' {
		return nil, source.ErrNotThisFormat
	}
	for {
		if err := p.value(); err != nil {
			return nil, err
		}
		done, err := p.after()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if p.space(); p.at < len(data) {
		return nil, p.bad("there is more after the end of the object").WithHint("the file may be two files joined; fetch it again")
	}
	return p.root, nil
}

func (p *parser) bad(format string, args ...any) *source.FormatError {
	return source.AtByte(p.file, int64(p.at), format, args...)
}

func (p *parser) space() {
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n", p.data[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) peek() byte {
	if p.space(); p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

// value reads a scalar, or the opening of a container, and puts it where it
// belongs.
func (p *parser) value() error {
	v := &value{}
	switch c := p.peek(); c {
	case 0:
		return p.bad("the text ends where a value is expected").WithHint("the file is cut off; fetch it again")
	case '{', '[':
		return p.container(c)
	case '"':
		text, err := p.string()
		if err != nil {
			return err
		}
		v.kind, v.text = isText, text
	default:
		if err := p.word(v); err != nil {
			return err
		}
	}
	return p.place(v)
}

func (p *parser) container(c byte) error {
	if len(p.open) == maxDepth {
		return p.bad("is nested deeper than %d levels", maxDepth)
	}
	v := &value{kind: isList}
	if c == '{' {
		v.kind, v.index = isObject, map[string]int{}
	}
	if err := p.place(v); err != nil {
		return err
	}
	p.at++
	p.open = append(p.open, v)
	return nil
}

// place puts a value into the innermost container.
func (p *parser) place(v *value) error {
	if len(p.open) == 0 {
		p.root = v
		return nil
	}
	in := p.open[len(p.open)-1]
	if in.kind == isObject {
		in.index[p.key] = len(in.items)
		in.keys = append(in.keys, p.key)
	}
	in.items = append(in.items, v)
	return nil
}

// after reads what stands between two values: commas, closings and the key of
// the next member. It reports the end of the outermost container.
func (p *parser) after() (done bool, err error) {
	for len(p.open) > 0 {
		in := p.open[len(p.open)-1]
		c := p.peek()
		switch {
		case c == 0:
			return false, p.bad("the text ends inside %s", in.kind).WithHint("the file is cut off; fetch it again")
		case in.kind == isObject && c == '}', in.kind == isList && c == ']':
			p.at++
			p.open = p.open[:len(p.open)-1]
			continue
		case len(in.items) > 0 && c != ',':
			return false, p.bad("found %q where a comma or the end of %s is expected", c, in.kind)
		case len(in.items) > 0:
			p.at++
		}
		if in.kind == isObject {
			return false, p.member(in)
		}
		return false, nil
	}
	return true, nil
}

// member reads a key and its colon.
func (p *parser) member(in *value) error {
	if p.peek() != '"' {
		return p.bad("a key in quotes is expected here")
	}
	start := p.at
	key, err := p.string()
	if err != nil {
		return err
	}
	if _, twice := in.index[key]; twice {
		p.at = start
		e := p.bad("the key appears twice in one object").WithHint(source.TwiceHint)
		e.Field = key
		return e
	}
	if p.peek() != ':' {
		return p.bad("a colon is expected after a key")
	}
	p.at++
	p.key = key
	return nil
}

func (p *parser) string() (string, error) {
	start := p.at
	escaped := false
	for p.at++; p.at < len(p.data); p.at++ {
		switch p.data[p.at] {
		case '\\':
			escaped = true
			p.at++
		case '"':
			p.at++
			raw := p.data[start:p.at]
			if !escaped {
				return string(raw[1 : len(raw)-1]), nil
			}
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				p.at = start
				return "", p.bad("the text is not valid: %v", err)
			}
			return text, nil
		}
	}
	p.at = start
	return "", p.bad("a text has no closing quote")
}

// word reads a number, true, false, null, or a non-finite number.
func (p *parser) word(v *value) error {
	start := p.at
	for p.at < len(p.data) && strings.IndexByte(" \t\r\n,:]}[{\"", p.data[p.at]) < 0 {
		p.at++
	}
	v.text = string(p.data[start:p.at])
	switch v.text {
	case "null":
		v.kind = isNull
	case "true", "false":
		v.kind = isBool
	case "Infinity", "-Infinity", "NaN":
		v.kind = isNumber
	default:
		if !json.Valid([]byte(v.text)) {
			p.at = start
			return p.bad("%q is not a value", shorten(v.text))
		}
		v.kind = isNumber
	}
	return nil
}

// shorten keeps the beginning of a text that a message quotes.
func shorten(text string) string {
	if r := []rune(text); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return text
}

// String is the value as a message shows it.
func (v *value) String() string {
	switch v.kind {
	case isList, isObject:
		if len(v.items) == 0 {
			return "empty"
		}
		return v.kind.String() + " of " + plural(len(v.items))
	case isNull:
		return "null"
	}
	return shorten(v.text)
}
