package recipe

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"floodmark/internal/packed"
)

//go:embed tables/*.gz
var tables embed.FS

// tableText is a table as it lies in the folder tables.
func tableText(name string) (string, error) {
	file, err := tables.ReadFile("tables/" + name + ".txt.gz")
	if err != nil {
		return "", err
	}
	return packed.Text(file)
}

// table is the keys of one software's configuration, in the releases that its file
// names.
type table struct {
	software string
	name     string // as it calls itself
	rows     []row
	takes    map[string]string // ranges of keys
	refusals []refusal
}

// row is one key, or the start of several where it ends in a star.
type row struct {
	key     string
	field   field    // that it speaks of; empty for none
	open    string   // why nobody can say what it changes of sizes
	verb    string   // what it may change: open, less or lean
	neutral []string // values with which it changes nothing
}

// tableOf reads a table: lines of "read KEY FIELD", of "open KEY[~VALUE,…] WHY", of
// "less …" and "lean …" likewise, and of "plain KEY…" for keys that bear on no size on a
// device; "name …" is what the software calls itself, and what it refuses is in lines of
// takes and refuse (refusal.go). With an open key a rank may have more than is counted; with one of less also
// less of anything, with one of lean also less of what passes (activations,
// temporaries). What stands behind # is a note. A star is for keys that a software makes
// up itself, and for what is open: a plain section.* would pass over whatever is misspelt
// in it.
func tableOf(software string) (*table, error) {
	text, err := tableText(software)
	if err != nil {
		return nil, err
	}
	t := &table{software: software, takes: map[string]string{}}
	for line := range strings.Lines(text) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch rest = strings.TrimSpace(rest); verb {
		case "", "#":
		case "read":
			key, f, _ := strings.Cut(rest, " ")
			t.rows = append(t.rows, row{key: key, field: field(strings.TrimSpace(f))})
		case "open", "less", "lean":
			key, why, _ := strings.Cut(rest, " ")
			key, neutral, _ := strings.Cut(key, "~")
			t.rows = append(t.rows, row{key: key, open: strings.TrimSpace(why), verb: verb, neutral: strings.Split(neutral, ",")})
		case "name":
			t.name = rest
		case "takes":
			keys := strings.Fields(rest)
			for _, key := range keys[1:] {
				t.takes[key] = keys[0]
			}
		case "refuse":
			conditions, expected, _ := strings.Cut(rest, " : ")
			t.refusals = append(t.refusals, refusal{strings.Fields(conditions), expected})
		case "plain":
			for _, key := range strings.Fields(rest) {
				t.rows = append(t.rows, row{key: key})
			}
		default:
			return nil, fmt.Errorf("table %s: %q is no line of one", software, line)
		}
	}
	return t, nil
}

// table is a software's table, which is read once.
func (p *plan) table(software string) (*table, error) {
	if t := p.tables[software]; t != nil {
		return t, nil
	}
	t, err := tableOf(software)
	if err != nil {
		return nil, err
	}
	p.tables[software] = t
	return t, nil
}

// find is the row of a key: of its own, or of one with a star.
func (t *table) find(key string) *row {
	var starred *row
	for i := range t.rows {
		start, many := strings.CutSuffix(t.rows[i].key, "*")
		switch {
		case t.rows[i].key == key:
			return &t.rows[i]
		case many && strings.HasPrefix(key, start) && (starred == nil || len(start) >= len(starred.key)):
			starred = &t.rows[i]
		}
	}
	return starred
}

// apply does what a setting says, by the software's table. A key that no row knows
// leaves the verdict open.
func (p *plan) apply(t *table, s setting) error {
	if s.of = t.name; p.takes(s, t.takes[s.key]) {
		return p.err
	}
	p.keys[s.key] = s
	if p.special(t.software, s) {
		return p.err
	}
	r := t.find(s.key)
	switch {
	case r == nil:
		p.strange(t.software, s)
	case r.field != "":
		p.set(r.field, s)
	case r.open != "" && !empty(s.value) && !slices.Contains(r.neutral, strings.ReplaceAll(strings.ToLower(fmt.Sprint(s.value)), " ", "+")):
		map[string]func(string, string){"open": p.open, "less": p.lowers, "lean": p.lowersPasses}[r.verb](s.where(), r.open)
	}
	return p.err
}

// strange names a key that nobody here knows. Only one that is switched off leaves the
// verdict as it is.
func (p *plan) strange(software string, s setting) {
	if !empty(s.value) {
		p.lowers(s.where(), "this key is not known here, so nobody can say whether it bears on sizes")
	}
	p.warn("key_not_known", fmt.Sprintf("%s is no key of %s that is known here: it is misspelt, newer or older than those that were read, or the script's own", s.where(), software))
}

// empty is a value with which a key says nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case string:
		return slices.Contains([]string{"", "none", "no", "off", "false"}, strings.ToLower(v))
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
