package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// part is a piece of a decision that every form of it shows: a title, sentences,
// and a table.
type part struct {
	title     string
	sentences []string
	head      []string
	rows      [][]string
}

// decision is the record on a terminal.
func decision(b *strings.Builder, d *record.Decision, s Style) {
	for i, p := range decisionParts(d) {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(paragraph(s, "  ", s.bold(p.title)))
		for _, text := range p.sentences {
			b.WriteString(paragraph(s, "  ", text))
		}
		if len(p.rows) == 0 {
			continue
		}
		g := grid{}
		for j, title := range p.head {
			g.columns = append(g.columns, column{title: title, prose: j == len(p.head)-1})
		}
		g.rows = p.rows
		b.WriteString(g.render(s))
	}
	warnings(b, d.Warnings, s)
}

// DecisionMarkdown writes the record as Markdown, to paste into an issue.
func DecisionMarkdown(w io.Writer, d *record.Decision) error {
	var b strings.Builder
	b.WriteString("# Decision\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;")
	for _, p := range decisionParts(shown(d)) {
		fmt.Fprintf(&b, "\n## %s\n\n", cell.Replace(p.title))
		for _, text := range p.sentences {
			fmt.Fprintf(&b, "%s\n\n", cell.Replace(text))
		}
		if len(p.rows) == 0 {
			continue
		}
		line := func(cells []string) {
			for _, c := range cells {
				fmt.Fprintf(&b, "| %s ", cell.Replace(cmp.Or(c, " ")))
			}
			b.WriteString("|\n")
		}
		line(p.head)
		b.WriteString(strings.Repeat("| --- ", len(p.head)) + "|\n")
		for _, row := range p.rows {
			line(row)
		}
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(&b, "\n> %s\n", cell.Replace(w.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// decisionParts keeps what was calculated, what was observed and what is assumed
// apart.
func decisionParts(d *record.Decision) []part {
	chosen := part{title: "Chosen", sentences: []string{"nothing is chosen"}}
	if c := d.Chosen; c != nil {
		chosen.sentences = []string{fmt.Sprintf("%s, because %s · %s", c.Option, c.Reason, c.Basis)}
	}
	parts := []part{chosen,
		{title: "Calculated", sentences: []string{"weights: " + countOf(d.WeightsBytes) + " of stored tensors; nothing else that memory holds is in this figure"}},
		observedPart(d), optionsPart(d), marginPart(d), cardsPart(d)}
	scope := part{title: "Out of scope", sentences: d.OutOfScope}
	if len(scope.sentences) == 0 {
		scope.sentences = []string{"nothing was named"}
	}
	evidence := part{title: "Raw results", head: []string{"file", "kind", "SHA-256"}}
	for _, e := range d.Evidence {
		evidence.rows = append(evidence.rows, []string{e.Name, e.Kind, e.SHA256})
	}
	return append(parts, scope, evidence)
}

// countOf is a count in bytes and in a unit, or —.
func countOf(n *int64) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprintf("%s B (%s)", bytesize.Group(*n), bytesize.Format(*n, bytesize.Suggest(*n)))
}

func observedPart(d *record.Decision) part {
	p := part{title: "Observed", head: []string{"counter", "scope", "phase", "value"}}
	if e := d.Environment; e != nil {
		p.sentences = append(p.sentences, fmt.Sprintf("on PyTorch %s, %s, driver %s, allocator %s %s", text(e.PyTorch), text(e.Backend), text(e.Driver), text(e.Allocator.Backend), text(e.Allocator.Settings)))
		for _, card := range e.Devices {
			p.sentences = append(p.sentences, fmt.Sprintf("cuda:%d is %s, which reports %s", card.Index, text(card.Name), countOf(card.ReportedBytes)))
		}
	}
	for _, l := range d.MaximumLoad {
		p.sentences = append(p.sentences, fmt.Sprintf("largest %s that was run: %s; a larger one is not tested", strings.ReplaceAll(l.Dimension, "_", " "), bytesize.Group(l.Value)))
	}
	for _, phase := range d.Phases {
		step := ""
		if phase.Step > 0 {
			step = fmt.Sprintf(" %d", phase.Step)
		}
		p.sentences = append(p.sentences, strings.ReplaceAll(phase.Name, "_", " ")+step+": "+strings.ReplaceAll(phase.Status, "_", " "))
	}
	for _, c := range d.Counters {
		p.rows = append(p.rows, []string{c.Name, c.Scope, c.Phase, countOf(c.Value)})
	}
	return p
}

func optionsPart(d *record.Decision) part {
	p := part{title: "Options", head: []string{"option", "peak", "took", "quality", "result", "lacks"}}
	for _, o := range d.Options {
		lacks := strings.Join(o.Missing, ", ")
		if !o.Comparable {
			lacks = strings.TrimPrefix(lacks+"; not comparable with the first: more than one thing differs", "; ")
		}
		duration := unknown
		if o.DurationNS != nil {
			duration = took(*o.DurationNS)
		}
		p.rows = append(p.rows, []string{o.Name + " (" + o.Status + ")", countOf(o.PeakBytes), duration, text(o.Quality), text(o.ResultCheck), lacks})
	}
	return p
}

func marginPart(d *record.Decision) part {
	p := part{title: "Assumed: what the margin is for", head: []string{"variation", "bytes", "origin"}}
	for _, v := range d.Margin {
		p.rows = append(p.rows, []string{v.Variation, countOf(v.Bytes), v.Origin})
	}
	if len(p.rows) == 0 {
		p.sentences = []string{"no variation was named, so that no room is kept"}
	}
	return p
}

func cardsPart(d *record.Decision) part {
	p := part{title: "Each card, which is never one pool with another", head: []string{"card", "reports", "room", "verdict", "why"}}
	for _, c := range d.Cards {
		reports := countOf(c.ReportedLowBytes)
		if c.ReportedHighBytes != nil && (c.ReportedLowBytes == nil || *c.ReportedHighBytes != *c.ReportedLowBytes) {
			reports += " to " + countOf(c.ReportedHighBytes)
		}
		p.rows = append(p.rows, []string{cmp.Or(c.Name, c.ID), reports, countOf(c.RoomLowBytes), strings.ReplaceAll(c.Verdict, "_", " "), c.Reason})
	}
	return p
}
