package floodmark

import (
	"slices"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/enginelog"
	"floodmark/record"
)

// failures sets the first failure of each device beside the estimate; false where
// the text has none.
func (b *beside) failures(d *record.Log) bool {
	if len(d.OutOfMemory) == 0 {
		return false
	}
	var places []record.OutOfMemory
	for _, m := range d.OutOfMemory {
		if !slices.ContainsFunc(places, func(o record.OutOfMemory) bool {
			return orNil(o.Rank) == orNil(m.Rank) && orNil(o.Device) == orNil(m.Device)
		}) {
			places = append(places, m)
		}
	}
	for _, m := range places {
		b.rank, b.device = m.Rank, m.Device
		b.failure(m, printedAt(d.Components, m.Line, followingFailure(d.OutOfMemory, m.Line)))
	}
	b.rank, b.device = nil, nil
	return true
}

// followingFailure is the line of the next failure after one; as far as a message is
// followed over lines that were wrapped, where there is none so near.
func followingFailure(all []record.OutOfMemory, line int) int {
	const mostLines = 14
	next := line + mostLines
	for _, m := range all {
		if m.Line > line {
			next = min(next, m.Line)
		}
	}
	return next
}

// printedAt is the numbers of one message by kind, of a message that was wrapped over
// the lines before another one. In use is that of this process.
func printedAt(components []record.Component, line, before int) map[enginelog.Kind]account.Figure {
	kinds := map[enginelog.Kind]account.Figure{}
	for _, c := range components {
		kind := enginelog.Kind(c.Kind)
		_, taken := kinds[kind]
		ours := c.Component == "pytorch" || c.Component == "this process" || c.Component == "device" && kind != enginelog.KindInUse
		if own := c.Line == line && kind != enginelog.KindInUse; !taken && c.Line >= line && c.Line < before && (own || ours) {
			kinds[kind] = figureOf(c.Bytes, c.LowBytes, c.HighBytes)
		}
	}
	return kinds
}

// failure is the rows of one failure. What was allocated and what was asked for are
// together the least that the program needed at that moment: nothing says how much
// more it would have come to.
func (b *beside) failure(m record.OutOfMemory, seen map[enginelog.Kind]account.Figure) {
	rank := b.rankOf(m.Rank)
	if rank == nil {
		b.warn("rank_not_estimated", "the failure is of rank %s, which the estimate does not have", orNil(m.Rank))
		return
	}
	phase, named := phaseAt(rank, m.Phase)
	allocated, reserved := seen[enginelog.KindAllocated], reservedOf(seen)
	if pools := seen[enginelog.KindPrivatePools]; pools.Known() {
		allocated = allocated.Minus(pools, account.Provenance{}) // the number that is printed counts their free blocks
	}
	needed := account.Sum(account.Provenance{}, allocated, figureOf(m.RequestBytes, m.RequestLowBytes, m.RequestHighBytes))
	least := account.AtLeast(needed.Low(), "the run failed here", account.Provenance{})
	peak := compare.Pair{Term: "peak", Predicted: figureOf(phase.PeakAllocatedBytes, phase.PeakAllocatedLowBytes, phase.PeakAllocatedHighBytes), Observed: least}
	row := b.at(peak, account.Allocated, "what was allocated and what was asked for")
	name := phase.Name
	row.Phase, row.Step = &name, phase.Step
	if !named {
		row.Cause += "; the text does not say in which phase it failed, so the highest that is estimated stands beside it"
	}
	b.against.Rows = append(b.against.Rows, row)
	b.unmeasured(rank, account.Requested, account.Allocated)
	outside := compare.Pair{Term: "outside_the_allocator", Predicted: scopeSum(rank, account.Process), Observed: rest(seen[enginelog.KindInUse], reserved)}
	others := compare.Pair{Term: string(account.TermOtherProcesses), Predicted: othersOf(rank), Observed: rest(seen[enginelog.KindCapacity].Minus(seen[enginelog.KindFree], account.Provenance{}), seen[enginelog.KindInUse])}
	capacity := compare.Pair{Term: "capacity", Observed: seen[enginelog.KindCapacity]}
	if d := rank.Device; d != nil {
		capacity.Predicted = figureOf(d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes)
	}
	b.against.Rows = append(b.against.Rows,
		b.at(outside, account.Process, "context, libraries and communicators: in use by the process less what its allocator holds"),
		b.at(others, account.Device, "in use on the device less what the process holds"),
		b.at(capacity, account.Device, "what the card reports"),
		b.overPeak(peak, 0))
	if b.against.Checkpoint == nil {
		b.against.Checkpoint = b.checkpointOf("the failure", levelFigures{
			account.Device: seen[enginelog.KindCapacity].Minus(seen[enginelog.KindFree], account.Provenance{}), account.Process: seen[enginelog.KindInUse], account.Reserved: reserved, account.Allocated: allocated})
	}
}

// reservedOf is what the allocator held: printed, or what was allocated and what
// was not of one moment.
func reservedOf(seen map[enginelog.Kind]account.Figure) account.Figure {
	if f := seen[enginelog.KindReserved]; f.Known() {
		return f
	}
	return account.Sum(account.Provenance{}, seen[enginelog.KindAllocated], seen[enginelog.KindUnallocated])
}

// phaseAt is the phase of that name in which a rank allocates most, or of all
// phases where none is named.
func phaseAt(rank *record.Rank, name *string) (top record.Phase, named bool) {
	for _, p := range rank.Phases {
		if name != nil && p.Name == *name {
			named = true
		}
	}
	found := false
	for _, p := range rank.Phases {
		if named && p.Name != *name {
			continue
		}
		if !found || allocatedPeak(p).Low() >= allocatedPeak(top).Low() {
			top, found = p, true
		}
	}
	return top, named
}

func allocatedPeak(p record.Phase) account.Figure {
	return figureOf(p.PeakAllocatedBytes, p.PeakAllocatedLowBytes, p.PeakAllocatedHighBytes)
}

// unmeasured lists the terms of some scopes that hold bytes where a rank stands
// highest, and that no counter tells apart.
func (b *beside) unmeasured(rank *record.Rank, scopes ...account.Scope) {
	for _, t := range rank.Terms {
		if f := figureOf(t.AtPeakBytes, t.AtPeakLowBytes, t.AtPeakHighBytes); slices.Contains(scopes, account.Scope(t.Scope)) && (f.Low() > 0 || f.Known() && highOf(f) > 0) {
			p := compare.Pair{Term: t.ID, Predicted: f, Observed: account.Unknown("", account.Provenance{})}
			row := b.at(p, account.Scope(t.Scope), "")
			row.Cause = "never measured: no counter tells it apart"
			if rank.Peak != nil {
				row.Phase, row.Step = &rank.Peak.Phase, rank.Peak.Step
			}
			b.against.Rows = append(b.against.Rows, row)
		}
	}
}

// scopeSum is what the terms of one scope hold together where the rank stands
// highest.
func scopeSum(rank *record.Rank, scope account.Scope) account.Figure {
	var figures []account.Figure
	for _, t := range rank.Terms {
		if account.Scope(t.Scope) == scope {
			figures = append(figures, termFigure(t))
		}
	}
	if len(figures) == 0 {
		return account.Unknown("the estimate does not list it", account.Provenance{})
	}
	return account.Sum(account.Provenance{}, figures...)
}

// othersOf is what an estimate takes others to hold on a rank's card.
func othersOf(rank *record.Rank) account.Figure {
	d := rank.Device
	if d == nil {
		return account.Unknown("no card was named", account.Provenance{})
	}
	reported, usable := figureOf(d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes), figureOf(d.UsableBytes, d.UsableLowBytes, d.UsableHighBytes)
	if interval(reported) == interval(usable) {
		return account.Exact(0, account.Provenance{})
	}
	f := reported.Minus(usable, account.Provenance{})
	if !f.Known() {
		return f
	}
	return account.Between(max(0, f.Low()), max(0, highOf(f)), account.Provenance{})
}

// rest is what one counter of a moment holds beside another one that is within it.
// Rounding makes it less than nothing; what is certainly less is two numbers that
// contradict each other, and tells nothing.
func rest(whole, part account.Figure) account.Figure {
	left := whole.Minus(part, account.Provenance{})
	switch high, known := left.High(); {
	case !known || left.Low() >= 0:
		return left
	case high < 0:
		return account.Unknown("the text's numbers contradict each other", account.Provenance{})
	default:
		return account.Between(0, high, account.Provenance{})
	}
}

// overPeak is the residual of a peak: what of its difference is the bytes of no
// term.
func (b *beside) overPeak(peak compare.Pair, explained int64) record.AgainstRow {
	none := int64(0)
	d := peak.Difference()
	for _, end := range []**int64{&d.Low, &d.High} {
		if *end != nil {
			left := **end - explained
			*end = &left
		}
	}
	r := record.AgainstRow{Term: "residual", Unit: "bytes", Scope: string(account.Allocated), Rank: b.rank, Device: b.device, PredictedLow: &none, PredictedHigh: &none}
	r.ObservedLow, r.ObservedHigh, r.DifferenceLow, r.DifferenceHigh = d.Low, d.High, d.Low, d.High
	if inside, known := d.Inside(); known {
		r.Inside = &inside
	}
	switch off := d.Certainly(); {
	case off > 0:
		r.Cause = sizeText(off) + " at least that the bytes of no term explain"
	case off < 0:
		r.Cause = sizeText(-off) + " at least were estimated and not held, and the bytes of no term explain it"
	case d.Low != nil && d.High != nil:
		r.Cause = "nothing that is certain: the estimate's interval holds it"
	default:
		r.Cause = "cannot be told from a lower bound"
	}
	return r
}
