package device

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// NameError says that a name does not settle on one card.
type NameError struct {
	Name       string
	Ambiguous  bool     // false: no card has that name, and the candidates are the nearest
	Candidates []string // ids
}

// Error lists the candidates.
func (e *NameError) Error() string {
	list := strings.Join(e.Candidates, ", ")
	if e.Ambiguous {
		return fmt.Sprintf("%q can be any of these cards: %s", e.Name, list)
	}
	return fmt.Sprintf("no card is called %q; the nearest names are: %s", e.Name, list)
}

// unspecified ends the id of a record whose form factor was not reported.
const unspecified = "-unspecified"

// Find is the card of that name. A name matches in any case and with any
// separators, by id ("rtx-4090"), by what the driver reports ("NVIDIA GeForce
// RTX 4090"), or by the words that tell it apart ("h100", "A100-80"). The card
// with the fewest further words in its id wins, sizes aside, so that "rtx 4090"
// is not the laptop's. Where a name leaves the form factor open, the card
// found has the readings of all of them. Anything else is a [*NameError].
func Find(name string) (Card, error) {
	cards, err := Catalogue()
	if err != nil {
		return Card{}, err
	}
	query := words(name)
	var matches []Card
	for _, c := range cards {
		if slices.Equal(words(c.ID), query) {
			return c, nil
		}
		if len(query) > 0 && c.answersTo(query) {
			matches = append(matches, c)
		}
	}
	if len(matches) == 0 {
		return Card{}, &NameError{Name: name, Candidates: nearest(cards, name)}
	}
	best := closest(matches, query)
	if len(best) > 1 {
		return Card{}, &NameError{Name: name, Ambiguous: true, Candidates: ids(matches)}
	}
	return withVariants(best[0], matches), nil
}

// answersTo reports whether each word of a query is one of the card's.
func (c Card) answersTo(query []string) bool {
	own := words(c.ID + " " + c.Name + " " + c.Vendor)
	for _, w := range query {
		if !slices.ContainsFunc(own, func(o string) bool { return same(o, w) }) {
			return false
		}
	}
	return true
}

// same takes "80", "80g" and "80gb" for one size.
func same(a, b string) bool {
	return a == b || (isSize(a) && size(a) == size(b))
}

func size(word string) string { return strings.TrimRight(word, "gb") }

// isSize reports a word such as "80gb".
func isSize(word string) bool {
	return strings.HasSuffix(word, "gb") && strings.Trim(size(word), "0123456789") == ""
}

// closest keeps the cards with the fewest words beyond the query's.
func closest(cards []Card, query []string) []Card {
	var best []Card
	fewest := -1
	for _, c := range cards {
		further := 0
		for _, w := range words(strings.TrimSuffix(c.ID, unspecified)) {
			if !isSize(w) && !slices.ContainsFunc(query, func(q string) bool { return same(w, q) }) {
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
// matches that have its label.
func withVariants(c Card, matches []Card) Card {
	if !strings.HasSuffix(c.ID, unspecified) {
		return c
	}
	label, _ := c.LabelBytes.IsExact()
	for _, m := range matches {
		if other, known := m.LabelBytes.IsExact(); m.ID == c.ID || !known || other != label {
			continue
		}
		c.Readings = append(slices.Clone(c.Readings), m.Readings...)
		for _, s := range m.Sources {
			c.addSource(s)
		}
	}
	return c
}

// words are the runs of letters and digits of a name, in lower case.
func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

func ids(cards []Card) []string {
	var list []string
	for _, c := range cards {
		list = append(list, c.ID)
	}
	return list
}

// nearest lists the five ids that are fewest edits away.
func nearest(cards []Card, name string) []string {
	query := []rune(strings.Join(words(name), "-"))
	query = query[:min(len(query), 64)]
	list := ids(cards)
	slices.SortStableFunc(list, func(a, b string) int { return edits(query, a) - edits(query, b) })
	return list[:min(5, len(list))]
}

// edits is the Levenshtein distance: single letters inserted, deleted or
// replaced.
func edits(a []rune, b string) int {
	row := make([]int, len(a)+1)
	for i := range row {
		row[i] = i
	}
	for j, letter := range []rune(b) {
		diagonal := row[0]
		row[0] = j + 1
		for i, other := range a {
			replaced := diagonal
			if letter != other {
				replaced++
			}
			diagonal = row[i+1]
			row[i+1] = min(replaced, row[i]+1, row[i+1]+1)
		}
	}
	return row[len(a)]
}
