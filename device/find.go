package device

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"floodmark/bytesize"
)

// NameError says that a name does not settle on one card.
type NameError struct {
	Name       string
	Count      int      // how many cards the name asks for, where it asks for several; else 0
	Capacity   bool     // the name is a number of bytes, of which the candidates are sold
	Ambiguous  bool     // false: no card has that name, and the candidates are the nearest
	Candidates []string // ids
	Example    string   // a name that would settle it; empty where none is near
}

// Error lists the candidates.
func (e *NameError) Error() string {
	list := strings.Join(e.Candidates, ", ")
	switch {
	case e.Count > 0:
		return fmt.Sprintf("%q asks for %d cards, and cards are judged one by one", e.Name, e.Count)
	case e.Capacity && len(e.Candidates) > 0:
		return fmt.Sprintf("%q is a capacity and no card; cards that are sold with it are: %s", e.Name, list)
	case e.Capacity:
		return fmt.Sprintf("%q is a capacity and no card, and no card that is known is sold with it", e.Name)
	case e.Ambiguous:
		return fmt.Sprintf("%q can be any of these cards: %s", e.Name, list)
	}
	return fmt.Sprintf("no card is called %q; the nearest names are: %s", e.Name, list)
}

// Hint says how to name one card.
func (e *NameError) Hint() string {
	switch {
	case e.Count > 0:
		return fmt.Sprintf("name one card, for example %q; a layout over several cards comes with tensor_parallel", e.Example)
	case e.Capacity && e.Example == "":
		return "give what the card reports to a program in place of a name (--capacity)"
	case e.Capacity:
		return fmt.Sprintf("name the card, for example %q, or give what it reports to a program, which is a little less (--capacity)", e.Example)
	case e.Ambiguous:
		return fmt.Sprintf("say which one is meant, for example %q", e.Example)
	}
	return "floodmark gpus lists every card"
}

// unspecified ends the id of a record whose form factor was not reported.
const unspecified = "-unspecified"

// Find is the card of that name, or with a profile behind a colon a slice of it
// ("a100-sxm4-80gb:3g.40gb"). A name matches in any case and with any
// separators or none, by id ("rtx-4090", "RTX4090"), by what the driver reports
// ("NVIDIA GeForce RTX 4090"), or by the words that tell it apart ("h100",
// "A100-80", "H100 SXM" for an SXM5). The card with the fewest further words in
// its id wins, sizes aside, so that "rtx 4090" is not the laptop's; the card's
// Note then says what else the name could have meant. Where a name leaves the
// form factor open, the card found has the readings of all of them. Anything
// else is a [*NameError].
func Find(name string) (Card, error) {
	if whole, profile, ok := strings.Cut(name, ":"); ok {
		c, err := Find(whole)
		if err != nil {
			return Card{}, err
		}
		return c.partition(strings.ToLower(strings.TrimSpace(profile)))
	}
	cards, err := Catalogue()
	if err != nil {
		return Card{}, err
	}
	query := words(name)
	if i := slices.IndexFunc(cards, func(c Card) bool { return slices.Equal(words(c.ID), query) }); i >= 0 {
		return cards[i], nil
	}
	if e := sold(cards, name, query); e != nil {
		return Card{}, e
	}
	matches := answering(cards, query)
	if len(matches) == 0 {
		return Card{}, unfound(cards, name)
	}
	best := closest(matches)
	if len(best) > 1 {
		return Card{}, &NameError{Name: name, Ambiguous: true, Candidates: ids(matches), Example: short(best[0].ID)}
	}
	return withVariants(best[0], matches, name), nil
}

// reCapacity is a number of gigabytes: "24gb", "24 GiB", "24.0G", "24".
var reCapacity = regexp.MustCompile(`^(\d{1,4})(?: \d{1,3})? ?(g|gb|gib|gi)?$`)

// sold is the error for a capacity in place of a name, with the cards that have it on
// their label; nil where the query is none. A number alone is one where it stands in no
// id for anything else, as it does in "rtx-4090".
func sold(cards []Card, name string, query []string) error {
	m := reCapacity.FindStringSubmatch(strings.Join(query, " "))
	if m == nil {
		return nil
	}
	e := &NameError{Name: name, Capacity: true}
	for _, c := range cards {
		own := words(c.ID)
		switch bare := m[2] == ""; {
		case bare && slices.Contains(own, m[1]):
			return nil
		case slices.Contains(own, m[1]+"gb") || labelled(c, m[1]):
			e.Candidates = append(e.Candidates, c.ID)
		}
	}
	switch {
	case len(e.Candidates) > 0:
		e.Example = short(e.Candidates[0])
	case m[2] == "":
		return nil
	}
	return e
}

// labelled reports a card whose label has so many gigabytes.
func labelled(c Card, gb string) bool {
	label, known := c.LabelBytes.IsExact()
	return known && fmt.Sprint(label/bytesize.GB.Bytes()) == gb
}

// match is a card, and a query in the words of that card.
type match struct {
	Card
	query []string
}

// answering lists the cards of which each word of a query is one.
func answering(cards []Card, query []string) []match {
	var list []match
	for _, c := range cards {
		if split, all := c.split(query); all && len(query) > 0 {
			list = append(list, match{c, split})
		}
	}
	return list
}

// names are the words that a card answers to: those of its id, its name, its
// vendor, and of a form factor that is one word ("SXM5", "PCIe").
func (c Card) names() []string {
	list := words(c.ID + " " + c.Name + " " + c.Vendor)
	if form := words(c.FormFactor); len(form) == 1 {
		list = append(list, form[0])
	}
	return list
}

// split gives a query in the card's own words: "rtx4090" is "rtx" and "4090".
// The second result is false when a word is none of the card's.
func (c Card) split(query []string) ([]string, bool) {
	own := c.names()
	var list []string
	for _, w := range query {
		if slices.ContainsFunc(own, func(o string) bool { return same(o, w) }) {
			list = append(list, w)
			continue
		}
		parts := joined(own, w)
		if parts == nil {
			return nil, false
		}
		list = append(list, parts...)
	}
	return list, true
}

// joined finds the neighbours in a list that make up a word when they are
// written together; nil if none do.
func joined(list []string, word string) []string {
	const most = 4
	for i := range list {
		for n := 2; n <= most && i+n <= len(list); n++ {
			if strings.Join(list[i:i+n], "") == word {
				return list[i : i+n]
			}
		}
	}
	return nil
}

// same compares a card's word with one of a query: "80", "80g" and "80gb" are
// one size, and "sxm" stands for "sxm4" and "sxm5".
func same(own, asked string) bool {
	return own == asked || (isSize(own) && size(own) == size(asked)) || (len(asked) >= 3 && letters(own) == asked)
}

func size(word string) string { return strings.TrimRight(word, "gb") }

// isSize reports a word such as "80gb".
func isSize(word string) bool {
	return strings.HasSuffix(word, "gb") && strings.Trim(size(word), "0123456789") == ""
}

// letters is a word without the digits at its end.
func letters(word string) string { return strings.TrimRight(word, "0123456789") }

// closest keeps the cards with the fewest words beyond the query's.
func closest(matches []match) []match {
	var best []match
	fewest := -1
	for _, c := range matches {
		further := 0
		for _, w := range words(short(c.ID)) {
			if !isSize(w) && !slices.ContainsFunc(c.query, func(q string) bool { return same(w, q) }) {
				further++
			}
		}
		if fewest < 0 || further < fewest {
			best, fewest = nil, further
		}
		if further == fewest {
			best = append(best, c)
		}
	}
	return best
}

// withVariants adds to a card of unspecified form factor the readings of those
// matches that have its label, and notes what else the name could mean.
func withVariants(chosen match, matches []match, name string) Card {
	c := chosen.Card
	label, labelled := c.LabelBytes.IsExact()
	open := strings.HasSuffix(c.ID, unspecified)
	var joined, others []string
	for _, m := range matches {
		if m.ID == c.ID {
			continue
		}
		if other, known := m.LabelBytes.IsExact(); !open || !labelled || !known || other != label {
			others = append(others, m.ID)
			continue
		}
		joined = append(joined, m.ID)
		c.Readings = append(slices.Clone(c.Readings), m.Readings...)
		for _, s := range m.Sources {
			c.addSource(s)
		}
	}
	c.Note = note(name, c.ID, joined, others)
	return c
}

// note says which card a name was taken for, and why.
func note(name, id string, joined, others []string) string {
	if len(joined)+len(others) == 0 {
		return ""
	}
	text := fmt.Sprintf("%q is taken for %s", name, id)
	if len(joined) > 0 {
		text += ", which covers what " + strings.Join(joined, " and ") + " reported, as the name leaves the form factor open"
	}
	if len(others) > 0 {
		text += "; it could also mean " + strings.Join(others, ", ") + ": ask for those by a fuller name"
	}
	return text
}

// reSeveral is a number of cards before or behind a name: "2x h100", "8 h100",
// "h100 x 8".
var reSeveral = regexp.MustCompile(`^\s*(\d{1,4})(?:\s*[x×*]\s*|\s+)(\S.*)$|^(.*[\s\d])\s*[x×*]\s*(\d{1,4})\s*$`)

// unfound is the error for a name that no card has.
func unfound(cards []Card, name string) *NameError {
	if m := reSeveral.FindStringSubmatch(strings.ToLower(name)); m != nil {
		one := strings.TrimSpace(m[2] + m[3])
		matches := answering(cards, words(one))
		if n := count(m[1] + m[4]); n > 0 && len(matches) > 0 {
			return &NameError{Name: name, Count: n, Candidates: ids(matches), Example: one}
		}
	}
	return &NameError{Name: name, Candidates: nearest(cards, words(name))}
}

// count is a number of at most four digits.
func count(digits string) int {
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n
}

// words are the runs of letters and digits of a name, in lower case.
func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// short is an id without what says that the form factor is open.
func short(id string) string { return strings.TrimSuffix(id, unspecified) }

func ids(matches []match) []string {
	var list []string
	for _, m := range matches {
		list = append(list, m.ID)
	}
	return list
}
