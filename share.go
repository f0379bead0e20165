package floodmark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/record"
)

// Workload is one of several that share a device.
type Workload struct {
	Name string // as a person would look for it: the workload file
	Request
}

// Sharing is several workloads as processes on one device, each with its own
// context.
type Sharing struct {
	Device    int // "cuda:0" is 0
	Processes []*Prediction
	Names     []string
	Budget    fit.Budget
	Verdict   fit.Verdict
}

// Share predicts workloads that run side by side on one device, the same rank of
// each, and decides whether they fit on its card together. Process scopes of
// different processes add up on a device. Nobody declares when each of them
// peaks: together they need at most the sum of their peaks, and at least one's
// peak beside what the others keep once they are loaded. The card is that of the
// first workload that names one; two that name different cards are an error.
func Share(ctx context.Context, index int, workloads []Workload) (*Sharing, error) {
	if len(workloads) < 2 {
		return nil, &SettingsError{errors.New("one workload shares a device with nobody: name two or more")}
	}
	s := &Sharing{Device: index}
	var request Request
	for _, w := range workloads {
		if w.Card != nil {
			if request.Card != nil && request.Card.ID != w.Card.ID {
				return nil, &SettingsError{fmt.Errorf("%s names another card (%s) than a workload before it (%s), and both are to share one device", w.Name, w.Card.ID, request.Card.ID)}
			}
			request.Card, request.Platform = w.Card, w.Platform
		}
		if w.Free != nil {
			request.Free = w.Free
		}
	}
	if _, free := request.freeOn(index); request.Card == nil && !free {
		return nil, &SettingsError{errors.New("there is no card to share: name one with --gpu, or what is free of it with --free")}
	}
	for _, w := range workloads {
		w.Card, w.Platform, w.Free = request.Card, request.Platform, request.Free
		p, err := Estimate(ctx, w.Request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		if _, ok := p.accountOf(index); !ok {
			return nil, &SettingsError{fmt.Errorf("%s has no rank on cuda:%d: its %d ranks take the devices from 0 on", w.Name, index, w.Workload.Mesh.Ranks())}
		}
		s.Processes, s.Names = append(s.Processes, p), append(s.Names, w.Name)
	}
	s.Budget, _ = s.Processes[0].Budgets.Of(index)
	s.decide()
	return s, nil
}

// accountOf is the account of one rank, as an account of that rank alone.
func (p *Prediction) accountOf(rank int) (account.Account, bool) {
	for _, a := range p.accounts {
		if slices.Contains(a.Ranks, rank) {
			a.Ranks = []int{rank}
			return a, true
		}
	}
	return account.Account{}, false
}

// decide judges each process beside the others and keeps the worst answer.
func (s *Sharing) decide() {
	worst, most := -1, int64(-1)
	for i, p := range s.Processes {
		b := s.Budget
		b.Others = s.beside(i)
		a, _ := p.accountOf(s.Device)
		v := p.judge(p.Request.Card, []account.Account{a}, fit.Budgets{s.Device: b})
		// Of equal answers that of the largest process is told.
		severity, need := gravity(v.Value), processPeak(a).Low()
		if severity > worst || severity == worst && need > most {
			worst, most, s.Verdict = severity, need, v
			if len(v.Reasons) > 0 {
				s.Verdict.Reasons = append([]string{s.Names[i] + ": " + v.Reasons[0]}, v.Reasons[1:]...)
			}
		}
	}
}

// gravity orders answers: the worst is the highest.
func gravity(v fit.Value) int {
	return slices.Index([]fit.Value{fit.Fits, fit.CannotTell, fit.DoesNotFit, fit.NotRunnable}, v)
}

// beside is what every process but one holds on the device.
func (s *Sharing) beside(one int) account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Device, Counter: "sharing"}
	held := []account.Figure{s.Budget.Others}
	for i, other := range s.Processes {
		if i != one {
			a, _ := other.accountOf(s.Device)
			held = append(held, heldBeside(a))
		}
	}
	return account.Sum(p, held...)
}

// heldBeside is what a process holds while another one peaks: between what it
// keeps once it is loaded and its own peak.
func heldBeside(a account.Account) account.Figure {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Process, Counter: "sharing"}
	peak := processPeak(a)
	high, known := peak.High()
	if !known {
		return account.AtLeast(kept(a), peak.Reason(), p)
	}
	return account.Between(min(kept(a), high), high, p)
}

// processPeak is the highest that a process stands in any phase.
func processPeak(a account.Account) account.Figure {
	var peaks []account.Figure
	for _, phase := range a.Phases {
		peaks = append(peaks, phase.Peak(account.Process).Figure)
	}
	return account.Highest(account.Provenance{Origin: account.Calculated, Scope: account.Process}, peaks...)
}

// kept is the least that a process keeps from the end of its first phase on: the
// lowest level at the end of any phase.
func kept(a account.Account) int64 {
	least := int64(0)
	for i, phase := range a.Phases {
		if n := max(0, phase.End.In(account.Process).Low()); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// Record is the sharing as an estimate document, a row a process.
func (s *Sharing) Record(tool record.Tool) any {
	shared := &record.Shared{Device: fmt.Sprintf("cuda:%d", s.Device), Card: s.Processes[0].deviceRecord(s.Budget)}
	var warnings []account.Warning
	engines := map[string]bool{}
	var total []account.Figure
	least := int64(0)
	for i, p := range s.Processes {
		a, _ := p.accountOf(s.Device)
		row := s.row(i, p, a)
		shared.Processes = append(shared.Processes, row)
		engines[row.Engine] = true
		total = append(total, heldBeside(a))
		least = max(least, heldTogether(processPeak(a), s.beside(i)))
		for _, w := range slices.Concat(p.Request.Model.Warnings, a.Warnings) {
			warnings = append(warnings, account.Warning{Code: w.Code, Text: s.Names[i] + ": " + w.Text})
		}
	}
	need := account.Sum(account.Provenance{Origin: account.Calculated, Scope: account.Device}, total...)
	if high, known := need.High(); known {
		need = account.Between(min(least, high), high, need.Provenance)
	} else {
		need = account.AtLeast(least, need.Reason(), need.Provenance)
	}
	shared.Bytes, shared.LowBytes, shared.HighBytes = record.Interval(need)
	r := &record.Estimate{Head: record.Head{Envelope: record.NewEnvelope(record.KindEstimate, tool, warnings)}, Shared: shared, Verdict: verdictRecord(s.Verdict)}
	r.Engine = record.Engine{Name: s.Processes[0].Engine.Name()}
	if len(engines) > 1 {
		r.Engine.Name = "several"
	}
	return r
}

// heldTogether is the least that a device holds when one process peaks.
func heldTogether(peak, beside account.Figure) int64 {
	return account.Sum(account.Provenance{}, peak, beside).Low()
}

// row is one process of the device.
func (s *Sharing) row(i int, p *Prediction, a account.Account) record.Process {
	phase, _ := highest(a)
	row := record.Process{Name: s.Names[i], Model: record.Text(p.Request.Model.Name), Engine: p.Engine.Name(), Phase: string(phase.ID), KeptBytes: kept(a)}
	row.PeakBytes, row.PeakLowBytes, row.PeakHighBytes = record.Interval(processPeak(a))
	most := int64(-1)
	for _, share := range phase.AtPeak {
		if n := share.Bytes.Low(); n > most {
			most, row.Term = n, record.Text(string(a.Terms[share.Term].ID))
		}
	}
	return row
}

// Accounts is one account a process, of its rank on the device.
func (s *Sharing) Accounts() []account.Account {
	var list []account.Account
	for _, p := range s.Processes {
		a, _ := p.accountOf(s.Device)
		list = append(list, a)
	}
	return list
}
