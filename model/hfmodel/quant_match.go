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

// nameList is a list of modules: exact names of modules, of what holds them or
// of a part of their path; globs; regular expressions after "re:"; class
// names.
type nameList struct {
	exact    map[string]bool
	globs    []string
	patterns []*regexp.Regexp
	bad      []string // expressions that Go cannot read
}

// nameListOf prepares a list once.
func nameListOf(entries []string) nameList {
	l := nameList{exact: make(map[string]bool, len(entries))}
	for _, entry := range entries {
		expr, isPattern := strings.CutPrefix(entry, "re:")
		switch {
		case isPattern:
			compiled, err := regexp.Compile(`\A(?:` + expr + `)`)
			if err != nil {
				l.bad = append(l.bad, entry)
				continue
			}
			l.patterns = append(l.patterns, compiled)
		case strings.ContainsAny(entry, "*?["):
			l.globs = append(l.globs, plain(entry))
		default:
			l.exact[plain(entry)] = true
		}
	}
	return l
}

// names reports whether the list means that module.
func (l nameList) names(d draft, name string) bool {
	for _, class := range []string{"Linear", "Experts", "Embedding"} {
		if l.exact[class] && d.isA(class) {
			return true
		}
	}
	short := plain(name)
	if len(l.exact) > 0 && l.partNamed(short) {
		return true
	}
	for _, p := range l.patterns {
		if p.MatchString(name) || p.MatchString("model."+name) {
			return true
		}
	}
	for _, glob := range l.globs {
		if globbed(glob, short) {
			return true
		}
	}
	return false
}

// partNamed looks for every run of components of a path: an exact entry may be
// the module, what holds it ("visual"), or its last word ("lm_head").
func (l nameList) partNamed(name string) bool {
	for from := 0; ; {
		for to := from; to < len(name); to++ {
			if to+1 == len(name) || name[to+1] == '.' {
				if l.exact[name[from:to+1]] {
					return true
				}
			}
		}
		next := strings.IndexByte(name[from:], '.')
		if next < 0 {
			return false
		}
		from += next + 1
	}
}

// globbed tries the module and each that holds it. A "*" crosses dots, as
// Python's fnmatch lets it.
func globbed(glob, name string) bool {
	for {
		if ok, err := path.Match(glob, name); err == nil && ok {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

// isA reports whether a list means the tensor's module by a class name. Fused
// experts are linear layers too once they are packed.
func (d draft) isA(class string) bool {
	switch d.class {
	case linear, linearSpared, conv1D:
		return class == "Linear"
	case expertLinear, expertFused, expertStacked:
		return class == "Linear" || class == "Experts"
	case embedding:
		return class == "Embedding"
	}
	return false
}

// chooser decides the form of each tensor.
type chooser struct {
	*scheme
	keep    nameList
	targets []nameList // of the rules
}

func (b *builder) chooser(sch *scheme) chooser {
	c := chooser{scheme: sch, keep: nameListOf(sch.kept)}
	bad := c.keep.bad
	for _, r := range sch.rules {
		l := nameListOf(r.targets)
		c.targets = append(c.targets, l)
		bad = append(bad, l.bad...)
	}
	for _, entry := range bad {
		b.doubt("quantization_config.ignore", entry, "this regular expression cannot be read here")
	}
	return c
}

// choose is the form of a tensor; false where it stays as it is.
func (c chooser) choose(d draft, stacks []model.Stack) (packing, bool) {
	if !c.packable(d, stacks) {
		return packing{}, false
	}
	name := strings.Replace(d.module(), "*", "0", 1)
	if c.keep.names(d, name) {
		return packing{}, false
	}
	for i, r := range c.rules {
		if r.targets == nil || c.targets[i].names(d, name) {
			return r.packing, true
		}
	}
	return packing{}, false
}

// packable reports whether the method could pack such a tensor at all.
func (c chooser) packable(d draft, stacks []model.Stack) bool {
	switch d.class {
	case linear, conv1D, expertLinear:
	case expertFused, expertStacked:
		if c.modules {
			return false
		}
	case linearSpared:
		if c.spares {
			return false
		}
	case embedding:
		if !c.embeddings || d.Role != model.RoleTokenEmbedding {
			return false
		}
	default:
		return false
	}
	switch {
	case d.TiedTo != model.NotTied, c.keepHead && d.Role == model.RoleHead:
		return false
	case !c.routers && (d.Role == model.RoleRouter || d.Role == model.RoleSharedExpertMix):
		return false
	case c.inLayers && (d.Stack == model.NoLayer || stacks[d.Stack].Kind != model.Decoder):
		return false
	}
	return true
}
