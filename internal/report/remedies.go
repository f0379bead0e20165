package report

import (
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// remedies are the single changes that lower what does not fit, those that make it
// fit together, and those that cannot reach what binds.
func remedies(b *strings.Builder, r record.Remedies, s Style) {
	if r.Reading != nil {
		b.WriteString(paragraph(s, "    ", "  what would tell: "+*r.Reading))
	}
	if len(r.Options) > 0 {
		b.WriteString("\n" + paragraph(s, "  ", s.bold("one change")+" at a time, each estimated as a whole; "+r.Term+" binds in "+r.Phase+" on rank "+bytesize.Group(int64(r.Rank))))
		options(b, r, s)
	}
	if r.Together != nil {
		together(b, *r.Together, s)
	}
	if len(r.CannotReach) > 0 {
		b.WriteString(paragraph(s, "  ", "cannot reach "+r.Term+": "+useless(r.CannotReach)))
	}
	if len(r.NotTried) > 0 {
		b.WriteString(paragraph(s, "  ", "not tried to the end, for a job of so many allocations takes long: "+strings.Join(r.NotTried, ", ")+"; --what-if tries a setting"))
	}
}

func options(b *strings.Builder, r record.Remedies, s Style) {
	var all []quantity
	for _, o := range r.Options {
		all = append(all, less(o), quantity{exact: o.ShortBytes})
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "setting"}, {title: "less, " + unit.String(), align: right}, {title: "then"}, {title: "costs", prose: true}}}
	for i, o := range r.Options {
		g.row(o.Setting, all[2*i].number(unit), next(o, r.Phase, unit, s), o.Cost)
	}
	b.WriteString(g.render(s))
}

// together is the changes that make it fit at once.
func together(b *strings.Builder, c record.Combination, s Style) {
	moved := less(record.Option{LowMovedBytes: c.LowMovedBytes, HighMovedBytes: c.HighMovedBytes})
	var settings []string
	g := grid{columns: []column{{title: "setting"}, {title: "costs", prose: true}}}
	for _, p := range c.Parts {
		settings = append(settings, p.Setting)
		g.row(p.Setting, p.Cost)
	}
	unit := s.unit(moved)
	b.WriteString("\n" + paragraph(s, "  ", s.bold("together")+" these make it fit, and none can be left out: "+moved.number(unit)+" "+unit.String()+" less; --what-if "+strings.Join(settings, "+")))
	b.WriteString(g.render(s))
}

// less is by how much the process is lower at the peak: at its least and at its
// most.
func less(o record.Option) quantity {
	if o.LowMovedBytes == nil || o.HighMovedBytes == nil {
		return quantity{low: o.LowMovedBytes}
	}
	low, high := *o.LowMovedBytes, *o.HighMovedBytes
	if low > high {
		low, high = high, low
	}
	return quantity{low: &low, high: &high}
}

// next is the answer with a change, and the phase that binds then where it is
// another.
func next(o record.Option, phase string, u bytesize.Unit, s Style) string {
	answer := words(o.Verdict.Value)
	switch low := o.Verdict.HeadroomLowBytes; {
	case o.ShortBytes != nil:
		answer = "short of " + s.visible(*o.ShortBytes, u)
	case o.Verdict.Value == "cannot_tell" && low != nil && *low < 0:
		answer = "may lack " + s.visible(-*low, u)
	}
	answer = s.verdict(o.Verdict.Value, answer)
	if o.Verdict.Value != "fits" && o.Verdict.Phase != nil && *o.Verdict.Phase != phase {
		answer += " in " + *o.Verdict.Phase
	}
	return answer
}

// visible is a number in the table's unit, or with its own where it is too little
// to be seen in that.
func (s Style) visible(n int64, u bytesize.Unit) string {
	if text := fixed(n, u); n == 0 || strings.Trim(text, "0.") != "" {
		return text
	}
	return bytesize.Format(n, bytesize.Suggest(n))
}

// useless lists what does not reach the term, those with one reason together.
func useless(list []record.Useless) string {
	var reasons []string
	by := map[string][]string{}
	for _, u := range list {
		if !slices.Contains(reasons, u.Reason) {
			reasons = append(reasons, u.Reason)
		}
		by[u.Reason] = append(by[u.Reason], u.Setting)
	}
	for i, reason := range reasons {
		reasons[i] = strings.Join(by[reason], ", ") + " (" + reason + ")"
	}
	return strings.Join(reasons, "; ")
}
