package floodmark

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/record"
	"floodmark/workload"
)

// The keys of settings that [WhatIf] takes beside dimensions and degrees.
const (
	weightsSetting     = "weights"
	cacheFormatSetting = "cache_format"
	cacheSetting       = "cache"
	attentionSetting   = "attention"
	recurrenceSetting  = "recurrence"
	engineSetting      = "engine"
	maxLengthSetting   = "max_length"
)

// hintSettings is what can be changed.
const hintSettings = "write weights=FORMAT, cache_format=FORMAT, cache=KIND, attention=flash, recurrence=kernels, engine=NAME, max_length=N, context=N, generated=N, sequences=N, tensor_parallel=N, pipeline_parallel=N, context_parallel=N, data_parallel=N or expert_parallel=N; of training micro_batch=N, checkpointing=KIND, optimizer=NAME, optimizer_implementation=HOW, precision=LAYOUT, lora_rank=N, base_format=FORMAT, zero_grad=none, accumulation=N; of evaluation logits_chunk=N, sharding=KIND or KIND@RANKS, offload=STATE, save_on=RANKS"

// set is the request with one thing changed, and all else as it is.
func (r Request) set(field, value string) (Request, error) {
	refused := func(err error) (Request, error) {
		return r, &SettingsError{fmt.Errorf("%s=%s: %w", field, value, err)}
	}
	switch field {
	case weightsSetting:
		m, err := r.Model.WithFormat(value)
		if err != nil {
			return refused(err)
		}
		r.Model = m
	case cacheFormatSetting:
		f, ok := dtype.Parse(value)
		if !ok {
			return refused(fmt.Errorf("%q is no element format such as bf16 or fp8", value))
		}
		r.Workload.Precision.Cache = f
	case cacheSetting:
		kind := workload.CacheKind(value)
		if !slices.Contains(workload.CacheKinds(), kind) {
			return refused(fmt.Errorf("%q is no kind of cache: dynamic, static or offloaded", value))
		}
		r.Workload.Cache = kind
	case attentionSetting:
		if value != "flash" {
			return refused(fmt.Errorf("%q is not flash, the only kernel that can be named", value))
		}
		r.Workload.Features = append(slices.Clone(r.Workload.Features), workload.FlashAttention)
	case recurrenceSetting:
		if value != "kernels" {
			return refused(fmt.Errorf("%q is not kernels, the only form that can be named", value))
		}
		r.Workload.Features = append(slices.Clone(r.Workload.Features), workload.RecurrentKernels)
	case engineSetting:
		r.Workload.Engine = workload.Engine{Name: value}
	case optimizerSetting, implementationSetting, precisionSetting, checkpointingSetting, loraRankSetting, baseFormatSetting, zeroGradSetting, accumulationSetting, logitsChunkSetting, shardingSetting, offloadSetting, saveOnSetting:
		changed, err := r.setTraining(field, value)
		if err != nil {
			return refused(err)
		}
		return changed, nil
	default:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return refused(fmt.Errorf("%q is no whole number", value))
		}
		if field == maxLengthSetting {
			s := workload.Serving{}
			if r.Workload.Serving != nil {
				s = *r.Workload.Serving
			}
			s.MaxLength = n
			r.Workload.Serving = &s
			return r, nil
		}
		return r.sized(workload.Dimension(field), n)
	}
	return r, nil
}

// sized is the request with one dimension or one degree of parallelism.
func (r Request) sized(field workload.Dimension, n int64) (Request, error) {
	mesh := &r.Workload.Mesh
	degrees := map[workload.Dimension]*int{TensorParallel: &mesh.TensorParallel, PipelineParallel: &mesh.PipelineParallel,
		"context_parallel": &mesh.ContextParallel, "data_parallel": &mesh.DataParallel, "expert_parallel": &mesh.ExpertParallel}
	if degree, ok := degrees[field]; ok {
		if n < 1 || n > workload.MaxDegree {
			return r, &SettingsError{fmt.Errorf("%s=%d: expected 1 to %d", field, n, workload.MaxDegree)}
		}
		*degree = int(n)
		return r, nil
	}
	if !slices.Contains(workload.Dimensions(), field) {
		return r, &SettingsError{fmt.Errorf("%q is no change that can be tried: %s", fmt.Sprintf("%s=%d", field, n), hintSettings)}
	}
	return SolveRequest{Request: r, Field: field}.with(n), nil
}

// WhatIf is a prediction again with one thing changed, for a record:
// weights=int8, sequences=8, tensor_parallel=4; or with several at once, joined by
// plus signs: micro_batch=2+checkpointing=full.
func WhatIf(ctx context.Context, p *Prediction, setting string) (record.Change, error) {
	changed, err := p.Request.setAll(setting)
	if err != nil {
		return record.Change{}, err
	}
	after, err := Estimate(ctx, changed)
	if err != nil {
		return record.Change{}, err
	}
	return change(setting, p, after), nil
}

// changeable reports the key of a setting.
func changeable(field string) bool {
	own := []string{weightsSetting, cacheFormatSetting, cacheSetting, attentionSetting, recurrenceSetting, engineSetting, maxLengthSetting, "context_parallel", "data_parallel", "expert_parallel"}
	d := workload.Dimension(field)
	return slices.Contains(own, field) || slices.Contains(trainingSettings(), field) || slices.Contains(workload.Dimensions(), d) || slices.Contains(LayoutFields(), d) && d != GPUCount
}

// change is what one setting moves at the peak of the binding rank.
func change(setting string, before, after *Prediction) record.Change {
	i := bindingAccount(before)
	a, b := before.Accounts()[i], counterpart(before, after, i)
	phase, _ := highest(a)
	r := record.Change{Setting: setting, Rank: a.Ranks[0], Phase: string(phase.ID), Terms: changedRows(a, b, phase.ID)}
	if after.Verdict != nil {
		r.Verdict = verdictRecord(*after.Verdict)
	}
	return r
}

// counterpart is the account of the changed workload that a class of ranks is
// held against: the same class where the layout is the same, else the one that
// limits.
func counterpart(before, after *Prediction, i int) account.Account {
	if before.Request.Workload.Mesh == after.Request.Workload.Mesh {
		return after.Accounts()[i]
	}
	return after.Accounts()[bindingAccount(after)]
}

// changedRows are the terms of both accounts at the peak of a phase, and the
// process that holds them.
func changedRows(a, b account.Account, phase account.PhaseID) []record.ChangedRow {
	var rows []record.ChangedRow
	held := [2]map[account.TermID]account.Figure{heldIn(a, phase), heldIn(b, phase)}
	for _, id := range termsOf(a, b) {
		for _, side := range held {
			if _, has := side[id]; !has {
				side[id] = account.Zero("there is none", account.Provenance{})
			}
		}
		rows = append(rows, changedRow(string(id), held[0][id], held[1][id]))
	}
	return append(rows, changedRow(string(account.Process), processIn(a, phase), processIn(b, phase)))
}

func changedRow(term string, before, after account.Figure) record.ChangedRow {
	row := record.ChangedRow{Term: term, Moves: interval(before) != interval(after)}
	row.BeforeBytes, row.BeforeLowBytes, row.BeforeHighBytes = record.Interval(before)
	row.AfterBytes, row.AfterLowBytes, row.AfterHighBytes = record.Interval(after)
	return row
}

// processIn is the peak of the process in a phase.
func processIn(a account.Account, id account.PhaseID) account.Figure {
	p, _ := highestOf(a, id)
	return p.Peak(account.Process).Figure
}

// highestOf is the phase of that name in which an account stands highest: of
// several steps the one that matters.
func highestOf(a account.Account, id account.PhaseID) (account.Phase, bool) {
	a.Phases = slices.DeleteFunc(slices.Clone(a.Phases), func(p account.Phase) bool { return p.ID != id })
	return highest(a)
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
	phase, _ := highestOf(a, id)
	for _, s := range phase.AtPeak {
		held[a.Terms[s.Term].ID] = s.Bytes
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
