package report

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// How a terminal is told (ECMA-48, SGR).
const (
	sgrBold   = "\x1b[1m"
	sgrRed    = "\x1b[1;31m"
	sgrGreen  = "\x1b[1;32m"
	sgrYellow = "\x1b[1;33m"
	sgrReset  = "\x1b[m"
)

// terminal is how widths are counted: escapes take no column.
func terminal() displaywidth.Options { return displaywidth.Options{ControlSequences: true} }

// Columns is how many columns of a terminal a text takes.
func Columns(text string) int { return terminal().String(text) }

// chop breaks a word into lines of at most so many columns, wherever they end; a
// letter that is wider than a line has one of its own.
func chop(word string, width int) string {
	var b strings.Builder
	used := 0
	for letters := terminal().StringGraphemes(word); letters.Next(); {
		w := letters.Width()
		if used > 0 && used+w > width {
			b.WriteByte('\n')
			used = 0
		}
		b.WriteString(letters.Value())
		used += w
	}
	return b.String()
}
