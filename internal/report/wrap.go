package report

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks a text at its spaces into lines of at most so many columns, and
// cuts only words that are longer. It breaks at no hyphen, so that a flag or the
// name of a card stays one word.
func Wrap(text string, width int) string {
	if ansi.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		w := ansi.StringWidth(word)
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
			word = ansi.Hardwrap(word, width, true)
			w = ansi.StringWidth(word[strings.LastIndexByte(word, '\n')+1:])
		}
		b.WriteString(word)
		used += w
	}
	return b.String()
}

// paragraph wraps prose to the width, with an indent from the second line on.
func paragraph(s Style, indent, text string) string {
	wrapped := Wrap(text, max(minProse, s.Width-len(indent)))
	return strings.ReplaceAll(wrapped, "\n", "\n"+indent) + "\n"
}
