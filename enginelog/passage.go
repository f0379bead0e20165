package enginelog

import (
	"slices"
	"sort"
	"strings"
)

// passage is squashed text that remembers where its words and lines began.
// What a terminal wrapped, even inside a word, is whole again in it. Offsets of
// words and lines are counted from the first byte that the passage ever had, so
// that dropping its beginning costs nothing.
type passage struct {
	text   string
	base   int     // how many bytes were dropped before text
	breaks []int   // where words begin
	starts []start // where lines begin
}

// start is where a line begins.
type start struct{ offset, line int }

// squash joins the words of a text: it drops white space, the borders of boxed
// tracebacks, and escaped line ends. The breaks are where words begin in it.
func squash(text string) (squashed string, breaks []int) {
	for _, separator := range [...]string{`\n`, "\u00a0", "│"} {
		if strings.Contains(text, separator) {
			text = strings.ReplaceAll(text, separator, " ")
		}
	}
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		word, rest, _ := strings.Cut(text, " ")
		if word != "" {
			breaks = append(breaks, b.Len())
			b.WriteString(word)
		}
		text = rest
	}
	return b.String(), breaks
}

// add appends a squashed line.
func (p *passage) add(line int, squashed string, breaks []int) {
	end := p.base + len(p.text)
	p.starts = append(p.starts, start{offset: end, line: line})
	for _, at := range breaks {
		p.breaks = append(p.breaks, end+at)
	}
	p.text += squashed
}

// cut drops the text before an offset of it.
func (p *passage) cut(offset int) {
	p.base += offset
	p.text = p.text[offset:]
	p.breaks = p.breaks[sort.SearchInts(p.breaks, p.base):]
	keep := 0
	for keep+1 < len(p.starts) && p.starts[keep+1].offset <= p.base {
		keep++
	}
	p.starts = p.starts[keep:]
	if p.text == "" {
		p.starts = nil
	}
}

// shrink gives back the memory of what was dropped, where that is much.
func (p *passage) shrink(dropped int) {
	if dropped <= longest {
		return
	}
	p.text = strings.Clone(p.text)
	p.breaks, p.starts = slices.Clone(p.breaks), slices.Clone(p.starts)
}

// upTo is the passage up to an offset of its text.
func (p *passage) upTo(end int) passage {
	head := *p
	head.text = p.text[:end]
	return head
}

// lineAt is the line in which an offset of the text lies.
func (p *passage) lineAt(offset int) int {
	line := 0
	for _, s := range p.starts {
		if line > 0 && s.offset > p.base+offset {
			break
		}
		line = s.line
	}
	return line
}

// spaced gives the text, up to an offset, its spaces back.
func (p *passage) spaced(end int) string {
	var b strings.Builder
	from := 0
	for _, at := range p.breaks {
		at -= p.base
		if at >= end {
			break
		}
		if at > from {
			b.WriteString(p.text[from:at])
			b.WriteByte(' ')
			from = at
		}
	}
	b.WriteString(p.text[from:end])
	return b.String()
}
