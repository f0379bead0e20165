package floodmark

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/fit"
	"floodmark/internal/sorting"
	"floodmark/record"
	"floodmark/workload"
)

// Record is the prediction as a document.
func (p *Prediction) Record(tool record.Tool) any {
	r := &record.Estimate{Head: p.head(tool), Model: p.modelFacts()}
	r.Engine = record.Engine{Name: p.Engine.Name(), Version: record.Text(p.Request.Workload.Engine.Version)}
	if software := p.Request.Workload.Engine.Name; software != p.Engine.Name() {
		r.Engine.Software = record.Text(software)
	}
	for _, a := range p.accounts {
		r.Ranks = append(r.Ranks, p.rank(a))
	}
	for _, a := range p.Request.Workload.Adapters {
		row := record.Adapter{Name: a.Name, Kind: a.Kind, Rank: a.Rank, Parameters: a.Parameters}
		row.Bytes, row.LowBytes, row.HighBytes = record.Interval(a.Bytes)
		r.Adapters = append(r.Adapters, row)
	}
	r.Training = p.training()
	r.Settings = settingsOf(&p.Request.Workload)
	for _, d := range p.Request.Declared {
		r.Declared = append(r.Declared, record.Declaration{Field: d.Field, Value: d.Value, File: record.Text(d.File), Key: record.Text(d.Key), Rule: record.Text(d.Rule)})
	}
	r.Open = slices.Concat(p.Request.Workload.Assumed, p.Request.Workload.Open)
	r.Capacity = capacityRecord(p.Capacity)
	r.Share = p.shareRecord()
	if p.Starts != nil {
		r.Starts = verdictRecord(*p.Starts)
	}
	r.Host = p.hostRecord()
	if p.Verdict != nil {
		r.Verdict = verdictRecord(*p.Verdict)
	}
	return r
}

func (p *Prediction) head(tool record.Tool) record.Head {
	var warnings []account.Warning
	warnings = append(warnings, p.Request.Warnings...)
	if p.Request.Model != nil {
		warnings = append(warnings, p.Request.Model.Warnings...)
	}
	if c := p.Request.Card; c != nil {
		if c.Note != "" {
			warnings = append(warnings, account.Warning{Code: "card_chosen", Text: c.Note})
		}
		if note := p.imitated(*c); note != "" {
			warnings = append(warnings, account.Warning{Code: "format_imitated", Text: note})
		}
	}
	for _, a := range p.accounts {
		for _, said := range a.Warnings { // equal of several classes of ranks
			if !slices.Contains(warnings, said) {
				warnings = append(warnings, said)
			}
		}
	}
	w := p.Request.Workload
	warnings = append(warnings, admissionNotes(w)...)
	warnings = append(warnings, inputClassNotes(w)...)
	operation := string(w.Operation)
	engine := p.Engine.Name()
	head := record.Head{
		Envelope: record.NewEnvelope(record.KindEstimate, tool, warnings),
		Workload: record.Workload{Operation: &operation, Engine: &engine,
			Context:   dimension(w, workload.Context),
			Generated: dimension(w, workload.Generated),
			Sequences: dimension(w, workload.Sequences),
			Batch:     dimension(w, workload.Batch)},
		Parallel: &record.Parallel{
			TensorParallel:   max(1, w.Mesh.TensorParallel),
			PipelineParallel: max(1, w.Mesh.PipelineParallel),
			DataParallel:     max(1, w.Mesh.DataParallel),
			ExpertParallel:   max(1, w.Mesh.ExpertParallel),
			ContextParallel:  max(1, w.Mesh.ContextParallel)},
	}
	if p.Request.Model != nil {
		head.Trial.Model = record.Text(p.Request.Model.Name)
	}
	for _, in := range w.Inputs {
		configured := map[string]int64{}
		for d, n := range in.Dimensions {
			configured[string(d)] = n
		}
		head.Inputs = append(head.Inputs, record.Input{Name: in.Name, Configured: configured})
	}
	return head
}

func dimension(w workload.Workload, d workload.Dimension) *int64 {
	if n, ok := w.Dimension(d); ok {
		return &n
	}
	return nil
}

func (p *Prediction) modelFacts() record.ModelFacts {
	m := p.Request.Model
	if m == nil {
		return record.ModelFacts{}
	}
	facts := record.ModelFacts{Name: record.Text(m.Name), Architectures: slices.Clone(m.Architectures)}
	facts.Parameters, facts.ParametersLow, _ = record.Interval(m.Parameters())
	facts.WeightsBytes, facts.WeightsLowBytes, facts.WeightsHighBytes = record.Interval(m.WeightsBytes())
	compute := m.Compute
	switch w := p.Request.Workload; {
	case trains(w.Operation):
		compute = w.ComputeFormat(compute)
	case w.Precision.Compute != dtype.Unknown:
		compute = w.Precision.Compute
	}
	if compute != dtype.Unknown {
		facts.ComputeFormat = record.Text(compute.String())
	}
	for f, n := range m.Formats() {
		facts.StoredFormats = append(facts.StoredFormats, record.Format{Name: f.String(), Bytes: n})
	}
	sorting.By(facts.StoredFormats, func(i, j int) int {
		a, b := facts.StoredFormats[i], facts.StoredFormats[j]
		switch {
		case a.Bytes > b.Bytes:
			return -1
		case a.Bytes < b.Bytes:
			return 1
		case a.Name < b.Name:
			return -1
		}
		return 1
	})
	for _, u := range m.Unknown {
		facts.NotUnderstood = append(facts.NotUnderstood, u.Field+": "+u.Why)
	}
	for _, s := range m.Sources {
		facts.Sources = append(facts.Sources, s.Name)
	}
	return facts
}

func (p *Prediction) rank(a account.Account) record.Rank {
	peak, found := p.limiting(a)
	r := record.Rank{Rank: a.Ranks[0], Ranks: a.Ranks, Terms: termRecords(a, peak, p.Engine.Formulas())}
	if b, ok := p.Budgets.Of(a.Ranks[0]); ok {
		r.Device = p.deviceRecord(b)
		v := p.judge(p.Request.Card, []account.Account{a}, p.Budgets)
		r.Verdict = verdictRecord(v)
	}
	for _, phase := range a.Phases {
		row := phaseRecord(phase)
		row.Composition = shareRecords(a, phase)
		if b, ok := p.Budgets.Of(a.Ranks[0]); ok {
			row.Verdict = verdictRecord(p.lowered(fit.DecidePhase(fit.Calculated, a, phase, b)))
		}
		r.Phases = append(r.Phases, row)
	}
	if found {
		r.Peak = peakRecord(a, peak)
	}
	return r
}

func deviceRecord(b fit.Budget) *record.Device {
	d := &record.Device{Name: b.Card, Origin: record.Text(string(b.Capacity.Origin))}
	d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes = record.Interval(b.Capacity)
	d.UsableBytes, d.UsableLowBytes, d.UsableHighBytes = record.Interval(b.Capacity.Minus(b.Others, b.Capacity.Provenance))
	return d
}

func phaseRecord(phase account.Phase) record.Phase {
	r := record.Phase{Name: string(phase.ID), Step: phase.Step, MicroBatch: phase.Micro}
	of := func(s account.Scope) account.Figure { return phase.Peak(s).Figure }
	r.PeakRequestedBytes, r.PeakRequestedLowBytes, r.PeakRequestedHighBytes = record.Interval(of(account.Requested))
	r.PeakAllocatedBytes, r.PeakAllocatedLowBytes, r.PeakAllocatedHighBytes = record.Interval(of(account.Allocated))
	r.PeakReservedBytes, r.PeakReservedLowBytes, r.PeakReservedHighBytes = record.Interval(of(account.Reserved))
	r.ProcessBytes, r.ProcessLowBytes, r.ProcessHighBytes = record.Interval(of(account.Process))
	r.DeviceBytes, r.DeviceLowBytes, r.DeviceHighBytes = record.Interval(of(account.Device))
	r.HostBytes, r.HostLowBytes, r.HostHighBytes = record.Interval(of(account.Host))
	r.StartAllocatedBytes, r.StartAllocatedLowBytes, r.StartAllocatedHighBytes = record.Interval(phase.Start.Allocated)
	r.EndAllocatedBytes, r.EndAllocatedLowBytes, r.EndAllocatedHighBytes = record.Interval(phase.End.Allocated)
	var least int64
	for _, peak := range phase.Peaks {
		if peak.Figure.Scope != account.Host {
			least = max(least, peak.Figure.Low())
		}
	}
	r.LowerBoundBytes = &least
	return r
}

// highest is the phase in which the widest accounted scope stands highest: by
// its low, because unknown highs do not compare. Of phases that stand equally
// high, because the allocator keeps what one of them freed, it is the one that
// allocates more, else the later one, which holds what came before it.
func highest(a account.Account) (account.Phase, bool) {
	var top account.Phase
	found := false
	for _, phase := range a.Phases {
		of := func(s account.Scope) int {
			return cmp.Compare(phase.Peak(s).Figure.Low(), top.Peak(s).Figure.Low())
		}
		if !found || cmp.Or(of(account.Process), of(account.Allocated)) >= 0 {
			top, found = phase, true
		}
	}
	return top, found
}

// limiting is the phase that speaks for a class of ranks: the one that the verdict on
// its memory names, whatever the software itself checks, so that bars, tables and
// verdict are of one moment.
func (p *Prediction) limiting(a account.Account) (account.Phase, bool) {
	budgets := p.Budgets
	if _, named := budgets.Of(a.Ranks[0]); !named {
		budgets = fit.Budgets{fit.EveryRank: {}}
	}
	of := a
	of.Checks = nil
	v := fit.Decide(fit.Calculated, []account.Account{of}, budgets)
	of.Phases = slices.DeleteFunc(slices.Clone(a.Phases), func(p account.Phase) bool { return p.ID != v.Phase || p.Step != v.Step })
	return highest(of)
}

// peakRecord is what a rank needs over all its phases, and what the one that limits it
// is made of: another one that is less well known may need more than that.
func peakRecord(a account.Account, phase account.Phase) *record.RankPeak {
	r := &record.RankPeak{Phase: string(phase.ID), Step: phase.Step, Scope: string(account.Process)}
	r.Bytes, r.LowBytes, r.HighBytes = record.Interval(a.Highest(account.Process))
	r.Composition = shareRecords(a, phase)
	return r
}

func shareRecords(a account.Account, phase account.Phase) []record.Share {
	var shares []record.Share
	for _, s := range phase.AtHighest() {
		t := a.Terms[s.Term]
		r := record.Share{Category: string(t.Category), Term: string(t.ID)}
		r.Bytes, r.LowBytes, r.HighBytes = record.Interval(s.Bytes)
		shares = append(shares, r)
	}
	return shares
}

// termRecords lists each term once, with the phases from and to which it holds
// bytes and its highest figure over them.
func termRecords(a account.Account, peak account.Phase, formulas []account.Formula) []record.Term {
	rules, short := map[string]string{}, map[string]string{}
	for _, f := range formulas {
		rules[f.ID], short[f.ID] = f.Rule, f.Short
	}
	var terms []record.Term
	for i, t := range a.Terms {
		r := record.Term{ID: string(t.ID), Category: string(t.Category), Origin: string(t.Origin),
			Scope: string(t.Scope), Formula: record.Text(t.Counter), Rule: record.Text(rules[t.Counter]), RuleShort: record.Text(short[t.Counter]), Source: record.Text(t.Source)}
		var held []account.Figure
		for _, phase := range a.Phases {
			for _, s := range phase.AtPeak {
				if s.Term != i {
					continue
				}
				if r.FromPhase == nil {
					r.FromPhase = record.Text(string(phase.ID))
				}
				r.ToPhase = record.Text(string(phase.ID))
				held = append(held, s.Bytes)
			}
		}
		figure := account.Highest(t.Provenance, held...)
		r.Bytes, r.LowBytes, r.HighBytes = record.Interval(figure)
		r.Status, r.Reason = string(figure.Status()), record.Text(figure.Reason())
		for _, s := range peak.AtHighest() {
			if s.Term == i {
				r.AtPeakBytes, r.AtPeakLowBytes, r.AtPeakHighBytes = record.Interval(s.Bytes)
			}
		}
		terms = append(terms, r)
	}
	return terms
}

func verdictRecord(v fit.Verdict) *record.Verdict {
	r := &record.Verdict{Value: string(v.Value), Basis: string(v.Basis), Rank: v.Rank,
		Phase: record.Text(string(v.Phase)), Step: v.Step, Term: record.Text(string(v.Term)), Reasons: slices.Clone(v.Reasons)}
	r.HeadroomBytes, r.HeadroomLowBytes, r.HeadroomHighBytes = record.Interval(v.Headroom)
	return r
}
