package floodmark

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/model"
	"floodmark/record"
)

// PartsOf lists parts of a model's weights, as model.ByModule and
// model.ByLayer split them, for a record.
func PartsOf(parts []model.Part) []record.Part {
	var list []record.Part
	for _, p := range parts {
		r := record.Part{Stack: record.Text(p.Stack), Kind: record.Text(string(p.Kind)), Module: record.Text(string(p.Module)),
			Layer: known(p.Layer), Tensors: p.Tensors}
		r.Parameters, _, _ = record.Interval(p.Parameters)
		r.Bytes, r.LowBytes, r.HighBytes = record.Interval(p.Bytes)
		for _, f := range p.Formats {
			r.StoredFormats = append(r.StoredFormats, record.Format{Name: f.Format.String(), Bytes: f.Bytes})
		}
		list = append(list, r)
	}
	return list
}

// WhatIf is a prediction again with one thing changed, for a record. The only
// setting so far is weights=FORMAT: the weights stored in another way, and all
// else as it is.
func WhatIf(ctx context.Context, p *Prediction, setting string) (record.Change, error) {
	field, value, ok := strings.Cut(setting, "=")
	if !ok || field != "weights" {
		return record.Change{}, &SettingsError{fmt.Errorf("%q is no change that can be tried: write weights=FORMAT", setting)}
	}
	changed := p.Request
	m, err := p.Request.Model.WithFormat(value)
	if err != nil {
		return record.Change{}, &SettingsError{err}
	}
	changed.Model = m
	after, err := Estimate(ctx, changed)
	if err != nil {
		return record.Change{}, err
	}
	return change(setting, p, after), nil
}

func change(setting string, before, after *Prediction) record.Change {
	i := bindingAccount(before)
	a, b := before.Accounts()[i], after.Accounts()[i]
	phase, _ := highest(a)
	r := record.Change{Setting: setting, Rank: a.Ranks[0], Phase: string(phase.ID)}
	held := [2]map[account.TermID]account.Figure{heldIn(a, phase.ID), heldIn(b, phase.ID)}
	for _, id := range termsOf(a, b) {
		for _, side := range held {
			if _, has := side[id]; !has {
				side[id] = account.Zero("there is none", account.Provenance{})
			}
		}
		row := record.ChangedRow{Term: string(id)}
		row.BeforeBytes, row.BeforeLowBytes, row.BeforeHighBytes = record.Interval(held[0][id])
		row.AfterBytes, row.AfterLowBytes, row.AfterHighBytes = record.Interval(held[1][id])
		row.Moves = interval(held[0][id]) != interval(held[1][id])
		r.Terms = append(r.Terms, row)
	}
	total := record.ChangedRow{Term: string(account.Process), Moves: true}
	of := func(x account.Account) account.Figure {
		for _, p := range x.Phases {
			if p.ID == phase.ID {
				return p.Peak(account.Process).Figure
			}
		}
		return account.Figure{}
	}
	total.BeforeBytes, total.BeforeLowBytes, total.BeforeHighBytes = record.Interval(of(a))
	total.AfterBytes, total.AfterLowBytes, total.AfterHighBytes = record.Interval(of(b))
	r.Terms = append(r.Terms, total)
	if after.Verdict != nil {
		r.Verdict = verdictRecord(*after.Verdict)
	}
	return r
}

// bindingAccount is the account of the rank that the verdict names, or the one
// whose peak stands highest.
func bindingAccount(p *Prediction) int {
	best := 0
	for i, a := range p.Accounts() {
		if p.Verdict != nil && slices.Contains(a.Ranks, p.Verdict.Rank) {
			return i
		}
		this, _ := highest(a)
		top, _ := highest(p.Accounts()[best])
		if this.Peak(account.Process).Figure.Low() > top.Peak(account.Process).Figure.Low() {
			best = i
		}
	}
	return best
}

// heldIn is what each term holds at the peak of a phase. A term without a share
// holds nothing.
func heldIn(a account.Account, id account.PhaseID) map[account.TermID]account.Figure {
	held := map[account.TermID]account.Figure{}
	for _, t := range a.Terms {
		held[t.ID] = account.Zero("nothing of it is held then", t.Provenance)
	}
	for _, phase := range a.Phases {
		if phase.ID != id {
			continue
		}
		for _, s := range phase.AtPeak {
			held[a.Terms[s.Term].ID] = s.Bytes
		}
	}
	return held
}

// termsOf lists the terms of both accounts, each once.
func termsOf(a, b account.Account) []account.TermID {
	var ids []account.TermID
	for _, t := range slices.Concat(a.Terms, b.Terms) {
		if !slices.Contains(ids, t.ID) {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// interval is what tells two figures apart.
func interval(f account.Figure) [3]int64 {
	high, bounded := f.High()
	if !bounded {
		return [3]int64{f.Low(), 0, 0}
	}
	return [3]int64{f.Low(), high, 1}
}
