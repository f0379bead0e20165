package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/internal/source"
	"floodmark/record"
)

// Style is how a report looks.
type Style struct {
	Width int            // columns of the terminal
	Color bool           // emphasis by ANSI sequences
	Unit  *bytesize.Unit // the unit of every figure; nil asks for a fitting one
	// EveryRank lists the terms of every class of ranks, not of the limiting one
	// alone.
	EveryRank bool
}

// Text writes a record as a person reads it. It fails on a document that it
// does not know, and when the writer does.
func Text(w io.Writer, document any, s Style) error {
	var b strings.Builder
	switch d := document.(type) {
	case *record.Estimate:
		estimate(&b, shown(d), s)
	case *record.Solve:
		solve(&b, shown(d), s)
	case *record.Snapshot:
		snapshot(&b, shown(d), s)
	case *record.Replay:
		replay(&b, shown(d), s)
	case *record.Comparison:
		comparison(&b, shown(d), s)
	case *record.Log:
		log(&b, shown(d), s)
	case *record.Measurement:
		measurement(&b, shown(d), s)
	case *record.Sweep:
		sweep(&b, shown(d), s)
	case *record.Decision:
		decision(&b, shown(d), s)
	case *record.GPUs:
		gpus(&b, shown(d), s)
	case *record.Environment:
		environment(&b, shown(d), s)
	case *record.Error:
		failure(&b, d, s)
	default:
		return fmt.Errorf("a %T has no text form", document)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unknown is how a missing figure looks.
const unknown = "—"

// quantity is one figure of a record: its exact count or its ends.
type quantity struct {
	exact, low, high *int64
}

// number prints a quantity in the table's unit, without the unit.
func (q quantity) number(u bytesize.Unit) string {
	show := func(n int64) string { return fixed(n, u) }
	switch {
	case q.exact != nil:
		return show(*q.exact)
	case q.low != nil && q.high != nil && show(*q.low) == show(*q.high):
		return show(*q.low)
	case q.low != nil && q.high != nil && *q.low < 0:
		return show(*q.low) + " to " + show(*q.high)
	case q.low != nil && q.high != nil:
		return show(*q.low) + "–" + show(*q.high)
	case q.low != nil:
		return "≥ " + show(*q.low)
	}
	return unknown
}

// fixed keeps a column's digits aligned: bytes whole, larger units with two
// decimals, and thousands apart.
func fixed(n int64, u bytesize.Unit) string {
	if u == bytesize.B {
		return bytesize.Group(n)
	}
	whole, decimals, _ := strings.Cut(bytesize.Fixed(n, u, 2), ".")
	if units, err := strconv.ParseInt(whole, 10, 64); err == nil && (units >= 1000 || units <= -1000) {
		whole = bytesize.Group(units)
	}
	return whole + "." + decimals
}

// signed is a difference, with its sign.
func signed(n *int64, u bytesize.Unit) string {
	switch {
	case n == nil:
		return unknown
	case *n > 0:
		return "+" + fixed(*n, u)
	}
	return fixed(*n, u)
}

// amount is one figure in a sentence: its number and its unit.
func (s Style) amount(q quantity) string {
	unit := s.unit(q)
	n := q.number(unit)
	if n == unknown {
		return n
	}
	return n + " " + unit.String()
}

// unit chooses the unit of a table by its largest quantity.
func (s Style) unit(all ...quantity) bytesize.Unit {
	if s.Unit != nil {
		return *s.Unit
	}
	var most int64
	for _, q := range all {
		for _, n := range []*int64{q.exact, q.low, q.high} {
			if n != nil {
				most = max(most, *n, -max(*n, -math.MaxInt64))
			}
		}
	}
	return bytesize.Suggest(most)
}

func (s Style) bold(text string) string {
	if !s.Color {
		return text
	}
	return sgrBold + text + sgrReset
}

// verdictColor marks the three answers apart; the words alone say the same.
func (s Style) verdict(value, text string) string {
	if !s.Color {
		return text
	}
	color := sgrBold
	switch value {
	case "fits":
		color = sgrGreen
	case "cannot_tell":
		color = sgrYellow
	case "does_not_fit", "not_runnable":
		color = sgrRed
	}
	return color + text + sgrReset
}

func warnings(b *strings.Builder, list []record.Warning, s Style) {
	for _, w := range list {
		b.WriteString(paragraph(s, "  ", "note: "+w.Text))
	}
}

func text(s *string) string {
	if s == nil {
		return unknown
	}
	return *s
}

// failure is a failed command: the message, then the hint. A message may show
// lines of a file, which are marked as such.
func failure(b *strings.Builder, e *record.Error, _ Style) {
	for i, line := range strings.Split(e.Message, "\n") {
		prefix := "floodmark: "
		if i > 0 {
			prefix += "| "
		}
		b.WriteString(strings.TrimRight(prefix+source.Visible(line), " ") + "\n")
	}
	if e.Hint != nil {
		fmt.Fprintf(b, "floodmark: hint: %s\n", source.Visible(*e.Hint))
	}
}
