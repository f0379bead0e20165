package floodmark

import (
	"context"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/workload"
)

// beside counts what stays resident beside the workload, each by an estimate of its
// own: of a model its weights, of an engine the share of the card that it takes. What
// cannot be counted stays unknown, with the reason.
func (r Request) beside(ctx context.Context) Request {
	list := slices.Clone(r.Workload.Resident)
	for i, resident := range list {
		if resident.Model == "" || resident.Bytes != (account.Figure{}) {
			continue
		}
		counted, err := r.counted(ctx, resident)
		if err != nil {
			r.Warnings = append(slices.Clone(r.Warnings), account.Warning{Code: "resident_not_counted", Text: fmt.Sprintf("%s is not counted: %v", resident.Name, err)})
			continue
		}
		list[i] = counted
	}
	r.Workload.Resident = list
	return r
}

// counted is a resident with its bytes.
func (r Request) counted(ctx context.Context, b workload.Resident) (workload.Resident, error) {
	m, err := r.residentModel(ctx, b.Model)
	if err != nil {
		return b, err
	}
	if b.Engine != "" {
		return r.engineBeside(ctx, b, m)
	}
	if b.Weights != dtype.Unknown {
		if m, err = m.WithFormat(workload.FormatName(b.Weights)); err != nil {
			return b, err
		}
	}
	p, err := Estimate(ctx, Request{Model: m, Platform: r.Platform, Workload: workload.Workload{Operation: workload.Load, Mesh: workload.Single()}})
	if err != nil {
		return b, err
	}
	phases := p.accounts[0].Phases
	held := keptIn(p.accounts[0], phases[len(phases)-1], account.CategoryParameter, account.CategoryBuffer, account.CategoryQuantisationMetadata)
	b.Bytes = held.As(account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: "weights.stored"})
	if ranks := int64(max(1, r.Workload.Mesh.DataParallel)); b.Divided && ranks > 1 && held.Known() {
		high, _ := held.High()
		b.Bytes = account.Between((held.Low()+ranks-1)/ranks, high, b.Bytes.Provenance)
	}
	return b, nil
}

// residentModel reads the model of what stays resident, as its files hold it.
func (r Request) residentModel(ctx context.Context, name string) (*model.Model, error) {
	if r.Open != nil {
		return r.Open(ctx, name)
	}
	return LoadModel(name)
}

// engineBeside is an engine that fills its share of the same card, by its own rules:
// weights and cache at least, and at most what its process holds alone. One that
// sleeps gives weights and cache back while the model trains.
func (r Request) engineBeside(ctx context.Context, b workload.Resident, m *model.Model) (workload.Resident, error) {
	if r.Card == nil {
		return b, fmt.Errorf("the share of %s is one of a card, and none is named", b.Engine)
	}
	mesh := workload.Single()
	mesh.TensorParallel = max(1, b.Ranks)
	p, err := Estimate(ctx, Request{Model: m, Card: r.Card, Platform: r.Platform, Workload: workload.Workload{
		Operation: workload.Generation, Mesh: mesh, Engine: workload.Engine{Name: b.Engine},
		Serving: &workload.Serving{MaxLength: b.Length, Budget: &workload.Budget{Utilization: b.Utilization, InProcess: true}}}})
	if err != nil {
		return b, err
	}
	provenance := account.Provenance{Origin: account.Calculated, Scope: account.Process, Counter: b.Engine + ".share"}
	low, high, known := int64(0), int64(0), true
	for _, phase := range p.accounts[0].Phases {
		held := keptIn(p.accounts[0], phase, account.CategoryParameter, account.CategoryBuffer, account.CategoryQuantisationMetadata, account.CategoryKVCache, account.CategoryRecurrentState)
		low = max(low, held.Low())
		most, bounded := phase.Peak(account.Process).Figure.High()
		high, known = max(high, most), known && bounded
	}
	figure := func(low, high int64) account.Figure {
		if !known {
			return account.AtLeast(low, "what "+b.Engine+" holds beside weights and cache has no upper end", provenance)
		}
		return account.Between(low, max(low, high), provenance)
	}
	b.Bytes = figure(low, high)
	if b.Sleeps {
		b.Bytes, b.Awake = figure(0, high-low), account.Exact(low, provenance)
	}
	return b, nil
}

// keptIn is what terms of some categories hold at the peak of a phase.
func keptIn(a account.Account, phase account.Phase, categories ...account.Category) account.Figure {
	var parts []account.Figure
	for _, share := range phase.AtPeak {
		if slices.Contains(categories, a.Terms[share.Term].Category) {
			parts = append(parts, share.Bytes)
		}
	}
	return account.Sum(account.Provenance{Origin: account.Calculated, Scope: account.Requested}, parts...)
}
