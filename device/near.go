package device

import (
	"cmp"
	"slices"
	"strings"

	"floodmark/internal/sorting"
)

// nearest lists the five ids that a misspelled name is most likely to mean:
// those with the fewest edits word by word, then with the fewest edits in all.
func nearest(cards []Card, query []string) []string {
	const mostWords, mostLetters, listed = 8, 24, 5
	query = query[:min(len(query), mostWords)]
	var spelled [][]rune
	for _, w := range query {
		letters := []rune(w)
		spelled = append(spelled, letters[:min(len(letters), mostLetters)])
	}
	whole := []rune(strings.Join(query, "-"))
	whole = whole[:min(len(whole), mostWords*mostLetters)]
	type distance struct {
		id           string
		words, whole int
	}
	var list []distance
	for _, c := range cards {
		d := distance{id: c.ID, whole: edits(whole, short(c.ID))}
		own := c.names()
		for _, w := range spelled {
			d.words += slices.Min(append(each(own, w), len(w)))
		}
		list = append(list, d)
	}
	sorting.By(list, func(i, j int) int {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(a.words, b.words), cmp.Compare(a.whole, b.whole))
	})
	var names []string
	for _, d := range list[:min(listed, len(list))] {
		names = append(names, d.id)
	}
	return names
}

// each is how many edits a word is away from each of some others.
func each(others []string, word []rune) []int {
	var list []int
	for _, o := range others {
		list = append(list, edits(word, o))
	}
	return list
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
