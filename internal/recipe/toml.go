package recipe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"floodmark/internal/source"
)

// decodeTOML reads the part of TOML that torchtitan's files are written in: tables,
// keys, texts, whole numbers and fractions, true and false, and lists of them. A
// library for the rest (BurntSushi/toml 1.6.0) weighs 0.2 MB, which the program has no
// room for; what is outside the part is refused with its line.
func decodeTOML(name string, text []byte) (map[string]any, error) {
	r := &tomlReader{file: name, root: map[string]any{}, closed: map[string]int{}, lines: map[string]int{}}
	r.table = r.root
	for line := range strings.Lines(string(text)) {
		r.line++
		if err := r.read(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	if r.list != "" {
		return nil, r.wrong("the list of %s does not end", r.list)
	}
	return r.root, nil
}

type tomlReader struct {
	file        string
	line        int
	root, table map[string]any
	path        []string       // of the table that is open
	closed      map[string]int // tables that no head may open again, with the line of each
	lines       map[string]int // of keys
	list        string         // the key of a list that goes on, and what there is of it
	items       string
}

func (r *tomlReader) wrong(format string, args ...any) error {
	return source.InField(r.file, "line "+strconv.Itoa(r.line), format, args...).
		WithHint("of TOML tables, keys, texts in quotes, numbers, true, false and lists of them are read")
}

func (r *tomlReader) read(line string) error {
	line = uncommented(line)
	switch {
	case r.list != "":
		r.items += " " + line
		return r.ended()
	case line == "":
		return nil
	case strings.HasPrefix(line, "[["):
		return r.wrong("%.60q is a list of tables, which is not read", line)
	case strings.HasPrefix(line, "["):
		path, closed := strings.CutSuffix(line[1:], "]")
		if !closed {
			return r.wrong("%.60q lacks its ]", line)
		}
		return r.head(path)
	}
	key, value, found := strings.Cut(line, "=")
	key, value = strings.Trim(strings.TrimSpace(key), `"'`), strings.TrimSpace(value)
	switch {
	case !found || key == "" || value == "":
		return r.wrong("%.60q is no key with a value", line)
	case strings.HasPrefix(value, "["):
		r.list, r.items = key, value
		return r.ended()
	}
	v, err := r.value(value)
	if err != nil {
		return err
	}
	return r.put(key, v)
}

// uncommented cuts a line at the # that stands in no text.
func uncommented(line string) string {
	var quote rune
	for i, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '#':
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}

// twice refuses what is there already, and says where.
func (r *tomlReader) twice(what, name string, line int) error {
	return source.InField(r.file, "line "+strconv.Itoa(r.line), "%s %.60q is given twice, first in line %d", what, name, line).
		WithHint("keep one of them")
}

// names are the parts of a path with dots between.
func (r *tomlReader) names(path string) ([]string, error) {
	parts := strings.Split(path, ".")
	if len(parts) > mostNesting {
		return nil, r.wrong("%.60q nests too deep", path)
	}
	for i, part := range parts {
		if parts[i] = strings.Trim(strings.TrimSpace(part), `"'`); parts[i] == "" {
			return nil, r.wrong("%.60q is no name of a table", path)
		}
	}
	return parts, nil
}

// head opens a table by its head, which it has once.
func (r *tomlReader) head(path string) error {
	parts, err := r.names(path)
	if err != nil {
		return err
	}
	whole := strings.Join(parts, ".")
	if line, is := r.closed[whole]; is {
		return r.twice("the table", whole, line)
	}
	r.closed[whole] = r.line
	r.path = parts
	r.table, err = r.within(r.root, parts)
	return err
}

// within is the table below another, which is made where it is not there.
func (r *tomlReader) within(table map[string]any, parts []string) (map[string]any, error) {
	for _, part := range parts {
		if table[part] == nil {
			table[part] = map[string]any{}
		}
		inner, is := table[part].(map[string]any)
		if !is {
			return nil, r.wrong("%.60q is a value already", part)
		}
		table = inner
	}
	return table, nil
}

// put keeps a value under a key, which may have dots: the tables before the last of them
// are then given, and no head may open them again.
func (r *tomlReader) put(key string, v any) error {
	parts, err := r.names(key)
	if err != nil {
		return err
	}
	last := len(parts) - 1
	table, err := r.within(r.table, parts[:last])
	if err != nil {
		return err
	}
	path := append(slices.Clone(r.path), parts...)
	for n := len(path) - last; n < len(path); n++ {
		outer := strings.Join(path[:n], ".")
		if r.closed[outer] == 0 {
			r.closed[outer] = r.line
		}
	}
	whole := strings.Join(path, ".")
	if _, twice := table[parts[last]]; twice {
		return r.twice("the key", whole, max(r.closed[whole], r.lines[whole]))
	}
	table[parts[last]], r.lines[whole] = v, r.line
	return nil
}

// ended keeps a list once its last bracket was read.
func (r *tomlReader) ended() error {
	if len(r.items) > mostBytes {
		return r.wrong("the list of %.60q is too long", r.list)
	}
	if !strings.HasSuffix(strings.TrimSpace(r.items), "]") {
		return nil
	}
	inside := strings.TrimSpace(r.items)
	inside = inside[1 : len(inside)-1]
	list := []any{}
	for _, word := range splitList(inside) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		v, err := r.value(word)
		if err != nil {
			return err
		}
		list = append(list, v)
	}
	key := r.list
	r.list, r.items = "", ""
	return r.put(key, list)
}

// splitList cuts at commas outside of texts.
func splitList(text string) []string {
	var words []string
	var quote rune
	from := 0
	for i, c := range text {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == ',':
			words, from = append(words, text[from:i]), i+1
		}
	}
	return append(words, text[from:])
}

// tomlNumber is how TOML 1.0 writes numbers: without zeros in front, and with a digit on
// both sides of each underscore and dot.
var tomlNumber = regexp.MustCompile(`^([+-]?(0|[1-9](_?[0-9])*)(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?|[+-]?(inf|nan)|0x[0-9A-Fa-f](_?[0-9A-Fa-f])*|0o[0-7](_?[0-7])*|0b[01](_?[01])*)$`)

// value reads one text, number, true or false.
func (r *tomlReader) value(text string) (any, error) {
	switch {
	case text == "true":
		return true, nil
	case text == "false":
		return false, nil
	case len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'' && !strings.HasPrefix(text, "'''"):
		return text[1 : len(text)-1], nil
	case text[0] == '"' && !strings.HasPrefix(text, `"""`):
		s, err := strconv.Unquote(text)
		if err != nil {
			return nil, r.wrong("%.60q is no text", text)
		}
		return s, nil
	}
	if !tomlNumber.MatchString(text) {
		return nil, r.wrong("%.60q is no value that is read", text)
	}
	plain := strings.ReplaceAll(text, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(plain, 64); err == nil {
		return whole(f), nil
	}
	return nil, r.wrong("%.60q is no value that is read", text)
}
