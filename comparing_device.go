package floodmark

import (
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/record"
	"floodmark/snapshot"
)

const (
	// comparedPlaces is how many places a comparison lists for a device.
	comparedPlaces = 20
	// comparedClauses is how many categories the sentence names at most.
	comparedClauses = 3
)

// sidePeak is what one side of a comparison holds at its peak of requested
// bytes.
type sidePeak struct {
	side   string // a or b
	device int
	known  bool // the file has segments, at whose end the levels are anchored
	x      *snapshot.Explanation
	at     snapshot.Composition
}

func (e snapshotEvidence) peakOf(side string, i int) sidePeak {
	r, x := e.recordings[i], e.explanations[i]
	return sidePeak{side, r.Timeline.Device, r.EndKnown, x, x.Compose(x.PeakEntry(), account.Requested)}
}

// word is what the bytes of a side are: a peak only where the file shows one.
func (p sidePeak) word() string {
	switch {
	case p.x.Contradicted():
		return "uncertain level"
	case !p.x.History():
		return "level at the dump"
	case !p.known:
		return "lower bound of the peak"
	}
	return "peak"
}

// doubts tells why the bytes of a side are no peak.
func (p sidePeak) doubts() []account.Warning {
	device := fmt.Sprintf("%s, cuda:%d: ", p.side, p.device)
	switch {
	case p.at.Bytes == 0:
		return nil
	case p.x.Contradicted():
		return []account.Warning{{Code: "contradictory", Text: device + "the file contradicts itself, so what its entries add up to is compared, and no certain peak; floodmark explain has the details"}}
	case !p.x.History():
		return []account.Warning{{Code: "no_history", Text: device + "no allocation was recorded, so the level at the dump is compared, and no peak"}}
	case !p.known:
		return []account.Warning{{Code: "no_segments", Text: device + "the file has no segments, so a lower bound of its peak is compared"}}
	}
	return nil
}

// alone names a device that the other side lacks.
func (p sidePeak) alone() account.Warning {
	name := fmt.Sprintf("cuda:%d is in %s alone, ", p.device, p.side)
	text := snapshot.Say(name+p.word()+" ", p.at.Bytes)
	if p.at.Bytes == 0 {
		text = snapshot.Say(name + "where nothing is allocated on it")
	}
	return account.Warning{Code: "device_missing", Text: text.String()}
}

// moment is what the program was doing, in brackets; empty when nothing says.
func (p sidePeak) moment() string {
	if p.phase() == nil {
		return ""
	}
	return " (in " + snapshot.PhaseWords(p.at.Phase) + ")"
}

func (p sidePeak) phase() *string {
	if p.at.Phase == account.PhaseRecorded || !p.x.History() {
		return nil
	}
	phase := string(p.at.Phase)
	return &phase
}

// categories are the shares of a side as a comparison takes them.
func (p sidePeak) categories() []compare.Group {
	var list []compare.Group
	for _, share := range p.at.Shares {
		list = append(list, compare.Group{Key: string(share.Category), Bytes: share.Bytes, Count: share.Count})
	}
	return list
}

// places are the lines that a reader sees of the stacks of a side: what reads
// alike is one.
func (p sidePeak) places() []compare.Group {
	var list []compare.Group
	for _, g := range p.x.ByPlace(p.at) {
		list = append(list, compare.Group{Key: g.Name, Bytes: g.Bytes, Count: g.Count})
	}
	return list
}

// comparedDevice is one device on both sides.
type comparedDevice struct {
	a, b   sidePeak
	device int
}

// add adds the device: its categories, the places with the largest differences,
// what the others differ by, and the totals.
func (c comparedDevice) add(r *record.Comparison) {
	rows, residual := compare.Groups(c.a.places(), c.b.places(), comparedPlaces)
	categories, alike := compare.Groups(c.a.categories(), c.b.categories(), len(account.Categories()))
	total := compare.Row{A: c.a.at.Bytes, B: c.b.at.Bytes, CountA: len(c.a.at.Allocs), CountB: len(c.b.at.Allocs)}
	equal := len(rows) == 0 && len(categories) == 0
	for _, row := range rows {
		shown := c.row("stack", row)
		if shown.Where = row.Key; row.Key != "" {
			shown.Stack = strings.Split(row.Key, " ← ")
		}
		r.Rows = append(r.Rows, shown)
	}
	r.Residual = append(r.Residual, c.row("all other stacks", residual))
	r.Totals = append(r.Totals, c.row("peak", total))
	summary := c.summary(total, categories, rows).InOneUnit()
	d := record.ComparedDevice{Device: c.device, Equal: equal, Summary: summary.String(), SummaryParts: partsOfSentence(summary), APhase: c.a.phase(), BPhase: c.b.phase()}
	for _, row := range categories {
		d.Categories = append(d.Categories, c.row(row.Key, row))
	}
	if alike.A != 0 || alike.B != 0 {
		d.Categories = append(d.Categories, c.row("all other categories", alike))
	}
	r.Devices = append(r.Devices, d)
}

func (c comparedDevice) row(term string, of compare.Row) record.ComparisonRow {
	difference := of.Difference()
	return record.ComparisonRow{Term: term, Scope: string(account.Requested), Device: &c.device,
		ABytes: &of.A, BBytes: &of.B, DifferenceBytes: &difference, ACount: &of.CountA, BCount: &of.CountB}
}

// summary says in one sentence by how much the sides differ, and in what.
func (c comparedDevice) summary(total compare.Row, categories, places []compare.Row) snapshot.Sentence {
	b := snapshot.Say("b's "+c.b.word()+" of ", total.B, c.b.moment())
	a := snapshot.Say("a's " + c.a.word())
	if total.A != total.B {
		a = snapshot.Say(a, " of ", total.A)
	}
	a = snapshot.Say(a, c.a.moment())
	switch {
	case len(categories) == 0 && len(places) == 0 && c.a.word() == "peak" && c.b.word() == "peak":
		return snapshot.Say("The peaks are equal, stack by stack: ", total.A, c.a.moment(), ".")
	case len(categories) == 0 && len(places) == 0:
		return snapshot.Say(b, " equals ", a, ", stack by stack.")
	case total.A == total.B:
		return snapshot.Say(b, " equals ", a, ", and is made of other parts", c.clauses(categories, places), ".")
	}
	return snapshot.Say(b, " is ", sizeOf(total.Difference()), map[bool]string{true: " higher", false: " lower"}[total.B > total.A], " than ", a, c.clauses(categories, places), ".")
}

// clauses names the categories that differ most, and the place that does.
func (c comparedDevice) clauses(categories, places []compare.Row) snapshot.Sentence {
	var s snapshot.Sentence
	between := ": "
	for _, row := range categories[:min(comparedClauses, len(categories))] {
		category, more := account.Category(row.Key), " less is "
		because := ""
		if row.Difference() > 0 {
			more, because = " more is ", c.b.because(category)
		}
		s = snapshot.Say(s, between, sizeOf(row.Difference()), more+snapshot.CategoryWords(category)+because)
		between = "; "
	}
	if len(places) > 0 && places[0].Key != "" {
		direction := map[bool]string{true: " more", false: " less"}[places[0].Difference() > 0]
		s = snapshot.Say(s, between, "the largest difference of one place is ", sizeOf(places[0].Difference()), direction+" at "+places[0].Key)
	}
	return s
}

// because is the reason of what a side holds in a category.
func (p sidePeak) because(category account.Category) string {
	for _, share := range p.at.Shares {
		if share.Category == category {
			return " because " + p.x.Because(p.at, share)
		}
	}
	return ""
}

// sizeOf is a difference without its sign.
func sizeOf(difference int64) int64 { return max(difference, -difference) }
