package report

import (
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
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
}

// grid is a table to be laid out.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

// minProse is the width below which wrapped prose stops being readable; a
// narrower terminal wraps the line itself.
const minProse = 16

func (g *grid) render(s Style) string {
	g.wrapProse(s.Width)
	titles := make([]string, len(g.columns))
	for i, c := range g.columns {
		titles[i] = c.title
	}
	t := table.New().
		Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).
		Headers(titles...).Rows(g.rows...).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if col < len(g.columns)-1 {
				style = style.PaddingRight(2)
			}
			if g.columns[col].align == right {
				style = style.Align(lipgloss.Right)
			}
			if row == table.HeaderRow && s.Color {
				style = style.Bold(true)
			}
			return style
		})
	return trimLines(t.Render())
}

func (g *grid) wrapProse(width int) {
	last := len(g.columns) - 1
	if last < 0 || !g.columns[last].prose {
		return
	}
	used := 0
	for col := range last {
		widest := ansi.StringWidth(g.columns[col].title)
		for _, row := range g.rows {
			widest = max(widest, ansi.StringWidth(row[col]))
		}
		used += widest + 2
	}
	room := max(minProse, width-used)
	for _, row := range g.rows {
		row[last] = ansi.Wrap(row[last], room, "")
	}
}

// trimLines takes the padding off the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// paragraph wraps prose to the width, with an indent from the second line on.
func paragraph(s Style, indent, text string) string {
	wrapped := ansi.Wrap(text, max(minProse, s.Width-len(indent)), "")
	return strings.ReplaceAll(wrapped, "\n", "\n"+indent) + "\n"
}
