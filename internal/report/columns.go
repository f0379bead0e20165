package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// How a terminal is told (ECMA-48, SGR).
const (
	sgrBold   = "\x1b[1m"
	sgrRed    = "\x1b[1;31m"
	sgrGreen  = "\x1b[1;32m"
	sgrYellow = "\x1b[1;33m"
	sgrReset  = "\x1b[m"
)

// Columns is how many columns of a terminal a text takes: two for a wide letter, none
// for a mark on the letter before it, for control characters and for sequences that
// set a colour. Letters are counted one by one: of a family of emoji each member counts.
func Columns(text string) int {
	columns := 0
	for len(text) > 0 {
		size, wide := letter(text)
		columns += wide
		text = text[size:]
	}
	return columns
}

// letter is how many bytes the first letter of a text has, or the escape sequence that
// begins there, and how many columns it takes.
func letter(text string) (size, columns int) {
	if n := escape(text); n > 0 {
		return n, 0
	}
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r < ' ', r == 0x7f, r >= 0x80 && unicode.In(r, unicode.Mn, unicode.Me, unicode.Cc, unicode.Cf):
		return size, 0
	case r < 0x80:
		return size, 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return size, 2
	}
	return size, 1
}

// escape is how many bytes a control sequence takes with which a text begins (ECMA-48:
// ESC [, parameters, a final byte from @ on); 0 without one.
func escape(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text); i++ {
		if text[i] >= '@' && text[i] <= '~' {
			return i + 1
		}
	}
	return len(text)
}

// chop breaks a word into lines of at most so many columns, wherever they end; a
// letter that is wider than a line has one of its own.
func chop(word string, width int) string {
	var b strings.Builder
	used := 0
	for len(word) > 0 {
		size, w := letter(word)
		if used > 0 && used+w > width {
			b.WriteByte('\n')
			used = 0
		}
		b.WriteString(word[:size])
		word = word[size:]
		used += w
	}
	return b.String()
}
