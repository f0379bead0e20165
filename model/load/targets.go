package load

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"floodmark/internal/source"
	"floodmark/model"
)

// selection is modules by name or by pattern, as PEFT selects them
// (check_target_module_exists in src/peft/tuners/tuners_utils.py): a text is a
// pattern over the whole name, a list holds names or their ends.
type selection struct {
	pattern string
	names   []string
}

// allLinear is the text that stands for every linear layer but the head.
const allLinear = "all-linear"

func (s selection) empty() bool { return s.pattern == "" && len(s.names) == 0 }

// selection reads a text, or a list of texts.
func (f *fields) selection(key string) (s selection) {
	raw, has := f.object[key]
	if !has || string(raw) == "null" || json.Unmarshal(raw, &s.pattern) == nil {
		return s
	}
	f.read(&s.names, "a text or a list of texts", key)
	return s
}

// compiled is a selection that is ready to match.
type compiled struct {
	pattern *regexp.Regexp
	names   []string
}

func (s selection) compile(field string) (c compiled, err error) {
	c.names = s.names
	if s.pattern != "" {
		c.pattern, err = compile(field, `^(?:`+s.pattern+`)$`)
	}
	return c, err
}

// matches reports whether a module is selected.
func (c compiled) matches(module string) bool {
	if c.pattern != nil {
		return c.pattern.MatchString(module)
	}
	return slices.ContainsFunc(c.names, func(name string) bool { return ends(module, name) })
}

// ends reports whether a module is called so, or ends in that name.
func ends(module, name string) bool {
	return module == name || strings.HasSuffix(module, "."+name)
}

// compile compiles a pattern of Python's. What Go's do not know, looking ahead
// and behind, is an error.
func compile(field, pattern string) (*regexp.Regexp, error) {
	const longest = 4096
	if len(pattern) > longest {
		return nil, source.InField(adapterName, field, "has a pattern of %d bytes, more than the %d that are read", len(pattern), longest)
	}
	p, err := regexp.Compile(pattern)
	if err != nil {
		return nil, source.InField(adapterName, field, "has a pattern that cannot be matched here: %v", err).
			WithHint("list the names of the modules instead")
	}
	return p, nil
}

// chooser says for each module whether an adapter is on it, and of what rank.
type chooser struct {
	config            *AdapterConfig
	targets, excluded compiled
	linear            bool
	ranks             []ranked
}

// ranked is a rank by pattern.
type ranked struct {
	pattern *regexp.Regexp
	rank    int
}

// chooser compiles the patterns. Ranks are looked up in the order of their
// texts; the first pattern that ends a module counts (get_pattern_key in
// src/peft/utils/other.py).
func (c *AdapterConfig) chooser() (*chooser, error) {
	const most = 1000
	out := &chooser{config: c, linear: strings.EqualFold(c.Targets.pattern, allLinear)}
	var err error
	if !out.linear {
		if out.targets, err = c.Targets.compile("target_modules"); err != nil {
			return nil, err
		}
	}
	if out.excluded, err = c.Excluded.compile("exclude_modules"); err != nil {
		return nil, err
	}
	if len(c.RankPattern) > most {
		return nil, source.InField(adapterName, "rank_pattern", "has %d patterns, more than the %d that are read", len(c.RankPattern), most)
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.RankPattern)) {
		p, err := compile("rank_pattern", `^(?:.*\.)?(?:`+pattern+`)$`)
		if err != nil {
			return nil, err
		}
		if c.RankPattern[pattern] <= 0 {
			return nil, source.InField(adapterName, "rank_pattern", "has a rank of %d for %s", c.RankPattern[pattern], quote(pattern))
		}
		out.ranks = append(out.ranks, ranked{p, c.RankPattern[pattern]})
	}
	return out, nil
}

// on reports whether a module gets a pair of matrices.
func (c *chooser) on(module string, t model.Tensor) bool {
	if c.excluded.matches(module) || c.config.Layers != nil && !slices.Contains(c.config.Layers, int64(t.Layer)) {
		return false
	}
	if !c.linear {
		return c.targets.matches(module)
	}
	switch t.Role.Module() {
	case model.EmbeddingModule, model.HeadModule, model.NormModule, model.OtherModule:
		return false
	}
	return true
}

// rank is the rank of a module.
func (c *chooser) rank(module string) int {
	for _, r := range c.ranks {
		if r.pattern.MatchString(module) {
			return r.rank
		}
	}
	return c.config.Rank
}
