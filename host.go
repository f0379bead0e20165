package floodmark

import (
	"slices"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/record"
	"floodmark/workload"
)

// judgeHost is the answer for main memory, where the workload says how much of
// it there is and puts something there.
func (p *Prediction) judgeHost(accounts []account.Account) *fit.Verdict {
	w := p.Request.Workload
	if w.Host == 0 {
		return nil
	}
	capacity := account.Exact(w.Host, account.Provenance{Origin: account.Assumed, Scope: account.Host})
	v, has := fit.DecideHost(fit.Calculated, accounts, capacity, hostTerm(w))
	if !has {
		return nil
	}
	return &v
}

// hostTerm is what a workload puts into main memory.
func hostTerm(w workload.Workload) account.TermID {
	if t := w.Training; t != nil && t.Sharding != nil && len(t.Sharding.Offload) > 0 {
		return account.TermOffloadedStates
	} else if t != nil {
		return account.TermSavedCopy
	}
	if w.Cache != workload.Offloaded && slices.Contains(w.Features, workload.WeightOffload) {
		return account.TermWeights
	}
	return account.TermKVCache
}

// hostBinds reports that main memory is the worse of two answers.
func (p *Prediction) hostBinds(v fit.Verdict) bool {
	return p.Host != nil && gravity(p.Host.Value) > gravity(v.Value)
}

// hostRecord is what the ranks put into main memory at their most, together, and
// the answer; nil where they put nothing there.
func (p *Prediction) hostRecord() *record.Host {
	var most account.Figure
	var at account.PhaseID
	for _, a := range p.accounts[:min(1, len(p.accounts))] {
		for _, phase := range a.Phases {
			if need, has := fit.HostNeed(p.accounts, phase.ID); has && (at == "" || need.Low() >= most.Low()) {
				most, at = need, phase.ID
			}
		}
	}
	if at == "" {
		return nil
	}
	r := &record.Host{Phase: string(at), Term: string(hostTerm(p.Request.Workload))}
	r.Bytes, r.LowBytes, r.HighBytes = record.Interval(most)
	if n := p.Request.Workload.Host; n > 0 {
		r.CapacityBytes = &n
	}
	if p.Host != nil {
		r.Verdict = verdictRecord(*p.Host)
	}
	return r
}
