package hfmodel

import (
	"path"
	"regexp"
	"strings"

	"floodmark/model"
)

// plain takes from a module's name the wrappers that checkpoints and
// configurations put around the same module differently.
func plain(name string) string {
	for {
		head, rest, more := strings.Cut(name, ".")
		if !more || head != "model" && head != "language_model" && head != "transformer" {
			return name
		}
		name = rest
	}
}

// matcher tests names against one entry of a list: an exact name, the name of
// what holds the module, a component of the name, a glob, or a regular
// expression after "re:".
type matcher struct {
	entry   string
	pattern *regexp.Regexp
	glob    bool
}

// matchers prepares a list once. An expression that Go cannot read is left
// out and reported.
func matchers(list []string) (prepared []matcher, bad []string) {
	for _, entry := range list {
		m := matcher{entry: plain(entry), glob: strings.ContainsAny(entry, "*?[")}
		if expr, ok := strings.CutPrefix(entry, "re:"); ok {
			compiled, err := regexp.Compile(`\A(?:` + expr + `)`)
			if err != nil {
				bad = append(bad, entry)
				continue
			}
			m = matcher{entry: entry, pattern: compiled}
		}
		prepared = append(prepared, m)
	}
	return prepared, bad
}

func (m matcher) matches(name string) bool {
	switch {
	case m.pattern != nil:
		return m.pattern.MatchString(name) || m.pattern.MatchString("model."+name)
	case m.glob:
		return m.globs(plain(name))
	}
	short := plain(name)
	return short == m.entry || strings.HasPrefix(short, m.entry+".") ||
		strings.HasSuffix(short, "."+m.entry) || strings.Contains(short, "."+m.entry+".")
}

// globs tries the module and each that holds it. A "*" crosses dots, as
// Python's fnmatch lets it.
func (m matcher) globs(name string) bool {
	for {
		if ok, err := path.Match(m.entry, name); err == nil && ok {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

// isA reports whether a list of targets means the tensor's module by a class
// name. Fused experts are linear layers too once they are packed.
func (d draft) isA(class string) bool {
	switch d.class {
	case linear, linearSpared, conv1D, expertLinear:
		return class == "Linear"
	case expertFused, expertStacked:
		return class == "Linear" || class == "Experts"
	case embedding:
		return class == "Embedding"
	}
	return false
}

// chooser decides the form of each tensor.
type chooser struct {
	*scheme
	keep    []matcher
	targets [][]matcher
}

func (b *builder) chooser(sch *scheme) chooser {
	c := chooser{scheme: sch, targets: make([][]matcher, len(sch.rules))}
	var bad []string
	c.keep, bad = matchers(sch.kept)
	for i, r := range sch.rules {
		more := []string(nil)
		c.targets[i], more = matchers(r.targets)
		bad = append(bad, more...)
	}
	for _, entry := range bad {
		b.doubt("quantization_config.ignore", entry, "this regular expression cannot be read here")
	}
	return c
}

// choose is the form of a tensor; false where it stays as it is.
func (c chooser) choose(d draft, kinds []model.Stack) (packing, bool) {
	switch d.class {
	case linear, linearSpared, conv1D, expertLinear, expertFused, expertStacked:
	case embedding:
		if !c.embeddings || d.Role != model.RoleTokenEmbedding {
			return packing{}, false
		}
	default:
		return packing{}, false
	}
	if d.TiedTo != model.NotTied || c.keepHead && d.Role == model.RoleHead || !c.routers && (d.Role == model.RoleRouter || d.Role == model.RoleSharedExpertMix) {
		return packing{}, false
	}
	if c.spares && d.class == linearSpared {
		return packing{}, false
	}
	if c.inLayers && (d.Stack == model.NoLayer || kinds[d.Stack].Kind != model.Decoder) {
		return packing{}, false
	}
	name := strings.Replace(d.module(), "*", "0", 1)
	for _, m := range c.keep {
		if d.isA(m.entry) || m.matches(name) {
			return packing{}, false
		}
	}
	for i, r := range c.rules {
		if len(c.targets[i]) == 0 {
			return r.packing, true
		}
		for _, m := range c.targets[i] {
			if d.isA(m.entry) || m.matches(name) {
				return r.packing, true
			}
		}
	}
	return packing{}, false
}
