package source

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is a text that came from outside, as a terminal may show it. What
// could move the cursor, change colours, turn the direction of text around or
// begin a new line is spelled out as Go does (\x1b, \u202e, \n), and so is each
// byte that is no UTF-8. Letters, marks, symbols and spaces stay.
func Visible(text string) string {
	if plainText(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsGraphic(r):
			b.WriteRune(r)
		default:
			b.WriteString(spelled(r))
		}
		text = text[n:]
	}
	return b.String()
}

// plainText reports that nothing is to be spelled out, which is the rule.
func plainText(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0
}

func spelled(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
