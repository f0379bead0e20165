package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/record"
)

func estimate(b *strings.Builder, e *record.Estimate, s Style) {
	switch {
	case e.Preparation != nil:
		preparation(b, e.Preparation, s)
	case e.Shared != nil:
		shared(b, *e.Shared, s)
	default:
		modelHead(b, e, s)
		if len(e.Parts) > 0 {
			parts(b, e.Parts, s)
		}
		ranks(b, e, s)
	}
	warnings(b, e.Warnings, s)
	capacity(b, e, s)
	if e.Verdict != nil {
		verdict(b, *e.Verdict, s)
	}
	if e.Advice != nil {
		remedies(b, *e.Advice, s)
	}
	for _, c := range e.WhatIf {
		change(b, c, s)
	}
}

// ranks is what each class of ranks needs; with many cards, the cards.
func ranks(b *strings.Builder, e *record.Estimate, s Style) {
	if len(e.Cards) > 0 {
		cards(b, e, s)
		return
	}
	rankBars(b, e, s)
	limiting := limitingRank(e)
	for i, r := range e.Ranks {
		if i == limiting || s.EveryRank {
			rank(b, r, s)
		}
	}
	if len(e.Ranks) > 1 && !s.EveryRank {
		b.WriteString(paragraph(s, "  ", "of "+count(len(e.Ranks), "kind")+" of ranks this is the one that limits; --every-rank lists them all"))
	}
}

// preparation is the answer to --parameters and --bits: arithmetic, with what
// it leaves out. Without a unit the same integers stand in GB and in GiB.
func preparation(b *strings.Builder, p *record.Preparation, s Style) {
	units := []bytesize.Unit{bytesize.GB, bytesize.GiB}
	if s.Unit != nil {
		units = []bytesize.Unit{*s.Unit}
	}
	g := grid{columns: []column{{title: ""}, {title: "bytes", align: right}}}
	units = slices.DeleteFunc(units, func(u bytesize.Unit) bool { return u == bytesize.B }) // the column of bytes
	for _, u := range units {
		g.columns = append(g.columns, column{title: u.String(), align: right})
	}
	g.columns = append(g.columns, column{title: "", prose: true})
	row := func(name string, n int64, note string) {
		cells := []string{name, bytesize.Group(n)}
		for _, u := range units {
			cells = append(cells, fixed(n, u))
		}
		g.row(append(cells, note)...)
	}
	row("weights", p.WeightsBytes, "calculated: "+plural(p.Parameters, "parameter")+" × "+count(p.Bits, "bit"))
	for _, st := range p.States {
		row(st.Tensor, st.Bytes, "calculated: as many in "+st.Format)
	}
	if len(p.States) > 0 && p.ReserveBytes == 0 {
		row("together", p.TotalBytes, "the states of this layout; no proof for any card")
	}
	if p.ReserveBytes > 0 {
		row("reserve", p.ReserveBytes, "assumed by you")
		row("both", p.TotalBytes, "a preparation assumption, no proof for any card")
	}
	b.WriteString(g.render(s))
	b.WriteString("\n" + paragraph(s, "  ", "not included: "+strings.Join(p.Excluded, ", ")))
	for _, c := range p.Caveats {
		b.WriteString(paragraph(s, "  ", "note: "+c))
	}
}

func modelHead(b *strings.Builder, e *record.Estimate, s Style) {
	m := e.Model
	title := text(m.Name)
	if len(m.Architectures) > 0 {
		title += " · " + strings.Join(m.Architectures, ", ")
	}
	b.WriteString(paragraph(s, "  ", s.bold(title)))
	line := "parameters " + unknown
	if m.Parameters != nil {
		line = plural(*m.Parameters, "parameter")
	}
	line += " · weights " + s.amount(quantity{m.WeightsBytes, m.WeightsLowBytes, m.WeightsHighBytes})
	if formats := formatNames(m.StoredFormats); formats != "" {
		line += " · stored as " + formats
	}
	if m.ComputeFormat != nil {
		line += " · computed in " + *m.ComputeFormat
	}
	line += " · engine " + e.Engine.Name
	if e.Engine.Software != nil {
		line += " for " + *e.Engine.Software
		if e.Engine.Version != nil {
			line += " " + *e.Engine.Version
		}
	}
	b.WriteString(paragraph(s, "  ", line))
	if e.Training != nil {
		trained(b, e.Training, s)
	}
	for _, a := range e.Adapters {
		kind := a.Kind
		if a.Rank > 0 {
			kind += fmt.Sprintf(" of rank %d", a.Rank)
		}
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("adapter %s · %s · %s parameters · %s", a.Name, kind, bytesize.Group(a.Parameters), s.amount(quantity{a.Bytes, a.LowBytes, a.HighBytes}))))
	}
	declared(b, e, s)
	for _, field := range m.NotUnderstood {
		b.WriteString(paragraph(s, "  ", "not understood: "+field))
	}
}

func formatNames(formats []record.Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

func rank(b *strings.Builder, r record.Rank, s Style) {
	line := s.bold(rankName(r))
	if d := r.Device; d != nil {
		line += " on " + d.Name + ", " + capacityOf(*d, s)
	}
	b.WriteString("\n" + paragraph(s, "  ", line))
	if isStrip(r.Phases) {
		s = s.small(r)
		strip(b, r, s)
	} else {
		phases(b, r.Phases, s)
	}
	if r.Peak != nil {
		composition(b, r, s)
	}
}

// capacityOf says what a card reports, and where an end of it is not a reading.
func capacityOf(d record.Device, s Style) string {
	reported := s.amount(quantity{d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes})
	switch usable := s.amount(quantity{d.UsableBytes, d.UsableLowBytes, d.UsableHighBytes}); {
	case usable != unknown && usable != reported && reported == unknown:
		return usable + " of it free"
	case usable != unknown && usable != reported:
		return "which reports " + reported + ", " + usable + " of it free"
	case reported == unknown:
		return "whose capacity nobody has reported"
	case d.Origin != nil && *d.Origin == "assumed":
		return "which as you say reports " + reported
	case d.Origin != nil && *d.Origin != "observed" && d.ReportedLowBytes != nil && *d.ReportedLowBytes == 0:
		return "which reports at most " + s.amount(quantity{exact: d.ReportedHighBytes})
	case d.Origin != nil && *d.Origin != "observed":
		return "which reports " + reported + " (the low end is " + *d.Origin + ", not reported)"
	}
	return "which reports " + reported
}

func rankName(r record.Rank) string {
	if len(r.Ranks) > 1 {
		return "ranks " + ranges("", r.Ranks)
	}
	return fmt.Sprintf("rank %d", r.Rank)
}

func phases(b *strings.Builder, list []record.Phase, s Style) {
	var all []quantity
	for _, p := range list {
		all = append(all, requested(p), process(p))
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "phase, " + unit.String()}, {title: "requested", align: right},
		{title: "allocated", align: right}, {title: "reserved", align: right}, {title: "process", align: right}}}
	for _, p := range list {
		g.row(phaseName(p.Name, p.Step), requested(p).number(unit),
			quantity{p.PeakAllocatedBytes, p.PeakAllocatedLowBytes, p.PeakAllocatedHighBytes}.number(unit),
			quantity{p.PeakReservedBytes, p.PeakReservedLowBytes, p.PeakReservedHighBytes}.number(unit),
			process(p).number(unit))
	}
	b.WriteString(g.render(s))
}

func requested(p record.Phase) quantity {
	return quantity{p.PeakRequestedBytes, p.PeakRequestedLowBytes, p.PeakRequestedHighBytes}
}

func process(p record.Phase) quantity {
	return quantity{p.ProcessBytes, p.ProcessLowBytes, p.ProcessHighBytes}
}

func phaseName(name string, step int) string {
	if step > 0 {
		return fmt.Sprintf("%s, step %d", name, step)
	}
	return name
}

// composition is what the highest phase is made of, each row with how it is
// known.
func composition(b *strings.Builder, r record.Rank, s Style) {
	total := quantity{r.Peak.Bytes, r.Peak.LowBytes, r.Peak.HighBytes}
	if at := peakPhase(r); at >= 0 {
		total = process(r.Phases[at])
	}
	all := []quantity{total}
	for _, share := range r.Peak.Composition {
		all = append(all, quantity{share.Bytes, share.LowBytes, share.HighBytes})
	}
	unit := s.unit(all...)
	b.WriteString("\n" + paragraph(s, "", placed(r, unit, s)))
	g := grid{columns: []column{{title: "term"}, {title: unit.String(), align: right}, {title: "how it is known", prose: true}}}
	terms := map[string]record.Term{}
	for _, t := range r.Terms {
		terms[t.ID] = t
	}
	var none []string
	for _, share := range r.Peak.Composition {
		t := terms[share.Term]
		if t.Status == "zero" {
			none = append(none, share.Term+" ("+text(t.Reason)+")")
			continue
		}
		if share.Bytes != nil || share.HighBytes != nil { // unknown in another phase, and not here
			t.Status = "counted"
		}
		g.row(share.Term, quantity{share.Bytes, share.LowBytes, share.HighBytes}.number(unit), how(t))
	}
	g.row(r.Peak.Scope, total.number(unit), "together, at one moment")
	b.WriteString(g.render(s))
	if len(none) > 0 {
		b.WriteString(paragraph(s, "  ", "zero: "+strings.Join(none, "; ")))
	}
	if said := stoodHigher(r, terms, s); said != "" {
		b.WriteString(paragraph(s, "  ", said))
	}
}

// stoodHigher says that tensors stood higher at another moment of the phase, where
// they are not what the process held when it stood highest: the allocator had kept
// their blocks, and no row of the table says whose they were.
func stoodHigher(r record.Rank, terms map[string]record.Term, s Style) string {
	at := peakPhase(r)
	if at < 0 {
		return ""
	}
	peak := allocatedIn(r.Phases[at])
	least := cmp.Or(peak.exact, peak.low)
	if least == nil {
		return ""
	}
	left := *least
	for _, share := range r.Peak.Composition {
		switch account.Scope(terms[share.Term].Scope) {
		case account.Requested, account.Allocated:
			most := cmp.Or(share.Bytes, share.HighBytes)
			if most == nil {
				return ""
			}
			left -= *most
		}
	}
	unit := s.unit(peak)
	if left <= 0 || fixed(left, unit) == fixed(0, unit) {
		return ""
	}
	return "tensors stood higher at another moment of " + phaseName(r.Peak.Phase, r.Peak.Step) + ", at " + peak.number(unit) + " " + unit.String() +
		" allocated; what the allocator kept of their blocks is allocator_cache here"
}

// peakPhase is the index of the phase that stands highest, of a step the micro-batch
// that does, the last of equal ones; -1 for none.
func peakPhase(r record.Rank) int {
	at, most := -1, int64(-1)
	for i, p := range r.Phases {
		if low, _ := process(p).ends(); p.Name == r.Peak.Phase && p.Step == r.Peak.Step && low >= most {
			at, most = i, low
		}
	}
	return at
}

// placed says in which phase the peak is, as far as anybody knows: one of which less
// is known may need more than the one that stands highest.
func placed(r record.Rank, unit bytesize.Unit, s Style) string {
	phase := s.bold(phaseName(r.Peak.Phase, r.Peak.Step))
	if said := outdone(r, unit); said != "" {
		return said + "; " + phase + " may need more, " + further(r, unit)
	}
	open := slices.ContainsFunc(r.Phases, func(p record.Phase) bool { return p.ProcessBytes == nil && p.ProcessHighBytes == nil })
	if open || r.Peak.Bytes == nil && r.Peak.HighBytes == nil {
		return "the known bytes stand highest in " + phase + "; where the peak is depends on what is unknown"
	}
	most, at := int64(-1), peakPhase(r)
	if at >= 0 {
		_, most = process(r.Phases[at]).ends()
	}
	above := ""
	for _, p := range r.Phases {
		if _, high := process(p).ends(); at >= 0 && high > most && fixed(high, unit) != fixed(most, unit) {
			most, above = high, phaseName(p.Name, p.Step)+" may need up to "+fixed(high, unit)+" "+unit.String()
		}
	}
	if above != "" {
		return "the peak is in " + phase + " by what is sure; " + above
	}
	return "the peak is in " + phase
}

// outdone names the phase whose known bytes stand above all that is known of the one
// that limits; empty where there is none.
func outdone(r record.Rank, unit bytesize.Unit) string {
	at, said := peakPhase(r), ""
	if at < 0 {
		return ""
	}
	most, _ := process(r.Phases[at]).ends()
	for _, p := range r.Phases {
		if low, _ := process(p).ends(); low > most && fixed(low, unit) != fixed(most, unit) {
			most, said = low, "the known bytes stand highest in "+phaseName(p.Name, p.Step)+", at "+fixed(low, unit)+" "+unit.String()
		}
	}
	return said
}

// further is how far the phase that limits may go beyond what is known of it.
func further(r record.Rank, unit bytesize.Unit) string {
	if _, high := process(r.Phases[peakPhase(r)]).ends(); high >= 0 {
		return "up to " + fixed(high, unit) + " " + unit.String()
	}
	return "by what is unknown of it"
}

// how says where a term's figure comes from, or why it has none.
func how(t record.Term) string {
	switch t.Status {
	case "zero":
		return "zero: " + text(t.Reason)
	case "unknown":
		return "unknown: " + text(t.Reason)
	}
	if t.RuleShort != nil {
		return t.Origin + ": " + *t.RuleShort
	}
	if t.Rule != nil {
		return t.Origin + ": " + *t.Rule
	}
	return t.Origin
}

func verdict(b *strings.Builder, v record.Verdict, s Style) {
	line := strings.ToUpper(strings.ReplaceAll(v.Value, "_", " "))
	where := []string{fmt.Sprintf("rank %d", v.Rank)}
	if v.Phase != nil {
		where = append(where, phaseName(*v.Phase, v.Step))
	}
	if v.Term != nil {
		where = append(where, *v.Term)
	}
	b.WriteString("\n" + paragraph(s, "  ", s.verdict(v.Value, line)+" · "+strings.Join(where, " · ")+" · basis: "+v.Basis))
	if n := s.amount(quantity{v.HeadroomBytes, v.HeadroomLowBytes, v.HeadroomHighBytes}); n != unknown {
		b.WriteString(paragraph(s, "  ", "headroom "+n))
	}
	for _, reason := range v.Reasons {
		b.WriteString(paragraph(s, "    ", "  "+reason))
	}
}
