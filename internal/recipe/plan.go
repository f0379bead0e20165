package recipe

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/workload"
)

// strength says which of two places counts where both speak of one thing.
type strength int

const (
	inLauncher strength = iota // what a launcher offers, and the program may say otherwise
	inFile
	inCommand
)

// fact is what was said of one thing.
type fact struct {
	value     any
	where     string
	file, key string // that said it
	of        string // the software whose setting it is
	rule      bool   // nobody did, and a rule of the software holds
	strength  strength
}

// plan collects what files and a command say, thing by thing, and becomes the
// workload once all of it was read.
type plan struct {
	files     Files
	engine    workload.Engine
	folder    string // of the file that is read
	opened    int
	software  string // that trains; empty while only launchers and shards were read
	trainer   bool   // a configuration of it was read, or a script of its kind is started
	every     string // the launcher that starts a process for each device, where nobody says how many
	builds    string // what a script of Megatron-LM builds that is no GPT
	exportsTo string // of LLaMA-Factory, where an export is done: cpu, or auto for a card
	exporting bool   // its command is that of an export
	ofTRL     bool   // a program of TRL's own is started
	method    string // of TRL and LLaMA-Factory: sft, dpo, grpo, …
	recipe    Recipe
	workload  workload.Workload
	facts     map[field]fact
	keys      map[string]setting // as they were said last
	kinds     map[field]kind
	tables    map[string]*table // that were read
	order     []field
	derived   []workload.Declaration
	auto      []string // keys of DeepSpeed that follow the model's width
	err       error    // the first value that is of the wrong kind
}

func newPlan(r Reader) *plan {
	return &plan{files: r.Files, engine: r.Engine, facts: map[field]fact{}, keys: map[string]setting{}, kinds: kinds(), tables: map[string]*table{}}
}

// reads notes whose configuration is read. What shards or launches trains nothing.
func (p *plan) reads(software string) {
	if software != "accelerate" && software != "deepspeed" {
		p.software, p.trainer = software, true
	} else if p.software == "" && software == "deepspeed" {
		p.software = "transformers" // a loop of one's own, or the Trainer
	}
}

// set keeps what a setting says. Of two places the stronger counts; two equal ones
// that differ contradict each other.
func (p *plan) set(f field, s setting) {
	if s.value == nil || s.value == "auto" {
		return
	}
	v, err := p.valueOf(f, s.value)
	if err != nil {
		p.keep(wrongValue(s, err, ""))
		return
	}
	before, said := p.facts[f]
	now := fact{value: v, where: s.where(), file: s.file, key: s.key, of: s.of, strength: s.strength}
	if s.file == "" {
		now.key = s.written
	}
	switch {
	case !said:
		p.order = append(p.order, f)
	case same(before.value, v), f == "fsdp_strategy" && same(strategyOf(before.value), strategyOf(v)):
		return
	case before.strength == now.strength && before.repeats(now):
		p.again(s.written, before.value, v)
	case before.strength == now.strength:
		text := fmt.Sprintf("%s is %v in %s, and %v in %s", f, shown(before.value), before.where, shown(v), now.where)
		p.warn("configurations_contradict", text+": the software refuses that, or takes one of them")
		p.lowers(string(f), text)
		return
	case before.strength > now.strength:
		p.warn("overridden", fmt.Sprintf("%s: %v in %s goes over %v in %s", f, shown(before.value), before.where, shown(v), now.where))
		return
	default:
		p.warn("overridden", fmt.Sprintf("%s: %v in %s goes over %v in %s", f, shown(v), now.where, shown(before.value), before.where))
	}
	p.facts[f] = now
}

// repeats reports the same flag once more, of which parsers take the last.
func (f fact) repeats(again fact) bool {
	return f.file == "" && again.file == "" && f.key == again.key
}

// again says that a flag is given twice.
func (p *plan) again(written string, before, last any) {
	p.warn("given_twice", fmt.Sprintf("%s is given twice, %s and then %s: the last counts", written, shown(before), shown(last)))
}

// keep notes an error, of which the first counts; nil is none.
func (p *plan) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

// wrong notes that a setting has a value of another kind than is expected.
func (p *plan) wrong(s setting, expected string) {
	p.keep(wrongValue(s, fmt.Errorf("is %s, expected %s", shown(s.value), expected), ""))
}

// textIn is a setting that is a text, empty where it says nothing: null, false, or a
// table without keys.
func (p *plan) textIn(s setting, expected string) string {
	text, is := s.value.(string)
	if _, list := s.value.([]any); !is && (list || !empty(s.value)) {
		p.wrong(s, expected)
	}
	return text
}

// on is whether a setting is switched on, whatever field it is of; one that says nothing
// is not.
func (p *plan) on(s setting) bool {
	if s.value == nil {
		return false
	}
	v, err := switchOf(s.value)
	if err != nil {
		p.keep(wrongValue(s, err, ""))
		return false
	}
	return v.(bool)
}

// word is a setting that is one of several words in any case; empty where it says
// nothing.
func (p *plan) word(s setting, words ...string) string {
	expected := strings.Join(words, ", ")
	text := strings.ToLower(p.textIn(s, expected))
	if text != "" && !slices.Contains(words, text) {
		p.wrong(s, expected)
	}
	return text
}

// wrongValue is an error about one value, of its file or of the command.
func wrongValue(s setting, err error, hint string) error {
	if s.file != "" {
		return source.InField(s.file, s.key, "%v", err).WithHint("%s", hint)
	}
	return &Error{Msg: s.written + " " + err.Error(), Hint: hint}
}

// same compares two values as softwares do: words whatever their case.
func same(a, b any) bool { return strings.EqualFold(fmt.Sprint(a), fmt.Sprint(b)) }

// strategyOf is a way to divide by the word that FSDP's first kind has for it: the second
// says whether what is gathered for the forward pass is given up behind it.
func strategyOf(v any) string {
	switch word := strings.ToLower(fmt.Sprint(v)); word {
	case "true", "1":
		return "full_shard"
	case "false", "2":
		return "shard_grad_op"
	default:
		return word
	}
}

// shown is a value as a message has it.
func shown(v any) string {
	switch v := v.(type) {
	case []string:
		return strings.Join(v, ", ")
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	text := fmt.Sprint(v)
	if runes := []rune(text); len(runes) > mostShown {
		return string(runes[:mostShown]) + "…"
	}
	return text
}

// mostShown bounds what a message shows of a value.
const mostShown = 80

func (p *plan) warn(code, text string) {
	w := account.Warning{Code: code, Text: text}
	if !slices.Contains(p.recipe.Warnings, w) {
		p.recipe.Warnings = append(p.recipe.Warnings, w)
	}
}

// open keeps something whose bearing on sizes is not modelled.
func (p *plan) open(what, why string) {
	p.workload.Open = with(p.workload.Open, what+": "+why)
}

// lowers keeps something like that with which a rank may also have less of anything than
// is counted.
func (p *plan) lowers(what, why string) {
	p.open(what, why)
	p.workload.Lowering = with(p.workload.Lowering, what+": "+why)
}

// lowersPasses keeps something like that with which a rank may have less of what passes
// alone: activations and temporaries.
func (p *plan) lowersPasses(what, why string) {
	p.open(what, why)
	p.workload.LoweringPasses = with(p.workload.LoweringPasses, what+": "+why)
}

// with is a list that has a text, once.
func with(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// assume keeps what nobody said, unless a flag says it.
func (p *plan) assume(flag, text string) {
	p.recipe.Assumed = append(p.recipe.Assumed, Assumption{flag, text})
}

// derive notes what follows by a rule of the software from what was said.
func (p *plan) derive(name string, value any, why string) {
	p.derived = append(p.derived, workload.Declaration{Field: name, Value: shown(value), Rule: why})
}

// declarations lists what was said and where, in the order in which it was read.
func (p *plan) declarations() []workload.Declaration {
	var list []workload.Declaration
	for _, f := range p.order {
		said := p.facts[f]
		d := workload.Declaration{Field: string(f), Value: shown(said.value), File: said.file, Key: said.key}
		if said.rule {
			d.Key, d.Rule = "", said.where
		}
		list = append(list, d)
	}
	return list
}

// said reports whether something says it.
func (p *plan) said(f field) bool { _, is := p.facts[f]; return is }

// number is a count that was said; 0 for none.
func (p *plan) number(f field) int64 {
	n, _ := p.facts[f].value.(int64)
	return n
}

// share is a fraction that was said; 0 for none.
func (p *plan) share(f field) float64 {
	switch v := p.facts[f].value.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

func (p *plan) text(f field) string {
	s, _ := p.facts[f].value.(string)
	return s
}

func (p *plan) yes(f field) bool {
	on, _ := p.facts[f].value.(bool)
	return on
}

func (p *plan) list(f field) []string {
	l, _ := p.facts[f].value.([]string)
	return l
}

// where is the place that says a thing.
func (p *plan) where(f field) string { return p.facts[f].where }

// otherwise says a thing where nobody did, with the reason.
func (p *plan) otherwise(f field, value any, why string) {
	if !p.said(f) {
		p.set(f, setting{value: value, written: why, strength: inLauncher})
		said := p.facts[f]
		said.rule = true
		p.facts[f] = said
	}
}
