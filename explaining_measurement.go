package floodmark

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/measurement"
	"floodmark/record"
)

// alikeWithin is how near the bytes of a term must come to a difference for it to
// be named as what was left out: one part in so many. It names a candidate, with
// what it leaves; it decides nothing.
const alikeWithin = 100

// measurement sets a run that was measured beside the estimate, on each device of
// each rank.
func (b *beside) measurement(d *record.Measurement) (any, error) {
	if d.Subject == string(measurement.Lab) {
		return nil, fmt.Errorf("%w: the lab network is no evidence for a workload", ErrNotAgainst)
	}
	b.otherConditions(d)
	seen := map[int]bool{}
	for _, g := range placesOfRun(d) {
		b.rank, b.device = g.rank, g.device
		rank := b.rankOf(g.rank)
		if rank == nil {
			b.warn("rank_not_estimated", "rank %s was measured, and the estimate does not have it", orNil(g.rank))
			continue
		}
		seen[rank.Rank] = true
		if g.rank != nil {
			seen[*g.rank] = true
		}
		b.run(rank, g.phases)
	}
	b.rank, b.device = nil, nil
	for _, r := range b.estimate.Ranks {
		for _, n := range append([]int{r.Rank}, r.Ranks...) {
			if !seen[n] {
				seen[n] = true
				b.warn("rank_not_measured", "rank %d of the estimate was never measured", n)
			}
		}
	}
	copied := *d
	copied.Warnings = append(slices.Clone(d.Warnings), b.warnings...)
	copied.Against = b.against
	return &copied, nil
}

// otherConditions warns of a run whose model, inputs or card are not those of the
// estimate: their differences are then of that.
func (b *beside) otherConditions(d *record.Measurement) {
	e := b.estimate
	if m := d.Trial.Model; m != nil {
		b.warnings = append(b.warnings, anotherModel(*m, e)...)
	}
	foreseen := map[string]int64{}
	for _, in := range e.Inputs {
		for dimension, n := range in.Configured {
			foreseen[dimension] = max(foreseen[dimension], n)
		}
	}
	ran := map[string]int64{}
	for _, p := range d.Phases {
		if p.Inputs != nil {
			for dimension, n := range p.Inputs.Configured {
				ran[dimension] = max(ran[dimension], n)
			}
		}
	}
	for _, dimension := range slices.Sorted(maps.Keys(ran)) {
		if n, has := foreseen[dimension]; has && n != ran[dimension] {
			b.warn("another_shape", "%s was %d in the run and is %d in the estimate: what follows is of two workloads", spacedTerm(dimension), ran[dimension], n)
		}
	}
	for _, device := range d.Environment.Devices {
		if rank := b.rankOf(nil); rank != nil && rank.Device != nil && device.Name != nil && !sameCardName(*device.Name, rank.Device.Name) {
			b.warn("another_card", "the run was on %s and the estimate is for %s: context and kernels differ", *device.Name, rank.Device.Name)
			break
		}
	}
}

// placeOfRun is the phases of one rank on one device.
type placeOfRun struct {
	rank, device *int
	phases       []record.MeasuredPhase
}

func placesOfRun(d *record.Measurement) []placeOfRun {
	var places []placeOfRun
	for _, p := range d.Phases {
		if p.Device == nil {
			continue
		}
		i := slices.IndexFunc(places, func(g placeOfRun) bool { return orNil(g.rank) == orNil(p.Rank) && orNil(g.device) == orNil(p.Device) })
		if i < 0 {
			i = len(places)
			places = append(places, placeOfRun{rank: p.Rank, device: p.Device})
		}
		places[i].phases = append(places[i].phases, p)
	}
	return places
}

// phasePair is a phase on both sides. An estimate has two steps, of which the second
// stands for all later ones: of those that ran it is the highest.
type phasePair struct {
	foreseen record.Phase
	seen     *record.MeasuredPhase // nil where it did not run
}

// phasesBeside pairs the phases of an estimate with those of a run, and returns
// those that the estimate does not have.
func phasesBeside(foreseen []record.Phase, seen []record.MeasuredPhase) (pairs []phasePair, others []record.MeasuredPhase) {
	last := map[string]int{}
	for _, p := range foreseen {
		last[p.Name] = max(last[p.Name], p.Step)
	}
	for _, p := range foreseen {
		if i := slices.IndexFunc(pairs, func(q phasePair) bool { return q.foreseen.Name == p.Name && q.foreseen.Step == p.Step }); i < 0 {
			pairs = append(pairs, phasePair{foreseen: p})
		} else if allocatedPeak(p).Low() > allocatedPeak(pairs[i].foreseen).Low() {
			pairs[i].foreseen = p // the micro-batch that stands highest
		}
	}
	for _, m := range seen {
		step := min(m.Step, last[m.Name])
		i := slices.IndexFunc(pairs, func(q phasePair) bool { return q.foreseen.Name == m.Name && q.foreseen.Step == step })
		if i < 0 {
			others = append(others, m)
			continue
		}
		if before := pairs[i].seen; before == nil || measuredPeak(m).Low() > measuredPeak(*before).Low() {
			pairs[i].seen = &m
		}
	}
	return pairs, others
}

func measuredPeak(p record.MeasuredPhase) account.Figure {
	return figureOf(p.Peak.AllocatedBytes, p.Peak.AllocatedLowBytes, p.Peak.AllocatedHighBytes)
}

// run is the rows of one device: each phase at like scope, then the terms where the
// estimate stands highest, and what is left.
func (b *beside) run(rank *record.Rank, phases []record.MeasuredPhase) {
	pairs, others := phasesBeside(rank.Phases, phases)
	terms := candidates(rank)
	var from arising
	var top compare.Pair
	explained := int64(0)
	for _, p := range pairs {
		named := int64(0)
		from, named = b.phase(p, terms, from)
		if _, peak, _, _, _ := levelPairs(p); p.seen != nil && peak.Observed.Low() >= top.Observed.Low() {
			top, explained = peak, named
		}
	}
	for _, m := range others {
		b.warn("phase_not_estimated", "%s was measured, and the estimate does not have it", phaseWords(m))
	}
	b.unmeasured(rank, account.Requested, account.Allocated)
	outside := compare.Pair{Term: "outside_the_allocator", Predicted: scopeSum(rank, account.Process), Observed: outsideOf(phases)}
	b.against.Rows = append(b.against.Rows, b.at(outside, account.Process, "context, libraries and communicators: in use less what the allocator holds, over the checkpoints that were read"))
	b.against.Rows = append(b.against.Rows, b.overPeak(top, explained))
	if c := b.widest(phases); c != nil && b.against.Checkpoint == nil {
		b.against.Checkpoint = c
	}
}

// candidates are the terms of a rank by their bytes: what was left out, or counted
// and not held, is found among them.
func candidates(rank *record.Rank) []compare.Group {
	var groups []compare.Group
	for _, t := range rank.Terms {
		if f := figureOf(t.Bytes, t.LowBytes, t.HighBytes); f.Known() && account.Scope(t.Scope) == account.Requested {
			groups = append(groups, compare.Group{Key: t.ID, Bytes: highOf(f)})
			if account.TermID(t.ID) == account.TermOptimizerState {
				groups = append(groups, compare.Group{Key: "half of " + t.ID, Bytes: highOf(f) / 2})
			}
		}
	}
	return groups
}

// levelPairs are the allocated bytes of a phase at its start, peak and end, and the
// peaks of the wider scopes.
func levelPairs(p phasePair) (start, peak, end, reserved, process compare.Pair) {
	f, m := p.foreseen, p.seen
	if m == nil {
		m = &record.MeasuredPhase{}
	}
	start = compare.Pair{Term: "start", Predicted: figureOf(f.StartAllocatedBytes, f.StartAllocatedLowBytes, f.StartAllocatedHighBytes), Observed: figureOf(m.Start.AllocatedBytes, nil, nil)}
	peak = compare.Pair{Term: "peak", Predicted: allocatedPeak(f), Observed: measuredPeak(*m)}
	end = compare.Pair{Term: "end", Predicted: figureOf(f.EndAllocatedBytes, f.EndAllocatedLowBytes, f.EndAllocatedHighBytes), Observed: figureOf(m.End.AllocatedBytes, nil, nil)}
	reserved = compare.Pair{Term: "peak", Predicted: figureOf(f.PeakReservedBytes, f.PeakReservedLowBytes, f.PeakReservedHighBytes), Observed: figureOf(m.Peak.ReservedBytes, m.Peak.ReservedLowBytes, m.Peak.ReservedHighBytes)}
	process = compare.Pair{Term: "peak", Predicted: figureOf(f.ProcessBytes, f.ProcessLowBytes, f.ProcessHighBytes), Observed: sampledProcess(*m)}
	return start, peak, end, reserved, process
}

// sampledProcess is the most that a process was seen to hold in a phase: samples and
// checkpoints miss what is between them.
func sampledProcess(m record.MeasuredPhase) account.Figure {
	least := int64(0)
	for _, n := range []*int64{m.ProcessBytes, m.ProcessLowBytes, m.Start.ProcessBytes, m.End.ProcessBytes} {
		if n != nil {
			least = max(least, *n)
		}
	}
	if least == 0 {
		return account.Unknown("the process was not sampled", account.Provenance{})
	}
	return account.AtLeast(least, "samples miss the peak between two of them", account.Provenance{})
}

// arising is where a difference of levels is from: the phase after which it was
// there first, and how much of it is the bytes of a term.
type arising struct {
	since string
	named int64
}

// phase adds the rows of one phase, and carries on where a difference arose first.
// What of the difference of its peak is named is the second result.
func (b *beside) phase(p phasePair, terms []compare.Group, from arising) (arising, int64) {
	start, peak, end, reserved, process := levelPairs(p)
	if p.seen == nil {
		b.against.Rows = append(b.against.Rows, b.of(p, peak, account.Allocated, "the run had no such phase"))
		return from, 0
	}
	before := start.Difference().Certainly()
	if before == 0 {
		from = arising{}
	}
	at, last := from, b.of(p, end, account.Allocated, "")
	// What is larger than all that was there before is where the difference is from.
	if arose := end.Difference().Certainly(); arose != 0 && sizeOf(arose-before) > sizeOf(before) {
		name, named := b.named(arose-before, terms)
		from = arising{"since the end of " + stepWords(*p.seen), named}
		last.Cause += name
	}
	row := b.of(p, peak, account.Allocated, "")
	explained := at.named
	if off := peak.Difference().Certainly(); off != 0 {
		name, named := b.named(off-before, terms)
		row.Cause += arisen(off, before, at.since, name)
		explained += named
	}
	if p.seen.Status != string(measurement.Completed) {
		row.Cause += "; the phase is " + p.seen.Status + ": its last readings are lower bounds"
	}
	b.against.Rows = append(b.against.Rows, b.of(p, start, account.Allocated, ""), row, last)
	for _, wider := range []struct {
		pair  compare.Pair
		scope account.Scope
	}{{reserved, account.Reserved}, {process, account.Process}} {
		if wider.pair.Observed.Known() || wider.pair.Observed.Low() > 0 {
			b.against.Rows = append(b.against.Rows, b.of(p, wider.pair, wider.scope, ""))
		}
	}
	b.cancelling([]compare.Pair{start, risen(start, peak)}, compare.Pair{Term: "the peak of " + stepWords(*p.seen), Predicted: peak.Predicted, Observed: peak.Observed})
	return from, explained
}

// stepWords is a phase and its step.
func stepWords(p record.MeasuredPhase) string {
	p.Rank = nil
	return phaseWords(p)
}

// of is a row of a phase.
func (b *beside) of(p phasePair, pair compare.Pair, scope account.Scope, rule string) record.AgainstRow {
	row := b.at(pair, scope, rule)
	name := p.foreseen.Name
	row.Phase, row.Step = &name, p.foreseen.Step
	if p.seen != nil && p.seen.Step > p.foreseen.Step {
		row.Step = p.seen.Step
	}
	return row
}

// risen is how far a phase rises above its start, on both sides: a difference of
// two levels, and no volume of temporaries.
func risen(start, peak compare.Pair) compare.Pair {
	p := account.Provenance{}
	return compare.Pair{Term: "the rise above its start", Predicted: peak.Predicted.Minus(start.Predicted, p), Observed: peak.Observed.Minus(start.Observed, p)}
}

// arisen says how much of a difference was there when the phase began, and where
// the rest arises.
func arisen(off, before int64, origin, named string) string {
	switch {
	case before == 0:
		return ": it arises in this phase" + named
	case before == off:
		return ": all of it was there when the phase began, " + origin
	}
	text := fmt.Sprintf(": %s was there when the phase began", signedSize(before))
	if origin != "" {
		text += ", " + origin
	}
	return text + fmt.Sprintf("; %s arises in it", signedSize(off-before)) + named
}

// named says which term's bytes a difference is, where one comes near, and how many
// of its bytes are named by that.
func (b *beside) named(difference int64, terms []compare.Group) (text string, bytes int64) {
	found := compare.Alike(difference, terms, alikeWithin)
	if len(found) == 0 {
		return "", 0
	}
	var names []string
	for _, term := range found {
		names = append(names, spacedTerm(term.Key))
	}
	bytes = found[0].Bytes
	text = fmt.Sprintf(" (as many bytes as %s, %s", strings.Join(names, ", or "), sizeText(bytes))
	if left := sizeOf(sizeOf(difference) - bytes); left != 0 {
		text += ", to within " + sizeText(left)
	}
	if difference < 0 {
		bytes = -bytes
	}
	return text + ")", bytes
}

// outsideOf is what lay outside the allocator over the checkpoints of a run: of the
// process where it was read, else of the device, where others may be among it.
func outsideOf(phases []record.MeasuredPhase) account.Figure {
	var least, most int64
	found, shared := false, false
	for _, p := range phases {
		for _, c := range []record.MeasuredCounters{p.Start, p.End} {
			n, ofDevice := c.OutsideBytes, true
			if c.ProcessBytes != nil && c.ReservedBytes != nil {
				own := *c.ProcessBytes - *c.ReservedBytes
				n, ofDevice = &own, false
			}
			if n == nil || *n < 0 {
				continue
			}
			shared = shared || ofDevice
			if !found {
				least = *n
			}
			least, most, found = min(least, *n), max(most, *n), true
		}
	}
	switch {
	case !found:
		return account.Unknown("no checkpoint holds both", account.Provenance{})
	case shared:
		least = 0 // others may hold all of it
	}
	return account.Between(least, most, account.Provenance{Origin: account.Observed, Scope: account.Process})
}
