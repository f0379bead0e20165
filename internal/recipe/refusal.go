package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a software refuses stands in its table (tables/), read from its own checks:
//
//	takes RANGE KEY…        values of single keys
//	refuse CONDITION… : WHAT  values that stand beside each other, and what it expects
//
// A range is alternatives with bars between: 1.. is 1 or more, 0..<1 is below 1, and what
// has no dots is a word or a number. A condition is a key, or a field of any of its keys,
// that says something; KEY~RANGE holds for values of the range, and ! turns it round.

// refusal is settings that a software does not take together.
type refusal struct {
	conditions []string // the first is one that is said, and is named
	expected   string
}

// hintRefused is what is to be done about a value that the software itself refuses.
const hintRefused = "nothing is estimated of what the software refuses to start with: mend the value, or leave it out for the default"

// numberOf is a value as a number.
func numberOf(v any) (n float64, is bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// inRange reports a value that is one of a range's alternatives, or a list with one that is.
func inRange(values string, v any) bool {
	if list, is := v.([]string); is {
		return slices.ContainsFunc(list, func(one string) bool { return inRange(values, one) })
	}
	n, is := numberOf(v)
	return slices.ContainsFunc(strings.Split(values, "|"), func(one string) bool {
		low, high, spans := strings.Cut(one, "..")
		if !spans {
			return fmt.Sprint(v) == one
		}
		most, below := strings.CutPrefix(high, "<")
		from, _ := strconv.ParseFloat(low, 64)
		to, _ := strconv.ParseFloat(most, 64)
		return is && (low == "" || n >= from) && (high == "" || n < to || !below && n == to)
	})
}

// takes checks a setting by the range of its key. A text in place of a number is for
// whoever reads the value, and one with a variable for nobody.
func (p *plan) takes(s setting, values string) (refused bool) {
	_, number := numberOf(s.value)
	text, is := s.value.(string)
	switch {
	case values == "" || s.value == nil || text == "auto" || strings.Contains(text, "${"):
	case !number && !(is && !strings.Contains(values, "..")):
	case !inRange(values, s.value):
		p.refused(s, spoken(values))
	}
	return p.err != nil
}

// spoken is a range as a sentence has it.
func spoken(values string) string {
	list := strings.Split(values, "|")
	for i, one := range list {
		low, high, spans := strings.Cut(one, "..")
		most, below := strings.CutPrefix(high, "<")
		switch {
		case !spans:
		case high == "":
			list[i] = low + " or more"
		case low == "":
			list[i] = high + " or less"
		case below:
			list[i] = "from " + low + " on and below " + most
		default:
			list[i] = low + " to " + high
		}
	}
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " or " + list[last]
	}
	return list[0]
}

// refused keeps a setting that a software refuses as the error of the plan.
func (p *plan) refused(s setting, expected string) {
	p.keep(wrongValue(s, fmt.Errorf("is %s, and %s expects %s", cmp.Or(shown(s.value), "empty"), cmp.Or(s.of, p.name()), expected), hintRefused))
}

// name is what the software that trains calls itself.
func (p *plan) name() string {
	if t, err := p.table(p.software); err == nil {
		return t.name
	}
	return p.software
}

// refuses keeps what a field's software refuses of it, or the one that trains.
func (p *plan) refuses(f field, expected string) {
	said, is := p.facts[f]
	if !is {
		p.keep(&Error{Msg: fmt.Sprintf("%s is not said, and %s expects %s", f, p.name(), expected), Hint: hintRefused})
		return
	}
	p.refused(said.setting(), expected)
}

// setting is what said a fact.
func (f fact) setting() setting {
	return setting{value: f.value, file: f.file, key: f.key, written: f.where, of: f.of}
}

// saidBy is what says a key, or a field of any of its keys; nothing where it is switched
// off, or left to the software.
func (p *plan) saidBy(name string) (setting, bool) {
	s, is := p.keys[name]
	if f, known := p.facts[field(name)]; known {
		s, is = f.setting(), !f.rule
	}
	return s, is && s.value != nil && s.value != "auto"
}

// holds reports a condition of a refusal, and what says it.
func (p *plan) holds(condition string) (s setting, holds bool) {
	name, not := strings.CutPrefix(condition, "!")
	name, values, ranged := strings.Cut(name, "~")
	s, is := p.saidBy(name)
	if ranged {
		is = is && inRange(values, s.value)
	} else {
		is = is && !empty(s.value)
	}
	return s, is != not
}

// contradicts refuses what the softwares whose tables were read do not take together.
func (p *plan) contradicts() {
	for _, software := range softwareNames() {
		t := p.tables[software]
		for i := 0; t != nil && i < len(t.refusals); i++ {
			p.together(t.name, t.refusals[i])
		}
	}
}

func (p *plan) together(software string, r refusal) {
	var first setting
	expected := r.expected
	for i, condition := range r.conditions {
		s, holds := p.holds(condition)
		switch {
		case !holds:
			return
		case i == 0:
			first = s
		case !strings.HasPrefix(condition, "!"):
			expected += fmt.Sprintf("; %s is %s", s.where(), shown(s.value))
		}
	}
	first.of = software
	p.refused(first, expected)
}
