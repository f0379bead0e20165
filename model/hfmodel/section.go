package hfmodel

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/model"
)

// maxDimension bounds every size that a configuration may state. The largest
// that exist, vocabularies and expert widths, are below 10⁷.
const maxDimension = 1 << 31

// ledger is what all sections of one configuration share: the keys that were
// read, the first fault, and what was not understood.
type ledger struct {
	file    string
	used    map[string]bool
	err     error
	unknown []model.Unknown
	doubted map[string]bool   // the fields of unknown
	assumed []string          // sizes that the file does not give, "hidden_size 4096": the class's own
	odd     []account.Warning // what the file says that does not go together
}

func (l *ledger) fail(e *source.FormatError) {
	if l.err == nil {
		l.err = e
	}
}

func (l *ledger) doubt(field, val, why string) {
	if l.doubted[field] {
		return
	}
	if l.doubted == nil {
		l.doubted = map[string]bool{}
	}
	l.doubted[field] = true
	l.unknown = append(l.unknown, model.Unknown{Field: field, Value: shorten(val), Why: why})
}

// section is one object of the configuration. A key is given as the spellings
// that families use for it, "hidden_size|n_embd"; the first that is present
// counts. What the object does not say, the defaults of its class say.
type section struct {
	*ledger
	object   *value
	path     string // "text_config." before the keys of a nested object
	defaults map[string]string
	rename   map[string]string // spellings that one family uses instead of the common ones
	parent   *section          // the object around it, where a part of a model stands in another
	layer    int               // which item counts where a list states a size layer by layer; −1 outside the layers
}

// at is the section as one layer reads it.
func (s section) at(layer int) section {
	s.layer = layer
	return s
}

// renamed is the section with spellings of its own, beside those it has.
func (s section) renamed(own map[string]string) section {
	if len(own) == 0 {
		return s
	}
	all := make(map[string]string, len(own)+len(s.rename))
	for key, spelling := range s.rename {
		all[key] = spelling
	}
	for key, spelling := range own {
		all[key] = spelling
	}
	s.rename = all
	return s
}

func (s section) spellings(key string) []string {
	if own, ok := s.rename[key]; ok {
		key = own
	}
	return strings.Split(key, "|")
}

// find is the value of a key and its full name. Reading a key accounts for
// it, and so does looking it up under any of its spellings.
func (s section) find(key string) (v *value, field string) {
	for _, k := range s.spellings(key) {
		if own, at := s.ofLayer(k); own != nil {
			return own, at
		}
		list, _, _ := strings.Cut(k, "@")
		s.used[s.path+list] = true
		if got := s.member(k); got != nil && v == nil {
			v, field = got, s.path+k
		}
	}
	return v, field
}

// ofLayer is what per_layer_config, by which transformers 5 writes what is
// different in some layers, says of this one: {"05": {"head_dim": 512}}.
func (s section) ofLayer(key string) (v *value, field string) {
	layers := s.object.get("per_layer_config")
	if layers == nil || s.layer < 0 {
		return nil, ""
	}
	at := fmt.Sprintf("%02d", s.layer)
	if v = layers.get(at).get(key); v != nil {
		field = s.path + "per_layer_config." + at + "." + key
		s.used[field] = true
	}
	return v, field
}

// member is the value under a key, which may lead into nested objects or a
// list: "attn_config.kv_n_heads", "depths@2".
func (s section) member(key string) *value {
	key, item, listed := strings.Cut(key, "@")
	v := s.object
	for nested := true; nested; {
		var name string
		name, key, nested = strings.Cut(key, ".")
		v = v.get(name)
	}
	if !listed || v == nil {
		return v
	}
	if i, err := strconv.Atoi(item); err == nil && v.kind == isList && i < len(v.items) {
		return v.items[i]
	}
	return nil
}

// given is what the class of the model assumes for an absent key.
func (s section) given(key string) (string, bool) {
	for _, k := range s.spellings(key) {
		if d, ok := s.defaults[k]; ok {
			return d, true
		}
	}
	return "", false
}

func (s section) has(key string) bool {
	v, _ := s.find(key)
	return v != nil
}

// number is a whole number that is not negative; false when neither the object
// nor the defaults have it.
func (s section) number(key string) (int64, bool) {
	v, field := s.find(key)
	if v == nil {
		if d, ok := s.given(key); ok {
			n, err := strconv.ParseInt(d, 10, 64)
			return n, err == nil
		}
		return 0, false
	}
	return s.whole(v, field)
}

func (s section) whole(v *value, field string) (int64, bool) {
	if n := len(v.items); v.kind == isList && s.layer >= 0 && n > 0 {
		if layers, said := s.at(-1).number(keyLayers); said && int64(n) < layers {
			s.fail(source.InField(s.file, field, "is %s, expected one number, or one for each of %d layers", v, layers))
			return 0, false
		}
		v = v.items[min(s.layer, n-1)] // layers beyond the list are prediction layers, built as the last
	}
	if v.kind != isNumber {
		e := source.InField(s.file, field, "is %s (%s), expected a whole number", v.kind, v)
		if v.kind == isText {
			e = e.WithHint("write the number without quotes")
		}
		s.fail(e)
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(v.text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			s.fail(source.InField(s.file, field, "is %s, expected a whole number", v.text))
			return 0, false
		}
		n = int64(f)
	}
	if n < 0 || n > maxDimension {
		s.fail(source.InField(s.file, field, "is %d, expected between 0 and %d", n, int64(maxDimension)).
			WithHint("no model has such a size; the file may be damaged"))
		return 0, false
	}
	return n, true
}

// or is a number, or what applies when it is absent.
func (s section) or(key string, absent int64) int64 {
	if n, ok := s.number(key); ok {
		return n
	}
	return absent
}

// need is a number without which, or at 0, sizes are unknown.
func (s section) need(key string) int64 {
	n, ok := s.number(key)
	field := s.path + s.spellings(key)[0]
	if ok && !s.has(key) {
		s.assume(field, n)
	}
	switch {
	case s.err != nil:
	case !ok:
		s.doubt(field, "absent", "sizes depend on it, and the class has no default that is known here")
	case n == 0:
		s.doubt(field, "0", "sizes depend on it")
	}
	return n
}

// assume notes a size that only the defaults of the class give.
func (l *ledger) assume(field string, n int64) {
	if text := fmt.Sprintf("%s %d", field, n); !slices.Contains(l.assumed, text) {
		l.assumed = append(l.assumed, text)
	}
}

// remark notes what does not go together, once.
func (l *ledger) remark(code, format string, args ...any) {
	w := account.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(l.odd, w) {
		l.odd = append(l.odd, w)
	}
}

// scalar is a key that may hold a number or a list: the number, or 0.
func (s section) scalar(key string) int64 {
	if v, _ := s.find(key); v != nil && v.kind != isNumber {
		return 0
	}
	return s.or(key, 0)
}

// real is a number that need not be whole; 0 when it is absent or not finite.
func (s section) real(key string) float64 {
	text := ""
	if v, field := s.find(key); v == nil {
		text, _ = s.given(key)
	} else if v.kind != isNumber {
		s.fail(source.InField(s.file, field, "is %s (%s), expected a number", v.kind, v))
	} else {
		text = v.text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}

// text is a string, or in a layer that layer's of a list; empty when it is
// absent.
func (s section) text(key string) string {
	v, field := s.find(key)
	if v != nil && v.kind == isList && s.layer >= 0 {
		if s.layer >= len(v.items) {
			return ""
		}
		v = v.items[s.layer]
	}
	if v == nil {
		d, _ := s.given(key)
		return d
	}
	if v.kind != isText {
		s.fail(source.InField(s.file, field, "is %s (%s), expected a text", v.kind, v))
		return ""
	}
	return v.text
}

// list is the items of a list; nil when it is absent or is no list.
func (s section) list(key string) []*value {
	if v, _ := s.find(key); v != nil && v.kind == isList {
		return v.items
	}
	return nil
}

// numbers is a list of whole numbers; nil when it is absent.
func (s section) numbers(key string) []int64 {
	v, field := s.find(key)
	if v == nil || v.kind != isList {
		return nil
	}
	ns := make([]int64, 0, len(v.items))
	for _, item := range v.items {
		n, ok := s.whole(item, field)
		if !ok {
			return nil
		}
		ns = append(ns, n)
	}
	return ns
}

// texts is the texts of a list; nil when it is absent. One text alone is read as a
// list of it.
func (s section) texts(key string) []string {
	v, field := s.find(key)
	if v == nil {
		return nil
	}
	items := v.items
	if v.kind != isList {
		items = []*value{v}
	}
	var ts []string
	for _, item := range items {
		switch item.kind {
		case isText:
			ts = append(ts, item.text)
		case isNull:
		default:
			s.fail(source.InField(s.file, field, "is or holds %s (%s), expected a list of texts", item.kind, item))
			return nil
		}
	}
	return ts
}

// sub is a nested object, itself a section without defaults; ok is false when
// it is absent.
func (s section) sub(key string) (sub section, ok bool) {
	v, field := s.find(key)
	if v == nil || v.kind != isObject {
		return section{ledger: s.ledger, object: &value{kind: isObject}, path: s.path + key + ".", layer: -1}, false
	}
	return section{ledger: s.ledger, object: v, path: field + ".", layer: -1}, true
}

// members visits the objects in the section under their names, which may have
// dots, as names of modules do.
func (s section) members(visit func(name string, own section)) {
	for i, name := range s.object.keys {
		if v := s.object.items[i]; v.kind == isObject {
			s.used[s.path+name] = true
			visit(name, section{ledger: s.ledger, object: v, path: s.path + name + ".", layer: -1})
		}
	}
}

// flag is a switch of a family, as data: "" is off, "yes" is on, "key" is the
// boolean of that name, "!key" its opposite, "key=true" one that is on when it
// is absent, "key~word" is on when the text of that name contains the word, and
// "key@layer" in the layers that the list of that name names.
type flag string

func (s section) is(f flag) bool {
	switch f {
	case "":
		return false
	case "yes":
		return true
	}
	name, negated := strings.CutPrefix(string(f), "!")
	if key, _, listed := strings.Cut(name, "@"); listed {
		return slices.Contains(s.numbers(key), int64(s.layer)) != negated
	}
	if key, word, text := strings.Cut(name, "~"); text {
		return s.says(key, word) != negated
	}
	key, absent, _ := strings.Cut(name, "=")
	on := absent == "true"
	v, field := s.find(key)
	if v != nil && v.kind == isList && s.layer >= 0 && s.layer < len(v.items) {
		v = v.items[s.layer] // stated layer by layer
	}
	switch {
	case v == nil:
		if d, ok := s.given(key); ok {
			on = d == "true"
		}
	case v.kind == isBool:
		on = v.text == "true"
	case v.kind == isNumber:
		f, err := strconv.ParseFloat(v.text, 64)
		on = err != nil || f != 0
	default:
		s.fail(source.InField(s.file, field, "is %s (%s), expected true or false", v.kind, v))
	}
	return on != negated
}

// says reports whether the text of that name contains the word. What is no
// text is not understood: an older or newer class means something by it.
func (s section) says(key, word string) bool {
	if v, field := s.find(key); v != nil && v.kind != isText && v.kind != isList {
		s.doubt(field, v.String(), "a text is expected here")
		return false
	}
	return strings.Contains(s.text(key), word)
}

// fields makes a table of "key=value" words.
func fields(words string) map[string]string {
	table := map[string]string{}
	for _, w := range strings.Fields(words) {
		k, v, _ := strings.Cut(w, "=")
		table[k] = v
	}
	return table
}

func plural(n int) string {
	if n == 1 {
		return "1 item"
	}
	return strconv.Itoa(n) + " items"
}
