package report

import (
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// barRow is one bar: what is needed, against what there is.
type barRow struct {
	name    string
	need    quantity
	has     quantity // of the card; nothing where none is named
	verdict string   // colours the bar; may be empty
	where   string   // the phase of the peak
}

// bars draws each row's need against its capacity line, on one scale. Where the
// terminal leaves no room for a bar, the numbers stand alone.
func bars(b *strings.Builder, title string, rows []barRow, s Style) {
	if scaled(b, title, rows, s) {
		b.WriteString(paragraph(s, "  ", legend(rows)))
	}
}

// scaled draws the rows of one scale, without the legend; false where the numbers
// stand alone.
func scaled(b *strings.Builder, title string, rows []barRow, s Style) bool {
	var all []quantity
	for _, r := range rows {
		all = append(all, r.need, r.has)
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: title + ", " + unit.String()}, {title: "needs", align: right}, {title: "has", align: right}, {title: "peak in"}}}
	for _, r := range rows {
		g.row(r.name, r.need.number(unit), r.has.number(unit), r.where)
	}
	widths, fits := g.widths(s.Width)
	room := s.Width
	for _, w := range widths {
		room -= w + gutter
	}
	if !fits || room < minBar {
		b.WriteString(g.render(s))
		return false
	}
	room = min(room, maxBar)
	g.columns = slices.Insert(g.columns, 1, column{})
	scale := scaleOf(rows)
	for i, r := range rows {
		g.rows[i] = slices.Insert(g.rows[i], 1, s.verdict(r.verdict, draw(r.need, r.has, scale, room)))
	}
	b.WriteString(g.render(s))
	return true
}

const (
	minBar = 12 // columns below which a bar tells nothing
	maxBar = 60
	// beyond is how many capacities a scale shows at most, so that the line
	// stays visible beside a need that is far too large.
	beyond = 3
)

// scaleOf is the bytes of a whole bar: the largest need or capacity, as far as
// it leaves the capacity lines visible.
func scaleOf(rows []barRow) int64 {
	var need, has int64
	for _, r := range rows {
		low, high := r.need.ends()
		need = max(need, low, high)
		_, most := r.has.ends()
		has = max(has, most)
	}
	if has > 0 && need/beyond > has {
		need = has * beyond
	}
	return max(need, has, 1)
}

// ends of a quantity; a high that nobody can give is −1.
func (q quantity) ends() (low, high int64) {
	switch {
	case q.exact != nil:
		return *q.exact, *q.exact
	case q.low != nil && q.high != nil:
		return *q.low, *q.high
	case q.low != nil:
		return *q.low, -1
	}
	return 0, -1
}

// The marks of a bar.
const (
	barLow     = "█" // needed at least
	barHigh    = "▒" // needed at most
	barLine    = "│" // what there is at least
	barUnknown = "?" // and nobody can say how much more
	barBeyond  = "›" // the need goes on beyond the bar
)

// draw is one bar of so many columns. What is within the capacity never crosses
// its line, and what is beyond it always does, however little it is.
func draw(need, has quantity, scale int64, columns int) string {
	low, high := need.ends()
	capacity, _ := has.ends()
	at := -1 // the column of the line
	if capacity > 0 {
		at = max(1, min(int(portion(capacity, scale)*float64(columns)), columns-2))
	}
	ends := func(n int64) int {
		switch {
		case at < 0:
			return rounded(portion(n, scale), columns)
		case n <= capacity:
			return rounded(portion(n, capacity), at)
		}
		return at + 1 + max(1, rounded(portion(n-capacity, scale-capacity), columns-at-1))
	}
	bar := make([]string, columns)
	sure, most := ends(low), ends(max(low, high))
	for i := range bar {
		switch {
		case i == at:
			bar[i] = barLine
		case i < sure:
			bar[i] = barLow
		case i < most:
			bar[i] = barHigh
		case high < 0 && (i == sure || i == sure+1 && sure == at):
			bar[i] = barUnknown
		default:
			bar[i] = " "
		}
	}
	if max(low, high) > scale {
		bar[columns-1] = barBeyond
	}
	return strings.Join(bar, "")
}

// portion is a part of a whole, from 0 to 1.
func portion(n, of int64) float64 { return max(0, min(1, float64(n)/float64(max(1, of)))) }

func rounded(part float64, columns int) int { return int(part*float64(columns) + 0.5) }

// legend names the marks that bars can have.
func legend(rows []barRow) string {
	text := barLow + " at least  " + barHigh + " at most"
	line, open := false, false
	for _, r := range rows {
		_, high := r.need.ends()
		_, has := r.has.ends()
		line, open = line || has > 0, open || high < 0
	}
	if open {
		text += "  " + barUnknown + " nobody can say"
	}
	if line {
		text += "  " + barLine + " what there is"
	}
	return text
}

// rankBars is a bar for each class of equal ranks, as many as can be read; the
// limiting one is always among them.
func rankBars(b *strings.Builder, e *record.Estimate, s Style) {
	limiting := limitingRank(e)
	var rows []barRow
	left := 0
	for i, r := range e.Ranks {
		switch {
		case r.Peak == nil:
		case len(rows) < mostBars || i == limiting:
			rows = append(rows, rankBar(r))
		default:
			left++
		}
	}
	if len(rows) == 0 || len(rows) == 1 && e.Ranks[0].Device == nil && e.Host == nil {
		return
	}
	b.WriteString("\n")
	if e.Host == nil {
		bars(b, "rank", rows, s)
	} else { // main memory is larger than any card, so that it has a scale and a unit of its own
		host := []barRow{hostBar(*e.Host)}
		drawn := scaled(b, "rank", rows, s)
		if scaled(b, "host", host, s) || drawn {
			b.WriteString(paragraph(s, "  ", legend(append(rows, host...))))
		}
	}
	if left > 0 {
		b.WriteString(paragraph(s, "  ", bytesize.Group(int64(left))+" more classes of ranks need no more than these; --json has them"))
	}
}

// hostBar is what all ranks put into main memory.
func hostBar(h record.Host) barRow {
	row := barRow{name: "main memory", need: quantity{h.Bytes, h.LowBytes, h.HighBytes}, has: quantity{exact: h.CapacityBytes}, where: h.Phase}
	if h.Verdict != nil {
		row.verdict = h.Verdict.Value
	}
	return row
}

// mostBars is how many bars are drawn.
const mostBars = 12

func rankBar(r record.Rank) barRow {
	row := barRow{name: rankName(r), need: quantity{r.Peak.Bytes, r.Peak.LowBytes, r.Peak.HighBytes}, where: r.Peak.Phase}
	if d := r.Device; d != nil {
		row.has = quantity{d.UsableBytes, d.UsableLowBytes, d.UsableHighBytes}
	}
	if r.Verdict != nil {
		row.verdict = r.Verdict.Value
	}
	return row
}

// limitingRank is the index of the class that the verdict names, or of the one
// that stands highest.
func limitingRank(e *record.Estimate) int {
	best, most := 0, int64(-1)
	for i, r := range e.Ranks {
		if e.Verdict != nil && slices.Contains(r.Ranks, e.Verdict.Rank) {
			return i
		}
		if r.Peak == nil {
			continue
		}
		if low, _ := (quantity{r.Peak.Bytes, r.Peak.LowBytes, r.Peak.HighBytes}).ends(); low > most {
			best, most = i, low
		}
	}
	return best
}
