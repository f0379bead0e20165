package floodmark

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/compare"
	"floodmark/record"
)

// ErrNotAgainst says that evidence has nothing that an estimate can stand beside.
var ErrNotAgainst = errors.New("an estimate can be set beside a measurement, a memory snapshot, an out-of-memory text, or what an engine printed of its memory")

// Against sets evidence beside an estimate: what both say of like scopes, rank by
// rank, phase by phase, term by term. What no term explains stands in the last row,
// by itself. The answer is the document of the evidence.
func Against(e Evidence, estimate *record.Estimate, tool record.Tool) (any, error) {
	b := &beside{estimate: estimate, against: &record.Against{Estimate: estimated(estimate)}}
	switch d := e.Record(tool).(type) {
	case *record.Measurement:
		return b.measurement(d)
	case *record.Snapshot:
		return b.snapshot(d)
	case *record.Log:
		return b.log(d)
	}
	return nil, ErrNotAgainst
}

// log sets a text beside the estimate: what an engine printed of its terms, and
// else its first failures.
func (b *beside) log(d *record.Log) (any, error) {
	switch {
	case b.vllm(d):
	case b.buffers(d):
	case b.failures(d):
	default:
		return nil, ErrNotAgainst
	}
	copied := *d
	copied.Warnings = append(slices.Clone(d.Warnings), b.warnings...)
	copied.Against = b.against
	return &copied, nil
}

// beside gathers what stands beside an estimate.
type beside struct {
	estimate *record.Estimate
	against  *record.Against
	warnings []record.Warning
	// alone is what the rows and sums are of: a rank and a device.
	rank, device *int
}

func (b *beside) warn(code, format string, args ...any) {
	b.warnings = append(b.warnings, record.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// at is a row of the place that is looked at.
func (b *beside) at(p compare.Pair, scope account.Scope, rule string) record.AgainstRow {
	r := againstRow(p, rule)
	r.Scope, r.Rank, r.Device = string(scope), b.rank, b.device
	return r
}

// cancelling notes errors that hide each other in their sum.
func (b *beside) cancelling(parts []compare.Pair, total compare.Pair) {
	c, hidden := compare.Cancel(parts, total)
	if !hidden {
		return
	}
	hides := min(c.Over, -c.Under)
	off, text := c.Total.Certainly(), "nothing that can be told"
	if off != 0 {
		text = signedSize(off)
	}
	text = spacedTerm(total.Term) + " is off by " + text
	if sizeOf(off) < hides {
		text += ", and looks good only because errors cancel"
	} else {
		text += ", and errors of the other sign hide " + sizeText(hides) + " more"
	}
	b.against.Cancelling = append(b.against.Cancelling, record.Cancelling{
		Rank: b.rank, Device: b.device, DifferenceOverBytes: c.Over, DifferenceUnderBytes: c.Under,
		DifferenceTotalLowBytes: c.Total.Low, DifferenceTotalHighBytes: c.Total.High,
		Text: text + ": " + strings.Join(errorsOf(parts, hides), ", "),
	})
}

// errorsOf lists the errors of parts, without those that are less than a hundredth
// of what is hidden.
func errorsOf(parts []compare.Pair, hides int64) []string {
	var list []string
	for _, p := range parts {
		if n := p.Difference().Certainly(); n != 0 && sizeOf(n) >= hides/100 {
			list = append(list, spacedTerm(p.Term)+" "+signedSize(n))
		}
	}
	return list
}

// rankOf is the class of ranks of an estimate that a rank is in. Evidence that
// names no rank is of the first.
func (b *beside) rankOf(rank *int) *record.Rank {
	for i, r := range b.estimate.Ranks {
		if rank == nil || r.Rank == *rank || slices.Contains(r.Ranks, *rank) {
			return &b.estimate.Ranks[i]
		}
	}
	return nil
}

// sumOf adds up terms of a rank; unknown where the estimate lists none of them.
func sumOf(rank *record.Rank, ids ...account.TermID) account.Figure {
	var figures []account.Figure
	for _, t := range rank.Terms {
		if slices.Contains(ids, account.TermID(t.ID)) {
			figures = append(figures, termFigure(t))
		}
	}
	if len(figures) == 0 {
		return account.Unknown("the estimate does not list it", account.Provenance{})
	}
	return account.Sum(account.Provenance{Origin: account.Calculated}, figures...)
}

// termFigure is what a term holds where its rank stands highest, or at most where
// it holds nothing then.
func termFigure(t record.Term) account.Figure {
	if t.AtPeakBytes != nil || t.AtPeakLowBytes != nil {
		return figureOf(t.AtPeakBytes, t.AtPeakLowBytes, t.AtPeakHighBytes)
	}
	return figureOf(t.Bytes, t.LowBytes, t.HighBytes)
}

func estimated(e *record.Estimate) string {
	name := "a model"
	if e.Model.Name != nil {
		name = *e.Model.Name
	}
	name += " on " + e.Engine.Name
	if e.Engine.Version != nil {
		name += " " + *e.Engine.Version
	}
	return name
}

// anotherModel warns of evidence whose model is not the one estimated. A name and a
// folder can mean the same, so their last parts are compared.
func anotherModel(printed string, e *record.Estimate) []record.Warning {
	if printed == "" || e.Model.Name == nil || lastPart(printed) == lastPart(*e.Model.Name) {
		return nil
	}
	return []record.Warning{{Code: "another_model", Text: fmt.Sprintf(
		"the evidence is of the model %.80s and the estimate of %.80s: unless these are the same, no difference below means anything", printed, *e.Model.Name)}}
}

// lastPart is what stands behind the last slash, or in a folder of the hub's cache
// behind the owner: of "Qwen/Qwen3-8B", "models/Qwen__Qwen3-8B" and
// "…/models--Qwen--Qwen3-8B" it is the same.
func lastPart(name string) string {
	name = strings.ToLower(strings.TrimRight(name, "/"))
	for _, separator := range [...]string{"/", "__", "--"} {
		if i := strings.LastIndex(name, separator); i >= 0 {
			name = name[i+len(separator):]
		}
	}
	return name
}

// figureOf is the figure of an integer of a record, or of the interval beside it.
func figureOf(exact, low, high *int64) account.Figure {
	p := account.Provenance{}
	switch {
	case exact != nil:
		return account.Exact(*exact, p)
	case low != nil && high != nil:
		return account.Between(*low, *high, p)
	case low != nil:
		return account.AtLeast(*low, "the most is not known", p)
	}
	return account.Unknown("nobody said", p)
}

// againstRow is one quantity on both sides. The rule is what was estimated with, or
// what the row is of.
func againstRow(p compare.Pair, rule string) record.AgainstRow {
	r := record.AgainstRow{Term: p.Term, Unit: "bytes"}
	r.PredictedLow, r.PredictedHigh = endsOf(p.Predicted)
	r.ObservedLow, r.ObservedHigh = endsOf(p.Observed)
	d := p.Difference()
	r.DifferenceLow, r.DifferenceHigh = d.Low, d.High
	if inside, known := d.Inside(); known {
		r.Inside = &inside
	}
	r.Cause = causeOf(p, d, rule)
	return r
}

// causeOf says where the two agree, and by how much they do not.
func causeOf(p compare.Pair, d compare.Ends, rule string) string {
	off := d.Certainly()
	bracketed := ""
	if rule != "" {
		bracketed = " (" + rule + ")"
	}
	switch {
	case !p.Observed.Known() && p.Observed.Low() == 0:
		return "never measured" + bracketed
	case !p.Predicted.Known() && p.Predicted.Low() == 0:
		return "the estimate does not say it" + bracketed
	case off > 0:
		return "at least " + sizeText(off) + " more than estimated" + bracketed
	case off < 0:
		return "at least " + sizeText(-off) + " less than estimated" + bracketed
	case d.Low == nil || d.High == nil:
		return "a lower bound alone, which contradicts nothing" + bracketed
	case rule == "":
		return "as estimated"
	}
	return "as estimated: " + rule
}

// endsOf are the ends of a figure that are known.
func endsOf(f account.Figure) (low, high *int64) {
	a := f.Low()
	if !f.Known() {
		if a == 0 {
			return nil, nil
		}
		return &a, nil
	}
	b := highOf(f)
	return &a, &b
}

// sizeText is an amount in GiB, as the tables beside it, or in a smaller unit where
// two digits of GiB would say nothing.
func sizeText(n int64) string {
	if sizeOf(n) >= 100<<20 {
		return bytesize.Fixed(n, bytesize.GiB, 2) + " GiB"
	}
	return bytesize.Format(n, bytesize.Suggest(n))
}

func signedSize(n int64) string {
	if n < 0 {
		return "−" + sizeText(-n)
	}
	return "+" + sizeText(n)
}

func spacedTerm(id string) string { return strings.ReplaceAll(id, "_", " ") }
