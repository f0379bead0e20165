package report

import (
	"strings"
)

// align says on which side of its column a cell stands.
type align uint8

const (
	left  align = iota
	right       // numbers
)

// column is one heading. Only the last column of a table may be prose: it is
// wrapped into what the others leave.
type column struct {
	title string
	align align
	prose bool
	spare bool // left out where the table does not fit with it
}

// grid is a table to be laid out.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

const (
	gutter   = 2  // spaces between two columns
	minProse = 16 // columns below which wrapped prose stops being readable
	minName  = 12 // the same for names
)

// render lays a table out within the width: prose is wrapped first, then
// headings, then names. Where that is not enough for the numbers, each row
// becomes lines of its own.
func (g *grid) render(s Style) string {
	widths, ok := g.widths(s.Width)
	if !ok {
		return g.stacked(s)
	}
	var b strings.Builder
	titles := make([]string, len(g.columns))
	for i, c := range g.columns {
		titles[i] = c.title
	}
	g.line(&b, titles, widths, s.bold)
	for _, row := range g.rows {
		g.line(&b, row, widths, func(text string) string { return text })
	}
	return b.String()
}

// within is the table without its spare columns where it does not fit with them.
func (g *grid) within(width int) *grid {
	if _, ok := g.widths(width); ok {
		return g
	}
	narrow := &grid{rows: make([][]string, len(g.rows))}
	for i, c := range g.columns {
		if c.spare {
			continue
		}
		narrow.columns = append(narrow.columns, c)
		for n, row := range g.rows {
			narrow.rows[n] = append(narrow.rows[n], row[i])
		}
	}
	return narrow
}

// widths are those of the columns, and false where they do not fit.
func (g *grid) widths(width int) ([]int, bool) {
	n := len(g.columns)
	cells, words, widths := make([]int, n), make([]int, n), make([]int, n)
	total := gutter * (n - 1)
	for i, c := range g.columns {
		for _, row := range g.rows {
			cells[i] = max(cells[i], Columns(row[i]))
		}
		for _, word := range strings.Fields(c.title) {
			words[i] = max(words[i], Columns(word))
		}
		widths[i] = max(cells[i], Columns(c.title))
		total += widths[i]
	}
	shrink := func(i, least int) {
		taken := min(max(total-width, 0), max(widths[i]-least, 0))
		widths[i] -= taken
		total -= taken
	}
	for i, c := range g.columns {
		if c.prose {
			shrink(i, minProse)
		}
	}
	for i := range g.columns {
		shrink(i, max(cells[i], words[i]))
	}
	for i, c := range g.columns {
		if c.align == left {
			shrink(i, max(minName, words[i]))
		}
	}
	return widths, total <= width
}

// line writes one row, of as many lines as its tallest cell.
func (g *grid) line(b *strings.Builder, cells []string, widths []int, style func(string) string) {
	parts, height := make([][]string, len(cells)), 0
	for i, cell := range cells {
		parts[i] = strings.Split(Wrap(cell, widths[i]), "\n")
		height = max(height, len(parts[i]))
	}
	for at := range height {
		var line strings.Builder
		for i, part := range parts {
			text := ""
			if at < len(part) {
				text = part[at]
			}
			padding := strings.Repeat(" ", max(widths[i]-Columns(text), 0))
			if text != "" {
				text = style(text)
			}
			if g.columns[i].align == right {
				text, padding = padding+text, ""
			}
			line.WriteString(text + padding + strings.Repeat(" ", gutter))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// stacked writes each row as lines of its own: the first cell, and below it the
// others with their headings. A cell without a heading, such as a number's unit,
// stays with the one before it.
func (g *grid) stacked(s Style) string {
	var b strings.Builder
	for _, row := range g.rows {
		var lines []string
		for i, cell := range row {
			c := g.columns[i]
			switch {
			case cell == "":
				continue
			case c.title == "" && !c.prose && len(lines) > 0:
				lines[len(lines)-1] += " " + cell
				continue
			case c.title != "":
				cell = s.bold(c.title) + ": " + cell
			}
			lines = append(lines, cell)
		}
		for i, line := range lines {
			if i > 0 {
				line = "  " + line
			}
			b.WriteString(paragraph(s, "    ", line))
		}
	}
	return b.String()
}
