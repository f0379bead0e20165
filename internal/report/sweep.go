package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"floodmark/bytesize"
	"floodmark/record"
)

func sweep(b *strings.Builder, d *record.Sweep, s Style) {
	what := "the lab network"
	if len(d.Command) > 0 {
		what = strings.Join(d.Command, " ")
	}
	b.WriteString(paragraph(s, "  ", s.bold(d.Varied)+" varied · "+what))
	b.WriteString(paragraph(s, "  ", sweepBoundary(d, s)))
	b.WriteString("\n")
	if len(d.Points) > 0 {
		b.WriteString(sweepTable(d, s))
		if noPeak(d) {
			b.WriteString(paragraph(s, "  ", "no peak was read of any value: the program used no GPU through PyTorch; the boundary is by how it ended"))
		}
	}
	if len(d.Missing) > 0 {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("not run yet: %s of %s %s; go on with --resume %s", plural(int64(len(d.Missing)), "value"), d.Varied, listed(d.Missing), d.Folder)))
	}
	b.WriteString(paragraph(s, "  ", "each value in a process of its own, order "+d.Series.Order+"; one success at a small size says nothing about a larger one"))
	warnings(b, d.Warnings, s)
}

// sweepBoundary is the answer in a sentence.
func sweepBoundary(d *record.Sweep, s Style) string {
	pass, fail := d.Boundary.LargestPass, d.Boundary.SmallestFail
	switch {
	case !d.Boundary.Monotone:
		return s.verdict("cannot_tell", "no boundary") + fmt.Sprintf(" · %s passed and %s ran out of memory", bytesize.Group(*pass), bytesize.Group(*fail))
	case pass != nil && fail != nil:
		return s.verdict("fits", fmt.Sprintf("%s %s passed", d.Varied, bytesize.Group(*pass))) + fmt.Sprintf(" · %s ran out of memory", bytesize.Group(*fail))
	case pass != nil:
		return s.verdict("fits", fmt.Sprintf("%s %s passed", d.Varied, bytesize.Group(*pass))) + " · nothing ran out of memory: the boundary, if there is one, lies above"
	case fail != nil:
		return s.verdict("does_not_fit", fmt.Sprintf("%s %s ran out of memory", d.Varied, bytesize.Group(*fail))) + " · nothing passed: the boundary lies below"
	}
	return s.verdict("cannot_tell", "no boundary") + " · nothing passed and nothing ran out of memory"
}

func sweepTable(d *record.Sweep, s Style) string {
	all := make([]quantity, len(d.Points))
	for i, p := range d.Points {
		all[i] = sweepPeak(p)
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: d.Varied, align: right}, {title: "status"}, {title: "peak, " + unit.String(), align: right}, {title: "scope"}, {title: "took", align: right}, {title: "why", prose: true}}}
	for i, p := range d.Points {
		why := text(p.Error)
		if p.Error == nil {
			why = ""
		}
		if p.Attempt > 1 {
			why = strings.TrimPrefix(why+fmt.Sprintf(" (attempt %d)", p.Attempt), " ")
		}
		g.row(bytesize.Group(p.Value), strings.ReplaceAll(p.Status, "_", " "), all[i].number(unit), text(p.Scope), took(p.DurationNS), why)
	}
	return g.render(s)
}

// noPeak is a sweep of which no value has a peak.
func noPeak(d *record.Sweep) bool {
	return !slices.ContainsFunc(d.Points, func(p record.SweepPoint) bool { return p.PeakBytes != nil })
}

// sweepPeak is a point's peak: of a run that did not pass only a lower bound.
func sweepPeak(p record.SweepPoint) quantity {
	if p.PeakBytes == nil || p.Status == "passed" {
		return quantity{exact: p.PeakBytes}
	}
	return quantity{low: p.PeakBytes}
}

// took is a duration with the precision that a person wants.
func took(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d == 0:
		return unknown
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// listed is a few values of many.
func listed(values []int64) string {
	const shown = 8
	var words []string
	for i, v := range values {
		if i == shown {
			words = append(words, "…")
			break
		}
		words = append(words, bytesize.Group(v))
	}
	return strings.Join(words, ", ")
}
