package report

import (
	"strings"
)

// Wrap breaks a text at its spaces into lines of at most so many columns, and
// cuts only words that are longer: behind a joint, where they have one. It breaks
// at no other hyphen, so that a flag or the name of a card stays one word.
func Wrap(text string, width int) string {
	if Columns(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		w := Columns(word)
		switch {
		case i == 0:
		case used+1+w <= width:
			b.WriteByte(' ')
			used++
		default:
			b.WriteByte('\n')
			used = 0
		}
		if w > width {
			word = cut(word, width)
			w = Columns(word[strings.LastIndexByte(word, '\n')+1:])
		}
		b.WriteString(word)
		used += w
	}
	return b.String()
}

// cut breaks a word that is wider than a line: behind the last joint that leaves
// at least a third of the line, as in "optimizer_" and "step".
func cut(word string, width int) string {
	var b strings.Builder
	for Columns(word) > width {
		line, _, _ := strings.Cut(chop(word, width), "\n")
		if joint := strings.LastIndexAny(line, "_-=,/.:"); 3*joint >= len(line) {
			line = line[:joint+1]
		}
		if line == "" || !strings.HasPrefix(word, line) { // escapes, or a column too narrow for a letter
			return b.String() + chop(word, width)
		}
		b.WriteString(line + "\n")
		word = word[len(line):]
	}
	return b.String() + word
}

// paragraph wraps prose to the width, with an indent from the second line on.
func paragraph(s Style, indent, text string) string {
	wrapped := Wrap(text, max(minProse, s.Width-len(indent)))
	return strings.ReplaceAll(wrapped, "\n", "\n"+indent) + "\n"
}
